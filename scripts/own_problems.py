"""Problems of one's own for a first run: `python scripts/own_problems.py sums.jsonl` writes 200 sums.

The suffix of the file decides the format: .jsonl, .csv or .parquet. The problems are the same in each.
"""

import argparse
import csv
import json
import random
from pathlib import Path


def sums(count: int, largest: int = 30) -> list[dict[str, str]]:
    """Distinct sums of two numbers from 2 to `largest`, in a fixed order."""
    pairs = [(a, b) for a in range(2, largest + 1) for b in range(2, largest + 1)]
    chosen = random.Random(0).sample(pairs, count)
    question = "What is {} + {}? Answer with the number only."
    return [{"problem": question.format(a, b), "answer": str(a + b)} for a, b in chosen]


def write(rows: list[dict[str, str]], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        return
    with open(path, "w", encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        else:
            file.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=200)
    arguments = parser.parse_args()
    write(sums(arguments.count), arguments.out)
    print(f"{arguments.out}: {arguments.count} problems")
