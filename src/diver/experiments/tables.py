"""The page of an experiment: picture, levels, paired differences, and what became of the paper's claims."""

from __future__ import annotations

import math
import re

from diver.evaluate.tables import markdown
from diver.experiments.pictures import legend_note
from diver.experiments.reading import INITIAL, Study, difference, level, verdict
from diver.statistics import Estimate

TITLES = {
    "diversity/textual": "TD",
    "diversity/equational": "ED",
    "policy/entropy": "entropy",
    "group/solve_all": "all correct",
    "group/solve_none": "none correct",
    "reward/outcome": "training accuracy",
    "response/length_mean": "length",
    "signal/all_correct": "signal, all correct",
    "signal/mixed": "signal, mixed",
    "signal/none_correct": "signal, none correct",
}
SIGNALS = tuple(name for name in TITLES if name.startswith("signal/"))
_PERCENT = re.compile(r"pass@|group/|reward/|signal/")


def title(measure: str) -> str:
    """A measure as a table's head."""
    kind, _, k = measure.partition("@")
    return {"pass": f"Pass@{k}", "distinct": f"distinct of {k}"}.get(kind) or TITLES.get(measure, measure)


def shown(measure: str, estimate: Estimate, sign: str = "", interval: bool = True) -> str:
    """In per cent where the measure is a share; a dash where there is no value."""
    if math.isnan(estimate.mean):
        return "–"
    scale, digits = (100, 1) if _PERCENT.match(measure) else (1, 1 if measure.startswith("response/") else 3)
    digits = 2 if measure.startswith("distinct") else digits
    told = f"{scale * estimate.mean:{sign}.{digits}f}"
    if not interval or math.isnan(estimate.low):
        return told
    return f"{told} [{scale * estimate.low:{sign}.{digits}f}, {scale * estimate.high:{sign}.{digits}f}]"


def page(study: Study, command: str, body: str | None = None) -> str:
    """The whole page as Markdown; `command` makes it, `body` stands for the comparison where there is another."""
    e = study.experiment
    parts = [
        f"# {e.title}\n",
        f"{e.answers} of the paper, at tiny scale. Varied: {e.varied}. Made by `{command}`; the regime is in "
        "[README.md](README.md).\n",
        f"{rests_on(study)}\n",
    ]
    if e.tiny:
        parts.append(f"At this scale: {e.tiny}.\n")
    return "\n".join([*parts, body if body is not None else comparison(study)])


def comparison(study: Study) -> str:
    """Picture, levels, differences, claims and signal."""
    e = study.experiment
    parts = [f"![{e.title}]({e.name}-tiny.png)\n", f"{legend_note(study).capitalize()}.\n"]
    parts += ["## What was measured\n", levels(study), TAIL_NOTE]
    parts += [f"## Against {e.against}\n", differences(study), DIFFERENCE_NOTE]
    if e.claims:
        parts += ["## What the paper says, and what is seen here\n", claims(study), CLAIM_NOTE]
    return "\n".join([*parts, "## Where the signal comes from\n", signals(study), SIGNAL_NOTE])


TAIL_NOTE = (
    "Means over seeds and problems. Pass@k (per cent) and distinct correct solutions among k samples are of held-out "
    "problems after training; the other columns are of the training, over its last quarter: the share of groups (per "
    "cent) that are all or not at all correct, TD, ED, entropy in nats a token.\n"
)
DIFFERENCE_NOTE = (
    "Paired over seeds and problems, with 95 % bootstrap intervals over both (over seeds alone for columns of the "
    "training). With few seeds an interval over seeds alone is rough.\n"
)
CLAIM_NOTE = (
    "holds: the whole interval has the sign that the paper says; does not hold: it has the other one; cannot be seen: it "
    "has both. Claims are taken one by one: of twenty, one may look settled by chance.\n"
)
SIGNAL_NOTE = (
    "Share (per cent) of the sum of |A| by the kind of group, over the last quarter of the training. In a group all correct "
    "the outcome says nothing, so all signal there is from the diversity reward; its size does not depend on lambda, since "
    "the advantage is divided by the group's standard deviation.\n"
)


def rests_on(study: Study) -> str:
    """How many seeds every variant rests on."""
    wanted = study.experiment.seeds
    counts = {variant: len(runs) for variant, runs in study.runs.items() if variant != INITIAL}
    missing = [variant for variant in study.experiment.variants if variant not in counts]
    if not missing and len({*counts.values()}) == 1:
        number = next(iter(counts.values()))
        rests = f"Every row rests on {number} seed{'s' * (number != 1)}"
    else:
        rests = "Seeds: " + ", ".join(f"{variant} {count}" for variant, count in counts.items())
        rests += f"; not run yet: {', '.join(missing)}" if missing else ""
    return f"{rests}; {wanted} are meant." if {*counts.values()} != {wanted} or missing else f"{rests}."


def levels(study: Study) -> str:
    """Variants by measures: means."""
    measures = study.experiment.measures
    rows = [
        [variant, *(shown(m, level(study, variant, m), interval=False) for m in measures)] for variant in study.runs
    ]
    return markdown(["", *map(title, measures)], rows)


def differences(study: Study) -> str:
    """Every variant minus the one compared with, by measure."""
    e = study.experiment
    rows = [
        [variant, *(shown(m, difference(study, variant, e.against, m), "+") for m in e.measures)]
        for variant in study.runs
        if variant not in (e.against, INITIAL)
    ]
    return markdown(["", *map(title, e.measures)], rows)


def claims(study: Study) -> str:
    """The paper's claims, what became of each, and its difference."""
    lines = []
    for claim in study.experiment.claims:
        told, found = verdict(study, claim)
        lines.append(f"- {claim.text}: **{told}** ({title(claim.measure)} {shown(claim.measure, found, '+')})\n")
    return "".join(lines)


def signals(study: Study) -> str:
    """The share of the advantages by the kind of group."""
    rows = [
        [variant, *(shown(m, level(study, variant, m), interval=False) for m in SIGNALS)]
        for variant in study.runs
        if variant != INITIAL
    ]
    return markdown(["", *(title(m) for m in SIGNALS)], rows)
