"""The verl command of a recipe: `python -m verl.trainer.main_ppo` and hydra overrides."""

import dataclasses
import re
import shlex
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from diver.core.files import to_json
from diver.core.types import DiverError
from diver.grading.settings import Verification
from diver.integrations.keys import mapped
from diver.integrations.verl.config import ACTOR, GROUP, KEY, NAME, ROLLOUT, hydra, overrides
from diver.methods import method_named
from diver.recipe.recipe import Recipe
from diver.tasks.testbeds import policy_folder

PROGRAM = ("-m", "verl.trainer.main_ppo")
MODEL = "actor_rollout_ref.model"
# The problems have complete prompts, so the chat template must add nothing. It is an argument of each call, because
# verl saves MODEL.custom_chat_template with the tokenizer of every checkpoint, in place of the model's template.
AS_IT_IS = "{% for message in messages %}{{ message.content }}{% endfor %}"
CHAT = "data.apply_chat_template_kwargs"
CONTENTS = f"{ACTOR}.checkpoint.save_contents"
FIXED: dict[str, Any] = {
    f"+{CHAT}.chat_template": AS_IT_IS,
    f"{ROLLOUT}.name": "vllm",
    f"{ROLLOUT}.val_kwargs.do_sample": True,
    f"{ROLLOUT}.calculate_log_probs": True,  # needed by the alert on sampler and trainer
    f"{ACTOR}.use_dynamic_bsz": True,
    f"{ACTOR}.strategy": "fsdp2",  # the tests use FSDP2; verl's default is FSDP1
    CONTENTS: ["model", "optimizer", "extra", "hf_model"],  # diver eval reads the Hugging Face copy
}

ONLY = {
    f"{ROLLOUT}.multi_turn.enable": ("false", "the problems have no tools, and the prompt is the whole conversation"),
    "trainer.use_v1": ("true", "the plugin is one of verl's V1 trainers"),
    "trainer.v1.trainer_mode": (NAME, "whole groups are shaped in verl's synchronous trainer only"),
}
"""Options of verl with the only value that `diver train` can run, and the reason."""
OF_RECIPE = {
    KEY: "is set by the recipe: change its section [method] or [verify], or give --method",
    CHAT: "has no effect, since the data have whole prompts; set model.chat_template_kwargs instead",
}
"""Options of verl that the recipe sets, and the key to change instead."""
BYTES = {"model": 4, "optimizer": 8, "extra": 0, "hf_model": 4}
"""Bytes per parameter of each content of a checkpoint: weights and AdamW's two moments are float32, and the copy that
`diver eval` reads has the weights once more."""


def command(recipe: Recipe, extra: Sequence[str] = ()) -> list[str]:
    """The arguments of Python that run `recipe` with verl; `extra` are options of verl that override all others.

    Raises:
        DiverError: verl does not support a key. Names the key and the reason.
    """
    user_options = {_key(option): option for option in (*recipe.verl.overrides, *extra)}
    for key, reason in OF_RECIPE.items():
        if any(option.startswith(key) for option in user_options):
            raise DiverError(f"{key}: {reason}")
    for key, (allowed, reason) in ONLY.items():
        value = user_options.get(key, f"={allowed}").partition("=")[2]
        if value.lower() != allowed:
            raise DiverError(f"{key}={value}: {reason}")
    options = {**dict(mapped(recipe, "verl")), **FIXED, **_derived(recipe), **overrides(recipe.method)}
    ours = [f"{key}={hydra(value)}" for key, value in options.items() if _key(key) not in user_options]
    _check_mini_batch({**options, **{key: option.partition("=")[2] for key, option in user_options.items()}})
    return [*PROGRAM, *ours, *user_options.values()]


def compose(arguments: Sequence[str]) -> Any:
    """The configuration that the installed verl makes of a command. Raises DiverError for an option that verl does not
    have."""
    from hydra import compose as by_hydra
    from hydra import initialize_config_dir
    from hydra.errors import HydraException

    folder = Path(str(files("verl"))) / "trainer" / "config"
    try:
        with initialize_config_dir(str(folder), version_base=None):
            return by_hydra("ppo_trainer", overrides=list(arguments[2:]))
    except HydraException as error:
        raise DiverError(f"verl refuses this command: {' '.join(str(error).split())}") from None


