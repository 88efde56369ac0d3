"""`python -m agents`: write the page from the records."""

from __future__ import annotations

from agents.page import write_page
from agents.study import Study
from diver_paper.runs import written

if __name__ == "__main__":
    written("python -m agents", lambda out: write_page(Study(out)))
