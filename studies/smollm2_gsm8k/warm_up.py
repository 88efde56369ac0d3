"""Supervised warm-up on solutions, by the library's own update with minus the log-likelihood as its loss."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from diver.core.files import to_json, write_parts
from diver.core.progress import progress
from diver.core.run_folder import RunFolder, make_readable
from diver.core.seeds import draw_indices
from diver.core.settings import settings
from diver.core.types import DiverError, Group, Problem, Rollout
from diver.losses import PolicyLoss
from diver.losses.base import Tokens
from diver.recipe.sections import Model, Update
from diver.sample.policy import Policy, load_policy
from diver.tasks.templates import encode
from diver.train import checkpoint
from diver.train.update import update
from smollm2_gsm8k.data import Solved


@settings
class LikelihoodLoss(PolicyLoss):
    """-log pi of each token: supervised training is the update with every advantage 1 and this loss."""

    name: str = "likelihood"

    def forward(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        return -tokens.logprobs, {}


class WarmUp(NamedTuple):
    """The tensors that the warm-up trained, in bfloat16, and how: `steps`, `loss` of each, ..."""

    tensors: Mapping[str, Tensor]
    info: Mapping[str, Any]


def read(file: Path) -> WarmUp:
    with safe_open(file, "pt") as stored:
        return WarmUp(load_file(file), json.loads(stored.metadata()["warm_up"]))


def warmed_up(model: Model, file: Path, folder: Path) -> Path:
    """The folder of the model with the tensors of `file`. DiverError if it was made from another warm-up."""
    tensors = read(file).tensors
    if not folder.exists():
        policy = load_policy(dataclasses.replace(model, device="cpu"))
        policy.model.load_state_dict(dict(tensors), strict=False)
        temporary = folder.with_name(f".{folder.name}.part")
        policy.model.save_pretrained(temporary)
        policy.tokenizer.save_pretrained(temporary)
        make_readable(temporary)
        temporary.rename(folder)
    with safe_open(folder / "model.safetensors", "pt") as made:
        if not all(made.get_tensor(name).equal(tensor.float()) for name, tensor in tensors.items()):
            raise DiverError(
                f"{folder}: was made from another warm-up than {file}; delete {folder.parent}, or give another --work"
            )
    return folder


def warm_up(
    model: Model,
    examples: Sequence[Solved],
    config: Mapping[str, Any],
    file: Path,
    folder: Path,
    provenance: Mapping[str, Any],
) -> None:
    """Train on the solutions in `folder`, resuming where it was stopped, and write the trained tensors to `file`.

    Trained are the weights whose names end in one of `config["weights"]`. The learning rate falls linearly to 0.
    """
    run = RunFolder(folder, provenance, {**config, "examples": len(examples), "model.path": Path(model.path).name})
    try:
        saved = run.checkpoints()
        policy = load_policy(model, saved[-1] if saved else None)
        trained = _trained(policy, config)
        optimizer = torch.optim.AdamW(trained.values(), lr=config["learning_rate"], weight_decay=0.0)
        steps_done = checkpoint.restore(saved[-1], policy, optimizer) if saved else 0
        run.begin()
        run.keep_until(steps_done)
        _train(policy, optimizer, _groups(policy, examples), config, run, steps_done)
        rows = run.rows("metrics.jsonl")
        info = {
            **run.config["identity"],
            "commit": run.config.get("commit"),
            "loss": [float(f"{row['policy/loss']:.4g}") for row in rows],
            "cpu_seconds": round(sum(row["time/cpu"] for row in rows)),
        }
        content = save(
            {name: p.detach().to("cpu", torch.bfloat16) for name, p in trained.items()}, {"warm_up": to_json(info)}
        )
        write_parts(file, [content])
    finally:
        run.close()


def _trained(policy: Policy, config: Mapping[str, Any]) -> dict[str, Tensor]:
    """The parameters that are trained, by name; all others are frozen."""
    names = tuple(config["weights"])
    for name, parameter in policy.model.named_parameters():
        parameter.requires_grad_(name.endswith(names))
    return {name: p for name, p in policy.model.named_parameters() if p.requires_grad}


def _train(
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    groups: Sequence[Group],
    config: Mapping[str, Any],
    run: RunFolder,
    done: int,
) -> None:
    steps, batch = config["steps"], config["batch_size"]
    settings = Update(mini_batch_size=batch, micro_batch_tokens=1024)
    for step in progress(range(done + 1, steps + 1), "warm-up", "step", done=done, keep=True):
        for group in optimizer.param_groups:
            group["lr"] = config["learning_rate"] * (steps - step + 1) / steps
        chosen = [groups[i] for i in draw_indices(step, batch, len(groups), seed=0)]
        start = time.process_time()
        metrics = update(policy, optimizer, chosen, LikelihoodLoss(), settings, temperature=1.0)
        run.append("metrics.jsonl", {"step": step, **metrics, "time/cpu": time.process_time() - start})
        if step % config["save_steps"] == 0 or step == steps:
            checkpoint.save(run, step, policy, optimizer, keep=1)


def _groups(policy: Policy, examples: Sequence[Solved]) -> list[Group]:
    """Each solution as the one response of its group, the end token included."""
    prompts = encode(policy.tokenizer, [e.problem for e in examples])
    solutions = policy.tokenizer([e.solution for e in examples], add_special_tokens=False)["input_ids"]
    return [
        Group(
            Problem(e.id, e.problem, e.answer),
            (Rollout(e.solution, tokens, np.zeros(len(tokens), np.float32), advantage=1.0),),
            e.problem,
            tuple(prompt),
        )
        for e, prompt, ids in zip(examples, prompts, solutions, strict=True)
        for tokens in [[*ids, policy.tokenizer.eos_token_id]]
    ]
