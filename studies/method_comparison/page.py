"""docs/results/method-comparison.md: one picture and the summary; for each part levels, differences,
the free baselines, and more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from diver.core.files import write_text
from diver.core.statistics import Estimate
from diver.core.tables import markdown
from method_comparison.deeper import by_difficulty, gained_and_lost, gained_by_chance, kept, large, large_difference
from method_comparison.figure import draw, draw_solutions, with_first_seed
from method_comparison.plan import BASELINE, Plan
from method_comparison.results import (
    UNTRAINED,
    WEIGHTS,
    Results,
    above_front,
    at_best_temperature,
    gap,
    late_gain,
    level,
    smallest_difference,
)
from method_comparison.summary import summary
from method_comparison.tails import mark, tail_section
from method_comparison.training import rates_table, training_table

NAME = "methods"  # of the command, and of the figures
PAGE = "method-comparison.md"
KS = (1, 4, 16, 64)
AT = ("final 1", "final 0.6")
NONE = "–"
SLOWER = "clip-higher, half the rate"
"""On Countdown the strongest free baseline at Pass@1; a part without it is not compared with the free baselines."""


def write_page(plan: Plan, results: Sequence[Results], out: Path) -> Path:
    """The page and its pictures, of the parts that have runs; returns the page's path."""
    known = [found for found in results if found.runs and not found.part.appendix]
    appendices = [found for found in results if found.part.appendix and _others(found)]
    draw(known, out / f"{NAME}.png")
    for found in known:
        if with_first_seed(found):
            draw_solutions(found, out / _solutions_name(found))
    drawn = [temperature for temperature in plan.evaluation.temperatures if temperature > 0]
    head = [
        "# Exploration methods side by side\n",
        f"![Pass@1 against Pass@64]({NAME}.png)\n",
        f"Each curve is a method over the temperature at test time, from {max(drawn):g} (left) to {min(drawn):g} "
        "(right). Greedy sampling gives one response, so it has no Pass@64. Bars are 95 % intervals over seeds and "
        "problems. Grey points are the *free baselines*, which need no new method. These are the untrained policy, "
        "clip-higher, and, where they were run, clip-higher at half and at twice its learning rate and with a KL term. "
        "Their earlier checkpoints are evaluated at temperatures "
        f"{' and '.join(f'{t:g}' for t in plan.evaluation.checkpoint_temperatures)}.\n",
        f"Made by `diver reproduce {NAME}`; [study.toml](../../studies/method_comparison/study.toml) has the regimes, "
        "the variants and the stages. Methods are in the common frame ([methods.md](../methods.md)) unless they are "
        "labelled *as published*; the learning rate of each was chosen from "
        f"{', '.join(f'{rate:g}' for rate in plan.rates)} by shorter runs on other problems. All seeds of a testbed "
        "train on the same problems: an interval covers other seeds and other held-out problems, not another "
        "training set. *(1 of 3 seeds)* marks a variant with unfinished runs. An interval of one seed is over "
        "problems alone, so it is narrower than one of several seeds. An interval of two seeds covers the true value "
        "in about nine cases of ten instead of 95 %.\n",
        summary(plan, known),
    ]
    write_text(out / PAGE, "\n".join(head + _parts(known, appendices)))
    return out / PAGE


def _parts(known: Sequence[Results], appendices: Sequence[Results]) -> list[str]:
    return [text for found in known for text in _part(found)] + [
        text for found in appendices for text in _appendix(found)
    ]


def _appendix(results: Results) -> list[str]:
    rows = [
        [label, *(_points(level(runs, name, k)) for name in AT for k in (1, 64))]
        for label, runs in results.runs.items()
    ]
    one = max(len(runs) for runs in results.runs.values()) == 1
    note = (
        f"{'One run of each; the intervals are over problems alone, so that n' if one else 'N'}o sentence rests on "
        "them.\n"
    )
    head = ["per cent", *(f"Pass@{k} at {name.split()[1]}" for name in AT for k in (1, 64))]
    return [
        f"## Appendix: {results.title}\n",
        note,
        *tail_section(results),
        markdown(head, rows),
        training_table(results),
        rates_table(results),
    ]


