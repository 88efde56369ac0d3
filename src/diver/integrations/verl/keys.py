"""What becomes of every key of a recipe under verl: one table, from which the command and its help are made."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

from diver.config.recipe import Recipe
from diver.types import DiverError

ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"
MODEL = "actor_rollout_ref.model"


class Key(NamedTuple):
    """One key of a recipe, or with a dot at its end all below it.

    `verl`: the options that take its value. `only`: the values that can be run there; others are refused. `note`: what
    becomes of it otherwise, or the reason.
    """

    verl: tuple[str, ...] = ()
    only: tuple[Any, ...] = ()
    note: str = ""


def _to(*options: str, note: str = "") -> Key:
    return Key(options, note=note)


def _apart(note: str) -> Key:
    return Key(note=note)


IN_THE_PROBLEMS = _apart("written into the problems")
KEYS: dict[str, Key] = {
    "run.folder": _apart("its folder verl/ has problems, checkpoints, rollouts and validation"),
    "run.seed": _to("data.seed", f"{ACTOR}.data_loader_seed", f"{ROLLOUT}.seed", note="verl's own streams"),
    "model.path": _to(f"{MODEL}.path"),
    "model.revision": Key(only=(None,), note="verl takes the newest commit: download the revision and give its folder"),
    "model.device": Key(only=("auto", "cuda"), note="verl places the model by its own options (trainer.device)"),
    "model.precision": Key(only=("auto", "bfloat16"), note="verl computes in bfloat16 over float32 weights"),
    "model.threads": _apart("of a CPU"),
    "model.gradient_checkpointing": _to(f"{MODEL}.enable_gradient_checkpointing"),
    "model.attention": _apart("verl.attention is its counterpart"),
    "data.": IN_THE_PROBLEMS,
    "sample.group_size": _to(f"{ROLLOUT}.n", note="a selection samples more, which the plugin requests"),
    "sample.temperature": _to(f"{ROLLOUT}.temperature"),
    "sample.max_tokens": _to("data.max_response_length"),
    "sample.max_prompt_tokens": _to("data.max_prompt_length"),
    "sample.max_num_seqs": _apart("vLLM schedules by the memory there is"),
    "method.": _apart("algorithm.diver, read by the plugin, and verl's own loss options"),
    "train.steps": _to("trainer.total_training_steps", "trainer.total_epochs", note="an epoch has at least one step"),
    "train.batch_size": _to("data.train_batch_size"),
    "train.mini_batch_size": _to(f"{ACTOR}.ppo_mini_batch_size"),
    "train.learning_rate": _to(f"{ACTOR}.optim.lr"),
    "train.warmup_steps": _to(f"{ACTOR}.optim.lr_warmup_steps", note="verl's first step then has a rate of 0"),
    "train.weight_decay": _to(f"{ACTOR}.optim.weight_decay"),
    "train.betas": _to(f"{ACTOR}.optim.betas"),
    "train.max_grad_norm": _to(f"{ACTOR}.optim.clip_grad"),
    "train.micro_batch_tokens": _apart("verl.tokens_per_gpu is its counterpart"),
    "train.skip_zero_advantage": _apart("the same gradient; verl forwards every row"),
    "train.save_steps": _to("trainer.save_freq"),
    "train.save_total_limit": _to("trainer.max_actor_ckpt_to_keep"),
    "evaluate.source": IN_THE_PROBLEMS,
    "evaluate.problems": _apart("written into the problems; 0 turns validation off"),
    "evaluate.every": _apart("trainer.test_freq, where 0 means only before and after, as here"),
    "evaluate.num_samples": _apart("verl has one number of samples: evaluate checkpoints with diver eval"),
    "evaluate.num_samples_in_training": _to(f"{ROLLOUT}.val_kwargs.n"),
    "evaluate.temperature": _to(f"{ROLLOUT}.val_kwargs.temperature"),
    "verify.": _apart("algorithm.diver, read by the plugin"),
    "log.to": _apart("trainer.logger, with the console"),
    "log.project": _to("trainer.project_name"),
    "verl.nodes": _to("trainer.nnodes"),
    "verl.gpus": _to("trainer.n_gpus_per_node"),
    "verl.tensor_parallel": _to(f"{ROLLOUT}.tensor_model_parallel_size"),
    "verl.gpu_memory_utilization": _to(f"{ROLLOUT}.gpu_memory_utilization"),
    "verl.tokens_per_gpu": _to(f"{ACTOR}.ppo_max_token_len_per_gpu"),
    "verl.validation_batch": _to("data.val_batch_size"),
    "verl.attention": _to(f"+{MODEL}.override_config.attn_implementation"),
    "verl.overrides": _apart("the end of the command"),
}


def value_at(recipe: Recipe, key: str) -> Any:
    """The value at a dotted key of a recipe."""
    return functools.reduce(getattr, key.split("."), recipe)


def mapped(recipe: Recipe) -> Iterator[tuple[str, Any]]:
    """verl's options that take a value of the recipe as it is. DiverError for a value that cannot be run there."""
    for name, key in KEYS.items():
        if key.only and value_at(recipe, name) not in key.only:
            raise DiverError(f"{name} = {value_at(recipe, name)!r} cannot be run with verl: {key.note}")
        for option in key.verl:
            yield option, value_at(recipe, name)


def table() -> str:
    """What becomes of every key, for `diver verl --help`."""
    width = max(map(len, KEYS))
    return "\n".join(
        f"  {name + '*' * name.endswith('.'):{width}}  " + "; ".join(filter(None, [", ".join(key.verl), key.note]))
        for name, key in KEYS.items()
    )
