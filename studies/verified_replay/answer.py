"""What to turn on: five sentences, a picture, and a setting for each number of samples at test time."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from diver.core.statistics import Estimate
from diver.core.tables import markdown
from method_comparison.results import Runs
from verified_replay.picture import DRAWN, draw
from verified_replay.results import HELD_OUT, KS, TITLES, Finished, gap, mean, points
from verified_replay.study import BASELINE, MORE_ROLLOUTS, REPLAY, TESTBEDS

DECISION, QUESTIONS = 1 - 0.05 / 12, 1 - 0.05 / 10
"""The levels of the protocol: six settings on two testbeds; five differences at two values of k."""
SEEDS = 3  # the fewest by which a setting is judged
ON_DIVER = "diver-mix, replay"


class Question(NamedTuple):
    """A difference between two settings that the protocol asks for."""

    change: str
    where: str
    more: Runs
    less: Runs
    level: float = QUESTIONS
    is_sentence: bool = True
    """Whether a sentence states it, beside the table."""

    @property
    def seeds(self) -> int:
        return len(self.more.keys() & self.less.keys())

    def at(self, k: int) -> Estimate:
        return gap(self.more, self.less, HELD_OUT, k, self.level)


def answer(found: Finished, picture: Path) -> list[str]:
    """The sections of the answer, and the picture beside them; empty before the first final runs."""
    decision, sentence = _decision(found)
    if not decision:
        return []
    draw(picture, {TITLES[testbed]: _curves(found, testbed) for testbed in TESTBEDS})
    asked = [q for q in _questions(found) if q.seeds]
    sentences = [_sentence(q) for q in asked if q.is_sentence and q.seeds >= SEEDS]
    parts = ["## What to turn on\n", "\n".join(f"- {s}" for s in (sentence, *sentences)) + "\n"]
    if sentences:
        parts += [f"Held-out problems, temperature 0.6; brackets hold intervals of {100 * QUESTIONS:.1f} %.\n"]
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
        cells = [[f"{q.change}, {q.where}", str(q.seeds), *(points(q.at(k)) for k in (1, 64))] for q in asked]
        parts += [markdown(["", "seeds", "Pass@1", "Pass@64"], cells)]
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
    both = [label for label in found.labels if all(above.get((label, t)) for t in TESTBEDS)]
    one = [f"{label} ({TITLES[t]})" for (label, t), is_above in above.items() if is_above and label not in both]
    only = f" On one testbed: {', '.join(one)}." if one else ""
    if both:
        return table, f"Above tuned clip-higher at Pass@1 and at Pass@64 on both testbeds: {', '.join(both)}.{only}"
    return table, f"No setting is above tuned clip-higher at Pass@1 and at Pass@64 on both testbeds.{only}"


def _questions(found: Finished) -> list[Question]:
    replay = found.runs("maze", REPLAY)

    def control(label: str) -> Runs:
        return found.runs("maze", label, "controls")

    tokens, frequency = "replay in place of more rollouts at equal gradient tokens", "weights by frequency"
    latest, one = "one response per solution in place of the latest responses", "several responses per problem"
    return [
        Question(tokens, "in mazes", replay, control(MORE_ROLLOUTS)),
        Question(f"uniform weights in place of {frequency}", "in mazes", replay, control("by frequency")),
        Question(latest, "in mazes", replay, control("latest"), is_sentence=False),
        *(
            Question("DIVER on top of replay", where, found.runs(t, ON_DIVER), found.runs(t, REPLAY))
            for t, where in zip(TESTBEDS, ("on Countdown", "in mazes"), strict=True)
        ),
        Question(f"{one} in place of one", "in mazes (95 %)", replay, control("one response"), 0.95, False),
    ]


def _sentence(question: Question) -> str:
    """What a change does to Pass@64; the table of all questions has Pass@1."""
    estimate = question.at(64)
    what = f"With {question.change}, Pass@64 {question.where}"
    if estimate.low > 0 or estimate.high < 0:
        return f"{what} changes by {points(estimate)} points."
    return f"{what} does not change significantly: {points(estimate)} points."


def _by_samples(found: Finished) -> list[str]:
    """For each number of samples at test time the setting with the highest mean, and what it gains."""
    table = []
    for k in KS:
        cells = [str(k)]
        for testbed in TESTBEDS:
            runs = _of_shared_seeds(found, testbed)
            if len(runs[BASELINE]) < SEEDS:
                cells += ["–", "–"]
                continue
            levels = {label: mean(of, HELD_OUT, k) for label, of in runs.items()}
            best = max(levels, key=lambda label: levels[label])
            cells += [best, "–" if best == BASELINE else points(gap(runs[best], runs[BASELINE], HELD_OUT, k))]
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


def _of_shared_seeds(found: Finished, testbed: str) -> dict[str, Runs]:
    """The final runs of every setting, of the seeds that all settings have: means over other seeds do not compare."""
    runs = {label: found.runs(testbed, label) for label in found.labels}
    seeds = sorted(set.intersection(*map(set, runs.values())))
    return {label: {seed: of[seed] for seed in seeds} for label, of in runs.items()}


def _curves(found: Finished, testbed: str) -> dict[str, list[Estimate]]:
    """Setting -> its differences from the baseline at every k of the picture; none of a setting without runs."""
    labels = [label for label in found.labels if label != BASELINE]
    ran = {label: DRAWN if found.runs(testbed, label) else () for label in labels}
    return {label: [found.over_baseline(testbed, label, k) for k in ks] for label, ks in ran.items()}