def _part(results: Results) -> list[str]:
    note = results.plan.testbeds[results.part.testbed].note
    parts = [f"## {results.title}\n", *([f"{note}\n"] if note else []), _smallest(results), _start(results)]
    parts += tail_section(results)
    for name in AT:
        temperature = name.split()[1]
        parts += [f"### Sampled at temperature {temperature}\n", _levels(results, name)]
        parts += [_differences(results, name, other) for other in (BASELINE, SLOWER) if other in results.runs]
    parts += [
        "### At the best temperature\n",
        _at_best(results),
        "### Against the free baselines\n",
        front_table(results),
    ]
    if changes := ablation_table(results):
        parts += ["### One change at a time\n", changes]
    return [
        *parts,
        "### Deeper than means\n",
        _deeper(results),
        _by_difficulty(results),
        _solutions(results),
        "### The training\n",
        training_table(results),
        rates_table(results),
    ]


def _points(estimate: Estimate, sign: str = "") -> str:
    return NONE if np.isnan(estimate.mean) else estimate.text(100, sign=sign)


def _named(results: Results, label: str) -> str:
    return label + mark(results, label) + results.unfinished(label)


def _others(results: Results) -> list[str]:
    return [label for label in results.runs if label != BASELINE]


def _smallest(results: Results) -> str:
    if not _others(results):
        return ""
    values = {k: 100 * smallest_difference(results, AT[0], k) for k in KS}
    if any(map(np.isnan, values.values())):
        return ""
    return (
        "These numbers of problems, samples and seeds detect the following true differences from clip-higher with a "
        "power of 80 % (in points at temperature 1, the median over the variants): "
        f"{', '.join(f'Pass@{k} {value:.1f}' for k, value in values.items())}. This assumes intervals as wide as those "
        "here; the power is lower with few seeds.\n"
    )


def _start(results: Results) -> str:
    if results.untrained is None:
        return ""
    runs = {0: results.untrained}
    values = [f"- Pass@{k:,} {_points(large(runs, 'pass', k))}" for k in (1, 16, 256, 1024) if k <= _samples(results)]
    gains = [f"- at temperature {t} {_points(late_gain(results, t), '+')}" for t in (name.split()[1] for name in AT)]
    return (
        f"Before training, at temperature 1, on {results.plan.evaluation.large_problems} problems:\n\n"
        + "\n".join(values)
        + f"\n\nIn the last quarter of the steps the Pass@1 of {BASELINE} changes by so many points:\n\n"
        + "\n".join(gains)
        + "\n"
    )


def _samples(results: Results) -> int:
    return results.plan.evaluation.large_samples


def _levels(results: Results, name: str) -> str:
    rows = [[_named(results, x), *(_points(level(results.of(x), name, k)) for k in KS)] for x in results.policies]
    return markdown(["per cent", *(f"Pass@{k}" for k in KS)], rows)


def _differences(results: Results, name: str, other: str) -> str:
    rows = [
        [_named(results, label), *(_points(gap(results, label, name, k, other), "+") for k in KS)]
        for label in results.policies
        if label not in (BASELINE, other)
    ]
    return markdown([f"minus {other}, points", *(f"Pass@{k}" for k in KS)], rows) if rows else ""


def _at_best(results: Results) -> str:
    rows = []
    for label in results.policies:
        cells = []
        for k in KS:
            temperature, reported, more = at_best_temperature(results, label, k)
            beside = f"; {_points(more, '+')}" if label != BASELINE else ""
            cells.append(f"{_points(reported)} at {temperature}{beside}" if temperature else NONE)
        rows.append([_named(results, label), *cells])
    note = (
        "Cross-fitted: each half of the problems is evaluated at the temperature that is best on the other half (two "
        "temperatures where these differ). After the semicolon, "
        "the difference from clip-higher at its own best temperature.\n"
    )
    return note + "\n" + markdown(["per cent", *(f"Pass@{k}" for k in KS)], rows)


def front_table(results: Results) -> str:
    if SLOWER not in results.runs:
        return f"*{SLOWER}* was not run here, so methods are not compared with the free baselines.\n"
    rows = []
    for label in [x for x in results.runs if x not in results.free]:
        found = [above_front(results, label, weight) for weight in WEIGHTS]
        seeds = results.mark(min((len(f[0].values) for f in found if f), default=0))
        rows.append(
            [
                label + mark(results, label) + seeds,
                *(f"{_points(f[2], '+')} ({f[0].temperatures})" if f else NONE for f in found),
            ]
        )
    best = [above_front(results, BASELINE, weight) for weight in WEIGHTS]
    free = "\n".join(f"- w = {w:g}: {f[1]}" for w, f in zip(WEIGHTS, best, strict=True) if f)
    note = (
        "w Pass@1 + (1 - w) Pass@64 of each method at its best temperature (in brackets), minus that of the best free "
        "baseline, in points. Both are selected on one half of the problems and compared on the other, and the "
        "reverse. A method is above the free baselines if the interval is above 0. Only seeds count that the "
        "method and all free baselines have. The best of many baselines is selected on the seeds on which it is "
        f"compared, which is to the disadvantage of the methods. The best free baseline for each w:\n\n{free}\n"
    )
    return note + "\n" + markdown(["", *(f"w = {w:g}" for w in WEIGHTS)], rows)


