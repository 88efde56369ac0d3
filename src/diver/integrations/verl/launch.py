"""The verl command of a recipe: `python -m verl.trainer.main_ppo` and hydra overrides."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from diver.config.recipe import Recipe
from diver.config.verification import Verification
from diver.data import countdown
from diver.integrations.verl import config
from diver.integrations.verl.keys import ACTOR, MODEL, ROLLOUT, mapped
from diver.io.jsonl import to_json
from diver.methods import Method, method_named

PROGRAM = ("-m", "verl.trainer.main_ppo")

# The problems hold the prompt's whole text, so the tokenizer's own chat template must add nothing to it.
AS_IT_IS = "{% for message in messages %}{{ message.content }}{% endfor %}"
FIXED: dict[str, Any] = {
    f"{MODEL}.custom_chat_template": AS_IT_IS,
    f"{ROLLOUT}.name": "vllm",
    f"{ROLLOUT}.val_kwargs.do_sample": True,
    f"{ACTOR}.use_dynamic_bsz": True,
    f"{ACTOR}.clip_ratio_c": 1e6,  # verl bounds rho a third time where A < 0; the paper's objective does not
    f"{ACTOR}.checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],  # the last for diver eval
}
LEAST_TOKENS = 16384  # verl's own default for a forward pass


def command(recipe: Recipe, extra: Sequence[str] = ()) -> list[str]:
    """The arguments of Python that run `recipe` with verl; `extra` are verl's own options and have the last word.

    DiverError for what verl cannot do, with the key and the reason.
    """
    last = {_key(option): option for option in (*recipe.verl.overrides, *extra)}
    options = {**dict(mapped(recipe)), **FIXED, **_derived(recipe), **config.overrides(recipe.method)}
    ours = [f"{key}={hydra(value)}" for key, value in options.items() if _key(key) not in last]
    return [*PROGRAM, *ours, *last.values()]


def problems_of(folder: Path) -> dict[str, Path]:
    """Where the problems of a run lie, absolute: a worker of Ray has another working directory."""
    return {part: folder.resolve() / "verl" / f"{part}.parquet" for part in ("train", "val")}


def _key(option: str) -> str:
    return option.partition("=")[0].lstrip("+~")


def _derived(recipe: Recipe) -> dict[str, Any]:
    sample, cluster, evaluates = recipe.sample, recipe.verl, recipe.evaluate.problems > 0
    files = problems_of(recipe.folder)
    home = files["train"].parent
    longest = sample.max_prompt_tokens + sample.max_tokens
    return {
        f"{MODEL}.path": _model(recipe.model.path),
        f"{MODEL}.use_remove_padding": cluster.attention.startswith("flash"),
        f"{ACTOR}.ppo_max_token_len_per_gpu": cluster.tokens_per_gpu or max(LEAST_TOKENS, longest),
        "data.train_files": str(files["train"]),
        "data.val_files": str(files["val"]),
        "trainer.val_before_train": evaluates,
        "trainer.test_freq": (recipe.evaluate.every or recipe.train.steps) if evaluates else -1,
        "trainer.experiment_name": recipe.folder.name,
        "trainer.default_local_dir": str(home / "checkpoints"),
        "trainer.rollout_data_dir": str(home / "rollouts"),
        "trainer.validation_data_dir": str(home / "validation"),
        "trainer.logger": ["console", *recipe.log.to],
        f"+{config.KEY}": _plugin(recipe.method, recipe.verify),
    }


def _model(path: str) -> str:
    """A hub name as it is; folders absolute."""
    if path == "countdown":
        return str(countdown.policy_folder())
    folder = Path(path).expanduser()
    return str(folder.resolve()) if folder.is_dir() else path


def _plugin(method: Method, verify: Verification) -> str:
    """What `algorithm.diver` says: the method's name, and JSON where a setting differs from what the name means."""
    changed = {
        "method": _difference(method, method_named(method.name)),
        "verify": _difference(verify, Verification()),
    }
    if not any(changed.values()):
        return method.name
    changed["method"] = {"name": method.name, **changed["method"]}
    return to_json({section: body for section, body in changed.items() if body})


def _difference(settings: Any, base: Any) -> dict[str, Any]:
    def below(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
        changed: dict[str, Any] = {}
        for key, value in one.items():
            if isinstance(value, Mapping) and isinstance(other.get(key), Mapping):
                value = below(value, other[key])
                if not value:
                    continue
            elif key in other and other[key] == value:
                continue
            changed[key] = value
        return changed

    return below(dataclasses.asdict(settings), dataclasses.asdict(base))


def hydra(value: Any) -> str:
    """A value as hydra's grammar of overrides writes it."""
    if isinstance(value, str):
        plain = value and all((c.isascii() and c.isalnum()) or c in "/-_.@" for c in value)
        return value if plain else "'" + re.sub(r"(\\*)('|\Z)", _quoted, value) + "'"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(hydra, value))}]"
    return json.dumps(value)


def _quoted(match: re.Match[str]) -> str:
    """A quote escaped, and the backslashes before it or before the end doubled: elsewhere hydra takes them as they are."""
    return 2 * match[1] + ("\\'" if match[2] else "")


def shown(arguments: Sequence[str], python: str = "python") -> str:
    """The command for a shell, an option a line."""
    module, *options = shlex.join([python, *arguments[:2]]), *map(shlex.quote, arguments[2:])
    return " \\\n  ".join([module, *options])
