"""`python -m alerts`: write the page and the rates from the records."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from alerts.page import write_page, write_rates
from alerts.study import Study
from diver.recipe.flags import parse
from diver_paper.runs import PageArguments


@dataclasses.dataclass
class Arguments(PageArguments):
    """False alarms and detections of the alerts, on healthy runs and on runs broken on purpose: write the page.

    `python -m diver_paper.again docs/results/records/alerts.jsonl.gz healthy-maze/` makes runs again.
    """

    rates: Path | None = None
    """Also write the rates that the alerts state: src/diver/train/alert_rates.toml in a clone."""


if __name__ == "__main__":
    arguments = parse(Arguments, "python -m alerts", sys.argv[1:])
    study = Study(arguments.out)
    print(write_page(study))
    if arguments.rates:
        print(write_rates(study, arguments.rates))
