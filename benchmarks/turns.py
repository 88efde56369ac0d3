"""Trajectories of several turns: what it saves to keep the keys and values of a context between turns.

The bundled mazes, cell by cell, at most 24 turns; the same weights, problems and environments for all; temperature 1,
one thread. The contestants take turns, and the best trial of each counts. Only tokens that the policy wrote count;
the column `tokens` has the length of a trajectory with those of the environment.

    python benchmarks/turns.py [--problems 16] [--samples 8] [--trials 3]

Contestants:
    generate         transformers' generate over the whole contexts, padded on the left, at each turn
    whole contexts   HFGenerator over the whole contexts at each turn
    kept             HFGenerator as training and evaluation use it
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
import transformers

from diver.core.types import Grade, Problem, Rollout
from diver.recipe.data import Maze
from diver.recipe.sections import Model
from diver.sample.base import Job
from diver.sample.hf import HFGenerator, sample_groups
from diver.sample.policy import load_policy
from diver.sample.trajectories import playing
from diver.tasks import maze
from diver.tasks.templates import render


class WholeContexts(HFGenerator):
    def respond(self, *args: Any, past: Any = None, **kwargs: Any) -> list[Rollout]:
        return super().respond(*args, **kwargs)


class Generate(HFGenerator):
    def respond(
        self, prompts: Sequence[list[int]], jobs: Sequence[Job], temperature: float, *args: Any, **kwargs: Any
    ) -> list[Rollout]:
        asked = self.tokenizer.pad({"input_ids": [prompts[job.prompt] for job in jobs]}, return_tensors="pt")
        out = self.model.generate(
            **asked,
            do_sample=True,
            temperature=temperature,
            top_k=0,
            top_p=1.0,
            max_new_tokens=max(job.limit for job in jobs),
            pad_token_id=self.tokenizer.pad_token_id,
        )
        responses = []
        for job, row in zip(jobs, out[:, asked["input_ids"].shape[1] :].tolist(), strict=True):
            end = next((i + 1 for i, token in enumerate(row) if token in self.ends), len(row))
            tokens = row[: min(end, job.limit)]
            text = self.tokenizer.decode(tokens, skip_special_tokens=True)
            cut = tokens[-1] not in self.ends
            responses.append(Rollout(text, tokens, np.zeros(len(tokens)), entropy=0.0, truncated=cut))
        return responses


CONTESTANTS = {"generate": Generate, "whole contexts": WholeContexts, "kept": HFGenerator}


def walk(generator: HFGenerator, problems: list[Problem], samples: int) -> dict[str, float]:
    """Tokens of the policy per CPU second, and what the trajectories were like."""
    player = playing(generator, problems, "plain")
    prompts = [render(problem, "plain") for problem in problems]
    begun = time.process_time()
    groups = sample_groups(player, problems, prompts, samples, temperature=1.0, max_tokens=64, seed=0)
    seconds = time.process_time() - begun
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    return {
        "tokens_per_cpu_second": sum(rollout.length for rollout in rollouts) / seconds,
        "turns": float(np.mean([len(rollout.turns) / 2 for rollout in rollouts])),
        "context": float(np.mean([len(rollout.sequence[0]) for rollout in rollouts])),
        "solved": float(np.mean([rollout.grade is Grade.CORRECT for rollout in rollouts])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=16)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--policy", default="maze-cells", help="of diver-studies")
    parser.add_argument("--out", type=Path, help="a JSON file of what is printed")
    args = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    policy = load_policy(Model(path=args.policy, threads=1))
    policy.tokenizer.padding_side, policy.tokenizer.pad_token = "left", policy.tokenizer.eos_token
    mazes = maze.problems(Maze(mix={"seven": 1.0}), args.problems, held_out=True)
    problems = [replace(problem, verifier="diver.tasks.maze_cells:MazeCells") for problem in mazes]
    generators = {name: kind(policy) for name, kind in CONTESTANTS.items()}
    trials: dict[str, list[dict[str, float]]] = {name: [] for name in generators}
    for _ in range(args.trials):
        for name, generator in generators.items():
            trials[name].append(walk(generator, problems, args.samples))
    best = {name: max(found, key=lambda one: one["tokens_per_cpu_second"]) for name, found in trials.items()}
    peer = best["generate"]["tokens_per_cpu_second"]
    print(f"{args.problems} mazes x {args.samples} samples, best of {args.trials}")
    print(f"{'':<16}{'tokens/CPU s':>13}{'against generate':>18}{'turns':>7}{'tokens':>8}{'solved':>8}")
    for name, one in best.items():
        rate, of = one["tokens_per_cpu_second"], f"{one['turns']:>7.1f}{one['context']:>8.1f}{one['solved']:>8.2f}"
        print(f"{name:<16}{rate:>13,.0f}{rate / peer:>17.2f}x{of}")
    if args.out:
        versions = {m.__name__: m.__version__ for m in (torch, transformers)} | {"python": platform.python_version()}
        cpu = torch.backends.cpu.get_cpu_capability()
        args.out.write_text(json.dumps({"versions": versions, "cpu": cpu, "contestants": best}, indent=1) + "\n")


if __name__ == "__main__":
    main()
