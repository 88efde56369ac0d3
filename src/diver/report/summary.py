"""The result of a run: base vs. trained, as rows, and as a table for the terminal."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from diver.render.tables import markdown
from diver.report.run_record import Evaluation, RunRecord
from diver.report.text import clean
from diver.stats import Estimate, paired_interval
from diver.train.alerts import Alert, alerts

UNKNOWN = Estimate(math.nan, math.nan, math.nan)

WRITTEN = "Written differently"
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
    def significant(self) -> bool | None:
        """Whether the interval of the change excludes 0; without one, whether those of base and trained are apart.

        None where neither is known.
        """
        if not math.isnan(self.paired.low):
            return self.paired.low > 0 or self.paired.high < 0
        ends = (self.base.low, self.base.high, self.trained.low, self.trained.high)
        return None if any(map(math.isnan, ends)) else ends[2] > ends[1] or ends[3] < ends[0]

    def show(self, value: float, sign: str = "") -> str:
        """A value in this measure's unit, with one decimal; "-" where it is unknown."""
        return "-" if math.isnan(value) else f"{100 * value if self.percent else value:{sign}.1f}"

    def interval(self, estimate: Estimate) -> str:
        ends = (estimate.low, estimate.high)
        return "" if any(map(math.isnan, ends)) else "[{}, {}]".format(*map(self.show, ends))


def compare(run: RunRecord) -> list[Comparison]:
    """Pass@k by rising k, then the distinct correct solutions of all samples; whatever either evaluation has.

    Where the task's verifier cannot tell whether two solutions are the same, they are counted as they are written.
    """
    base, trained = run.base or Evaluation(), run.trained or Evaluation()
    keys = {
        (m[1] == "distinct", int(m[2]), key)
        for evaluation in (base, trained)
        for key in evaluation.estimates
        if (m := _ESTIMATE.fullmatch(key)) and (m[1] == "pass" or int(m[2]) == evaluation.samples)
    }
    return [
        Comparison(
            WRITTEN if distinct and not (base.exact_solutions and trained.exact_solutions) else key.capitalize(),
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


def run_alerts(run: RunRecord) -> list[Alert]:
    """All alerts of a run, those of its evaluations last; an empty list where there is none."""
    return [*alerts(run.metrics), *filter(None, [_narrower(run)])]


def _narrower(run: RunRecord) -> Alert | None:
    """Pass@1 rose and Pass@k of the largest k fell, both beyond their paired intervals."""
    rows = [row for row in compare(run) if row.percent]
    if len(rows) < 2 or not (rows[0].paired.low > 0 and rows[-1].paired.high < 0):
        return None
    first, last = rows[0], rows[-1]
    return Alert(
        f"{first.label} rises while {last.label} falls",
        f"{first.label} rose by {first.show(first.change)} points while {last.label} fell by {last.show(-last.change)}: given many "
        "samples, the trained policy solves fewer problems than the base policy.",
        "Evaluate earlier checkpoints (diver eval), or reward diversity more.",
        f"eval/{last.label.lower()}",
    )


def model_and_method(run: RunRecord) -> tuple[str, str]:
    return clean(run.recipe("model").get("path", "–")), clean(run.recipe("method").get("name", "–"))


def verdict(run: RunRecord) -> str:
    """The result of the run so far in one sentence."""
    norms = run.column("policy/grad_norm")
    if len(norms) and not norms.any():
        return f"None of the {len(norms):,} steps had a gradient, so nothing was learned{_without_signal(run)}"
    known = [row for row in compare(run) if row.percent and not math.isnan(row.change)]
    if not known:
        return f"A run of {progress(run)}, not evaluated after training yet"
    first = next((row for row in known if row.significant), known[0])
    base, trained = (f"{first.show(e.mean)}\u00a0%" for e in (first.base, first.trained))
    steps = f"{max(run.evaluations):,} steps"
    if first.significant is False:
        return f"Base and trained cannot be told apart: {first.label} is {base} and, after {steps}, {trained}"
    verb = "went" if first.significant is None else "rose" if first.change > 0 else "fell"
    before = f"; {known[0].label} cannot be told apart" if known[0].significant is False else ""
    return f"{first.label} {verb} from {base} to {trained} in {steps}{before}"


def _without_signal(run: RunRecord) -> str:
    """Why: how many of the groups had no correct response, or only correct ones; empty where that is not known."""
    means = {words: run.column(f"group/solve_{words}").mean() for words in ("none", "all")}
    words, fraction = max(means.items(), key=lambda item: -1.0 if math.isnan(item[1]) else item[1])
    which = {"none": "no response was correct", "all": "every response was correct"}[words]
    return "" if math.isnan(fraction) else f": in {fraction:.0%} of the groups {which}"


def legend(rows: Sequence[Comparison]) -> str:
    """What the rows that count solutions count."""
    if any(row.label == WRITTEN for row in rows):
        return f"{WRITTEN}: sets of formulas that the correct samples write."
    return "Distinct@n: distinct correct solutions among n samples."


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
    took = "" if math.isnan(run.seconds) else f" in {duration(run.seconds)}"
    engine = f" ({run.engine})" if run.engine not in ("", "built-in") else ""
    lines = [f"{model} trained with {method}{engine}: {progress(run)}{took}", verdict(run), ""]
    rows = compare(run)
    if rows:
        lines += [conditions(run), "", markdown(["", "base", "trained", "change  "], [_cells(row) for row in rows])]
        lines += [
            f"Pass@k in percent. {legend(rows)}",
            "[ ]: 95 % intervals over problems (of the change: paired); * : that of the",
            "change excludes 0.",
        ]
    page = run.folder / "report.html"
    look = page if page.is_file() else f"diver report {shlex.quote(str(run.folder))}"
    return "\n".join([*lines, "", f"Report:   {look}", f"Metrics:  {run.folder / 'metrics.jsonl'}"])


def _cells(row: Comparison) -> list[str]:
    estimates = [f"{row.show(e.mean)} {row.interval(e)}".rstrip() for e in (row.base, row.trained)]
    change = f"{row.show(row.change, '+')} {row.interval(row.paired)}".rstrip()
    return [row.label, *estimates, f"{change} {'*' if row.significant else ' '}"]
