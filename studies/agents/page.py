"""docs/results/agents.md, from the records that exist."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from agents.study import BASELINE, FINAL, START, TUNING, Study, criterion
from diver.core.files import write_text
from diver.core.statistics import Estimate
from diver.core.tables import counted, markdown
from diver.evaluate import comparison
from diver_paper.runs import Planned, Record, Runs
from method_comparison.results import distinct, level, rows
from verified_replay.page import commits, core_hours
from verified_replay.picture import DRAWN, draw
from verified_replay.results import HELD_OUT, KS, gap, mean, points

DASH = "–"
INTRODUCTION = """\
# Exploration methods on trajectories

Which exploration methods gain over tuned clip-higher where a response is a trajectory? The testbed is the
[maze, cell by cell](../testbeds.md#the-maze-cell-by-cell): 7 x 7 cells and at most 12 turns. The policy has 0.9 M
parameters. The text of a turn is its action. So `diver-mix`, which rewards the diversity of text, is here almost
`diver-actions` with half of lambda. The protocol, `studies/agents/study.toml`, was committed before the first run.
`python -m agents` makes this page from the records of the runs.
"""


class Finished:
    """The runs of a study that have a record, and their numbers over seeds and problems."""

    def __init__(self, study: Study) -> None:
        self.study = study
        found = [(planned, study.record(planned)) for planned in study.planned()]
        self.planned = [planned for planned, _ in found]
        self.records = [(planned, record) for planned, record in found if record is not None]

    @property
    def seeds(self) -> list[int]:
        return list(self.study.config["final_seeds"])

    def runs(self, label: str) -> Runs:
        """Seed -> record of the final runs that did not diverge; the starting policy stands beside each seed."""
        found = {p.seed: r for p, r in self.records if (p.stage, p.label) == (FINAL, label) and not r["diverged"]}
        return dict.fromkeys(self.seeds, *found.values()) if label == START and found else found

    @property
    def shown(self) -> list[str]:
        """The labels that have final runs, the starting policy and the baseline first."""
        return [label for label in dict.fromkeys([START, BASELINE, *self.study.labels]) if self.runs(label)]

    def gap(self, label: str, k: int, name: str = HELD_OUT, level: float = 0.95, other: str = BASELINE) -> Estimate:
        """Pass@k of a setting minus that of another, paired over seeds and problems."""
        return gap(self.runs(label), self.runs(other), name, k, level)

    def distinct(self, label: str, name: str) -> dict[int, np.ndarray]:
        """Seed -> the different correct paths among the samples of each problem."""
        return rows(self.runs(label), name, distinct)

    @property
    def settings(self) -> list[str]:
        """What is compared with the baseline."""
        return [label for label in self.study.labels if label != BASELINE]

    @property
    def level(self) -> float:
        """The level of the protocol: a test a setting."""
        return 1 - 0.05 / len(self.settings)


def write_page(study: Study) -> Path:
    """Write the page of the finished runs; runs without a record are counted."""
    found, parts = Finished(study), [INTRODUCTION]
    page = study.out / f"{study.name}.md"
    if missing := len(found.planned) - len(found.records):
        more = ", besides the final runs, whose learning rate is not chosen yet"
        parts.append(
            f"**Not finished**: {missing} of {counted(len(found.planned), 'run')} have no record"
            f"{'' if any(p.stage == FINAL for p in found.planned) else more}.\n"
        )
    if found.runs(BASELINE):
        parts += [*_answer(found, page.with_suffix(".png")), *_levels(found)]
    if found.records:
        parts += [*_tuning(found), *_failures(found), *_runs(found)]
        parts += ["## Cost\n", core_hours((planned.stage, record) for planned, record in found.records)]
    write_text(page, "\n".join(parts))
    return page


def _answer(found: Finished, picture: Path) -> list[str]:
    """Which settings are above the baseline, by the rule of the protocol, the difference of each, and the picture."""
    table, above, undecided, widths = [], [], [], []
    for label in found.settings:
        gaps = [found.gap(label, k, level=found.level) for k in (1, 64)]
        if {*found.runs(label)} != {*found.seeds} or {*found.runs(BASELINE)} != {*found.seeds}:
            undecided.append(label)
        else:
            widths.append([100 * (g.high - g.low) / 2 for g in gaps])
            above += [label] * all(g.low > 0 for g in gaps)
        table.append([label, *map(points, gaps)])
    draw(picture, {f"Temperature {t:g}": _curves(found, t) for t in found.study.config["temperatures"]})
    lines = [f"Above tuned clip-higher at Pass@1 and at Pass@64: {', '.join(above) or 'no setting'}."]
    if widths:
        of_1, of_64 = np.median(widths, axis=0)
        lines.append(
            f"The intervals reach {of_1:.1f} points to each side at Pass@1 and {of_64:.1f} at Pass@64 (medians): a "
            "difference that is not found is no evidence of equality."
        )
    if undecided:
        lines.append(f"Not decided, because a seed has no evaluation: {', '.join(undecided)}.")
    return [
        "## Answer\n",
        "\n".join(f"- {line}" for line in lines) + "\n",
        f"Difference from tuned clip-higher, held-out problems, temperature 0.6, in points; intervals of "
        f"{100 * found.level:.1f} %:\n",
        markdown(["", "Pass@1", "Pass@64"], table),
        f"![Pass@k minus that of tuned clip-higher]({picture.name})\n",
        "*Held-out problems, in points; bars are intervals of 95 % over seeds and problems.*\n",
    ]


def _curves(found: Finished, temperature: float) -> dict[str, list[Estimate]]:
    """Setting -> its differences from the baseline at every k of the picture."""
    ran = [label for label in found.settings if found.runs(label)]
    return {label: [found.gap(label, k, f"held-out {temperature:g}") for k in DRAWN] for label in ran}


def _levels(found: Finished) -> list[str]:
    """Pass@k and distinct paths of all final settings, and the differences from the baseline."""
    parts = ["## Final runs\n", "Held-out problems; intervals of 95 % over seeds and problems.\n"]
    n = found.study.config["samples"]
    for t in found.study.config["temperatures"]:
        name = f"held-out {t:g}"
        levels, gaps = [], []
        for label in found.shown:
            runs = found.runs(label)
            paths, base = (found.distinct(of, name) for of in (label, BASELINE))
            about = [label, DASH if label == START else str(len(runs))]
            of_k = [level(runs, name, k).text(100) for k in KS]
            levels.append([*about, *of_k, comparison.level(paths).text(1, 2)])
            if label != BASELINE:
                more = comparison.difference(paths, base).text(1, 2, sign="+")
                gaps.append([label, *(points(found.gap(label, k, name)) for k in KS), more])
        columns = [*(f"Pass@{k}" for k in KS), f"correct paths of {n}"]
        parts += [f"Temperature {t:g}, in per cent:\n", markdown(["", "seeds", *columns], levels)]
        parts += [f"Temperature {t:g}, difference from tuned clip-higher in points:\n", markdown(["", *columns], gaps)]
    return parts


def _tuning(found: Finished) -> list[str]:
    study, table = found.study, []
    for planned, record in found.records:
        if planned.stage == TUNING:
            values = [mean({0: record}, HELD_OUT, k) for k in (1, 64)]
            cells = [_percent(value) for value in (*values, criterion(record))]
            table.append([planned.label, f"{planned.rate:g}", *cells])
    chosen = study.rates()
    parts = [
        "## Tuning\n",
        "Selection problems, temperature 0.6, in per cent. The criterion is the mean of Pass@1 and Pass@64. Chosen: "
        f"{'; '.join(f'{label} {rate:g}' for label, rate in chosen.items()) or 'none yet'}. All other methods have the "
        "rate of clip-higher, which favours clip-higher.\n",
        markdown(["", "learning rate", "Pass@1", "Pass@64", "criterion"], table),
    ]
    tried = {label: study.tried(label) for label in chosen}
    if ends := [label for label, rate in chosen.items() if rate in (min(tried[label]), max(tried[label]))]:
        parts.append(f"Chosen at an end of the rates that were run: {', '.join(ends)}. A rate beyond may be better.\n")
    return parts


def _failures(found: Finished) -> list[str]:
    """Runs that diverged, and settings that training or their method has made worse."""
    lines = [
        f"{_name(planned)} diverged at step {record['diverged']}."
        for planned, record in found.records
        if record["diverged"]
    ] or ["No run diverged."]
    for other, words in ((START, "the starting policy"), (BASELINE, "tuned clip-higher")):
        if not found.runs(other):
            continue
        for t in found.study.config["temperatures"]:
            below = [
                f"{label} at Pass@{k}"
                for label in found.shown
                if label not in (START, other)
                for k in (1, 64)
                if found.gap(label, k, f"held-out {t:g}", other=other).high < 0
            ]
            lines.append(f"Below {words} at temperature {t:g}: {', '.join(below) or 'no setting'}.")
    about = "A setting is below if its interval of 95 % is, at Pass@1 or Pass@64.\n"
    return ["## What failed\n", about, "\n".join(f"- {line}" for line in lines) + "\n"]


def _runs(found: Finished) -> list[str]:
    """A row a run: what was trained, and Pass@k at temperature 0.6."""
    table = []
    for planned, record in found.records:
        rate = planned.rate if planned.trained else None
        values = [mean({0: record}, HELD_OUT, k) for k in KS]
        paths = distinct(record, HELD_OUT).mean() if HELD_OUT in record["evaluations"] else np.nan
        about = [planned.label, DASH if rate is None else f"{rate:g}", str(planned.seed)]
        outcomes = _ends(record, "reward/outcome")
        table.append([planned.stage, *about, outcomes, *map(_percent, values), _number(paths), commits(record)])
    header = ["stage", "", "rate", "seed", "outcome in training, %", *(f"Pass@{k}" for k in KS), "paths", "commit"]
    return [
        "## All runs\n",
        "Temperature 0.6, in per cent; the stages have different problems. *Outcome in training* is the mean of the "
        "first and of the last tenth of the steps. *Paths* are the different correct paths of a problem among its "
        f"{found.study.config['samples']} samples.\n",
        markdown(header, table, text=4),
    ]


def _name(planned: Planned) -> str:
    return f"{planned.label} ({planned.stage}, rate {planned.rate:g}, seed {planned.seed})"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}" if np.isfinite(value) else DASH


def _number(value: float) -> str:
    return f"{value:.2f}" if np.isfinite(value) else DASH


def _ends(record: Record, metric: str) -> str:
    """The mean of the first and of the last tenth of a curve, in per cent."""
    curve: Sequence[float] = record["metrics"].get(metric, ())
    if not curve:
        return DASH
    tenth = max(1, len(curve) // 10)
    return f"{100 * np.mean(curve[:tenth]):.1f} to {100 * np.mean(curve[-tenth:]):.1f}"
