r"""The transformers generator against transformers' generate:
tokens per CPU second at 64 samples a problem, one thread.

Same weights and prompts, temperature 0.6, nothing cut off the distribution; only tokens up to the end of a response
count. The contestants take turns, and the best trial of each counts. tests/sample/test_passes.py checks that both
sample from the same distribution.

    python benchmarks/sample.py [--loads countdown smollm2] [--smollm2 build/smollm2-135m-instruct]

Loads:
    countdown   the bundled policy, 16 problems, at most 60 tokens
    smollm2     SmolLM2-135M-Instruct (scripts/smollm2.py makes the folder; left out where it is absent), one problem,
                at most 32 tokens
Contestants:
    generate           num_return_sequences=64, a problem at a time
    generate, 512 rows   eight problems a pass, padded on the left
    diver eval         HFGenerator as evaluation uses it: requests in passes of 512 rows
    training           HFGenerator as training uses it: groups in passes of 512 rows
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from machine import measured_on

from diver.core.types import Problem
from diver.recipe.sections import Model
from diver.sample.base import SamplingParams, requests
from diver.sample.hf import HFGenerator, end_tokens, sample_groups
from diver.sample.policy import Policy, load_policy
from diver.tasks import countdown
from diver.tasks.templates import render

SAMPLES, TEMPERATURE, ROWS = 64, 0.6, 512
QUESTION = (
    "Robin plants three rows of tomatoes with eight plants in each row, and two rows of peppers with five plants in "
    "each. A late frost takes a quarter of the tomatoes. How many plants are left?"
)


class Load(NamedTuple):
    name: str
    policy: Policy
    prompts: list[str]
    max_tokens: int
    trials: int


def countdown_load() -> Load:
    problems = countdown.problems(countdown.Countdown(), 16, held_out=True)
    return Load("countdown", load_policy(Model(threads=1)), [str(p.prompt) for p in problems], 60, 5)


def smollm2_load(folder: Path) -> Load:
    policy = load_policy(Model(path=str(folder), threads=1))
    return Load("smollm2", policy, [render(Problem("robin", QUESTION, "28"), "boxed", policy.tokenizer)], 32, 2)


def generate(load: Load, rows: int) -> int:
    """The tokens drawn by transformers, `rows` at a time."""
    model, tokenizer = load.policy.model, load.policy.tokenizer
    tokenizer.padding_side, tokenizer.pad_token = "left", tokenizer.pad_token or tokenizer.eos_token
    ends = torch.tensor(end_tokens(model, tokenizer), device=model.device)
    at_once, drawn = max(1, rows // SAMPLES), 0
    for start in range(0, len(load.prompts), at_once):
        texts = load.prompts[start : start + at_once]
        asked = tokenizer(texts, add_special_tokens=False, padding=True, return_tensors="pt")
        out = model.generate(
            input_ids=asked["input_ids"],
            attention_mask=asked["attention_mask"],
            do_sample=True,
            temperature=TEMPERATURE,
            top_k=0,
            top_p=1.0,
            num_return_sequences=SAMPLES,
            max_new_tokens=load.max_tokens,
            pad_token_id=tokenizer.pad_token_id,
        )
        end = torch.isin(out[:, asked["input_ids"].shape[1] :], ends).int()
        drawn += int((end.cumsum(1) - end == 0).sum())  # up to and with the first end
    return drawn


def training(load: Load) -> int:
    problems = [Problem(str(i), prompt, "") for i, prompt in enumerate(load.prompts)]
    how: dict[str, Any] = {"temperature": TEMPERATURE, "max_tokens": load.max_tokens, "seed": 0}
    groups = sample_groups(HFGenerator(load.policy, max_num_seqs=ROWS), problems, load.prompts, SAMPLES, **how)
    return sum(rollout.length for group in groups for rollout in group.rollouts)


def evaluation(load: Load) -> int:
    generator = HFGenerator(load.policy, load.name, ROWS)
    asked = [r for i, p in enumerate(load.prompts) for r in requests(0, load.name, str(i), p, range(SAMPLES))]
    return sum(g.rollout.length for g in generator.generate(asked, SamplingParams(TEMPERATURE, load.max_tokens)))


def measure(load: Load) -> dict[str, dict[str, float]]:
    """Tokens per CPU second, in turns, the best trial of each."""
    contestants: dict[str, Callable[[], int]] = {"generate": lambda: generate(load, SAMPLES)}
    if len(load.prompts) > 1:
        contestants[f"generate, {ROWS} rows"] = lambda: generate(load, ROWS)
    contestants["diver eval"] = lambda: evaluation(load)
    contestants["training"] = lambda: training(load)
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    tokens: dict[str, int] = {}
    for _ in range(load.trials):
        for name, draw in contestants.items():
            start = time.process_time()
            tokens[name] = draw()
            rates[name].append(tokens[name] / (time.process_time() - start))
    return {
        name: {"tokens_per_cpu_second": max(r), "worst_trial": min(r), "mean_length": tokens[name] / rows_of(load)}
        for name, r in rates.items()
    }


def rows_of(load: Load) -> int:
    return len(load.prompts) * SAMPLES


def table(load: Load, results: dict[str, dict[str, float]]) -> str:
    best = max(r["tokens_per_cpu_second"] for name, r in results.items() if name.startswith("generate"))
    lines = [
        (
            f"{load.name}: {len(load.prompts)} problems x {SAMPLES} samples, at most {load.max_tokens} tokens, "
            f"best of {load.trials}"
        ),
        f"{'':<22}{'tokens/CPU s':>13}{'worst':>9}{'length':>8}{'against the better generate':>30}",
    ]
    for name, r in results.items():
        rate = r["tokens_per_cpu_second"]
        lines.append(f"{name:<22}{rate:>13,.0f}{r['worst_trial']:>9,.0f}{r['mean_length']:>8.1f}{rate / best:>29.2f}x")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", nargs="+", choices=["countdown", "smollm2"], default=["countdown", "smollm2"])
    parser.add_argument("--smollm2", type=Path, default=Path("build/smollm2-135m-instruct"))
    parser.add_argument("--out", type=Path, help="by default results/sample.json, of both loads")
    args = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    results: dict[str, Any] = {
        "machine": measured_on(),
        "unit": "tokens per CPU second, best of the trials in turns, one thread",
        "samples": SAMPLES,
        "temperature": TEMPERATURE,
        "rows": ROWS,
        "versions": {m.__name__: m.__version__ for m in (torch, transformers)},
        "loads": {},
    }
    for name in args.loads:
        if name == "smollm2" and not args.smollm2.exists():
            print(f"smollm2: left out, {args.smollm2} is absent (scripts/smollm2.py makes it)")
            continue
        load = countdown_load() if name == "countdown" else smollm2_load(args.smollm2)
        results["loads"][name] = measure(load)
        print(table(load, results["loads"][name]), flush=True)
    out = args.out or (Path(__file__).parent / "results" / "sample.json" if len(results["loads"]) == 2 else None)
    if out:
        out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
