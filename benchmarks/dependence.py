"""How many honest files `diver.rollouts.dependence` accuses, although narrow policies often repeat themselves.

    python benchmarks/dependence.py [--files 200]

A file has 32 responses to each of 20 problems, sampled from a bundled policy by the generator of `diver eval`. Files
take turns with policies and temperatures from .3 to 1.6, and each has a seed and problems of its own. Each is also
shifted on purpose: response i + 8 is response i + 1, as requests of n = 8 with the seeds 0, 1, 2, ... give. One JSON
file, benchmarks/results/dependence.json, and a table.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from diver.core.progress import progress
from diver.core.tables import markdown
from diver.evaluate.config import EvalConfig
from diver.evaluate.evaluate import render_prompt
from diver.evaluate.run import make_tasks, sampler
from diver.rollouts.dependence import dependence
from diver.sample.base import Generator, SamplingParams, requests

PROBLEMS, DRAWS, REQUEST = 20, 32, 8
TEMPERATURES = (0.3, 0.6, 0.8, 1.0, 1.3, 1.6)


@cache
def opened(policy: str) -> Generator:
    return sampler(EvalConfig(model=policy)).open()


def honest(policy: str, temperature: float, seed: int) -> dict[str, list[str]]:
    """Problem -> its responses in the order of their samples."""
    settings = EvalConfig(
        model=policy, benchmarks=policy, limit=PROBLEMS, samples=DRAWS, temperature=temperature, seed=seed
    )
    (task,) = make_tasks(settings, sampler(settings))
    generator = opened(policy)
    wanted = [
        request
        for problem in task.problems
        for request in requests(
            seed, task.name, problem.id, render_prompt(problem, task.template, generator), range(DRAWS)
        )
    ]
    parameters = SamplingParams(temperature, task.max_tokens, task.stop_token_ids)
    found = {g.key: g.rollout.response for g in generator.generate(wanted, parameters)}
    return {p.id: [found[p.id, i] for i in range(DRAWS)] for p in task.problems}


def shifted(groups: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The same draws as requests of `REQUEST` responses, each one place after the last."""
    starts = range(DRAWS // REQUEST)
    return {name: [texts[start + i] for start in starts for i in range(REQUEST)] for name, texts in groups.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--policies", default="countdown,maze,graph-coloring")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results") / "dependence.json")
    arguments = parser.parse_args()
    turns = itertools.cycle(itertools.product(arguments.policies.split(","), TEMPERATURES))
    rows = []
    for seed, (policy, temperature) in progress(
        list(zip(range(arguments.files), turns, strict=False)), "files", "file"
    ):
        groups = honest(policy, temperature, seed)
        distinct = sum(len({*texts}) for texts in groups.values()) / (PROBLEMS * DRAWS)
        found, wrong = dependence(shifted(groups).values()), dependence(groups.values())
        rows.append(
            {
                "policy": policy,
                "temperature": temperature,
                "seed": seed,
                "distinct": round(distinct, 4),
                "accused": str(wrong) if wrong else None,
                "shifted_found": found is not None,
            }
        )
    arguments.out.write_text(json.dumps({"problems": PROBLEMS, "draws": DRAWS, "files": rows}, indent=1) + "\n")
    table = []
    for policy, temperature in dict.fromkeys((row["policy"], row["temperature"]) for row in rows):
        of = [row for row in rows if (row["policy"], row["temperature"]) == (policy, temperature)]
        accused, caught = (sum(bool(row[name]) for row in of) for name in ("accused", "shifted_found"))
        share = sum(row["distinct"] for row in of) / len(of)
        table.append([f"{policy}, {temperature}", str(len(of)), f"{share:.2f}", str(accused), str(caught)])
    print(markdown(["policy, temperature", "files", "distinct responses", "accused", "shifted files found"], table))


if __name__ == "__main__":
    main()