def ablation_table(results: Results) -> str:
    """What one change of a method makes; empty where no such variant has been run, or not the one that it changes."""
    rows = []
    for label, of in results.ablations.items():
        if of in results.runs:
            gaps = [gap(results, label, name, k, of) for name in AT for k in (KS[0], KS[-1])]
            rows.append([_named(results, label), of, *(_points(found, "+") for found in gaps)])
    head = ["", "minus", *(f"Pass@{k} at {name.split()[1]}" for name in AT for k in (KS[0], KS[-1]))]
    note = (
        "The difference from the method without the change, in points; these variants have no curve in the picture.\n"
    )
    return note + "\n" + markdown(head, rows) if rows else ""


def _deeper(results: Results) -> str:
    ks = [k for k in (256, 1024) if k <= _samples(results)]
    rows = []
    for label in results.policies:
        runs = results.of(label)
        first, last = kept(runs)
        own = label == UNTRAINED
        rows.append(
            [_named(results, label), *(_points(large(runs, "pass", k)) for k in ks),
             *(NONE if label == BASELINE else _points(large_difference(results, label, k), "+") for k in ks[-1:]),
             *(large(runs, "distinct", k).text(1) for k in ks),
             *(NONE if own else found.text(results.plan.evaluation.large_problems)
               for found in gained_and_lost(results, label)),
             NONE if np.isnan(first) else f"{last:.0f} of {first:.0f}"]
        )  # fmt: skip
    count = results.plan.evaluation.large_problems
    by_chance = ""
    if results.untrained is not None:
        by_chance = (
            f" By chance alone some are gained and lost: one half of the untrained policy's samples solves "
            f"{gained_by_chance(results.untrained):.1f} problems that the other does not."
        )
    note = (
        f"On {count} held-out problems at temperature 1: Pass@k; distinct correct solutions among k samples; *gained*, "
        "the problems solved that the untrained policy did not solve in as many samples; *lost*, the reverse; *kept*, "
        "how many of the solutions sampled at the first checkpoint are sampled again at the last (means over seeds, "
        f"{results.plan.evaluation.samples} samples of {results.plan.evaluation.checkpoint_problems} "
        f"problems).{by_chance}\n"
    )
    head = ["", *(f"Pass@{k:,}" for k in ks), *(f"@{k:,} minus {BASELINE}" for k in ks[-1:]),
            *(f"distinct of {k:,}" for k in ks), "gained", "lost", "kept"]  # fmt: skip
    return note + "\n" + markdown(head, rows)


def _by_difficulty(results: Results) -> str:
    if results.untrained is None or not _others(results):
        return ""
    rows = []
    for label in _others(results):
        gaps = [_points(part, "+") for k in (1, 64) for part in by_difficulty(results, label, k)]
        rows.append([_named(results, label), *gaps])
    quarters = ("hardest", "hard", "easy", "easiest")
    note = (
        "The difference from clip-higher by difficulty: points of Pass@1 and of Pass@64 at temperature 1, in quarters "
        "of the problems by how often the untrained policy solves them.\n"
    )
    return note + "\n" + markdown(["", *(f"@{k} {q}" for k in (1, 64) for q in quarters)], rows)


def _solutions(results: Results) -> str:
    if not with_first_seed(results):
        return ""
    return (
        f"![Solutions over training]({_solutions_name(results)})\n\nThe figure shows the correct solutions among "
        f"{results.plan.evaluation.samples} samples of a problem, before training and at each checkpoint of seed "
        f"{results.part.seeds[0]}. Each solution has a colour (grey beyond the last colour); white is wrong. The "
        "methods are those that most stages have. The problems have the most solutions before training, among the "
        f"first {results.plan.evaluation.shown_problems}.\n"
    )


def _solutions_name(results: Results) -> str:
    return f"{NAME}-{results.part.testbed}-solutions-{'-'.join(map(str, results.part.seeds))}.png"
