"""Words of the documentation: `python scripts/words.py` prints them by page and fails above a budget.

Pages that a command writes are counted apart: their words come from docstrings, records and studies. A word is what
stands between white space, as for `wc -w`, so the lines of tables count too.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The tables of fronts and of conformance grow with their runs.
BUDGET = {"written by hand": 31_000, "generated": 28_000}
GENERATED = ("recipe-keys.md", "metrics.md", "conformance.md", "versions.md")
TABLE = re.compile(r"<!-- (?:diver methods|carried .*?) -->.*?<!-- end.*?-->", re.DOTALL)
"""Tables that commands write into pages."""


def main() -> None:
    pages = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
    totals = dict.fromkeys(BUDGET, 0)
    for page in [*pages, *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        every = words(text)
        by_hand = 0 if is_generated(page) else words(TABLE.sub("", text))
        totals["written by hand"] += by_hand
        totals["generated"] += every - by_hand
        print(f"{by_hand:7,} {every - by_hand:7,}  {page.relative_to(ROOT)}")
    for kind, count in totals.items():
        print(f"{kind}: {count:,} words, at most {BUDGET[kind]:,}")
    sys.exit(any(totals[kind] > most for kind, most in BUDGET.items()))


def words(text: str) -> int:
    return len(text.split())


def is_generated(page: Path) -> bool:
    return page.name in GENERATED or (page.parent.name == "results" and page.name != "README.md")


if __name__ == "__main__":
    main()
