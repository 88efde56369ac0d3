"""Two evaluations side by side, measure by measure, with the change over the problems of both."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from diver.evaluate.store import read_results
from diver.io.files import write_text
from diver.render.export import Export, Log
from diver.render.figures import write_intervals
from diver.render.tables import Cell, Table, markdown
from diver.render.tables import Measure as Column
from diver.stats import Estimate, interval, paired_interval, pass_at_k
from diver.types import DiverError

SETTINGS = ("template", "chat_template_kwargs", "temperature", "max_tokens", "stop_token_ids", "graders", "problems")
OF_PROBLEMS = ("source", "seed")
"""Which problems they are, and the order of their options: where these differ, equal ids may be other problems."""
WRITTEN = "Written differently"
IN_MARKDOWN = Export()


class Comparison(NamedTuple):
    """One measure of two evaluations, in percent or as a count. Unknown ends are NaN.

    `change` is that of the problems that both have: their difficulty cancels, so its interval is narrower than the others.
    """

    label: str
    base: Estimate
    trained: Estimate
    change: Estimate
    percent: bool = True

    @property
    def significant(self) -> bool:
        """Whether the interval of the change is known and excludes 0."""
        return self.change.low > 0 or self.change.high < 0

    def show(self, estimate: Estimate, sign: str = "") -> str:
        """An estimate in this measure's unit."""
        return estimate.text(100 if self.percent else 1, sign=sign)

    def cells(self) -> list[str]:
        """A row of a table: both evaluations and the change, with a * where it is significant."""
        mark = "*" if self.significant else " "
        return [self.label, self.show(self.base), self.show(self.trained), f"{self.show(self.change, '+')} {mark}"]


def digests(evaluation: Mapping[str, Any]) -> dict[str, str | None]:
    """Of each problem, by its id, the digest of its text and answer; None in an evaluation by an earlier version."""
    return {row["id"]: row.get("digest") for row in evaluation.get("per_problem", ())}


def other_problems(a: Mapping[str, str | None], b: Mapping[str, str | None]) -> set[str]:
    """The ids by which `digests` of two evaluations mean different problems."""
    return {name for name in a.keys() & b.keys() if None not in (a[name], b[name]) and a[name] != b[name]}


def comparisons(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Comparison]:
    """Pass@k by rising k, then the distinct correct solutions of all n samples; whatever either evaluation has.

    Where both have some of the problems, the others are left out, as is an id that means another problem in each. {} stands
    for an evaluation that is not there.
    Solutions are counted as they are written where the verifier cannot tell whether two of them are the same.
    """
    rows = [{row["id"]: row for row in evaluation.get("per_problem", ())} for evaluation in (a, b)]
    others = other_problems(digests(a), digests(b))
    names = [name for name in rows[0] | rows[1] if name not in others]
    counts = [[[by_id.get(name, {}).get(key, 0) for name in names] for by_id in rows] for key in ("n", "c", "distinct")]
    n, c, distinct = np.array(counts, dtype=np.int64)  # [evaluations, problems] each
    ks = sorted({1, *a.get("k", ()), *b.get("k", ())})
    measures = [_comparison(f"Pass@{k}", pass_at_k(n, c, k), (0, 1)) for k in ks]
    label = "Distinct@{}" if all(evaluation.get("exact_solutions", True) for evaluation in (a, b)) else WRITTEN
    samples = np.array([[evaluation.get("samples", 0)] for evaluation in (a, b)])
    for size in sorted({*samples.flat} - {0}):
        whole = np.where((n == size) & (samples == size), distinct, np.nan)
        measures.append(_comparison(label.format(size), whole, (0, size), percent=False))
    return [row for row in measures if not (math.isnan(row.base.mean) and math.isnan(row.trained.mean))]


def _comparison(label: str, values: np.ndarray, bounds: tuple[float, float], percent: bool = True) -> Comparison:
    """Of values [2, problems] within bounds, NaN where one is unknown."""
    known = ~np.isnan(values).any(axis=0)
    x, y = values[:, known] if known.any() else values
    return Comparison(label, interval(x, bounds), interval(y, bounds), paired_interval(x, y, bounds), percent)


def legend(rows: Sequence[Comparison]) -> str:
    """What the rows that count solutions count."""
    if any(row.label.endswith(WRITTEN) for row in rows):  # after the title of a benchmark
        return f"{WRITTEN}: sets of formulas that the correct samples write."
    return "Distinct@n: distinct correct solutions among n samples."


