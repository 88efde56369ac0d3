"""docs/metrics.md: every metric that a run logs, from src/diver/pages/metrics.toml.

`python scripts/metric_reference.py` writes the page; a test compares it with that file.
"""

from __future__ import annotations

from pathlib import Path

from diver.pages.curves import MEANINGS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "metrics.md"
INTRODUCTION = """# Logged metrics

A run appends a row to `metrics.jsonl` for each step. Trackers such as TensorBoard and W&B get the same names. In a
name, `*` stands for a number or for the name of a metric. [The page of a run](report.md#curves) draws them;
[verl](verl.md) lists the metrics that it calls otherwise. `python scripts/metric_reference.py` generates this page.
"""


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    rows = [f"| `{name}` | {meaning.replace('|', '&#124;')} |" for name, meaning in MEANINGS.items()]
    return "\n".join([INTRODUCTION, "| metric | meaning |", "|---|---|", *rows, ""])


if __name__ == "__main__":
    main()
