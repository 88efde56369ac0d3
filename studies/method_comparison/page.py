"""docs/results/method-comparison.md: the verdict, a picture, and for each part the levels, the differences from
clip-higher, and the comparison with the free baselines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from diver.core.files import write_text
from diver.core.statistics import Estimate
from diver.core.tables import counted, markdown
from method_comparison.deeper import gained_and_lost, gained_by_chance, large, large_difference
from method_comparison.figure import draw
from method_comparison.plan import BASELINE, Plan
from method_comparison.rates import choice_visits
from method_comparison.results import (
    UNTRAINED,
    WEIGHTS,
    Results,
    above_front,
    gap,
    late_gain,
    level,
    smallest_difference,
)
from method_comparison.summary import KS, PAPERS, excludes_0, summary
from method_comparison.tails import mark, tail_section, tails

NAME = "methods"  # name of the command and of the figure
PAGE = "method-comparison.md"
NONE = "–"
OTHER = "final 1"
SLOWER = "clip-higher, half the rate"
"""On Countdown the strongest free baseline at Pass@1; a part without it is not compared with the free baselines."""


def write_page(plan: Plan, results: Sequence[Results], out: Path) -> Path:
    """Write the page and its picture for the parts that have runs; returns the page's path."""
    main_parts = [result for result in results if result.runs and not result.part.appendix]
    appendices = [result for result in results if result.part.appendix and _others(result)]
    draw(main_parts, out / f"{NAME}.png")
    parts = [text for result in (*main_parts, *appendices) for text in _part(result)]
    write_text(out / PAGE, "\n".join(filter(None, [*_head(plan, main_parts), *parts])))
    return out / PAGE


def _head(plan: Plan, known: Sequence[Results]) -> list[str]:
    drawn = [temperature for temperature in plan.evaluation.temperatures if temperature > 0]
    at_checkpoints = " and ".join(f"{t:g}" for t in plan.evaluation.checkpoint_temperatures)
    marked = (
        "†: the responses continued after their answers, so the numbers are those of the method together with "
        "[this loophole](README.md#text-after-the-answer).\n"
    )
    return [
        "# Exploration methods side by side\n",
        summary(plan, known),
        f"![Pass@1 against Pass@64]({NAME}.png)\n",
        f"Each curve is a method over the temperature at test time, from {max(drawn):g} (left) to {min(drawn):g} "
        "(right); bars are 95 % intervals over seeds and problems. Grey points are the *free baselines*, which need no "
        "new method: the untrained policy, clip-higher, and clip-higher at other learning rates and with a KL term. "
        f"Their earlier checkpoints, at temperatures {at_checkpoints}, belong to them.\n",
        "## How to read the tables\n",
        f"`diver reproduce {NAME}` makes this page. [study.toml](../../studies/method_comparison/study.toml) has the "
        "regimes, the variants and the stages. Methods are in the common frame ([methods.md](../methods.md)) unless "
        "they are labelled *as published*. The learning rate of each is the best of "
        f"{', '.join(f'{rate:g}' for rate in plan.rates)} by shorter runs on other problems. It is that of {BASELINE} "
        "where the best is not better by more than a standard error.\n",
        "Pass@k is at temperature 0.6, the paper's. Its difference from clip-higher, in points, has an interval of 95 "
        "% over seeds and problems. **Bold**: all seeds are finished and the interval excludes 0. One in twenty "
        "comparisons does so by chance. A result on the problems and seeds on which a method was selected is a "
        "hypothesis; the confirming stages test it on other problems. All seeds of a testbed train on the same "
        "problems, so no interval covers another training set.\n",
        marked if any(map(tails, known)) else "",
        "*Against the free baselines*: w Pass@1 + (1 - w) Pass@64 of a method at its best temperature, minus that of "
        "the best free baseline, in points. Both are selected on one half of the problems and compared on the other, "
        "and the reverse. The best of many baselines is selected on the seeds on which it is compared, which is to "
        "the disadvantage of the methods.\n",
        f"*With more samples*: {plan.evaluation.large_samples:,} samples of {plan.evaluation.large_problems} held-out "
        "problems at temperature 1. *Gained* are problems that are solved and that the untrained policy does not solve "
        "in as many samples; *lost* is the reverse; means over seeds. The policies are those of more than one stage.\n",
        "Left out: Pass@4 and Pass@16, temperature 1 of the first stage, the best temperature, the choice of rates, "
        "solutions kept, differences by difficulty, training metrics. "
        f"`git show ff645ce4:docs/results/{PAGE}` prints their tables, and `records/{NAME}.jsonl.gz` has their "
        "counts.\n",
    ]


