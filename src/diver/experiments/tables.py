"""The page of an experiment: picture, levels, paired differences, and what became of the paper's claims."""

from __future__ import annotations

import math
import re
from collections import Counter

from diver.evaluate.tables import markdown
from diver.experiments.claims import INITIAL
from diver.experiments.pictures import legend_note
from diver.experiments.reading import FAILS, HOLDS, NOT_RUN, OPEN, UNSEEN, Study, difference, level, verdict
from diver.experiments.store import Job
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
    "kept/textual": "TD",
    "kept/equational": "ED",
    "kept/hidden-state": "hidden states",
    "kept/embedding": "embedding",
    "kept/pass@1": "Pass@1",
    "kept/pass@8": "Pass@8",
}
NONE = "–"
SIGNALS = tuple(name for name in TITLES if name.startswith("signal/"))
_PERCENT = re.compile(r"(kept/)?pass@|group/|reward/|signal/")


def title(measure: str) -> str:
    """A measure as a table's head."""
    if " - " in measure:
        return " - ".join(map(title, measure.split(" - ")))
    kind, _, k = measure.partition("@")
    return {"pass": f"Pass@{k}", "distinct": f"distinct of {k}"}.get(kind) or TITLES.get(measure, measure)


def shown(measure: str, estimate: Estimate, sign: str = "", interval: bool = True) -> str:
    """In per cent where the measure is a share; a dash where there is no value."""
    if math.isnan(estimate.mean):
        return NONE
    scale, digits = (100, 1) if _PERCENT.match(measure) else (1, 2 if measure.startswith("response/") else 3)
    digits = 2 if measure.startswith("distinct") else 5 if measure == "kept/hidden-state" else digits
    told = f"{scale * estimate.mean:{sign}.{digits}f}"
    if not interval or math.isnan(estimate.low):
        return told
    return f"{told} [{scale * estimate.low:{sign}.{digits}f}, {scale * estimate.high:{sign}.{digits}f}]"


def page(study: Study, command: str, body: str) -> str:
    """The whole page as Markdown; `command` makes it."""
    e = study.experiment
    parts = [
        f"# {e.title}\n",
        f"{e.answers} of the paper, at tiny scale. Varied: {e.varied}. Made by `{command}`; the regime is in "
        "[README.md](README.md).\n",
        f"{rests_on(study)}\n",
    ]
    if e.tiny:
        parts.append(f"At this scale: {e.tiny}.\n")
    return "\n".join([*parts, body, "## The runs\n", commands(study)])


def comparison(study: Study) -> str:
    """Picture, claims, levels, differences and signal."""
    e = study.experiment
    parts = [f"![{e.title}]({e.name}-tiny.png)\n", f"{legend_note(study).capitalize()}.\n"]
    if e.claims:
        parts += [CLAIM_HEAD, claims(study)]
    parts += ["## What was measured\n", levels(study), TAIL_NOTE]
    parts += [f"## Difference from {e.against}\n", differences(study), DIFFERENCE_NOTE]
    return "\n".join([*parts, "## Where the signal comes from\n", signals(study), SIGNAL_NOTE])


CLAIM_HEAD = "## What the paper says, and what is seen here\n"
TAIL_NOTE = (
    "Means over seeds and problems. Pass@k (per cent) and distinct, the expected number of different correct solutions among "
    "k samples, are of 256 held-out problems after training. The other columns are of the training, over its last quarter: "
    "the share of groups (per cent) that are all or not at all correct, the accuracy (per cent), TD, ED, entropy in nats a "
    "token, length in tokens. The policy before training is one, so its row rests on one evaluation and has no columns of "
    "a training.\n"
)
DIFFERENCE_NOTE = (
    "Row minus that variant, paired over seeds and problems, with 95 % bootstrap intervals over both (over seeds alone for "
    "columns of the training; with few seeds such an interval is rough). Shares are in points.\n"
)
SIGNAL_NOTE = (
    "Share (per cent) of the sum of |A| by the kind of group, over the last quarter of the training. In a group all correct "
    "the outcome says nothing, so all signal there is from the diversity reward; its size does not depend on lambda, since "
    "the advantage is divided by the group's standard deviation.\n"
)


