"""`diver reproduce methods`: the page of the comparison, from the records of its runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

from diver.core.types import DiverError
from diver_paper.runs import Record, find, given, records_file
from method_comparison.page import write_page
from method_comparison.plan import Plan, load_plan
from method_comparison.rates import RECORDS, chosen, tried
from method_comparison.results import Part, Results


@dataclasses.dataclass
class Arguments:
    """Exploration methods on testbeds that are not solved at the start: write the page of the finished runs.

    `diver sweep recipes/testbeds/countdown.toml --methods clip-higher mine:Mine` compares a method of your own, and
    `python -m diver_paper.again docs/results/records/methods.jsonl.gz maze/ --jobs 2` makes runs again.
    """

    out: Path = Path("docs/results")
    """The folder of the page, and of the records, records/methods.jsonl.gz."""


def reproduce(arguments: Arguments) -> None:
    """Write the page, and print its path."""
    plan, out = load_plan(), arguments.out
    results = read_results(plan, out)
    if not any(result.runs for result in results):
        raise DiverError(f"{records_file(out, RECORDS)}: no run of the study is finished, so there is no page")
    print(write_page(plan, results, out))


def read_results(plan: Plan, out: Path) -> list[Results]:
    """The finished runs: a part for the stages that share a testbed and seeds.

    So no method is tested on the seeds on which it was selected.
    """
    parts: dict[Part, dict[str, None]] = {}
    for stage in plan.stages.values():
        parts.setdefault(Part(stage.testbed, stage.seeds, stage.appendix), {}).update(dict.fromkeys(stage.variants))
    return [_results(plan, part, labels, out) for part, labels in parts.items()]


def _results(plan: Plan, part: Part, labels: Iterable[str], out: Path) -> Results:
    file, regime = records_file(out, RECORDS), plan.regime(part.testbed)
    variants = {label: plan.variants[label] for label in labels}
    rates = chosen(plan, part.testbed, variants, out)
    runs: dict[str, dict[int, Record]] = {}
    for label, rate in rates.items():
        for seed in part.seeds:
            if (record := find(file, given(regime, variants[label].changes(rate), seed))) is not None:
                runs.setdefault(label, {})[seed] = record
    choosing = {label: tried(plan, part.testbed, variants[label], out) for label in rates}
    return Results(plan, part, runs, find(file, given(regime, {}, 0), trained=False), rates, choosing)
