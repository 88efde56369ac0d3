"""The page of an experiment: picture, levels, paired differences, and what became of the paper's claims."""

from __future__ import annotations

import math
import re
from collections import Counter

from diver.measure.validity import title as title_of_metric
from diver.render.tables import markdown
from diver.stats import Estimate
from diver_paper.claims import INITIAL, Claim
from diver_paper.pictures import legend_note
from diver_paper.reading import NO_ROOM, OUTCOMES, UNSEEN, Study, difference, last_evaluation, over_seeds, verdict
from diver_paper.store import Job

TITLES = {
    "diversity/textual": "TD",
    "diversity/equational": "ED",
    "held-out/textual": "TD, held out",
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
    "group/": "the share of groups (per cent) that are all or not at all correct",
    "reward/outcome": "the accuracy (per cent)",
    "diversity/": "TD and ED",
    "policy/entropy": "the entropy in nats a token",
    "response/length_mean": "the length in tokens",
    "signal/": "the share (per cent) of the sum of |A| by the kind of group",
}
"""Of the columns of a training, by the beginnings of their names."""
NONE = "–"
SIGNALS = tuple(name for name in TITLES if name.startswith("signal/"))
_PERCENT = re.compile(r"(kept/)?pass@|group/|reward/|signal/")


def title(measure: str) -> str:
    """A measure as a table's head."""
    if " - " in measure:
        return " - ".join(map(title, measure.split(" - ")))
    if measure.startswith("kept/"):
        return title_of_metric(measure.removeprefix("kept/"))
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
    digits = 5 if measure == "kept/hidden-state" else digits
    return f"{_scale(measure) * value:{sign}.{digits}f}"


def _scale(measure: str) -> int:
    return 100 if _PERCENT.match(measure) else 1


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
    parts += ["## What was measured\n", levels(study), levels_note(study), *difference_section(study)]
    return "\n".join([*parts, "## Where the signal comes from\n", signals(study), SIGNAL_NOTE])


CLAIM_HEAD = "## What the paper says, and what is seen here\n"
SIGNAL_NOTE = (
    "Share (per cent) of the sum of |A| by the kind of group, over the last quarter of the training. In a group all correct "
    "the outcome says nothing, so all signal there is from the diversity reward; its size does not depend on lambda, since "
    "the advantage is divided by the group's standard deviation.\n"
)


def rests_on(study: Study) -> str:
    """How many seeds every variant rests on."""
    wanted = study.seeds
    counts = {variant: len(study.runs.get(variant, {})) for variant in study.experiment.variants}
    if {*counts.values()} == {wanted}:
        return f"Every variant rests on {_seeds(wanted)}."
    if len({*counts.values()}) == 1:
        return f"Not finished: every variant rests on {_seeds(counts.popitem()[1])}; {wanted} are meant."
    return "Not finished: " + ", ".join(f"{v}: {_seeds(n)}" for v, n in counts.items()) + f"; {wanted} are meant."


def _seeds(number: int) -> str:
    return f"{number or 'no'} seed{'s' * (number != 1)}"


def levels(study: Study) -> str:
    """Variants by measures: means, and standard deviations over seeds."""
    measures = study.experiment.measures
    rows = [[variant, *(_level(study, variant, m) for m in measures)] for variant in study.runs]
    return _known(["", *map(title, measures)], rows)


def _level(study: Study, variant: str, measure: str) -> str:
    mean, std = over_seeds(study, variant, measure)
    if math.isnan(mean):
        return NONE
    return _number(measure, mean) + ("" if math.isnan(std) else f" ± {_number(measure, std)}")


