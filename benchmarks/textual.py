"""Textual diversity (all-pairs BLEU, orders 1..4): ours against NLTK, sacrebleu and a C bound, on one thread.

CPU seconds of whole loads A and B (`load.py`), from strings to a number per response; every contestant's best of
several rounds that take turns. NLTK and sacrebleu judge the same random pairs in every round (NLTK gets them split
into words beforehand), scaled to all ordered pairs. The bound is compiled from `bound.c` where there is a gcc.

    python benchmarks/textual.py [--quick]
"""

# ruff: noqa: E402
from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # before NumPy starts its threads

import argparse
import ctypes
import json
import logging
import random
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from load import load_a, load_b
from machine import measured_on
from nltk.translate.bleu_score import sentence_bleu
from sacrebleu.metrics import BLEU

from diver.diversity import bleu_matrix, textual_diversity

HERE = Path(__file__).resolve().parent
ORDERS = 4
Groups = list[list[str]]
Pair = tuple[int, ...]  # group, candidate, reference


def ours(groups: Groups) -> Callable[[], Any]:
    return lambda: [textual_diversity(responses) for responses in groups]


def nltk(groups: Groups, pairs: list[Pair]) -> Callable[[], Any]:
    words = [[response.split() for response in responses] for responses in groups]
    return lambda: [sentence_bleu([words[g][j]], words[g][i]) for g, i, j in pairs]


def sacrebleu(groups: Groups, pairs: list[Pair]) -> Callable[[], Any]:
    bleu = BLEU(tokenize="none", smooth_method="none", effective_order=False)
    return lambda: [bleu.sentence_score(groups[g][i], [groups[g][j]]).score / 100 for g, i, j in pairs]


def c_bound(groups: Groups, library: ctypes.CDLL) -> Callable[[], Any]:
    """n-gram overlaps [groups, N, G, G] and lengths [groups, G]: BLEU without its last few operations."""
    count, size = len(groups), len(groups[0])
    encoded = [response.encode() for responses in groups for response in responses]
    text = b"".join(encoded) + bytes(8)
    offset = np.cumsum([0, *map(len, encoded)], dtype=np.int64)

    def run() -> tuple[np.ndarray, np.ndarray]:
        overlap, length = np.zeros((count, ORDERS, size, size), np.int32), np.zeros((count, size), np.int64)
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (offset, length, overlap)]
        library.overlaps(text, pointers[0], count, size, ORDERS, *pointers[1:])
        return overlap, length

    return run


def compile_bound(folder: str) -> ctypes.CDLL | None:
    gcc, library = shutil.which("gcc"), Path(folder, "bound.so")
    if gcc is None:
        return None
    for options in (["-march=native", "-mprefer-vector-width=512"], ["-march=native"], []):
        command = [gcc, "-O3", *options, "-shared", "-fPIC", str(HERE / "bound.c"), "-o", str(library)]
        if subprocess.run(command, capture_output=True).returncode == 0:
            return ctypes.CDLL(str(library))
    return None


def check(groups: Groups, pairs: list[Pair], results: dict[str, Any]) -> dict[str, float]:
    """Largest difference of each contestant's BLEU from ours, over the pairs."""
    ours = {g: bleu_matrix(groups[g]) for g in {g for g, _, _ in pairs}}
    expected = np.array([ours[g][i, j] for g, i, j in pairs])
    difference = {name: float(abs(np.array(results[name]) - expected).max()) for name in ("nltk", "sacrebleu")}
    if "c_bound" in results:
        overlap, length = results["c_bound"]
        total = length[:, None, :] - np.arange(ORDERS)[:, None]
        precision = overlap / total[..., None]
        penalty = np.exp(np.minimum(0, 1 - length[:, None, :] / length[:, :, None]))
        bleu = penalty * precision.prod(axis=1) ** (1 / ORDERS)
        difference["c_bound"] = float(max(abs(bleu[g, i, j] - ours[g][i, j]) for g, i, j in pairs))
    return difference


def best_times(contestants: dict[str, Callable[[], Any]], rounds: int) -> tuple[dict[str, float], dict[str, Any]]:
    best, results = dict.fromkeys(contestants, float("inf")), {}
    for _ in range(rounds):
        for name, run in contestants.items():
            for _ in range(1 if name in ("nltk", "sacrebleu") else 3):
                start = time.process_time()
                results[name] = run()
                best[name] = min(best[name], time.process_time() - start)
    return best, results


def measure(groups: Groups, library: ctypes.CDLL | None, sample: int, rounds: int) -> dict[str, Any]:
    size = len(groups[0])
    total, r = len(groups) * size * (size - 1), random.Random(1)
    pairs = [(r.randrange(len(groups)), *r.sample(range(size), 2)) for _ in range(sample)]
    contestants = {"ours": ours(groups), "nltk": nltk(groups, pairs), "sacrebleu": sacrebleu(groups, pairs)}
    if library is not None:
        contestants["c_bound"] = c_bound(groups, library)
    ours(groups[:1])()  # imports
    best, results = best_times(contestants, rounds)
    seconds = {k: s * total / sample if k in ("nltk", "sacrebleu") else s for k, s in best.items()}
    return {
        "groups": len(groups),
        "responses": size,
        "tokens": float(np.mean([len(x.split()) for responses in groups for x in responses])),
        "pairs": total,
        "sampled_pairs": sample,
        "cpu_seconds": seconds,
        "times_ours": {name: s / seconds["ours"] for name, s in seconds.items()},
        "largest_difference": check(groups, pairs, results),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="300 pairs and 2 rounds in place of 1,500 and 4; nothing is written"
    )
    quick = parser.parse_args().quick
    sample, rounds = (300, 2) if quick else (1500, 4)
    warnings.filterwarnings("ignore", module="nltk")  # pairs without a common n-gram
    logging.getLogger("sacrebleu").setLevel(logging.ERROR)  # it advises effective_order at every sentence
    with tempfile.TemporaryDirectory() as folder:
        library = compile_bound(folder)
        loads = {name: measure(groups, library, sample, rounds) for name, groups in (("A", load_a()), ("B", load_b()))}

    for name, row in loads.items():
        print(f"load {name}: {row['groups']} x {row['responses']} responses x {row['tokens']:.0f} tokens")
        print(f"  {'':10} {'CPU s':>10} {'x ours':>8}   largest difference of BLEU")
        for who, seconds in row["cpu_seconds"].items():
            difference = row["largest_difference"].get(who)
            print(
                f"  {who:10} {seconds:10.3f} {row['times_ours'][who]:8.2f}"
                + (f"   {difference:.1e}" if difference is not None else "")
            )
        if library is not None:
            print(f"  ours / c_bound = {1 / row['times_ours']['c_bound']:.2f}")
    if quick:
        return
    machine = {**measured_on(), "numpy": np.__version__}
    out = HERE / "results/textual.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({"machine": machine, "rounds": rounds, "loads": loads}, indent=1) + "\n")


if __name__ == "__main__":
    main()
