"""The head of the page: which setting is recommended, and which gain most on the stages that confirm."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from diver.core.statistics import Estimate
from method_comparison.plan import BASELINE, Plan
from method_comparison.results import UNTRAINED, WEIGHTS, Part, Results, above_front, gap

TEMPERATURES = ("1", "0.6")
"""Temperatures of the training and of the paper's evaluation: a setting is recommended for one of them."""
PAPERS = "final 0.6"
KS = (1, 64)
RULE = (
    "The rule of study.toml was fixed before any confirming run. A setting is recommended if it meets two criteria on "
    "every confirming stage, with intervals that exclude 0. It is above clip-higher at both Pass@1 and Pass@64, at "
    "temperature 1 or at 0.6. It is also above the best free baseline for one of the weights w below."
)


def summary(plan: Plan, parts: Sequence[Results]) -> str:
    """Five sentences for the head of the page, and the rule behind them; `parts` have runs."""
    deciding, finished = confirming(plan, parts)
    if not deciding:
        return f"No confirming stage is finished yet.\n\n{RULE}\n"
    labels = [
        label
        for label in deciding[0].runs
        if label != BASELINE and all(label in part.runs and not part.unfinished(label) for part in deciding)
    ]

    def those(test: Callable[[Sequence[Results], str], list[str]]) -> dict[str, str]:
        return {label: ", ".join(criteria) for label in labels if (criteria := test(deciding, label))}

    above, above_free = those(above_clip_higher), those(above_all_free)
    both = _listed({label: above[label] for label in above if label in above_free})
    verdict = f"**Recommended: {both}.**" if finished else f"Other stages are to come; **left to confirm: {both}.**"
    lines = [verdict, *(sentence for part in deciding for sentence in _sentences(part))]
    return (
        "\n".join(f"- {line}" for line in lines)
        + f"\n\n{RULE} On {' and '.join(part.title for part in deciding)}, above clip-higher: {_listed(above)}; above "
        f"the best free baseline: {_listed(above_free)}.\n"
    )


def _sentences(part: Results) -> list[str]:
    """The method and the free baseline that gain most at Pass@64 over clip-higher, and their effect on Pass@1."""
    free = [label for label in part.policies if label in (UNTRAINED, *part.free) and label != BASELINE]
    methods = [label for label in part.runs if label not in part.free and label not in part.ablations]
    sentences = []
    for noun, labels in (("method", methods), ("free baseline", free)):
        if labels:
            label = max(labels, key=lambda x: gap(part, x, PAPERS, KS[-1]).mean)
            name = f"the {UNTRAINED} policy" if label == UNTRAINED else label
            at_1, at_64 = (gap(part, label, PAPERS, k) for k in KS)
            change = "does not change significantly" if not excludes_0(at_1) else "rises" if at_1.low > 0 else "falls"
            sentences.append(
                f"{part.title}: the best {noun} at Pass@64 is {name}, {at_64.text(100, sign='+')} points from "
                f"clip-higher, and its Pass@1 {change}."
            )
    return sentences


def excludes_0(estimate: Estimate) -> bool:
    return estimate.low > 0 or estimate.high < 0


def confirming(plan: Plan, parts: Sequence[Results]) -> tuple[list[Results], bool]:
    """The finished parts of the stages that confirm, and whether all of them are finished."""
    by_part = {part.part: part for part in parts}
    stages = [stage for stage in plan.stages.values() if stage.confirms]
    finished = []
    for stage in stages:
        part = by_part.get(Part(stage.testbed, stage.seeds))
        if part and all(label in part.runs and not part.unfinished(label) for label in stage.variants):
            finished.append(part)
    return finished, len(finished) == len(stages)


def above_clip_higher(parts: Sequence[Results], label: str) -> list[str]:
    """The temperatures at which a variant is above clip-higher at Pass@1 and at Pass@64 on all parts."""
    return [t for t in TEMPERATURES if all(gap(part, label, f"final {t}", k).low > 0 for part in parts for k in KS)]


def above_all_free(parts: Sequence[Results], label: str) -> list[str]:
    """The weights w of Pass@1 for which a variant is above the best free baseline on all parts."""
    fronts = {w: [above_front(part, label, w) for part in parts] for w in WEIGHTS}
    return [f"w = {w:g}" for w, gains in fronts.items() if all(f is not None and f[2].low > 0 for f in gains)]


def _listed(found: dict[str, str]) -> str:
    return "; ".join(f"{label} ({criteria})" for label, criteria in found.items()) or "none"
