"""The result of a run: base vs. trained, as rows, and as a table for the terminal."""

from __future__ import annotations

import math
import re
import shlex
from pathlib import Path
from typing import NamedTuple

from diver.render.tables import markdown
from diver.report.run_record import Evaluation, RunRecord
from diver.report.text import clean
from diver.stats import Estimate, paired_interval

UNKNOWN = Estimate(math.nan, math.nan, math.nan)

_ESTIMATE = re.compile(r"(pass|distinct)@(\d{1,9})")


class Comparison(NamedTuple):
    """One measure before and after training, in percent or as a count. Unknown ends are NaN.

    `paired` is the change over the same problems: their difficulty cancels, so it is narrower than the others.
    """

    label: str
    base: Estimate
    trained: Estimate
    percent: bool
    paired: Estimate = UNKNOWN

    @property
    def change(self) -> float:
        return self.trained.mean - self.base.mean

    @property
    def separate(self) -> bool:
        """The two intervals do not overlap."""
        return self.trained.low > self.base.high or self.trained.high < self.base.low

    def show(self, value: float, sign: str = "") -> str:
        """A value in this measure's unit, with one decimal; "-" where it is unknown."""
        return "-" if math.isnan(value) else f"{100 * value if self.percent else value:{sign}.1f}"

    def interval(self, estimate: Estimate) -> str:
        ends = (estimate.low, estimate.high)
        return "" if any(map(math.isnan, ends)) else "[{}, {}]".format(*map(self.show, ends))


def compare(run: RunRecord) -> list[Comparison]:
    """Pass@k by rising k, then the distinct correct solutions of all samples; whatever either evaluation has."""
    base, trained = run.base or Evaluation(), run.trained or Evaluation()
    keys = {
        (m[1] == "distinct", int(m[2]), key)
        for evaluation in (base, trained)
        for key in evaluation.estimates
        if (m := _ESTIMATE.fullmatch(key)) and (m[1] == "pass" or int(m[2]) == evaluation.samples)
    }
    return [
        Comparison(
            key.capitalize(),
            base.estimates.get(key, UNKNOWN),
            trained.estimates.get(key, UNKNOWN),
            not distinct,
            _paired(*(evaluation.values("distinct" if distinct else "pass", k) for evaluation in (base, trained))),
        )
        for distinct, k, key in sorted(keys)
    ]


def _paired(before: dict[str, float], after: dict[str, float]) -> Estimate:
    """The change with its interval; unknown unless both evaluations have the same problems."""
    if not before or before.keys() != after.keys():
        return UNKNOWN
    return paired_interval(list(before.values()), [after[problem] for problem in before])


def model_and_method(run: RunRecord) -> tuple[str, str]:
    return clean(run.recipe("model").get("path", "–")), clean(run.recipe("method").get("name", "–"))


def duration(seconds: float) -> str:
    if math.isnan(seconds):
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def progress(run: RunRecord) -> str:
    completed, planned = run.last_step, run.planned_steps
    return f"{completed:,} steps" if completed >= planned else f"{completed:,} of {planned:,} steps"


def conditions(run: RunRecord) -> str:
    """Problems, samples and temperature of the evaluations, in words; empty without an evaluation."""
    evaluations = [e for e in (run.base, run.trained) if e]
    if not evaluations:
        return ""
    last = evaluations[-1]
    samples = dict.fromkeys(f"{e.samples:.0f}" for e in evaluations if not math.isnan(e.samples))
    words = [f"{last.problems:.0f} held-out problems"] if not math.isnan(last.problems) else []
    words += [f"{' then '.join(samples)} samples each"] if samples else []
    temperature = f" at temperature {last.temperature:g}" if words and not math.isnan(last.temperature) else ""
    return ", ".join(words) + temperature


def summary_table(run_folder: Path) -> str:
    """Base vs. trained as plain text of one screen, ending with the files of the run."""
    run = RunRecord.read(Path(run_folder))
    model, method = model_and_method(run)
    lines = [f"{model} trained with {method}: {progress(run)} in {duration(run.seconds)}"]
    rows = compare(run)
    if rows:
        lines += [conditions(run), "", markdown(["", "base", "trained", "change  "], [_cells(row) for row in rows])]
        lines += [
            "Pass@k in percent; Distinct@n: distinct correct solutions among n samples.",
            "[ ]: 95 % intervals over problems (of the change: paired); *: those of base",
            "and trained do not overlap.",
        ]
    else:
        lines.append("No evaluation yet.")
    page = run.folder / "report.html"
    look = page if page.is_file() else f"diver report {shlex.quote(str(run.folder))}"
    return "\n".join([*lines, "", f"Report:   {look}", f"Metrics:  {run.folder / 'metrics.jsonl'}"])


def _cells(row: Comparison) -> list[str]:
    estimates = [f"{row.show(e.mean)} {row.interval(e)}".rstrip() for e in (row.base, row.trained)]
    change = f"{row.show(row.change, '+')} {row.interval(row.paired)}".rstrip()
    return [row.label, *estimates, f"{change} {'*' if row.separate else ' '}"]
