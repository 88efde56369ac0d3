"""How long `diver.read` takes for a row of a file, against `json.loads` of its lines.

Three layouts: plain columns, verl's and TRL's, of 20,000 responses of 150 words in groups of 8. CPU microseconds a row,
one thread, the minimum of several rounds in which the two take turns; memory is the peak of a process that reads the
file, above that of one that has only imported the package.

    python benchmarks/read.py [--rows 20000] [--rounds 5]
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from machine import measured_on

import diver

RESULT = Path(__file__).parent / "results" / "read.json"
GROUP = 8
WORDS = "the of to so we have then answer is therefore number sum product x y equals add subtract times hence".split()


def text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, k=words)) + f" \\boxed{{{rng.randrange(100)}}}"


def rows(count: int) -> Iterator[tuple[str, str, str, float, int]]:
    """Question, response, reference answer, outcome and number of the problem."""
    rng = random.Random(0)
    for problem in range(count // GROUP):
        question = f"Question {problem}: {text(rng, 30)}"
        for _ in range(GROUP):
            yield question, text(rng, 150), str(problem % 100), float(rng.random() < 0.4), problem


LAYOUTS: dict[str, Callable[..., dict[str, Any]]] = {
    "named columns": lambda q, r, a, o, n: {"problem": q, "response": r, "correct": o, "answer": a, "id": n},
    "verl": lambda q, r, a, o, n: {"input": q, "output": r, "gts": a, "score": o, "step": n // 256, "uid": str(n)},
    "TRL": lambda q, r, a, o, n: {
        "step": n // 256,
        "prompt": [{"role": "user", "content": q}],
        "completion": [{"role": "assistant", "content": r}],
        "reward": o,
        "advantage": 0.0,
    },
}


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def peak(path: Path | None) -> int:
    """Bytes of a process that reads the file, or that only imports the package."""
    code = "import resource, diver; diver.read{}; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    call = "" if path is None else f"({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", code.format(call)], capture_output=True, text=True, check=True)
    return int(done.stdout) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    results, base = [], peak(None)
    for name, row_of in LAYOUTS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.jsonl"
            path.write_text("".join(json.dumps(row_of(*row)) + "\n" for row in rows(args.rows)), encoding="utf-8")
            lines = path.read_bytes().splitlines()
            best: dict[str, float] = {}
            for _ in range(args.rounds):
                ways = {"json": lambda lines=lines: [*map(json.loads, lines)], "read": lambda p=path: diver.read(p)}
                for way, work in ways.items():
                    best[way] = min(best.get(way, float("inf")), cpu_seconds(work))
            each = {way: round(1e6 * seconds / len(lines), 1) for way, seconds in best.items()}
            memory = round((peak(path) - base) / path.stat().st_size, 1)
        results.append({"layout": name, **{f"{way}_us_a_row": us for way, us in each.items()}, "memory_a_byte": memory})
        print(
            f"{name:14} json.loads {each['json']:6.1f}, diver.read {each['read']:6.1f} us a row; {memory} bytes a byte"
        )
    report = {**measured_on(), "rows": args.rows, "results": results}
    RESULT.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
