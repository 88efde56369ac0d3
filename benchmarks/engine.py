r"""The built-in trainer against TRL 1.16's GRPOTrainer: CPU seconds for one rollout batch, sampling and training.

Same weights, prompts, rewards and settings: 64 problems x 8 responses, four updates, temperature 1, clip .20/.28, beta
0, AdamW, float32, one thread. Every trial starts from the same weights; the engines take turns, and the best trial of
each counts. Judging and diversity are no part of either time. Needs an environment of its own, TRL pins much:

    make .venv-trainers/ready
    .venv-trainers/bin/python benchmarks/engine.py [--trials 3] [--loads countdown llama]

The loads are in engine_loads.py. Each row "without ..." switches one part of the engine off.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
import transformers
from engine_loads import PROBLEMS, Load, countdown_load, llama_load
from machine import measured_on

G, UPDATES, LEARNING_RATE = 8, 4, 1e-6


class Seconds(NamedTuple):
    """CPU seconds of one rollout batch, and the mean length of its responses in tokens."""

    sample: float
    train: float
    length: float

    @property
    def total(self) -> float:
        return self.sample + self.train


# --- TRL


def trl(load: Load, micro_batch: int) -> Seconds:
    """One rollout batch of GRPOTrainer: everything from the start of training to the end of the fourth update.

    Sampling is `_generate` (tokenising, generate, decoding); training is all the rest but the reward function.
    """
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    clock = {"sample": 0.0, "outcome": 0.0}
    lengths: list[int] = []

    def reward(prompts: list[str], completions: list[str], completion_ids: list[list[int]], **_: Any) -> list[float]:
        with timed(clock, "outcome"):
            lengths.extend(map(len, completion_ids))
            return [load.outcome(p, c) for p, c in zip(prompts, completions, strict=True)]

    class Timed(GRPOTrainer):
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            with timed(clock, "sample"):
                return super()._generate(*args, **kwargs)

    rows = PROBLEMS * G // UPDATES
    model, tokenizer = load.policy()
    with tempfile.TemporaryDirectory() as scratch:
        config = GRPOConfig(
            output_dir=scratch,
            max_steps=UPDATES,
            per_device_train_batch_size=micro_batch,
            gradient_accumulation_steps=rows // micro_batch,
            steps_per_generation=UPDATES * rows // micro_batch,
            num_generations=G,
            max_completion_length=load.max_tokens,
            temperature=1.0,
            learning_rate=LEARNING_RATE,
            lr_scheduler_type="constant",
            max_grad_norm=1.0,
            weight_decay=0.01,
            beta=0.0,
            epsilon=0.20,
            epsilon_high=0.28,
            loss_type="dapo",
            gradient_checkpointing=False,
            shuffle_dataset=False,
            use_cpu=True,
            bf16=False,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        data = Dataset.from_dict({"prompt": [str(p.prompt) for p in load.problems]})
        trainer = Timed(model, reward, args=config, train_dataset=data, processing_class=tokenizer)
        trainer.remove_callback(transformers.PrinterCallback)
        start = time.process_time()
        trainer.train()
        total = time.process_time() - start
    assert trainer.state.global_step == UPDATES and len(lengths) == PROBLEMS * G, (trainer.state, len(lengths))
    return Seconds(clock["sample"], total - clock["sample"] - clock["outcome"], float(np.mean(lengths)))


# --- ours


def ours(load: Load, without: str | None = None) -> Seconds:
    """One rollout batch of the built-in trainer, with one of WITHOUT switched off."""
    from diver.core.types import Group, Problem, Reward
    from diver.methods import method_named
    from diver.sample.hf import HFGenerator, sample_groups
    from diver.sample.policy import Policy, by_onednn
    from diver.train import update as engine

    model, tokenizer = load.policy()
    if without != "products by oneDNN":
        by_onednn(model)
    policy = Policy(model, tokenizer, None)
    method = method_named("clip-higher")
    config = engine.Update(
        mini_batch_size=PROBLEMS // UPDATES,
        learning_rate=LEARNING_RATE,
        micro_batch_tokens=2048,  # our fastest on a CPU, as 32 responses are TRL's
        skip_zero_advantage=without != "rows of zero advantage skipped",
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=config.weight_decay)
    prompts = [str(p.prompt) for p in load.problems]
    clock = {"sample": 0.0, "train": 0.0}
    with WITHOUT[without]() if without else contextlib.nullcontext():
        once = without == "prompts run once for the group"
        asked, count = ([p for p in prompts for _ in range(G)], 1) if once else (prompts, G)
        with timed(clock, "sample"):
            problems = [Problem(str(i), prompt, "") for i, prompt in enumerate(asked)]
            generator = HFGenerator(policy, max_num_seqs=PROBLEMS * G)
            drawn = sample_groups(
                generator, problems, asked, count, temperature=1.0, max_tokens=load.max_tokens, seed=1
            )
        rollouts = [r for group in drawn for r in group.rollouts]
        groups = [
            Group(
                p,
                tuple(r.replace(reward=Reward(load.outcome(str(p.prompt), r.response))) for r in part),
                "",
                tuple(ids),
            )
            for p, part, ids in zip(
                load.problems,
                np.reshape(np.array(rollouts, dtype=object), (PROBLEMS, G)),
                tokenizer(prompts)["input_ids"],
                strict=True,
            )
        ]
        groups = method.apply(groups, 0.0)
        with timed(clock, "train"):
            if without == "sampler's log-probs reused":
                recompute(policy, groups, config.micro_batch_tokens)
            engine.update(policy, optimizer, groups, method.loss, config, temperature=1.0)
    return Seconds(clock["sample"], clock["train"], float(np.mean([r.length for r in rollouts])))


@torch.no_grad()
def recompute(policy: Any, groups: Sequence[Any], budget: int) -> None:
    """The cost for an engine without the sampler's log-probs: one more pass over every response."""
    from diver.train import batches, update

    rows = batches.rows_of(groups, [1.0] * (PROBLEMS * G))
    for chunk in batches.micro_batches(rows, budget):
        update.response_logprobs(policy, batches.collate(chunk, policy.model.device), 1.0)


