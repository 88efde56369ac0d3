"""Cautions beside the advice: the untrained policy, CPU time, more problems, levels of the problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from diver.core.statistics import Estimate
from diver.core.tables import markdown
from diver_paper.runs import Record, Runs
from method_comparison.results import UNTRAINED
from verified_replay.problems import TRAINED, TURN
from verified_replay.results import HELD_OUT, KS, QUESTIONS, TITLES, Finished, best, gap, mean, points, times
from verified_replay.study import BASELINE, MORE_ROLLOUTS, REPLAY

SHORT = "pass-at-k"
"""The setting whose training takes the least CPU time."""


class Pair(NamedTuple):
    """Two settings whose trainings take different CPU time."""

    testbed: str
    more: str
    less: str
    runs: tuple[Runs, Runs]
    level: float = 0.95

    @property
    def gaps(self) -> dict[int, Estimate]:
        return {k: gap(*self.runs, HELD_OUT, k, self.level) for k in KS}


def cautions(found: Finished, compared: Mapping[str, Mapping[str, Runs]]) -> list[str]:
    """The section. `compared` has the settings of each testbed at the seeds that all of them have."""
    untrained = {t: records for t, runs in compared.items() if (records := found.untrained(t, runs[BASELINE]))}
    gaps_above = {
        t: {k: gap(compared[t][best(compared[t], k)], records, HELD_OUT, k) for k in KS}
        for t, records in untrained.items()
    }
    pairs = list(_pairs(found, compared))
    lines = [
        *(f"{TITLES[t]}: {_where(gaps)}." for t, gaps in gaps_above.items()),
        *_more_problems(found),
        *(line for t, runs in untrained.items() for line in _levels(TITLES[t], next(iter(runs.values())))),
    ]
    columns: dict[str, list[str]] = {"samples k": [str(k) for k in KS]}
    for testbed, gaps in gaps_above.items():
        levels = [f"{100 * mean(untrained[testbed], HELD_OUT, k):.1f}" for k in KS]
        columns[f"{TITLES[testbed]}: {UNTRAINED}"] = levels
        columns[f"{TITLES[testbed]}: best setting minus {UNTRAINED}"] = [points(g) for g in gaps.values()]
    table = markdown([*columns], [list(row) for row in zip(*columns.values(), strict=True)])
    rows = [
        [f"{TITLES[p.testbed]}: {p.more} minus {p.less}", times(*p.runs), *map(points, p.gaps.values())] for p in pairs
    ]
    return [
        "## Before you turn it on\n",
        "Added after the runs, and descriptive: held-out problems, temperature 0.6, intervals of 95 %. *Above* and "
        "*below* are significant differences.\n",
        "\n".join(f"- {line}" for line in lines) + "\n",
        *([table] if gaps_above else []),
        "CPU time of the first setting over that of the second, and their difference. All runs have the same number of "
        f"steps, and more steps may raise or lower Pass@k. Differences from {MORE_ROLLOUTS} have the intervals of the "
        f"protocol,\n{100 * QUESTIONS:.1f} %.\n",
        markdown(["", "CPU time", *(f"Pass@{k}" for k in KS)], rows),
    ]


def _pairs(found: Finished, compared: Mapping[str, Mapping[str, Runs]]) -> Iterator[Pair]:
    for testbed, runs in compared.items():
        for label in (REPLAY, "max-rl, replay"):
            if {label, SHORT} <= runs.keys():
                yield Pair(testbed, label, SHORT, (runs[label], runs[SHORT]))
        if (rollouts := found.runs(testbed, MORE_ROLLOUTS, "controls")) and REPLAY in runs:
            yield Pair(testbed, REPLAY, f"{BASELINE} with {MORE_ROLLOUTS}", (runs[REPLAY], rollouts), QUESTIONS)


def _where(gaps: Mapping[int, Estimate]) -> str:
    """At which k the best setting is significantly above or below the untrained policy."""
    sides = {
        "above": [k for k, estimate in gaps.items() if estimate.low > 0],
        "below": [k for k, estimate in gaps.items() if estimate.high < 0],
    }
    parts: list[str] = []
    for side, ks in sides.items():
        if ks:
            at = "every k" if len(ks) == len(gaps) else "k = " + ", ".join(map(str, ks))
            parts.append(f"{side} {'it' if parts else f'the {UNTRAINED} policy'} at {at}")
    if parts:
        return f"the best setting is {' and '.join(parts)}"
    return f"no difference between the best setting and the {UNTRAINED} policy is significant"


def _more_problems(found: Finished) -> list[str]:
    """The gain of replay in mazes with many training problems."""
    more, less = (found.runs("maze", label, "large") for label in (REPLAY, BASELINE))
    if not (more.keys() & less.keys()):
        return []
    (first, end), (large_first, large_end) = TRAINED["maze"], TRAINED["large"]
    few, many = (end - first) // len(TURN), large_end - large_first
    train = next(iter(more.values()))["recipe"]["train"]
    seen = train["steps"] * train["batch_size"] // few
    return [
        f"Mazes: with {many:,} training problems, {REPLAY} minus {BASELINE} is {points(gap(more, less, HELD_OUT, 64))} "
        f"points at Pass@64. The other runs have {few}, each of which a run sees about {seen} times."
    ]


def _levels(title: str, record: Record) -> list[str]:
    """The mix of levels of the held-out and of the training problems."""
    if not (levels := record.get("levels")):
        return []
    shares = {
        name: ", ".join(
            f"{level.partition('/')[2]} {100 * n / sum(counts.values()):.0f} %" for level, n in sorted(counts.items())
        )
        for name, counts in levels.items()
    }
    return [f"{title}, levels of the held-out problems: {shares['held-out']}. Training problems: {shares['trained']}."]
