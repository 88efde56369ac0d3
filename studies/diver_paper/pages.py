"""The page of an experiment: figure, status of the paper's claims, levels and paired differences, a command."""

from __future__ import annotations

import math
import re
from collections import Counter

from diver.core.statistics import Estimate
from diver.core.tables import markdown
from diver.rollouts.problems import title as title_of_metric
from diver_paper.aggregate import INCONCLUSIVE, STATUSES, Study, claim_status, difference, over_seeds
from diver_paper.experiments import Claim
from diver_paper.plan import command

TITLES = {
    "diversity/textual": "TD",
    "diversity/equational": "ED",
    "held-out/textual": "TD, held out",
    "held-out/equational": "ED, held out",
    "policy/entropy": "entropy",
    "group/solve_all": "all correct",
    "group/solve_none": "none correct",
    "reward/outcome": "training accuracy",
    "response/length_mean": "length",
    "signal/all_correct": "signal, all correct",
}
"""Measures as titles of columns."""
NONE = "–"
GUIDE = "README.md#pages-at-tiny-scale"
"""What the columns and the verdicts of all pages mean."""
_PERCENT = re.compile(r"(saved/)?pass@|group/|reward/|signal/")


# ---- numbers ---------------------------------------------------------------------------------------------------------


def title(measure: str) -> str:
    """A measure as the heading of a column."""
    if " - " in measure:
        return " - ".join(map(title, measure.split(" - ")))
    if measure.startswith("saved/"):
        return title_of_metric(measure.removeprefix("saved/"))
    measure, at, temperature = measure.partition(" at ")
    if at:
        return f"{title(measure)} at {temperature}"
    kind, _, k = measure.partition("@")
    return {"pass": f"Pass@{k}", "distinct": f"distinct of {k}"}.get(kind) or TITLES.get(measure, measure)


def shown(measure: str, estimate: Estimate, sign: str = "") -> str:
    """The estimate with its interval, in per cent if the measure is a share; a dash without a value."""
    if math.isnan(estimate.mean):
        return NONE
    mean, low, high = (_number(measure, value, sign) for value in estimate)
    return mean if math.isnan(estimate.low) else f"{mean} [{low}, {high}]"


def _number(measure: str, value: float, sign: str = "") -> str:
    digits = 1 if _PERCENT.match(measure) else 2 if measure.startswith(("response/", "distinct")) else 3
    digits = 5 if measure == "saved/hidden-state" else digits
    return f"{_scale(measure) * value:{sign}.{digits}f}"


def _scale(measure: str) -> int:
    return 100 if _PERCENT.match(measure) else 1


def _level(study: Study, variant: str, measure: str) -> str:
    mean, std = over_seeds(study, variant, measure)
    if math.isnan(mean):
        return NONE
    return _number(measure, mean) + ("" if math.isnan(std) else f" ± {_number(measure, std)}")


# ---- the page --------------------------------------------------------------------------------------------------------


def page(study: Study, command: str, body: str) -> str:
    """The page as Markdown. `command` is the command that makes it."""
    e = study.experiment
    parts = [
        f"# {e.title}\n",
        f"{e.reproduces} of the paper, at tiny scale. Varied: {e.varied}. {seeds_note(study)} `{command}` makes this "
        f"page; [README.md]({GUIDE}) explains its tables.\n",
    ]
    if e.temperatures:
        parts.append(f"Claims are judged at temperature {e.temperatures[0]:g}, the paper's for evaluation.\n")
    if e.at_tiny_scale:
        parts.append(f"At this scale: {e.at_tiny_scale}.\n")
    return "\n".join([*parts, body, "## Runs\n", runs_note(study)])


def comparison(study: Study) -> str:
    """Claims, figure, levels and differences."""
    e = study.experiment
    parts = [claims_section(study)] if e.claims else []
    if e.elsewhere:
        parts.append(f"Elsewhere: {' '.join(e.elsewhere.split())}.\n")
    return "\n".join([*parts, "## Results\n", f"![{e.title}]({e.name}-tiny.png)\n", results(study)])


def seeds_note(study: Study) -> str:
    """How many seeds every variant has."""
    planned = study.seeds
    counts = {variant: len(study.runs.get(variant, {})) for variant in study.experiment.variants}
    if {*counts.values()} == {planned}:
        return f"Every variant has {_seeds(planned)}."
    if len({*counts.values()}) == 1:
        return f"Not finished: every variant has {_seeds(counts.popitem()[1])} of {planned}."
    return "Not finished: " + ", ".join(f"{v}: {_seeds(n)}" for v, n in counts.items()) + f", of {planned}."


def _seeds(number: int) -> str:
    return f"{number or 'no'} seed{'s' * (number != 1)}"


def claims_section(study: Study) -> str:
    """The number of claims with each status, and a table of claims: the paper's difference, ours, and the status."""
    decided = [(claim, *claim_status(study, claim)) for claim in study.experiment.claims]
    printed = any(claim.paper for claim in study.experiment.claims)
    counts = Counter(status for _, status, _ in decided)
    summary = ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status])
    rows = [
        [claim.text, *[claim.paper or NONE] * printed, shown(claim.measure, gap, "+"), _status(claim, status, gap)]
        for claim, status, gap in decided
    ]
    table = markdown(["claim", *["paper"] * printed, "here", "status"], rows)
    return f"{len(decided)} claims: {summary}.\n\n{table}"


def _status(claim: Claim, status: str, gap: Estimate) -> str:
    smaller = claim.paper and _scale(claim.measure) * gap.high < float(claim.paper)
    size = ", smaller than the paper's" if smaller and status == INCONCLUSIVE else ""
    return f"**{status}**{size}" + (f"; {claim.see}" if claim.see else "")


def results(study: Study) -> str:
    """The levels of the variants without a baseline, and the paired differences of the others."""
    e = study.experiment
    levels, differences = [], []
    for variant in study.runs:
        if baseline := e.baseline_of(variant):
            gaps = [shown(m, difference(study, variant, baseline, m), "+") for m in e.columns]
            differences.append([f"{variant} − {baseline}", *gaps])
        else:
            levels.append([variant, *(_level(study, variant, m) for m in e.columns)])
    rows = [row for row in (*levels, *differences) if {*row[1:]} != {NONE}]
    return markdown(["", *map(title, e.columns)], rows)


def runs_note(study: Study) -> str:
    """Where the runs and their settings are, and the command that makes one of them by hand."""
    e = study.experiment
    variant, changes = list(e.variants.items())[-1]
    return (
        f"The variants are in [experiments.toml](../../studies/diver_paper/experiments.toml), the runs in {e.records}/ "
        f"of `records/paper-tiny.jsonl.gz`. `{command(changes, 0)}` trains {variant}, seed 0.\n"
    )