def unsorted(rows: Sequence[Any], budget: int, *, shared: bool) -> list[list[Any]]:
    """Rows as they come, as many to a batch as fit when all are as long as the longest."""
    longest = max(len(row.prompt) for row in rows) + max(len(row.tokens) for row in rows)
    size = max(1, budget // longest)
    return [list(rows[i : i + size]) for i in range(0, len(rows), size)]


WITHOUT: dict[str, Callable[[], Any]] = {
    "products by oneDNN": contextlib.nullcontext,
    "finished rows leaving": lambda: mock.patch("diver.sample.decoding.COMPACT_FRACTION", math.inf),
    "prompts run once for the group": contextlib.nullcontext,
    "prompts run once in the update": lambda: mock.patch("diver.train.update.shares_prompts", lambda model: False),
    "sampler's log-probs reused": contextlib.nullcontext,
    "micro-batches sorted by length": lambda: mock.patch("diver.train.update.micro_batches", unsorted),
    "rows of zero advantage skipped": contextlib.nullcontext,
}


# --- measuring


@contextlib.contextmanager
def timed(clock: dict[str, float], name: str) -> Iterator[None]:
    start = time.process_time()
    yield
    clock[name] += time.process_time() - start


def measure(load: Load, trials: int, micro_batch: int) -> dict[str, Seconds]:
    """The best trial by total of each contestant, in turns."""
    contestants: dict[str, Callable[[], Seconds]] = {
        "TRL": partial(trl, load, micro_batch),
        "ours": partial(ours, load),
        **{f"without {part}": partial(ours, load, part) for part in WITHOUT},
    }
    best: dict[str, Seconds] = {}
    for _ in range(trials):
        for name, run in contestants.items():
            seconds = run()
            best[name] = min(best.get(name, seconds), seconds, key=lambda s: s.total)
    return best


def table(load: Load, best: dict[str, Seconds]) -> str:
    own = best["ours"]
    lines = [
        f"{load.name}: {PROBLEMS} problems x {G}, {UPDATES} updates, mean length {own.length:.0f} of at most "
        f"{load.max_tokens} tokens (TRL: {best['TRL'].length:.0f}); CPU seconds",
        f"{'':<42}{'sampling':>10}{'training':>10}{'total':>10}{'against ours':>14}",
    ]
    for name, s in best.items():
        lines.append(f"{name:<42}{s.sample:>10.2f}{s.train:>10.2f}{s.total:>10.2f}{s.total / own.total:>13.2f}x")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--loads", nargs="+", choices=["countdown", "llama"], default=["countdown", "llama"])
    parser.add_argument("--micro-batch", type=int, default=32, help="TRL's per-device batch: 32 was its fastest")
    parser.add_argument("--out", type=Path, help="by default results/engine.json, of both loads")
    args = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    import trl as package

    results: dict[str, Any] = {
        "machine": measured_on(),
        "unit": "CPU seconds of one rollout batch, best of the trials, one thread",
        "problems": PROBLEMS,
        "group": G,
        "updates": UPDATES,
        "trials": args.trials,
        "trl_micro_batch": args.micro_batch,
        "versions": {m.__name__: m.__version__ for m in (torch, transformers, package)},
        "loads": {},
    }
    with tempfile.TemporaryDirectory() as scratch:
        for name in args.loads:
            load = countdown_load() if name == "countdown" else llama_load(Path(scratch))
            best = measure(load, args.trials, args.micro_batch)
            print(table(load, best), flush=True)
            results["loads"][name] = {who: s._asdict() | {"total": s.total} for who, s in best.items()}
    out = args.out or (Path(__file__).parent / "results" / "engine.json" if len(results["loads"]) == 2 else None)
    if out:
        out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
