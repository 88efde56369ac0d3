"""The page of an experiment: figure, status of the paper's claims, means, paired differences, commands."""

from __future__ import annotations

import math
import re
from collections import Counter

from diver.core.statistics import Estimate
from diver.core.tables import markdown
from diver.rollouts.problems import title as title_of_metric
from diver_paper.aggregate import (
    AT_CEILING,
    INCONCLUSIVE,
    STATUSES,
    Study,
    claim_status,
    difference,
    last_evaluation,
    over_seeds,
)
from diver_paper.experiments import INITIAL, Claim
from diver_paper.figures import legend_note
from diver_paper.plan import command

TITLES = {
    "diversity/textual": "TD",
    "diversity/equational": "ED",
    "held-out/textual": "TD, held out",
    "held-out/equational": "ED, held out",
    "held-out/truncated": "truncated",
    "held-out/tokens": "length, held out",
    "policy/entropy": "entropy",
    "group/solve_all": "all correct",
    "group/solve_none": "none correct",
    "reward/outcome": "training accuracy",
    "response/length_mean": "length",
    "signal/all_correct": "signal, all correct",
    "signal/mixed": "signal, mixed",
    "signal/none_correct": "signal, none correct",
}
MEANINGS = {
    "group/": "the share of groups (per cent) with all or no responses correct",
    "reward/outcome": "the accuracy (per cent)",
    "diversity/": "TD and ED",
    "policy/entropy": "the entropy in nats per token",
    "response/length_mean": "the length in tokens",
    "signal/": "the share (per cent) of the sum of |A| by the kind of group",
}
"""Titles of the columns of a training, by the beginnings of their names."""
NONE = "–"
SIGNALS = tuple(name for name in TITLES if name.startswith("signal/"))
CLAIM_HEAD = "## The paper's claims\n"
SIGNAL_NOTE = (
    "Share (per cent) of the sum of |A| by the kind of group, over the last quarter of the training. In a group that "
    "is all correct, the outcome gives no advantage, so the advantage comes from the diversity reward alone. Its size "
    "does not depend on lambda, since it is divided by the group's standard deviation.\n"
)
CLAIM_NOTE = (
    "Here: the difference that the claim says is above 0, with its 95 % interval over seeds and problems. Supported: "
    "the interval is above 0. Contradicted: it is below 0. Inconclusive: it contains 0. There is no correction for "
    "multiple tests: of twenty claims without an effect, one may appear settled by chance. Paper: the difference "
    "between the scores in the paper, in points of its in-domain averages (– where it prints none). Smaller than "
    "the paper's: the interval is below that difference."
)
_PERCENT = re.compile(r"(saved/)?pass@|group/|reward/|signal/")


# ---- numbers ---------------------------------------------------------------------------------------------------------


def title(measure: str) -> str:
    """A measure as a table's head."""
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
    """With its interval, in per cent where the measure is a share; a dash where there is no value."""
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


def _without_empty(header: list[str], rows: list[list[str]]) -> str:
    """A table without the rows that have no value."""
    return markdown(header, [row for row in rows if {*row[1:]} != {NONE}])


# ---- the page --------------------------------------------------------------------------------------------------------


def page(study: Study, command: str, body: str) -> str:
    """The whole page as Markdown; `command` makes it."""
    e = study.experiment
    parts = [
        f"# {e.title}\n",
        f"{e.reproduces} of the paper, at tiny scale. Varied: {e.varied}. Made by `{command}`; the regime is in "
        "[README.md](README.md).\n",
        f"{seeds_note(study)}\n",
    ]
    if e.temperatures:
        parts.append(
            f"Sampled at the training's temperature, and where a column or a claim says so at {e.temperatures[0]:g}, "
            "the paper's for evaluation, from the same checkpoints.\n"
        )
    if e.at_tiny_scale:
        parts.append(f"At this scale: {e.at_tiny_scale}.\n")
    return "\n".join([*parts, body, "## Runs\n", commands(study)])