def checkpoints(arguments: Sequence[str], parameters: int | None) -> str:
    """When the command saves, and how much disk it needs, in one line; `parameters` is None if unknown."""
    values = {_key(option): option.partition("=")[2] for option in arguments[2:]}
    interval, limit = values["trainer.save_freq"], values["trainer.max_actor_ckpt_to_keep"]
    contents = re.findall(r"\w+", values[CONTENTS])
    bytes_each = sum(BYTES.get(content, 0) for content in contents)
    size = f"{bytes_each} bytes a parameter" if parameters is None else f"{bytes_each * parameters / 2**30:,.1f} GB"
    if interval.startswith("-"):
        return f"checkpoints: none (trainer.save_freq={interval})"
    return (
        f"checkpoints: every {interval} steps and after the last (train.save_steps); kept: {limit} "
        f"(train.save_total_limit); each {size}: {', '.join(contents)}"
    )


def shown(arguments: Sequence[str]) -> str:
    """The command for a shell, with one option per line."""
    return " \\\n  ".join([shlex.join(["python", *arguments[:2]]), *map(shlex.quote, arguments[2:])])


def problems_of(folder: Path) -> dict[str, Path]:
    """The files of a run's problems, absolute because a worker of Ray has another working directory."""
    return {split: folder.resolve() / "verl" / f"{split}.parquet" for split in ("train", "val")}


def _check_mini_batch(values: Mapping[str, Any]) -> None:
    """Raises DiverError for a mini-batch that verl cannot divide over the GPUs; verl says so after the first rollout.

    Not checked if several GPUs share a response, or a value is an expression of hydra.
    """
    keys = (f"{ACTOR}.ppo_mini_batch_size", GROUP, "trainer.nnodes", "trainer.n_gpus_per_node")
    if any("ulysses" in key or "megatron" in key for key in values) or not all(str(values[k]).isdigit() for k in keys):
        return
    problems, size, nodes, gpus = (int(values[key]) for key in keys)
    if problems * size % max(1, nodes * gpus):
        raise DiverError(
            f"train.mini_batch_size x sample.group_size = {problems * size} responses cannot be divided over "
            f"{nodes * gpus} GPUs (verl.nodes x verl.gpus): make it a multiple of them"
        )


def _key(option: str) -> str:
    return option.partition("=")[0].lstrip("+~")


def _derived(recipe: Recipe) -> dict[str, Any]:
    sample, cluster, evaluates = recipe.sample, recipe.verl, recipe.evaluate.problems > 0
    files = problems_of(recipe.folder)
    home = files["train"].parent
    folder = policy_folder(recipe.model.path) or Path(recipe.model.path).expanduser()
    longest = sample.max_prompt_tokens + sample.max_tokens
    return {
        f"{MODEL}.path": str(folder.resolve()) if folder.is_dir() else recipe.model.path,  # a hub name unchanged
        f"{MODEL}.use_remove_padding": cluster.attention.startswith("flash"),
        f"{ACTOR}.ppo_max_token_len_per_gpu": cluster.tokens_per_gpu or max(16384, longest),  # verl's default
        "data.train_files": str(files["train"]),
        "data.val_files": str(files["val"]),
        "trainer.val_before_train": evaluates,
        "trainer.test_freq": (recipe.evaluate.every or recipe.train.steps) if evaluates else -1,
        "trainer.experiment_name": recipe.folder.name,
        "trainer.default_local_dir": str(home / "checkpoints"),
        "trainer.validation_data_dir": str(home / "validation"),
        "trainer.logger": ["console", *recipe.log.to],
        **{f"+{KEY}.{section}": value for section, value in _plugin(recipe).items()},
    }


def _plugin(recipe: Recipe) -> dict[str, str]:
    """The sections in `algorithm.diver`: the name of a method with its default settings, else all settings as JSON."""
    method, verify = recipe.method, recipe.verify
    return {
        "method": method.name if method == method_named(method.name) else to_json(dataclasses.asdict(method)),
        **({} if verify == Verification() else {"verify": to_json(dataclasses.asdict(verify))}),
        "run.folder": str(recipe.folder.resolve()),
    }
