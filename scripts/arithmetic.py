"""Arithmetic that a model of 135 M parameters answers often enough to learn from: products of one digit, sums up to 60.

    python scripts/arithmetic.py OUT

writes OUT/arithmetic_train.jsonl (142 problems) and OUT/arithmetic_test.jsonl (50 others), of which a third are products.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from diver.io.files import write_text
from diver.io.jsonl import to_json

SUMS = 66  # pairs of numbers; the 36 of the products besides


def problems() -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """To train on and to test on: all products of 2..9 and some sums of 2..30, every fourth pair of numbers for the test.

    7 x 8 and 8 x 7 are on the same side: who has learnt one knows the other.
    """
    rng = random.Random("arithmetic")
    pairs = [(a, b) for a in range(2, 31) for b in range(a, 31)]
    products = [("x", a, b, a * b) for a, b in pairs if b <= 9]
    sums = [("+", a, b, a + b) for a, b in rng.sample(pairs, SUMS)]
    train: list[dict[str, str]] = []
    test: list[dict[str, str]] = []
    for i, (sign, a, b, answer) in enumerate([*rng.sample(products, len(products)), *sums]):
        for first, second in sorted({(a, b), (b, a)}):
            row = {"problem": f"What is {first} {sign} {second}?", "answer": str(answer)}
            (train if i % 4 else test).append(row)
    return train, test


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    folder = parser.parse_args().out
    for name, rows in zip(("train", "test"), problems(), strict=True):
        write_text(folder / f"arithmetic_{name}.jsonl", "".join(to_json(row) + "\n" for row in rows))
        print(f"wrote {folder / f'arithmetic_{name}.jsonl'}: {len(rows)} problems")
