"""How long `diver browse` takes to the first page of a large dump, and how much memory: of one as verl writes it.

    python benchmarks/browse.py --gigabytes 10

Needs that much free disk in --folder; the dump is deleted afterwards. The numbers go to results/browse.json.
"""

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "browse.json"
FILE = 10_000_000  # bytes of one step, about 256 prompts x 8 responses of 600 words
GROUP = 8
SENTENCES = [
    "First we write what is known.", "The total is the sum of both parts.", "We substitute this into the equation.",
    "Now we solve for the unknown.", "Dividing both sides gives the answer.", "Let us check the result once more.",
    "This follows from the definition.", "The remaining part is what we look for.", "Therefore the claim holds.",
]  # fmt: skip


def response(rng: random.Random, variety: int) -> str:
    """About 4,800 characters; the smaller `variety`, the more two responses have in common."""
    lines = []
    for i in range(60):
        a, b = 3 + (i * 7 + rng.randrange(variety)) % 97, 2 + (i * 5) % 89
        lines.append(f"{SENTENCES[(i + rng.randrange(variety)) % len(SENTENCES)]} \\( {a} + {b} = {a + b} \\)")
    return "\n".join(lines)


def write_step(folder: Path, step: int, steps: int) -> None:
    rng = random.Random(step)
    variety = max(1, round(12 * (1 - 0.8 * step / steps)))
    path = folder / f"{step}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < FILE:
            uid, chance = f"{rng.getrandbits(64):x}", rng.betavariate(1 + 2 * step / steps, 2)
            for i in range(GROUP):
                score = float(rng.random() < chance)
                row = {
                    "input": f"Problem {uid}: what is the total?",
                    "output": response(rng, variety),
                    "gts": "7",
                    "score": score,
                }
                row |= {"step": step, "entropy": (0.2 + 0.6 * (1 - score)) * variety / 12, "uid": f"{uid}_{i}_0"}
                file.write(json.dumps(row) + "\n")


def measured(folder: Path, flags: str) -> dict[str, Any]:
    """Wall and CPU seconds and the peak of memory of the command on a dump."""
    files = [*folder.glob("*.jsonl")]
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as out:
        page = Path(out) / "browse.html"
        command = [
            sys.executable,
            "-c",
            "from diver.cli import main; main()",
            "browse",
            str(folder),
            "--out",
            str(page),
        ]
        subprocess.run([*command, *flags.split()], check=True)
        used, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - start
        return {
            "bytes": sum(file.stat().st_size for file in files), "files": len(files), "flags": flags,
            "seconds": round(seconds, 1),
            "cpu_seconds": round(used.ru_utime + used.ru_stime, 1), "peak_bytes": used.ru_maxrss * 1024,
            "page_bytes": page.stat().st_size, "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1),
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--folder", type=Path, help="where the dump is made")
    parser.add_argument("--keep", action="store_true", help="do not delete it")
    parser.add_argument("--dump", type=Path, help="one that was kept, instead of making one")
    parser.add_argument("--flags", default="", help="further flags of diver browse, such as --all")
    arguments = parser.parse_args()
    folder = arguments.dump or Path(tempfile.mkdtemp(prefix="browse-", dir=arguments.folder))
    try:
        if arguments.dump is None:
            steps = max(1, round(arguments.gigabytes * 1e9 / FILE))
            for step in range(1, steps + 1):
                write_step(folder, step, steps)
        result = measured(folder, arguments.flags)
        if arguments.gigabytes == 10 and not (arguments.flags or arguments.dump):
            RESULT.write_text(json.dumps(result, indent=1) + "\n")
        print(json.dumps(result))
    finally:
        if arguments.keep or arguments.dump:
            print(folder)
        else:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
