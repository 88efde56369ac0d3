"""docs/results/agents.md, from the records that exist."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from agents.study import BASELINE, FINAL, RECORDS, START, TUNING, Study, criterion
from diver.core.files import write_text
from diver.core.statistics import Estimate
from diver.core.tables import counted, markdown
from diver.evaluate import comparison
from diver_paper.runs import Planned, Runs
from method_comparison.results import distinct, rows
from verified_replay.page import core_hours, seed_range
from verified_replay.picture import DRAWN, draw
from verified_replay.results import HELD_OUT, KS, gap, mean, points

DASH = "–"
TITLE = "# Exploration methods on trajectories\n"
INTRODUCTION = f"""\
Which exploration methods gain over tuned clip-higher where a response is a trajectory? The testbed is the
[maze, cell by cell](../testbeds.md#the-maze-cell-by-cell): 7 x 7 cells and at most 12 turns. The policy has 0.9 M
parameters. The text of a turn is its action. So `diver-mix`, which rewards the diversity of text, is here almost
`diver-actions` with half of lambda. The protocol, `studies/agents/study.toml`, was committed before the first run.
`python -m agents` makes this page from the records of the runs. The protocol also prints temperature 1:
`git show ff645ce4:docs/results/{RECORDS}.md` has these tables, and `records/{RECORDS}.jsonl.gz` the counts.
"""


class Finished:
    """The runs of a study that have a record, and their numbers over seeds and problems."""

    def __init__(self, study: Study) -> None:
        self.study = study
        pairs = [(planned, study.record(planned)) for planned in study.planned()]
        self.planned = [planned for planned, _ in pairs]
        self.records = [(planned, record) for planned, record in pairs if record is not None]

    @property
    def seeds(self) -> list[int]:
        return list(self.study.config["final_seeds"])

    def runs(self, label: str) -> Runs:
        """Seed -> record of the final runs that did not diverge. That of the starting policy is repeated for each."""
        by_seed = {p.seed: r for p, r in self.records if (p.stage, p.label) == (FINAL, label) and not r["diverged"]}
        return dict.fromkeys(self.seeds, *by_seed.values()) if label == START and by_seed else by_seed

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
        """The settings that are compared with the baseline."""
        return [label for label in self.study.labels if label != BASELINE]

    @property
    def level(self) -> float:
        """The level of the protocol, corrected for one test per setting."""
        return 1 - 0.05 / len(self.settings)


def write_page(study: Study) -> Path:
    """Write the page of the finished runs; runs without a record are counted."""
    finished, page = Finished(study), study.out / f"{study.name}.md"
    answer = _answer(finished, page.with_suffix(".png")) if finished.runs(BASELINE) else []
    parts = [TITLE, *answer, INTRODUCTION]
    if missing := len(finished.planned) - len(finished.records):
        addition = ", besides the final runs, whose learning rate is not chosen yet"
        parts.append(
            f"**Not finished**: {missing} of {counted(len(finished.planned), 'run')} have no record"
            f"{'' if any(p.stage == FINAL for p in finished.planned) else addition}.\n"
        )
    if answer:
        parts += [*_levels(finished), *_runs(finished)]
    if finished.records:
        parts += [*_tuning(finished), *_failures(finished), "## Cost\n"]
        parts.append(core_hours((planned.stage, record) for planned, record in finished.records))
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
    trained = [label for label in found.settings if found.runs(label)]
    for k in (1, 64) if trained else ():
        label = max(trained, key=lambda x: found.gap(x, k).mean)
        gain = points(found.gap(label, k, level=found.level))
        lines.append(f"The highest gain at Pass@{k} is that of {label}: {gain} points.")
    if widths:
        half_1, half_64 = np.median(widths, axis=0)
        lines.append(
            f"The intervals reach {half_1:.1f} points to each side at Pass@1 and {half_64:.1f} at Pass@64 (medians): a "
            "difference that is not found is no evidence of equality."
        )
    if undecided:
        lines.append(f"Not decided, because a seed has no evaluation: {', '.join(undecided)}.")
    return [
        "\n".join(f"- {line}" for line in lines) + "\n",
        f"Difference from tuned clip-higher, held-out problems, temperature 0.6, in points; intervals of "
        f"{100 * found.level:.1f} %:\n",
        markdown(["", "Pass@1", "Pass@64"], table),
        f"![Pass@k minus that of tuned clip-higher]({picture.name})\n",
        "*Held-out problems, in points; bars are intervals of 95 % over seeds and problems.*\n",
    ]


def _curves(found: Finished, temperature: float) -> dict[str, list[Estimate]]:
    """Setting -> its differences from the baseline at every k of the picture."""
    trained = [label for label in found.settings if found.runs(label)]
    return {label: [found.gap(label, k, f"held-out {temperature:g}") for k in DRAWN] for label in trained}


def _levels(found: Finished) -> list[str]:
    """Pass@k and distinct paths of all final settings, and the differences from the baseline."""
    table = []
    for label in found.shown:
        runs, (paths, base) = found.runs(label), (found.distinct(name, HELD_OUT) for name in (label, BASELINE))
        gaps = [*(points(found.gap(label, k)) for k in KS), comparison.difference(paths, base).text(1, 2, sign="+")]
        levels = [*(_percent(mean(runs, HELD_OUT, k)) for k in KS), f"{comparison.level(paths).mean:.2f}"]
        table.append([label, *levels, *(gaps if label != BASELINE else [DASH] * len(gaps))])
    header = ["", *(f"@{k}" for k in KS), "paths", *(f"difference @{k}" for k in KS), "difference of paths"]
    return [
        "## Final runs\n",
        "Held-out problems, temperature 0.6: Pass@k in per cent, and the different correct paths of a problem among "
        f"its {found.study.config['samples']} samples. Differences are from tuned clip-higher, in points, with "
        "intervals of 95 % over seeds and problems.\n",
        markdown(header, table),
    ]


def _tuning(found: Finished) -> list[str]:
    study, tried = found.study, dict[str, list[str]]()
    for planned, record in found.records:
        if planned.stage == TUNING:
            tried.setdefault(planned.label, []).append(f"{planned.rate:g} {_percent(criterion(record))}")
    chosen = study.rates()
    parts = [
        "## Tuning\n",
        "One run for each rate. The criterion is the mean of Pass@1 and Pass@64 on selection problems at temperature "
        f"0.6, in per cent. Chosen: {'; '.join(f'{label} {rate:g}' for label, rate in chosen.items()) or 'none yet'}. "
        "All other methods have the rate of clip-higher, which favours clip-higher.\n",
        "".join(f"- {label}, each learning rate and its criterion: {'; '.join(row)}\n" for label, row in tried.items()),
    ]
    rates = {label: study.tried(label) for label in chosen}
    if ends := [label for label, rate in chosen.items() if rate in (min(rates[label]), max(rates[label]))]:
        parts.append(f"Chosen at an end of the rates that were run: {', '.join(ends)}. A rate beyond may be better.\n")
    return parts


def _failures(found: Finished) -> list[str]:
    """Runs that diverged, and settings below the starting policy or the baseline."""
    lines = [
        f"{_name(planned)} diverged at step {record['diverged']}."
        for planned, record in found.records
        if record["diverged"]
    ] or ["No run diverged."]
    for reference, words in ((START, "the starting policy"), (BASELINE, "tuned clip-higher")):
        if not found.runs(reference):
            continue
        for t in found.study.config["temperatures"]:
            below = [
                f"{label} at Pass@{k}"
                for label in found.shown
                if label not in (START, reference)
                for k in (1, 64)
                if found.gap(label, k, f"held-out {t:g}", other=reference).high < 0
            ]
            lines.append(f"Below {words} at temperature {t:g}: {', '.join(below) or 'no setting'}.")
    about = "A setting is below if its interval of 95 % is, at Pass@1 or Pass@64.\n"
    return ["## What failed\n", about, "\n".join(f"- {line}" for line in lines) + "\n"]


def _runs(found: Finished) -> list[str]:
    """The final runs: a row for each setting, with the values of its seeds in order."""
    table = []
    for label in found.shown:
        runs = found.runs(label) if label != START else dict([*found.runs(label).items()][:1])
        levels = [" ".join(_percent(mean({0: runs[seed]}, HELD_OUT, k)) for seed in sorted(runs)) for k in (1, 64)]
        table.append([label, seed_range(runs), *levels])
    about = "Held-out problems, temperature 0.6, in per cent, in the order of the seeds, without runs that diverged.\n"
    return ["### Each run\n", about, markdown(["", "seeds", "Pass@1", "Pass@64"], table, text=4)]


def _name(planned: Planned) -> str:
    return f"{planned.label} ({planned.stage}, rate {planned.rate:g}, seed {planned.seed})"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}" if np.isfinite(value) else DASH