def levels_note(study: Study) -> str:
    """What the columns are."""
    measures = study.experiment.measures
    run = next(iter(next(iter(study.runs.values())).values()))
    told = "Means over seeds and problems ± the standard deviation over seeds."
    if any(m.startswith(("pass@", "distinct@")) for m in measures):
        told += (
            " Pass@k (per cent) and distinct, the expected number of different correct solutions among k samples, are of "
            f"{len(last_evaluation(run)['solutions'])} held-out problems after training."
        )
    if any(m.startswith("held-out/") for m in measures):
        told += (
            " TD, held out, is of 8 responses of the trained policy to each of them, whole and with the metric's default "
            "settings, so that it can be compared whatever was varied in training."
        )
    training = [text for beginning, text in MEANINGS.items() if any(m.startswith(beginning) for m in measures)]
    if training:
        told += f" Of the training, over its last quarter: {'; '.join(training)}."
    if INITIAL in study.runs:
        told += " The policy before training is one, so its row rests on one evaluation"
        told += " and has no columns of a training." if training else "."
    return f"{told}\n"


def difference_section(study: Study) -> list[str]:
    """Every variant minus the one it is compared with, by measure; with head and note."""
    e = study.experiment
    one = isinstance(e.against, str)
    pairs = [(variant, less) for variant in study.runs if (less := e.baseline(variant))]
    rows = [
        [variant if one else f"{variant} − {less}", *(shown(m, difference(study, variant, less, m), "+") for m in e.measures)]
        for variant, less in pairs
    ]  # fmt: skip
    note = "paired over seeds and problems, with 95 % bootstrap intervals over both"
    if any(m.startswith(tuple(MEANINGS)) for m in e.measures):
        note += " (for columns of the training, which have one value a seed, Student's over seeds)"
    return [
        f"## Difference from {e.against}\n" if one else "## Differences\n",
        _known(["", *map(title, e.measures)], rows),
        f"{'Row minus that variant, ' if one else note[0].upper()}{note if one else note[1:]}. Shares are in points.\n",
    ]


def _known(header: list[str], rows: list[list[str]]) -> str:
    """Without the rows that have no value."""
    return markdown(header, [row for row in rows if {*row[1:]} != {NONE}])


def claims(study: Study) -> str:
    """How many of the paper's claims hold, and each with its difference here, that in the paper, and what became of it."""
    found = [(claim, *verdict(study, claim)) for claim in study.experiment.claims]
    counts = Counter(told for _, told, _ in found)
    summary = ", ".join(f"{told}: {counts[told]}" for told in OUTCOMES if counts[told])
    rows = [
        [claim.text, title(claim.measure), claim.paper or NONE, shown(claim.measure, difference, "+"), _told(claim, told, difference)]
        for claim, told, difference in found
    ]  # fmt: skip
    table = markdown(["", "measured by", "paper", "here", "the claim"], rows)
    return f"Of {len(found)} claims: {summary}.\n\n{table}\n{_claim_note(study)}"


def _told(claim: Claim, told: str, difference: Estimate) -> str:
    smaller = claim.paper and _scale(claim.measure) * difference.high < float(claim.paper)
    return f"**{told}**" + (", but it is less than in the paper" if smaller and told == UNSEEN else "")


def _claim_note(study: Study) -> str:
    names = {name for claim in study.experiment.claims for name in (claim.more, claim.less)}
    note = (
        "Here: the difference that the claim says is above 0, with its 95 % interval over seeds and problems. Holds: the whole "
        "interval is above 0; does not hold: the whole interval is below 0; cannot be seen: it has both. Claims are taken one "
        "by one: of twenty that say nothing, one may look settled by chance. Paper: the difference of what it prints for its "
        "models on its benchmarks, where it does; of scores, in points, of the averages in-domain. Less than in the paper: "
        "the whole interval is."
    )
    if any(verdict(study, claim)[0] == NO_ROOM for claim in study.experiment.claims):
        note += " No room for it: what is to be surpassed solves every problem."
    if any(claim.within for claim in study.experiment.claims):
        note += " A claim of no difference holds where the whole interval is within its bounds."
    if "kl-cov" in names:
        note += " kl-cov stands for the paper's Entropy-RL."
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
    rows = [[variant, *(_level(study, variant, m) for m in SIGNALS)] for variant in study.runs if variant != INITIAL]
    return markdown(["", *(title(m) for m in SIGNALS)], rows)
