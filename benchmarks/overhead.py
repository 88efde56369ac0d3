"""What DIVER-MIX computes on a rollout batch of the paper's size (load A): CPU seconds of TD and ED, on one thread.

python benchmarks/overhead.py
"""

# ruff: noqa: E402
from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # before NumPy starts its threads

import json
import time
from pathlib import Path

import numpy as np
from load import load_a

from diver.diversity import equational_diversity, textual_diversity

ROUNDS = 3
FORMULAS_A_RESPONSE = 25  # the paper's hand count found 13 to 25


def with_formulas(response: str) -> str:
    """The same words, some of them as formulas in delimiters, as mathematics has."""
    words = response.split()
    for at in np.linspace(0, len(words) - 6, FORMULAS_A_RESPONSE, dtype=int):
        words[at], words[at + 4] = rf"\( {words[at]}", rf"{words[at + 4]} \)"
    return " ".join(words)


def seconds(groups: list[list[str]], metric) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        for responses in groups:
            metric(responses)
        best = min(best, time.process_time() - start)
    return best


def main() -> None:
    groups = [[with_formulas(response) for response in group] for group in load_a()]
    textual, equational = seconds(groups, textual_diversity), seconds(groups, equational_diversity)
    found = {
        "groups": len(groups),
        "responses": len(groups[0]),
        "tokens": float(np.mean([len(r.split()) for group in groups for r in group])),
        "textual": textual,
        "equational": equational,
        "cpu_seconds": textual + equational,
    }
    path = Path(__file__).parent / "results" / "overhead.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