def rests_on(study: Study) -> str:
    """How many seeds every variant rests on."""
    wanted = study.experiment.seeds
    counts = {variant: len(study.runs.get(variant, {})) for variant in study.experiment.variants}
    if {*counts.values()} == {wanted}:
        return f"Every variant rests on {_seeds(wanted)}."
    if len({*counts.values()}) == 1:
        return f"Not finished: every variant rests on {_seeds(counts.popitem()[1])}; {wanted} are meant."
    return "Not finished: " + ", ".join(f"{v}: {_seeds(n)}" for v, n in counts.items()) + f"; {wanted} are meant."


def _seeds(number: int) -> str:
    return f"{number or 'no'} seed{'s' * (number != 1)}"


def levels(study: Study) -> str:
    """Variants by measures: means."""
    measures = study.experiment.measures
    rows = [
        [variant, *(shown(m, level(study, variant, m), interval=False) for m in measures)] for variant in study.runs
    ]
    return _known(["", *map(title, measures)], rows)


def differences(study: Study) -> str:
    """Every variant minus the one compared with, by measure."""
    e = study.experiment
    rows = [
        [variant, *(shown(m, difference(study, variant, e.against, m), "+") for m in e.measures)]
        for variant in study.runs
        if variant != e.against
    ]
    return _known(["", *map(title, e.measures)], rows)


def _known(header: list[str], rows: list[list[str]]) -> str:
    """Without the rows that have no value."""
    return markdown(header, [row for row in rows if {*row[1:]} != {NONE}])


def claims(study: Study) -> str:
    """How many of the paper's claims hold, and each with its difference here, that in the paper, and what became of it."""
    found = [(claim, *verdict(study, claim)) for claim in study.experiment.claims]
    counts = Counter(told for _, told, _ in found)
    summary = ", ".join(f"{told}: {counts[told]}" for told in (HOLDS, FAILS, UNSEEN, OPEN, NOT_RUN) if counts[told])
    rows = [
        [claim.text, title(claim.measure), claim.paper or NONE, shown(claim.measure, difference, "+"), f"**{told}**"]
        for claim, told, difference in found
    ]
    table = markdown(["", "measured by", "paper", "here", "the claim"], rows)
    return f"Of {len(found)} claims: {summary}.\n\n{table}\n{_claim_note(study)}"


def _claim_note(study: Study) -> str:
    names = {name for claim in study.experiment.claims for name in (claim.more, claim.less)}
    note = (
        "Here: the difference that the claim says is above 0, with its 95 % interval over seeds and problems. Holds: the whole "
        "interval is above 0; does not hold: the whole interval is below 0; cannot be seen: it has both. Claims are taken one "
        "by one: of twenty that say nothing, one may look settled by chance. Paper: what it prints for its models on its "
        "benchmarks, where it does; of scores, in points, the average of the in-domain ones."
    )
    if any(claim.within for claim in study.experiment.claims):
        note += " A claim of no difference holds where the whole interval is within its bounds."
    if "kl-cov" in names:
        note += " kl-cov stands for the paper's Entropy-RL; of clip-cov, the other technique of its source, it says nothing."
    return f"{note}\n"


def commands(study: Study) -> str:
    """The command that makes a run of each variant by hand, and the seeds that are there."""
    lines = []
    for variant, of in study.runs.items():
        if variant == INITIAL:
            lines.append(f"- {variant}: the bundled policy, only evaluated, by `{Job({}, 0, trained=False).command}`\n")
            continue
        first, *others = sorted(of)
        command = Job(study.experiment.variants[variant], first).command
        many = f"; the same with --run.seed {', '.join(map(str, others))}" if others else ""
        lines.append(f"- {variant}: `{command}`{many}\n")
    return (
        "".join(lines)
        + "\nTheir metrics, solutions, commits and versions are in [runs/](runs/), a file a run. `diver train` "
        "draws and trains what the record tells; the study samples from its checkpoints in a way of its own, so its Pass@k "
        "are other draws.\n"
    )


def signals(study: Study) -> str:
    """The share of the advantages by the kind of group."""
    rows = [
        [variant, *(shown(m, level(study, variant, m), interval=False) for m in SIGNALS)]
        for variant in study.runs
        if variant != INITIAL
    ]
    return markdown(["", *(title(m) for m in SIGNALS)], rows)
