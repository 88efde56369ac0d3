"""What to turn on: five sentences, a picture, and a setting for each number of samples at test time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from diver.core.figures import COLOURS, GREY, drawing, frame
from diver.core.statistics import Estimate
from diver.core.tables import markdown
from method_comparison.results import Runs
from verified_replay.results import HELD_OUT, KS, TITLES, Finished, gap, mean, points
from verified_replay.study import BASELINE, MORE_ROLLOUTS, REPLAY, TESTBEDS

DECISION, QUESTIONS = 1 - 0.05 / 12, 1 - 0.05 / 10
"""The levels of the protocol: six settings on two testbeds; five differences at two values of k."""
SEEDS = 3  # the fewest by which a setting is judged
DRAWN = (1, 2, 4, 8, 16, 32, 64)
ON_DIVER = "diver-mix, replay"


class Question(NamedTuple):
    """A difference between two settings that the protocol asks for."""

    text: str
    more: Runs
    less: Runs
    level: float = QUESTIONS
    is_sentence: bool = True
    """Whether a sentence states it, beside the table."""

    def at(self, k: int) -> Estimate:
        return gap(self.more, self.less, HELD_OUT, k, self.level)


def answer(found: Finished, picture: Path) -> list[str]:
    """The sections of the answer, and the picture beside them; empty before the first final runs."""
    decision, sentence = _decision(found)
    if not decision:
        return []
    _draw(found, picture)
    asked = [q for q in _questions(found) if q.more.keys() & q.less.keys()]
    sentences = [sentence, *(_sentence(q) for q in asked if q.is_sentence)]
    parts = ["## What to turn on\n", "\n".join(f"- {s}" for s in sentences) + "\n"]
    parts += [f"![Pass@k minus that of tuned clip-higher]({picture.name})\n"]
    parts += ["*Held-out problems, temperature 0.6, in points; bars are intervals of 95 % over seeds and problems.*\n"]
    parts += _by_samples(found)
    parts += ["### By the rule set beforehand\n"]
    parts += [
        f"Difference from tuned clip-higher, held-out problems, temperature 0.6, in points; "
        f"intervals of {100 * DECISION:.1f} %.\n"
    ]
    parts += [markdown(["", *(f"{TITLES[t]}, Pass@{k}" for t in TESTBEDS for k in (1, 64))], decision)]
    if asked:
        parts += ["## What each part adds\n"]
        parts += [f"Held-out problems, temperature 0.6, in points; intervals of {100 * QUESTIONS:.1f} %.\n"]
        cells = [[q.text, *(points(q.at(k)) for k in (1, 64))] for q in asked]
        parts += [markdown(["", "Pass@1", "Pass@64"], cells)]
    return parts


def _decision(found: Finished) -> tuple[list[list[str]], str]:
    """Rows of differences from the tuned baseline at Pass@1 and Pass@64, and which settings are above it."""
    table, above = [], {}
    for label in found.labels:
        if label == BASELINE:
            continue
        cells = [label]
        for testbed in TESTBEDS:
            gaps = [found.over_baseline(testbed, label, k, DECISION) for k in (1, 64)]
            cells += map(points, gaps)
            runs, base = found.runs(testbed, label), found.runs(testbed, BASELINE)
            decided = runs.keys() == base.keys() and len(runs) >= SEEDS
            above[label, testbed] = all(g.low > 0 for g in gaps) if decided else None
        if any(found.runs(t, label) for t in TESTBEDS):
            table.append(cells)
    if None in above.values():
        return table, "Not decided yet: a setting and the baseline need the same three or more seeds on both testbeds."
    if both := [label for label in found.labels if all(above.get((label, t)) for t in TESTBEDS)]:
        return table, f"Above tuned clip-higher at Pass@1 and at Pass@64 on both testbeds: {', '.join(both)}."
    one = [f"{label} ({TITLES[t]})" for (label, t), is_above in above.items() if is_above]
    only = f" On one testbed: {', '.join(one)}." if one else ""
    return table, f"No setting is above tuned clip-higher at Pass@1 and at Pass@64 on both testbeds.{only}"


def _questions(found: Finished) -> list[Question]:
    replay = found.runs("maze", REPLAY)

    def control(label: str) -> Runs:
        return found.runs("maze", label, "controls")

    return [
        Question("replay at equal gradient tokens, mazes", replay, control(MORE_ROLLOUTS)),
        Question("uniform weights over weights by frequency, mazes", replay, control("by frequency")),
        Question(
            "one response per solution over the latest responses, mazes", replay, control("latest"), is_sentence=False
        ),
        *(
            Question(f"DIVER on top of replay, {TITLES[t]}", found.runs(t, ON_DIVER), found.runs(t, REPLAY))
            for t in TESTBEDS
        ),
        Question("several responses per problem over one, mazes (95 %)", replay, control("one response"), 0.95, False),
    ]


def _sentence(question: Question) -> str:
    """What a part adds at Pass@64; the table beside it has Pass@1."""
    estimate = question.at(64)
    text = question.text[0].upper() + question.text[1:]
    if estimate.low > 0 or estimate.high < 0:
        return f"{text}: {points(estimate)} points of Pass@64."
    return f"{text}: no significant difference at Pass@64, {points(estimate)} points."


def _by_samples(found: Finished) -> list[str]:
    """For each number of samples at test time the setting with the highest mean, and what it gains."""
    table = []
    for k in KS:
        cells = [str(k)]
        for testbed in TESTBEDS:
            levels = {label: mean(found.runs(testbed, label), HELD_OUT, k) for label in found.labels}
            levels = {label: level for label, level in levels.items() if not np.isnan(level)}
            if len(found.runs(testbed, BASELINE)) < SEEDS or len(levels) < len(found.labels):
                cells += ["–", "–"]
                continue
            best = max(levels, key=lambda label: levels[label])
            cells += [best, "–" if best == BASELINE else points(found.over_baseline(testbed, best, k))]
        table.append(cells)
    header = ["samples k", *(f"{TITLES[t]}: {column}" for t in TESTBEDS for column in ("turn on", "gain"))]
    return [
        "### You sample k responses at test time\n",
        "The setting with the highest mean Pass@k on held-out problems at temperature 0.6, and its difference from "
        "tuned clip-higher in\npoints, with an interval of 95 %. The best of seven settings is chosen and judged on "
        "the same problems: expect a\nsmaller gain on new ones. A testbed without three seeds of every setting has "
        "none.\n",
        markdown(header, table),
    ]


def _draw(found: Finished, path: Path) -> None:
    """A panel a testbed: Pass@k of each setting minus that of tuned clip-higher, over k."""
    labels = [label for label in found.labels if label != BASELINE]
    with drawing(path, size=(9.6, 4.2)) as figure:
        for axes, testbed in zip(figure.subplots(1, len(TESTBEDS)), TESTBEDS, strict=True):
            frame(axes, TITLES[testbed], "samples k")
            axes.axhline(0, color=GREY, linewidth=0.8, label="tuned clip-higher")
            for place, label in enumerate(labels):
                if found.runs(testbed, label):
                    gaps = [found.over_baseline(testbed, label, k) for k in DRAWN]
                    _curve(axes, place - len(labels) / 2, gaps, COLOURS[place % len(COLOURS)], label)
            axes.set_xticks(range(len(DRAWN)), [str(k) for k in DRAWN])
        figure.axes[0].set_ylabel("Pass@k minus clip-higher's, points", color=GREY)
        handles = {t: h for axes in figure.axes for h, t in zip(*axes.get_legend_handles_labels(), strict=True)}
        if handles:
            figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=7, frameon=False)


def _curve(axes: object, shift: float, gaps: Sequence[Estimate], colour: str, label: str) -> None:
    """A line with a bar for each interval; `shift` keeps the bars of settings apart."""
    x = np.arange(len(gaps)) + 0.06 * shift
    centre, low, high = (100 * np.array([getattr(g, end) for g in gaps]) for end in ("mean", "low", "high"))
    axes.errorbar(  # type: ignore[attr-defined]
        x, centre, yerr=[centre - low, high - centre], color=colour, linewidth=1.2, elinewidth=0.7, marker="o",
        markersize=3, label=label,
    )  # fmt: skip
