"""What a run comes to: base against trained, as rows, and as plain text for the terminal."""

from __future__ import annotations

import math
import re
import shlex
from typing import Any, NamedTuple

import numpy as np

from diver.report.reading import RunRecord, number, part
from diver.report.text import clean
from diver.stats import Estimate, paired_interval, pass_at_k

UNKNOWN = Estimate(math.nan, math.nan, math.nan)

_ESTIMATE = re.compile(r"(pass|distinct)@(\d{1,9})")


class Comparison(NamedTuple):
    """One measure, before and after; in percent or as a count. Unknown ends are NaN.

    `paired` is the change over the same problems: what is hard for both cancels, so it is narrower than the others.
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
    tables = part(run.base, "estimates"), part(run.trained, "estimates")
    found = {
        (m[1] != "pass", int(m[2]), key)
        for row, table in zip((run.base, run.trained), tables, strict=True)
        for key in table
        if (m := _ESTIMATE.fullmatch(key)) and (m[1] == "pass" or int(m[2]) == number(row.get("samples")))
    }
    rows = []
    for distinct, k, key in sorted(found):
        base, trained = (Estimate(*(number(part(t, key).get(end)) for end in Estimate._fields)) for t in tables)
        label = f"Distinct of {k}" if distinct else f"Pass@{k}"
        rows.append(Comparison(label, base, trained, not distinct, _paired(run.base, run.trained, distinct, k)))
    return rows


def _paired(base: dict[str, Any], trained: dict[str, Any], distinct: bool, k: int) -> Estimate:
    """The change with its interval; unknown unless both evaluations tell of each problem, and of the same ones."""
    before, after = (_by_problem(row, distinct, k) for row in (base, trained))
    if not before or before.keys() != after.keys():
        return UNKNOWN
    return paired_interval(list(before.values()), [after[problem] for problem in before])


def _by_problem(row: dict[str, Any], distinct: bool, k: int) -> dict[str, float]:
    """The measure of each problem of an evaluation, by id; empty where its counts are not all there."""
    problems = row.get("per_problem")
    if (distinct and k != number(row.get("samples"))) or not isinstance(problems, list):
        return {}
    known = [p for p in problems if isinstance(p, dict)]
    rows = {str(p.get("id")): [number(p.get(key)) for key in ("n", "c", "distinct")] for p in known}
    n, c, solutions = np.array(list(rows.values())).reshape(-1, 3).T
    counts = solutions if distinct else c
    if len(rows) < len(problems) or not np.all((counts >= 0) & (counts <= n) & (counts % 1 == 0) & (n % 1 == 0)):
        return {}
    values = np.where(n >= k, solutions, np.nan) if distinct else pass_at_k(n.astype(int), c.astype(int), k)
    return dict(zip(rows, values.tolist(), strict=True))


def named(section: Any) -> str:
    """What a section of a recipe is about: its name or path, else its first text."""
    if not isinstance(section, dict):
        return clean(section) if isinstance(section, str) else "–"
    texts = {key: value for key, value in section.items() if isinstance(value, str) and value}
    return clean(
        next((texts[key] for key in ("name", "path", "model") if key in texts), next(iter(texts.values()), "–"))
    )


def duration(seconds: float) -> str:
    if math.isnan(seconds):
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def progress(run: RunRecord) -> str:
    done, planned = run.steps_done, run.steps_planned
    return f"{done:,} steps" if done >= planned else f"{done:,} of {planned:,} steps"


def held_out(run: RunRecord) -> str:
    """On what the comparison rests, in words; empty without an evaluation."""
    rows = [row for row in (run.base, run.trained) if row]
    problems, temperature = (number(rows[-1].get(key)) if rows else math.nan for key in ("problems", "temperature"))
    samples = dict.fromkeys(f"{n:.0f}" for row in rows if not math.isnan(n := number(row.get("samples"))))
    words = [f"{problems:.0f} held-out problems"] if not math.isnan(problems) else []
    words += [f"{' then '.join(samples)} samples each"] if samples else []
    return ", ".join(words) + (f" at temperature {temperature:g}" if words and not math.isnan(temperature) else "")


def table_text(run: RunRecord) -> str:
    """The comparison for a terminal: one screen, which ends with where to look."""
    recipe = part(run.config, "recipe")
    lines = [
        f"{named(recipe.get('model'))} trained with {named(recipe.get('method'))}: "
        f"{progress(run)} in {duration(run.seconds)}",
    ]
    rows = compare(run)
    if rows:
        lines += [held_out(run), "", f"{'':<14}{'base':>6}{'':<15}{'trained':>6}{'':<14}{'change':>6}"]
        lines += [_row_text(row) for row in rows]
        lines += [
            "",
            "Pass@k in percent; Distinct: different correct solutions. [ ]: 95 % intervals",
            "over problems (of the change: paired); *: base and trained do not overlap.",
        ]
    else:
        lines.append("No evaluation yet.")
    page = run.folder / "report.html"
    look = page if page.is_file() else f"diver report {shlex.quote(str(run.folder))}"
    lines += [
        "",
        f"Curves and answers to read:  {look}",
        f"Every step in numbers:       {run.folder / 'metrics.jsonl'}",
    ]
    return "\n".join(lines)


def _row_text(row: Comparison) -> str:
    cells = "".join(f"{row.show(e.mean):>6} {row.interval(e):<14}" for e in (row.base, row.trained))
    change = f"{row.show(row.change, '+'):>6} {row.interval(row.paired)}".rstrip()
    return f"{row.label:<14}{cells}{change}{' *' if row.separate else ''}"
