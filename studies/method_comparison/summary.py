"""The head of the page: the differences on all testbeds beside each other, and which setting is recommended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from diver.core.statistics import Estimate
from diver.core.tables import markdown
from method_comparison.plan import BASELINE, Plan
from method_comparison.results import WEIGHTS, Part, Results, above_front, gap
from method_comparison.tails import mark, tails

TEMPERATURES = ("1", "0.6")
"""Temperatures of the training and of the paper's evaluation: a setting is recommended for one of them."""
PAPERS = "final 0.6"
KS = (1, 64)


def summary(plan: Plan, parts: Sequence[Results]) -> str:
    """A table of differences from clip-higher at the paper's temperature, and the recommendation; `parts` have runs."""
    labels = dict.fromkeys(label for part in parts for label in part.policies if label != BASELINE)
    rows = [[label, *(_cell(part, label, k) for part in parts for k in KS)] for label in labels]
    head = ["minus clip-higher, points", *(f"{part.title}: Pass@{k}" for part in parts for k in KS)]
    note = (
        "Pass@k at temperature 0.6, the paper's, minus clip-higher's. **Bold**: all seeds are finished and the "
        "interval excludes 0. One in twenty comparisons does so by chance. A result on the problems and seeds on which "
        "a method was selected is therefore a hypothesis. The confirming stages test it on other problems."
    )
    if any(tails(part) for part in parts):
        note += (
            " †: the responses continued after their answers, so the number is that of the method together with "
            "[this loophole](README.md#text-after-the-answer)."
        )
    return f"## Summary\n\n{note}\n\n{markdown(head, rows)}\n{_recommendation(plan, parts)}\n"


def _cell(part: Results, label: str, k: int) -> str:
    if label not in part.policies:
        return ""
    estimate, unfinished = gap(part, label, PAPERS, k), part.unfinished(label)
    bold = "**" if excludes_0(estimate) and not unfinished else ""
    return f"{bold}{estimate.text(100, sign='+')}{bold}{mark(part, label)}{unfinished}"


def excludes_0(estimate: Estimate) -> bool:
    return estimate.low > 0 or estimate.high < 0


def confirming(plan: Plan, parts: Sequence[Results]) -> tuple[list[Results], bool]:
    """The finished parts of the stages that confirm, and whether these are all of them."""
    known = {part.part: part for part in parts}
    stages = [stage for stage in plan.stages.values() if stage.confirms]
    found = []
    for stage in stages:
        part = known.get(Part(stage.testbed, stage.seeds))
        if part and all(label in part.runs and not part.unfinished(label) for label in stage.variants):
            found.append(part)
    return found, len(found) == len(stages)


def above_clip_higher(parts: Sequence[Results], label: str) -> list[str]:
    """The temperatures at which a variant is above clip-higher at Pass@1 and at Pass@64 on all parts."""
    return [t for t in TEMPERATURES if all(gap(part, label, f"final {t}", k).low > 0 for part in parts for k in KS)]


def above_all_free(parts: Sequence[Results], label: str) -> list[str]:
    """The weights w of Pass@1 for which a variant is above the best free baseline on all parts."""
    fronts = {w: [above_front(part, label, w) for part in parts] for w in WEIGHTS}
    return [f"w = {w:g}" for w, found in fronts.items() if all(f is not None and f[2].low > 0 for f in found)]


def _recommendation(plan: Plan, parts: Sequence[Results]) -> str:
    rule = (
        "The rule of study.toml was fixed before any confirming run. A setting is recommended if it meets two criteria "
        "on every confirming stage, with intervals that exclude 0. It is above clip-higher at both Pass@1 and Pass@64, "
        "at temperature 1 or at 0.6. It is also above the best free baseline for one of the weights below."
    )
    deciding, finished = confirming(plan, parts)
    if not deciding:
        return f"{rule} No confirming stage is finished yet.\n"
    labels = [
        label
        for label in deciding[0].runs
        if label != BASELINE and all(label in part.runs and not part.unfinished(label) for part in deciding)
    ]

    def those(test: Callable[[Sequence[Results], str], list[str]]) -> dict[str, str]:
        return {label: ", ".join(found) for label in labels if (found := test(deciding, label))}

    first, second = those(above_clip_higher), those(above_all_free)
    both = _listed({label: first[label] for label in first if label in second})
    return (
        f"{rule} On {' and '.join(part.title for part in deciding)}, above clip-higher: {_listed(first)}; above the "
        f"best free baseline: {_listed(second)}. "
        + (f"**Recommended: {both}.**\n" if finished else f"Other stages are to come; **left to confirm: {both}.**\n")
    )


def _listed(found: dict[str, str]) -> str:
    return "; ".join(f"{label} ({where})" for label, where in found.items()) or "none"
