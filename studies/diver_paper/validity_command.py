"""`diver validity`: `diver measure`, and how the metrics correlate with each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from diver.core.files import to_json, write_text
from diver.core.settings import settings
from diver.pages.measured import write_measured
from diver.rollouts import measure
from diver_paper.validity import as_json, correlation_table, means_table, validity
from diver_paper.validity_picture import write_picture

Log = Callable[[str], Any]


@settings
class MetricValidity(measure.Measure):
    """Do the metrics of diversity agree? How they correlate over the problems of rollouts of any origin.

    All that `diver measure` prints and writes, and the correlations; with --out also as validity.md, validity.json and
    validity.png. Try: diver validity before=runs/eval/before after=runs/eval/after
    """

    metrics: str = "textual,equational,hidden-state,embedding"
    """Names with commas between, as for diver measure."""


def run(config: MetricValidity, log: Log = print) -> None:
    """Measure, log the correlations, and write them where `out` names a folder."""
    result = validity(measure.run(config, log, write_measured))
    log(f"\n{correlation_table(result)}\nSpearman's correlation over problems, with 95 % bootstrap intervals.")
    if config.out is not None:
        write_text(config.out / "validity.md", f"{means_table(result)}\n{correlation_table(result)}")
        write_text(config.out / "validity.json", to_json(as_json(result)) + "\n")
        write_picture(result, config.out / "validity.png")
        log(f"written: validity.json, validity.md, validity.png in {config.out}")