def _part(results: Results) -> list[str]:
    note = results.plan.testbeds[results.part.testbed].note
    front, changes, deep = front_table(results), ablation_table(results), _deeper(results)
    return [
        f"## {'Appendix: ' * results.part.appendix}{results.title}\n",
        f"{note}\n" if note else "",
        " ".join(filter(None, [_runs(results), rates_note(results)])) + "\n",
        " ".join(filter(None, [_smallest(results), _late_gain(results)])) + "\n",
        *tail_section(results),
        levels_table(results),
        *(["### Against the free baselines\n", front] if front else []),
        *(["### One change at a time\n", changes] if changes else []),
        *(["### With more samples\n", deep] if deep else []),
    ]


def _points(estimate: Estimate, sign: str = "") -> str:
    return NONE if np.isnan(estimate.mean) else estimate.text(100, sign=sign)


def _mean(estimate: Estimate, sign: str = "") -> str:
    return NONE if np.isnan(estimate.mean) else f"{100 * estimate.mean:{sign}.1f}"


def _named(results: Results, label: str) -> str:
    return label + mark(results, label) + results.unfinished(label)


def _others(results: Results) -> list[str]:
    return [label for label in results.runs if label != BASELINE]


def _runs(results: Results) -> str:
    """The number of runs of the part with their hours, and the number of runs that chose its learning rates."""
    records = [record for runs in results.runs.values() for record in runs.values()]
    hours = sum(sum(value or 0 for value in record["cpu_seconds"].values()) for record in records) / 3600
    resumed = sum(record["cpu_seconds"]["train"] is None for record in records)
    without = f", {resumed} of them resumed and counted without their training" if resumed else ""
    choosing = {record["name"] for by_rate in results.tried.values() for record in by_rate.values()}
    total = f"{counted(len(records), 'run')}, {hours:.1f} core-hours{without}"
    return f"{total}; {len(choosing)} others chose the learning rates."


def rates_note(results: Results) -> str:
    """The rates beyond which none was tried, and how often a choosing run has seen its problems."""
    tuned = [x for x, records in results.tried.items() if records and not results.plan.variants[x].rate_of]
    ends = {"lowest": min(results.plan.rates), "highest": max(results.plan.rates)}
    labels = {end: ", ".join(x for x in tuned if results.rates[x] == rate) for end, rate in ends.items()}
    notes = [
        f"The {end} rate was taken for {names}; none beyond it was tried." for end, names in labels.items() if names
    ]
    if (visits := choice_visits(results.plan, results.part.testbed)) > 1:
        notes.append(
            f"A run that chooses a rate trains on each of its problems about {visits:.0f} times, so its outcome is not "
            "one on new problems."
        )
    return " ".join(notes)


def _smallest(results: Results) -> str:
    values = {k: 100 * smallest_difference(results, PAPERS, k) for k in KS if _others(results)}
    if not values or any(map(np.isnan, values.values())):
        return ""
    return (
        "With intervals as wide as those here, a power of 80 % needs a true difference from clip-higher of "
        f"{' and '.join(f'{value:.1f} points at Pass@{k}' for k, value in values.items())}."
    )


def _late_gain(results: Results) -> str:
    gain = late_gain(results, PAPERS.split()[1])
    if np.isnan(gain.mean):
        return ""
    return f"In the last quarter of the steps clip-higher's Pass@1 changes by {_points(gain, '+')} points."


