"""Supervised warm-up on formulas, by the library's own update with minus the log-likelihood as its loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tqdm import tqdm

from diver.config.sections import Model, Update
from diver.data.prompts import encode
from diver.data.splits import draw_indices
from diver.generate.policy import Policy, load_policy
from diver.io.run_folder import RunFolder
from diver.losses import PolicyLoss
from diver.settings import settings
from diver.train import checkpoint
from diver.train.update import update
from diver.types import Group, Problem, Rollout
from smollm2_gsm8k.data import Solved

if TYPE_CHECKING:
    from torch import Tensor


@settings
class LikelihoodLoss(PolicyLoss):
    """-log pi of each token: supervised training is the update with every advantage 1 and this loss."""

    name: str = "likelihood"

    def forward(
        self, logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, selected: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        return -logprobs, {}


def warm_up(
    model: Model, examples: Sequence[Solved], config: Mapping[str, Any], folder: Path, provenance: Mapping[str, Any]
) -> Path:
    """Train on the solutions, resuming where it was stopped; returns the folder of the warmed-up model.

    The learning rate falls linearly to 0. metrics.jsonl has a row a step, its `policy/loss` in nats per token.
    """
    steps = max(1, round(config["epochs"] * len(examples) / config["batch_size"]))
    identity = {**config, "examples": len(examples), "model.path": Path(model.path).name}
    run = RunFolder(folder, {**provenance, "steps": steps}, identity)
    final = folder / "checkpoints" / f"step_{steps:04d}"
    try:
        if not final.exists():
            _train(model, examples, config, run, steps)
    finally:
        run.close()
    return final


def _train(model: Model, examples: Sequence[Solved], config: Mapping[str, Any], run: RunFolder, steps: int) -> None:
    saved = run.checkpoints()
    policy = load_policy(model, saved[-1] if saved else None)
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=config["learning_rate"])
    done = checkpoint.restore(saved[-1], policy, optimizer) if saved else 0
    run.begin()
    run.keep_until(done)
    batch = config["batch_size"]
    groups = _groups(policy, examples)
    for step in tqdm(range(done + 1, steps + 1), initial=done, total=steps, desc="warm-up", unit="step"):
        for group in optimizer.param_groups:
            group["lr"] = config["learning_rate"] * (steps - step + 1) / steps
        chosen = [groups[i] for i in draw_indices(step, batch, len(groups), seed=0)]
        how = Update(mini_batch_size=batch, micro_batch_tokens=1024)
        run.append(
            "metrics.jsonl", {"step": step, **update(policy, optimizer, chosen, LikelihoodLoss(), how, temperature=1.0)}
        )
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
