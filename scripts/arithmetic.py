"""Arithmetic that a model of 135 M parameters answers often enough to learn from: products of one digit, sums up to 60.

    python scripts/arithmetic.py OUT

writes OUT/arithmetic_train.jsonl (144 problems) and OUT/arithmetic_test.jsonl (48 others), of which a third are products.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from diver.run import to_json, write_text

SUMS = 128  # the 64 products besides


def problems() -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """To train on and to test on: all products of 2..9 and some sums of 2..30, every fourth of each for the test."""
    rng = random.Random("arithmetic")
    pairs = [(a, b) for a in range(2, 31) for b in range(2, 31)]
    products = [(f"What is {a} x {b}?", a * b) for a, b in pairs if max(a, b) <= 9]
    sums = [(f"What is {a} + {b}?", a + b) for a, b in rng.sample(pairs, SUMS)]
    rows = [
        {"problem": question, "answer": str(answer)}
        for question, answer in [*rng.sample(products, len(products)), *sums]
    ]
    return [row for i, row in enumerate(rows) if i % 4], rows[::4]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    folder = parser.parse_args().out
    for name, rows in zip(("train", "test"), problems(), strict=True):
        write_text(folder / f"arithmetic_{name}.jsonl", "".join(to_json(row) + "\n" for row in rows))
        print(f"wrote {folder / f'arithmetic_{name}.jsonl'}: {len(rows)} problems")