def compare(paths: Sequence[Path], config: Export = IN_MARKDOWN, out: Path | None = None, log: Log = print) -> Table:
    """Each evaluation against the first; `paths` are those of `read_results`.

    Logs the comparison, or prints its table in the format of `config`, and where `out` names a folder writes both, and the
    figure of the changes.
    DiverError where two evaluations have no benchmark or no problem in common.
    """
    if len(paths) < 2:
        raise DiverError("--compare: name two results or more, the first is the one that the others are compared with")
    first, *others = [read_results(path) for path in paths]
    pairs = {path: _rows(first, other, paths[0], path) for other, path in zip(others, paths[1:], strict=True)}
    texts = [_text(first, other, paths[0], path, pairs[path]) for other, path in zip(others, paths[1:], strict=True)]
    table = _table(pairs)
    config.show(table, text := "\n".join(texts), log)
    if out is not None:
        write_text(out / "comparison.md", text)
        config.write(table, out, "comparison")
        if config.figures:
            write_intervals(_changes(pairs), *config.figure_paths(out, "comparison"))
    return table


def _table(pairs: Mapping[Path, Sequence[Comparison]]) -> Table:
    """A row a measure of each pair: Pass@k is a fraction in data, and in per cent where it is read."""
    labels = _labels(pairs)
    rows: dict[str, list[Cell]] = {
        name: [row.base, row.trained, row.change, int(row.significant)] for name, row in labels.items()
    }
    header = ["measure", "base", "other", "change"]
    shown = [header, *([name, *row.cells()[1:]] for name, row in labels.items())]
    return Table("measure", [Column("base"), Column("other"), Column("change"), Column("significant")], rows, shown)


def _labels(pairs: Mapping[Path, Sequence[Comparison]]) -> dict[str, Comparison]:
    return {f"{path}: {r.label}" if len(pairs) > 1 else r.label: r for path, rows in pairs.items() for r in rows}


def _changes(pairs: Mapping[Path, Sequence[Comparison]]) -> Table:
    """The changes of Pass@k."""
    rows = {name: [row.change] for name, row in _labels(pairs).items() if row.percent}
    return Table("measure", [Column("change", "change, in points of per cent", 100)], rows)


def _rows(a: Mapping[str, Any], b: Mapping[str, Any], path_a: Path, path_b: Path) -> list[Comparison]:
    rows = []
    for name in _shared(a, b, path_a, path_b):
        left, right = a["benchmarks"][name], b["benchmarks"][name]
        of_both = [row for row in comparisons(left, right) if not math.isnan(row.change.mean)]
        if not of_both:
            raise DiverError(
                f"--compare: {path_a} and {path_b} have no problem of {left['title']} in common: none of the same id, text and answer"
            )
        rows += [row._replace(label=f"{left['title']} {row.label}") for row in of_both]
    return rows


def _shared(a: Mapping[str, Any], b: Mapping[str, Any], path_a: Path, path_b: Path) -> list[str]:
    shared = [name for name in a["benchmarks"] if name in b["benchmarks"]]
    if not shared:
        raise DiverError(f"--compare: {path_a} and {path_b} have no benchmark in common")
    return shared


def _setting(evaluation: Mapping[str, Any], key: str) -> Any:
    return evaluation.get("source", {}).get("path") if key == "source" else evaluation.get(key)


def _text(a: Mapping[str, Any], b: Mapping[str, Any], path_a: Path, path_b: Path, rows: Sequence[Comparison]) -> str:
    notes = [
        f"{left['title']}: {key} differs: {one} and {other}\n"
        for left, right in ((a["benchmarks"][name], b["benchmarks"][name]) for name in _shared(a, b, path_a, path_b))
        for key in (*SETTINGS, *OF_PROBLEMS)
        if (one := _setting(left, key)) != (other := _setting(right, key))
        if key in SETTINGS or None not in (one, other)  # an evaluation by training does not say its source
    ]
    for left, right in ((a["benchmarks"][name], b["benchmarks"][name]) for name in _shared(a, b, path_a, path_b)):
        if others := other_problems(digests(left), digests(right)):
            notes.append(
                f"{left['title']}: {len(others)} problems of the same id have another text or answer and are left out\n"
            )
    table = markdown(["", str(path_a), str(path_b), "change  "], [row.cells() for row in rows])
    return (
        f"{path_b} ({b['model']}) against {path_a} ({a['model']})\n\n{table}\nOver the problems of both: Pass@k in "
        f"percent. {legend(rows)} In brackets 95 % intervals; * : that of the change excludes 0.\n" + "".join(notes)
    )