def levels_table(results: Results) -> str:
    """Each policy: its learning rate, Pass@k, and the differences from clip-higher.

    If a stage confirms, the differences are at both temperatures at which a setting may be recommended.
    """
    confirms = any(s.confirms and (s.testbed, s.seeds) == results.part[:2] for s in results.plan.stages.values())
    compared = [(name, k) for name in (PAPERS, *[OTHER] * confirms) for k in KS]
    rows = [
        [
            _named(results, label),
            f"{results.rates[label] * results.plan.variants[label].rate_factor:g}" if label in results.rates else NONE,
            *(_mean(level(results.of(label), PAPERS, k)) for k in KS),
            *(_difference(results, label, *pair) for pair in compared),
        ]
        for label in results.policies
    ]
    gaps = [f"{'' if name == PAPERS else 'temperature 1: '}difference @{k}" for name, k in compared]
    return markdown(["per cent", "rate", *(f"Pass@{k}" for k in KS), *gaps], rows)


def _difference(results: Results, label: str, name: str, k: int) -> str:
    if label == BASELINE:
        return NONE
    estimate = gap(results, label, name, k)
    bold = "**" * (excludes_0(estimate) and not results.unfinished(label))
    return f"{bold}{_points(estimate, '+')}{bold}"


def front_table(results: Results) -> str:
    """Each method against the best free baseline, for each weight; empty without a method."""
    if SLOWER not in results.runs:
        return f"*{SLOWER}* was not run here, so methods are not compared with the free baselines.\n"
    rows = []
    for label in [x for x in results.runs if x not in results.free]:
        fronts = [above_front(results, label, weight) for weight in WEIGHTS]
        seeds = results.mark(min((len(f[0].values) for f in fronts if f), default=0))
        gaps = [f[2] for f in fronts if f]
        rows.append(
            [
                label + mark(results, label) + seeds,
                *(_mean(f[2], "+") if f else NONE for f in fronts),
                _points(max(gaps, key=lambda estimate: estimate.mean), "+") if gaps else NONE,
            ]
        )
    best = [above_front(results, BASELINE, weight) for weight in WEIGHTS]
    free = "\n".join(f"- w = {w:g}: {f[1]}" for w, f in zip(WEIGHTS, best, strict=True) if f)
    head = ["", *(f"w = {w:g}" for w in WEIGHTS), "highest, with interval"]
    return f"The best free baseline for each w:\n\n{free}\n\n{markdown(head, rows)}" if rows else ""


def ablation_table(results: Results) -> str:
    """The effect of one change to a method; empty if no such variant has been run together with its base."""
    rows = [
        [_named(results, label), base, *(_points(gap(results, label, PAPERS, k, base), "+") for k in KS)]
        for label, base in results.ablations.items()
        if base in results.runs
    ]
    head = ["points", "minus", *(f"Pass@{k}" for k in KS)]
    note = "The difference from the method without the change; these variants have no curve in the picture.\n"
    return note + "\n" + markdown(head, rows, text=2) if rows else ""


def _deeper(results: Results) -> str:
    """Pass@k of many samples, and the problems gained and lost, of the policies that more than one stage has."""
    k = results.plan.evaluation.large_samples
    if results.untrained is None:
        return ""
    rows = [
        [
            _named(results, label),
            _mean(large(results.of(label), k)),
            NONE if label == BASELINE else _points(large_difference(results, label, k), "+"),
            *(NONE if label == UNTRAINED else f"{x:.1f}" for x in gained_and_lost(results, label)),
        ]
        for label in _in_several_stages(results)
    ]
    note = (
        "By chance alone one half of the untrained policy's samples solves "
        f"{gained_by_chance(results.untrained):.1f} problems that the other does not.\n"
    )
    return note + "\n" + markdown(["", f"Pass@{k:,}", f"minus {BASELINE}", "gained", "lost"], rows)


def _in_several_stages(results: Results) -> Iterable[str]:
    """The untrained policy, and the variants that more than one stage has."""
    stages = results.plan.stages.values()
    return [x for x in results.policies if x == UNTRAINED or sum(x in stage.variants for stage in stages) > 1]
