"""`python -m verified_replay`: write the page from the records."""

from __future__ import annotations

from diver_paper.runs import written
from verified_replay.page import write_page
from verified_replay.study import Study

if __name__ == "__main__":
    written("python -m verified_replay", lambda out: write_page(Study(out)))
