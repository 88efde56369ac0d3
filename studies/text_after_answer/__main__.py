"""`python -m text_after_answer`: write the page from the records."""

from __future__ import annotations

from diver_paper.runs import written
from text_after_answer.page import write_page
from text_after_answer.study import Study

if __name__ == "__main__":
    written("python -m text_after_answer", lambda out: write_page(Study(out)))
