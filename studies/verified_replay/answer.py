"""The five sentences of the answer, a picture, and a setting for each number of samples at test time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from diver.core.statistics import UNKNOWN, Estimate
from diver.core.tables import markdown
from diver_paper.runs import Runs
from verified_replay.cautions import cautions
from verified_replay.picture import DRAWN, draw
from verified_replay.results import (
    DECISION,
    HELD_OUT,
    KS,
    QUESTIONS,
    SEEDS,
    TITLES,
    Finished,
    best,
    gap,
    points,
)
from verified_replay.study import BASELINE, MORE_ROLLOUTS, REPLAY, TESTBEDS

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


class Verdict(NamedTuple):
    """The result of a setting on a testbed by the protocol."""

    seeds: int
    gaps: tuple[Estimate, Estimate] = (UNKNOWN, UNKNOWN)
    """The differences from the tuned baseline at Pass@1 and Pass@64; unknown until the result is decided."""

    @property
    def above(self) -> bool | None:
        """Whether the setting is above the baseline; None until the result is decided."""
        return None if np.isnan(self.gaps[0].mean) else all(gap.low > 0 for gap in self.gaps)

    @property
    def cells(self) -> list[str]:
        words = {None: "not decided", True: "yes", False: "no"}
        return [str(self.seeds), *map(points, self.gaps), words[self.above]]


def answer(found: Finished) -> list[str]:
    """The conclusions of the protocol, in sentences; empty before the first final runs."""
    if not _has_runs(found):
        return []
    sentences = [_sentence(q) for q in _questions(found) if q.is_sentence and q.seeds >= SEEDS]
    parts = ["\n".join(f"- {s}" for s in (_decision(_verdicts(found)), *sentences)) + "\n"]
    if sentences:
        parts += [f"Held-out problems, temperature 0.6; brackets hold intervals of {100 * QUESTIONS:.1f} %.\n"]
    return parts


def advice(found: Finished, picture: Path) -> list[str]:
    """What to turn on, the picture beside it, and the numbers of the answer; empty before the first final runs.

    Settings are compared only over the same seeds, three or more.
    """
    if not _has_runs(found):
        return []
    verdicts = _verdicts(found)
    compared = {testbed: runs for testbed in TESTBEDS if (runs := _of_shared_seeds(found, testbed))}
    asked = [q for q in _questions(found) if q.seeds]
    parts = []
    if compared:
        draw(picture, {TITLES[testbed]: _curves(runs) for testbed, runs in compared.items()}, found.bases)
        parts += [f"![Pass@k minus that of tuned clip-higher]({picture.name})\n"]
        parts += [
            "*Held-out problems, temperature 0.6, in points; bars are intervals of 95 % over seeds and problems. "
            "Dashed: with replay. Settings with fewer than three seeds are not drawn.*\n"
        ]
        parts += _by_samples(found, compared) + cautions(found, compared)
    if any(verdict.above is not None for row in verdicts.values() for verdict in row):
        parts += _by_the_rule(verdicts, compared)
    if asked:
        parts += ["## What each part adds\n"]
        parts += [
            f"Held-out problems, temperature 0.6, in points; intervals of {100 * QUESTIONS:.1f} %. Fewer than three "
            "seeds decide nothing, and the interval of one seed is over problems alone.\n"
        ]
        cells = [[f"{q.change}, {q.where}", str(q.seeds), *(points(q.at(k)) for k in (1, 64))] for q in asked]
        parts += [markdown(["", "seeds", "Pass@1", "Pass@64"], cells)]
    return parts


def _has_runs(found: Finished) -> bool:
    return any(found.runs(testbed, label) for testbed in TESTBEDS for label in found.labels)


def _verdicts(found: Finished) -> dict[str, list[Verdict]]:
    """Setting -> its verdict on each testbed."""
    return {label: [_verdict(found, t, label) for t in TESTBEDS] for label in found.labels if label != BASELINE}


def _verdict(found: Finished, testbed: str, label: str) -> Verdict:
    """By the protocol: both sides must have the same seeds, three or more."""
    runs, base = found.runs(testbed, label), found.runs(testbed, BASELINE)
    if len(runs) < SEEDS or runs.keys() != base.keys():
        return Verdict(len(runs))
    at_1, at_64 = (gap(runs, base, HELD_OUT, k, DECISION) for k in (1, 64))
    return Verdict(len(runs), (at_1, at_64))


def _decision(verdicts: Mapping[str, Sequence[Verdict]]) -> str:
    """Which settings are above the tuned baseline, and which are not decided."""
    above = {label: [verdict.above for verdict in row] for label, row in verdicts.items()}
    decided = [label for label, row in above.items() if None not in row]
    on_both = [label for label, row in above.items() if all(row)]
    on_one = [
        f"{label} ({TITLES[testbed]})"
        for label, row in above.items()
        for testbed, is_above in zip(TESTBEDS, row, strict=True)
        if is_above and label not in on_both
    ]
    claim = "above tuned clip-higher at Pass@1 and at Pass@64 on both testbeds"
    parts = []
    if on_both:
        parts.append(f"{claim[0].upper()}{claim[1:]}: {_names(on_both)}.")
    elif len(decided) == len(above):
        parts.append(f"No setting is {claim}.")
    elif decided:
        parts.append(f"Not {claim}: {_names(decided)}.")
    if on_one:
        parts.append(f"On one testbed: {_names(on_one)}.")
    if waiting := [label for label in above if label not in decided]:
        names = f": {_names(waiting)}. A" if decided or on_one else ": a"
        parts.append(f"Not decided yet{names} setting and clip-higher need the same three or more seeds on a testbed.")
    return " ".join(parts)


def _by_the_rule(verdicts: Mapping[str, Sequence[Verdict]], compared: Mapping[str, Mapping[str, Runs]]) -> list[str]:
    """The differences by which settings are judged, and the settings above the baseline at temperature 1."""
    header = ["", *(f"{TITLES[t]}: {column}" for t in TESTBEDS for column in ("seeds", "Pass@1", "Pass@64", "above"))]
    rows = [[label, *(cell for verdict in entry for cell in verdict.cells)] for label, entry in verdicts.items()]
    at_1 = []
    for testbed, runs in compared.items():
        variants = {label: entry for label, entry in runs.items() if label != BASELINE}
        above = [
            label
            for label, entry in variants.items()
            if all(gap(entry, runs[BASELINE], "held-out 1", k).low > 0 for k in (1, 64))
        ]
        at_1.append(f"{TITLES[testbed]}: {_names(above) or 'no setting'}.")
    return [
        "## By the rule set beforehand\n",
        "Difference from tuned clip-higher, held-out problems, temperature 0.6, in points; intervals of "
        f"{100 * DECISION:.1f} %. A setting is above if both intervals are above 0. One that is "
        "not may gain, too: an interval that holds 0 is no evidence of equality, and three seeds make wide intervals\n"
        "([coverage](../evaluation.md#high-levels)).\n",
        markdown(header, rows),
        "Temperature 1 is descriptive. By intervals of 95 %, these are above tuned clip-higher at Pass@1 and at "
        f"Pass@64. {' '.join(at_1)}\n",
    ]


def _names(labels: Iterable[str]) -> str:
    """A list of settings, some of which have a comma in their names."""
    return "; ".join(labels)


def _questions(found: Finished) -> list[Question]:
    replay = found.runs("maze", REPLAY)

    def control(label: str) -> Runs:
        return found.runs("maze", label, "controls")

    tokens, frequency = "replay in place of more rollouts at equal gradient tokens", "weights by frequency"
    latest, several = "one response per solution in place of the latest responses", "several responses per problem"
    return [
        Question(tokens, "in mazes", replay, control(MORE_ROLLOUTS)),
        Question(f"uniform weights in place of {frequency}", "in mazes", replay, control("by frequency")),
        Question(latest, "in mazes", replay, control("latest"), is_sentence=False),
        *(
            Question("DIVER on top of replay", where, found.runs(t, ON_DIVER), found.runs(t, REPLAY))
            for t, where in zip(TESTBEDS, ("on Countdown", "in mazes"), strict=True)
        ),
        Question(f"{several} in place of one", "in mazes (95 %)", replay, control("one response"), 0.95, False),
    ]


def _sentence(question: Question) -> str:
    """How a change affects Pass@64 and Pass@1; the table of all questions has both intervals."""
    at_1, at_64 = question.at(1), question.at(64)
    pass_1 = "rises" if at_1.low > 0 else "falls" if at_1.high < 0 else "does not change significantly"
    verb = "changes by" if at_64.low > 0 or at_64.high < 0 else "does not change significantly:"
    return f"With {question.change}, Pass@64 {question.where} {verb} {points(at_64)} points, and Pass@1 {pass_1}."


def _by_samples(found: Finished, compared: Mapping[str, Mapping[str, Runs]]) -> list[str]:
    """For each number of samples at test time the setting with the highest mean, and its gain."""
    table = []
    for k in KS:
        cells = [str(k)]
        for testbed in TESTBEDS:
            if not (runs := compared.get(testbed)):
                cells += ["–", "–"]
                continue
            label = best(runs, k)
            cells += [label, "–" if label == BASELINE else points(gap(runs[label], runs[BASELINE], HELD_OUT, k))]
        table.append(cells)
    header = ["samples k", *(f"{TITLES[t]}: {column}" for t in TESTBEDS for column in ("turn on", "gain"))]
    return [
        "## You sample k responses at test time\n",
        "The setting with the highest mean Pass@k on held-out problems at temperature 0.6, and its difference from "
        "tuned clip-higher in points, with an interval of 95 %. The best is chosen and judged on the same problems: "
        "expect a smaller gain on new ones. If an interval holds 0, clip-higher may be as good.\n",
        markdown(header, table),
        "\n".join(f"- {_comparison(found, testbed, compared.get(testbed, {}))}" for testbed in TESTBEDS) + "\n",
    ]


def _comparison(found: Finished, testbed: str, runs: Mapping[str, Runs]) -> str:
    """Which settings are compared, over which seeds, and which are not."""
    without = [label for label in found.labels if label not in runs]
    left_out = f"Not compared, since seeds are missing: {_names(without)}." if without else ""
    if not runs:
        return f"{TITLES[testbed]}: nothing is compared before clip-higher and another setting share three seeds."
    seeds = ", ".join(map(str, runs[BASELINE]))
    return f"{TITLES[testbed]}, seeds {seeds}: {_names(runs)}. {left_out}".rstrip()


def _of_shared_seeds(found: Finished, testbed: str) -> dict[str, Runs]:
    """The final runs of the settings that share three seeds with the baseline, at the seeds that all of these have.

    Means over different seeds are not comparable. Empty if no setting is left to compare with the baseline.
    """
    base = found.runs(testbed, BASELINE)
    runs = {label: found.runs(testbed, label) for label in found.labels}
    runs = {label: by_seed for label, by_seed in runs.items() if len(by_seed.keys() & base.keys()) >= SEEDS}
    seeds = sorted(set(base).intersection(*runs.values()))
    if len(runs) < 2 or len(seeds) < SEEDS:
        return {}
    return {label: {seed: by_seed[seed] for seed in seeds} for label, by_seed in runs.items()}


def _curves(runs: Mapping[str, Runs]) -> dict[str, list[Estimate]]:
    """Setting -> its differences from the baseline at every k of the picture."""
    compared = {label: by_seed for label, by_seed in runs.items() if label != BASELINE}
    return {label: [gap(by_seed, runs[BASELINE], HELD_OUT, k) for k in DRAWN] for label, by_seed in compared.items()}