def comparison(study: Study) -> str:
    """Figure, claims, means, differences and signal."""
    e = study.experiment
    parts = [f"![{e.title}]({e.name}-tiny.png)\n", f"{legend_note(study)}\n"]
    if e.claims:
        parts += [CLAIM_HEAD, claims_section(study)]
    if e.elsewhere:
        parts.append(f"Elsewhere: {' '.join(e.elsewhere.split())}.\n")
    parts += ["## Results\n", levels(study), levels_note(study), *difference_section(study)]
    return "\n".join([*parts, "## Training signal by kind of group\n", signals(study), SIGNAL_NOTE])


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
    """How many claims have which status, and each with the paper's difference, the one here and its status."""
    decided = [(claim, *claim_status(study, claim)) for claim in study.experiment.claims]
    counts = Counter(status for _, status, _ in decided)
    summary = ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status])
    rows = [
        [
            claim.text,
            title(claim.measure),
            claim.paper or NONE,
            shown(claim.measure, gap, "+"),
            _status(claim, status, gap),
        ]
        for claim, status, gap in decided
    ]
    table = markdown(["claim", "measured by", "paper", "here", "status"], rows)
    note = CLAIM_NOTE
    if counts[AT_CEILING]:
        note += " At ceiling: the variant that has to be surpassed solves every problem."
    if any(claim.within for claim in study.experiment.claims):
        note += " A claim of no difference is supported if the interval is within its bounds."
    if any("kl-cov" in (claim.more, claim.less) for claim in study.experiment.claims):
        note += " kl-cov stands for the paper's Entropy-RL."
    return f"{len(decided)} claims: {summary}.\n\n{table}\n{note}\n"


def _status(claim: Claim, status: str, gap: Estimate) -> str:
    smaller = claim.paper and _scale(claim.measure) * gap.high < float(claim.paper)
    size = ", smaller than the paper's" if smaller and status == INCONCLUSIVE else ""
    return f"**{status}**{size}" + (f"; {claim.see}" if claim.see else "")


def levels(study: Study) -> str:
    """Variants by measures: means, and standard deviations over seeds."""
    columns = study.experiment.columns
    rows = [[variant, *(_level(study, variant, m) for m in columns)] for variant in study.runs]
    return _without_empty(["", *map(title, columns)], rows)


def levels_note(study: Study) -> str:
    """The definition of the columns."""
    columns = study.experiment.columns
    run = next(iter(next(iter(study.runs.values())).values()))
    note = "Means over seeds and problems ± the standard deviation over seeds."
    if any(m.startswith(("pass@", "distinct@")) for m in columns):
        note += (
            " Pass@k (per cent) and distinct (the expected number of different correct solutions among k samples) are "
            f"measured on {len(last_evaluation(run)['solutions'])} held-out problems after training."
        )
    if any(m.startswith("held-out/") for m in columns):
        note += (
            " TD, held out, is measured on 8 complete responses of the trained policy to each of these problems. It "
            "has the metric's default settings, so it can be compared between all variants."
        )
    training = [text for beginning, text in MEANINGS.items() if any(m.startswith(beginning) for m in columns)]
    if training:
        note += f" Columns of the training, over its last quarter: {'; '.join(training)}."
    if INITIAL in study.runs:
        note += (
            f" The policy before training is evaluated once{', and has no columns of the training' * bool(training)}."
        )
    return f"{note}\n"


def difference_section(study: Study) -> list[str]:
    """Every variant minus its baseline, by measure; with head and note."""
    e = study.experiment
    common = isinstance(e.baseline, str)
    pairs = [(variant, less) for variant in study.runs if (less := e.baseline_of(variant))]
    rows = []
    for variant, less in pairs:
        gaps = [shown(m, difference(study, variant, less, m), "+") for m in e.columns]
        rows.append([variant if common else f"{variant} − {less}", *gaps])
    note = "paired over seeds and problems, with 95 % intervals over both"
    if any(m.startswith(tuple(MEANINGS)) for m in e.columns):
        note += " (columns of the training have one value per seed and Student's interval over seeds)"
    return [
        f"## Difference from {e.baseline}\n" if common else "## Differences\n",
        _without_empty(["", *map(title, e.columns)], rows),
        f"{'Row minus that variant, ' if common else note[0].upper()}{note if common else note[1:]}. Shares are in "
        "points.\n",
    ]


def signals(study: Study) -> str:
    """The share of the advantages by the kind of group."""
    rows = [[variant, *(_level(study, variant, m) for m in SIGNALS)] for variant in study.runs if variant != INITIAL]
    return markdown(["", *map(title, SIGNALS)], rows)


def commands(study: Study) -> str:
    """The command that makes a run of each variant by hand, and the seeds that are there."""
    lines = []
    for variant, runs in study.runs.items():
        if variant == INITIAL:
            lines.append(
                f"- {variant}: the bundled policy, only evaluated, by `diver reproduce {study.experiment.name}`\n"
            )
            continue
        first, *others = sorted(runs)
        words = command(study.experiment.variants[variant], first)
        more = f"; the same with --run.seed {', '.join(map(str, others))}" if others else ""
        lines.append(f"- {variant}: `{words}`{more}\n")
    folder = study.experiment.records
    return (
        "".join(lines) + f"\nTheir metrics, solutions, commits and versions are in [{folder}/ of paper-tiny.jsonl.gz]"
        "(records/paper-tiny.jsonl.gz), a line per run. `diver train` reproduces the training of a record; its own "
        "Pass@k differ, since the study evaluates checkpoints on samples of its own.\n"
    )
