"""The paired comparison: a measure of each problem, over problems or over seeds and problems, and two evaluations side
by side."""

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np

from diver.core.bands import Band, simultaneous
from diver.core.files import number
from diver.core.statistics import (
    ABOUT_PAIRS,
    EFFECTIVE,
    PAIRS,
    UNKNOWN,
    Estimate,
    bounds_of,
    effective_number,
    enough,
    interval,
    paired_interval,
    pass_at_k,
    pass_curve,
)
from diver.core.tables import Cell, Measure, Table, counted, markdown
from diver.core.types import DiverError

SETTINGS = ("template", "chat_template_kwargs", "temperature", "max_tokens", "stop_token_ids", "graders", "problems")
OF_PROBLEMS = ("source", "seed")
"""Settings that select the problems and the order of options. If these differ, equal ids may name different
problems."""
WRITTEN = "Written differently"
MOST_KS = 256
"""The most k of a band: beyond them, each is a constant factor above the last."""
Values = Mapping[int, np.ndarray]
"""Seed -> a measure of each problem, float64 [problems], the problems of all seeds in one order."""
Runs = Mapping[int, Mapping[str, Any]]
"""Seed -> evaluation."""
BEFORE = "before training"
SAME = (*SETTINGS, "samples")  # settings that the evaluations of all variants must share


# ---- over seeds and problems


def level(runs: Values, bounds: tuple[float, float] | None = None) -> Estimate:
    """The mean over seeds and problems with its interval; unknown without a value."""
    rows = np.array([*runs.values()])
    return interval(rows, bounds) if rows.size else UNKNOWN


def difference(
    more: Values, less: Values, bounds: tuple[float, float] | None = None, confidence: float = 0.95
) -> Estimate:
    """`more` minus `less`, paired over the seeds that both have and over problems; unknown if there are none.

    `bounds` are those of both measures. A problem without a value (NaN) in one of the runs is left out.
    """
    shared = sorted(more.keys() & less.keys())
    both = np.array([[of[seed] for seed in shared] for of in (less, more)], dtype=np.float64)
    both = both[..., ~np.isnan(both).any((0, 1))] if both.ndim == 3 else both
    return paired_interval(both[0], both[1], bounds, confidence) if both.size else UNKNOWN


# ---- one evaluation


def values(evaluation: Mapping[str, Any], measure: str, names: Collection[str] | None = None) -> np.ndarray:
    """pass@k, distinct@n or pair_diversity of the problems `names` (default: all), float64 [problems].

    NaN if a problem has too few scored samples for it, or, of distinct@n, another number of samples than n. The
    diversity of pairs is NaN for fewer than two correct samples.
    """
    rows = {row["id"]: row for row in evaluation.get("per_problem", ())}
    found = [rows.get(name, {}) for name in (rows if names is None else names)]
    if measure == "pair_diversity":
        return np.array([number(row.get(measure)) for row in found])
    n, c, distinct = (np.array([row.get(key, 0) for row in found], dtype=np.int64) for key in ("n", "c", "distinct"))
    kind, _, k = measure.partition("@")
    if kind == "pass":
        return pass_at_k(n, c, int(k))
    return np.where((n == int(k)) & (evaluation.get("samples") == int(k)), distinct, np.nan)


def digests(evaluation: Mapping[str, Any]) -> dict[str, str | None]:
    """Problem id -> the digest of its text and answer; None in an evaluation by an earlier version."""
    return {row["id"]: row.get("digest") for row in evaluation.get("per_problem", ())}


def other_problems(a: Mapping[str, str | None], b: Mapping[str, str | None]) -> set[str]:
    """The ids whose `digests` differ between two evaluations, so that they name different problems."""
    return {name for name in a.keys() & b.keys() if None not in (a[name], b[name]) and a[name] != b[name]}


def over_k(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> Band | None:
    """Pass@k of `after` minus `before`, evaluations of the same seeds in one order, over every k that all of them can
    estimate, with a simultaneous band of 95 %.

    The problems are those that all have. None for fewer than two problems or two k.
    """
    rows = [{row["id"]: row for row in evaluation.get("per_problem", ())} for evaluation in (*before, *after)]
    known = [digests(evaluation) for evaluation in (*before, *after)]
    others = set().union(*(other_problems(known[0], of) for of in known))
    names = [name for name in rows[0] if name not in others and all(of.get(name, {}).get("n") for of in rows)]
    n, c = (np.array([[of[name][key] for name in names] for of in rows], dtype=np.int64) for key in ("n", "c"))
    if len(names) < 2 or (last := int(n.min())) < 2:
        return None
    ks = np.unique(np.geomspace(1, last, MOST_KS).round().astype(int)) if last > MOST_KS else np.arange(1, last + 1)
    passed = pass_curve(n.ravel(), c.ravel(), last)[ks - 1].reshape(len(ks), 2, len(before), len(names))
    return simultaneous(passed[:, 1] - passed[:, 0], ks, (-1, 1))


# ---- two evaluations


class Comparison(NamedTuple):
    """One measure of two evaluations, in percent or as a count. Unknown ends are NaN.

    `change` is computed on the problems that both have. The difficulty of a problem cancels in its difference, so the
    interval of `change` is narrower than the others.
    """

    label: str
    base: Estimate
    trained: Estimate
    change: Estimate
    percent: bool = True
    support: int | None = None
    """The problems that have the measure on both sides, where not all of them have it."""
    left_out: int = 0
    """The problems of both sides that are left out, since one of these has too few scored samples."""
    problems: int = 0
    """The problems of the change."""

    @property
    def is_pass(self) -> bool:
        """Whether the measure is Pass@k."""
        return self.percent and self.support is None

    @property
    def significant(self) -> bool:
        """Whether the interval of the change is known and, as it is printed, excludes 0."""
        low, high = (float(f"{(100 if self.percent else 1) * end:.1f}") for end in self.change[1:])
        return low > 0 or high < 0

    def show(self, estimate: Estimate, sign: str = "") -> str:
        """An estimate in this measure's unit."""
        return estimate.text(100 if self.percent else 1, sign=sign)

    def cells(self) -> list[str]:
        """A row of a table: both evaluations and the change, with a * where it is significant."""
        mark = "*" if self.significant else " "
        return [self.label, self.show(self.base), self.show(self.trained), f"{self.show(self.change, '+')} {mark}"]


def comparisons(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Comparison]:
    """Pass@k by rising k, then the distinct correct solutions of all n samples and the diversity of correct pairs;
    whatever either evaluation has.

    Where both have some of the problems, the others are left out. An id that means another problem in each is left out,
    too. {} stands for a missing evaluation. Solutions are counted as they are written where the verifier cannot tell
    whether two of them are the same.
    """
    both = (a, b)
    known = [digests(evaluation) for evaluation in both]
    others = other_problems(*known)
    names = [name for name in known[0] | known[1] if name not in others]
    both_have = sum(name in known[0] and name in known[1] for name in names)
    exact = all(evaluation.get("exact_solutions", True) for evaluation in both)
    ks = sorted({1, *a.get("k", ()), *b.get("k", ())})
    sizes = sorted({evaluation["samples"] for evaluation in both if evaluation.get("samples")})
    measures = {f"pass@{k}": f"Pass@{k}" for k in ks}
    measures |= {f"distinct@{n}": f"Distinct@{n}" if exact else WRITTEN for n in sizes}
    rows = []
    for measure, label in {**measures, "pair_diversity": PAIRS[exact].capitalize()}.items():
        sides, bounds = [values(evaluation, measure, names) for evaluation in both], bounds_of(measure)
        has = [~np.isnan(side) for side in sides]
        # A side without any value, such as a missing evaluation, leaves the other its problems.
        compared = all(map(np.any, has))
        x, y = (side[has[0] & has[1] if compared else has[0] | has[1]] for side in sides)
        base, trained, change = interval(x, bounds), interval(y, bounds), paired_interval(x, y, bounds)
        if measure != "pair_diversity":
            few, percent = both_have - len(x) if compared else 0, measure.startswith("pass")
            rows.append(Comparison(label, base, trained, change, percent, left_out=few, problems=len(x)))
            continue
        label = f"{label} ({counted(len(x), 'problem')})"
        rows.append(Comparison(label, base, trained, change, support=len(x)))
        base, trained = (Estimate(effective_number(e.mean), np.nan, np.nan) for e in (base, trained))
        change = Estimate(trained.mean - base.mean, np.nan, np.nan)
        rows.append(Comparison(EFFECTIVE[exact].capitalize(), base, trained, change, False, support=len(x)))
    return [row for row in rows if not (math.isnan(row.base.mean) and math.isnan(row.trained.mean))]


def legend(rows: Sequence[Comparison]) -> str:
    """The label of rows that count solutions, distinct or written differently, what rows leave out, and how many
    problems would do."""
    said = "Distinct@n: distinct correct solutions among n samples."
    if any(row.label.endswith(WRITTEN) for row in rows):  # the label may begin with the title of a benchmark
        said = f"{WRITTEN}: sets of formulas that the correct samples write."
    said = f"{said} {ABOUT_PAIRS}" if any(row.support is not None for row in rows) else said
    few = [f"{row.label} leaves out {counted(row.left_out, 'problem')}" for row in rows if row.left_out]
    said = f"{said} Too few scored samples: {', '.join(dict.fromkeys(few))}." if few else said
    changes = ((f"The change of {row.label}", row.change, row.problems) for row in rows if row.is_pass)
    return f"{said} {enough(changes)}".strip()


def against(
    name_a: str, a: Mapping[str, Any], name_b: str, b: Mapping[str, Any]
) -> tuple[list[Comparison], dict[str, Band], str]:
    """The measures of the benchmarks that both have; the difference over k by benchmark; and both as text, with what
    else differs between the evaluations."""
    pairs = [(of_a, b["benchmarks"][name]) for name, of_a in a["benchmarks"].items() if name in b["benchmarks"]]
    if not pairs:
        raise DiverError(f"{name_a} and {name_b} have no benchmark in common")
    rows: list[Comparison] = []
    notes: list[str] = []
    for left, right in pairs:
        title = left["title"]
        of_both = [row for row in comparisons(left, right) if not math.isnan(row.change.mean)]
        if not of_both:
            raise DiverError(f"{name_a} and {name_b} have no problem of {title} in common (same id, text and answer)")
        rows += [row._replace(label=f"{title} {row.label}") for row in of_both]
        for key in (*SETTINGS, *OF_PROBLEMS):
            one, other = (of.get("source", {}).get("path") if key == "source" else of.get(key) for of in (left, right))
            # An evaluation made during training does not record its source.
            if one != other and (key in SETTINGS or None not in (one, other)):
                notes.append(f"{title}: {key} differs: {one} and {other}\n")
        known = digests(left), digests(right)
        if known[0].keys() != known[1].keys():
            both, sizes = len(known[0].keys() & known[1].keys()), " and ".join(str(len(ids)) for ids in known)
            notes.append(f"{title}: compared over the {both} problems that both have, of {sizes}\n")
        if others := other_problems(*known):
            notes.append(
                f"{title}: {len(others)} problems of the same id have another text or answer and are left out\n"
            )
    table = markdown(["", name_a, name_b, "change  "], [row.cells() for row in rows])
    found = {left["title"]: over_k([left], [right]) for left, right in pairs}
    bands = {title: band for title, band in found.items() if band}
    notes = [f"{title}, {band.about}: {band.text(name_b, name_a)}\n" for title, band in bands.items()] + notes
    text = (
        f"{name_b} ({b['model']}) against {name_a} ({a['model']})\n\n{table}\nOver the problems of both: Pass@k in "
        f"percent. {legend(rows)} Brackets hold 95 % intervals; * marks a change whose interval excludes 0.\n"
        + "".join(notes)
    )
    return rows, bands, text


# ---- variants, each with the evaluations of its seeds


def measured(found: Mapping[str, Runs]) -> list[tuple[Measure, dict[str, Values]]]:
    """Pass@k for the k of the evaluations, in per cent, then the distinct correct solutions of all samples, and the
    diversity of correct pairs where the evaluations have it. Solutions are counted as they are written where the
    verifier cannot tell whether two are the same.

    Each comes with its values, label -> seed -> problem, of the problems of which every run has one.
    """
    every = [evaluation for runs in found.values() for evaluation in runs.values()]
    samples, exact = every[0]["samples"], _exact_solutions(found)
    measures = [Measure(f"pass@{k}", f"Pass@{k}", 100, best=True) for k in every[0]["k"]]
    title = f"{'Distinct' if exact else WRITTEN}@{samples}"
    measures.append(Measure(f"distinct@{samples}", title, digits=2, best=True))
    if any("pair_diversity" in row for evaluation in every for row in evaluation["per_problem"]):
        measures.append(Measure("pair_diversity", PAIRS[exact].capitalize(), 100))
    columns: list[tuple[Measure, dict[str, Values]]] = []
    for measure in measures:
        rows = {label: {seed: values(e, measure.name) for seed, e in of.items()} for label, of in found.items()}
        known = ~np.isnan([row for of in rows.values() for row in of.values()]).any(axis=0)
        if measure.name == "pair_diversity":
            measure = measure._replace(title=f"{measure.title} ({counted(int(known.sum()), 'problem')})")
        columns.append((measure, {label: {seed: row[known] for seed, row in of.items()} for label, of in rows.items()}))
    return columns


def _exact_solutions(found: Mapping[str, Runs]) -> bool:
    """Whether the verifier of all evaluations knows when two solutions are the same."""
    return all(evaluation.get("exact_solutions", True) for runs in found.values() for evaluation in runs.values())


def levels(found: Mapping[str, Runs]) -> Table:
    """Each variant with its number of seeds: means over seeds and problems, with 95 % intervals over both."""
    columns: dict[Measure, Sequence[Cell]] = {}
    for measure, values in measured(found):
        estimates = [level(values[label], bounds_of(measure.name)) for label in found]
        columns[measure] = estimates
        if measure.name == "pair_diversity":
            effective = Measure("effective_solutions", EFFECTIVE[_exact_solutions(found)].capitalize(), digits=2)
            columns[effective] = [effective_number(estimate.mean) for estimate in estimates]
    return Table.of_columns("variant", starmap(with_seeds, found.items()), columns)


def with_seeds(label: str, seeds: Collection[int]) -> str:
    return f"{label} ({counted(len(seeds), 'seed')})"


def differences(found: Mapping[str, Runs], baseline: str) -> Table:
    """Each trained variant minus the baseline, with the number of seeds that both have: over these and over problems.

    Not known where they have none in common.
    """
    others = _others(found, baseline)
    columns = {
        measure._replace(sign="+", best=False): [
            difference(values[label], values[baseline], bounds_of(measure.name)) for label in others
        ]
        for measure, values in measured(found)
    }
    return Table.of_columns(f"minus {baseline}", starmap(with_seeds, others.items()), columns)


def pass_estimates(table: Table) -> dict[str, dict[int, Estimate]]:
    """Row -> k -> its Pass@k, in a table of variants."""
    ks = [int(measure.name.removeprefix("pass@")) for measure in table.measures if measure.name.startswith("pass@")]
    return {
        name: {k: cell for k, cell in zip(ks, cells, strict=False) if isinstance(cell, Estimate)}
        for name, cells in table.rows.items()
    }


class Compared(NamedTuple):
    """Variants after training, with notes that the tables do not contain."""

    evaluations: Mapping[str, Runs]
    tables: dict[str, Table]
    """`levels`, and `differences` from the baseline if another variant is compared."""
    bands: dict[str, Band]
    """Variant -> its difference of Pass@k from the baseline, over k."""
    notes: list[str]
    words: dict[str, str]
    """Variant -> what its band says."""


def compare_variants(found: Mapping[str, Runs], baseline: str | None = None) -> Compared:
    """Each variant, and all trained ones against `baseline`: by default the first of them, or of one alone the policy
    before training.

    Args:
        found: label -> seed -> evaluation; `BEFORE` labels those before training, where they are known.
    """
    trained = [label for label in found if label != BEFORE]
    baseline = baseline or (BEFORE if len(trained) == 1 and BEFORE in found else trained[0])
    if baseline not in found:
        raise DiverError(f"--baseline {baseline!r}: there is no such variant; there are {', '.join(map(repr, found))}")
    of_changes = differences(found, baseline)
    tables = {"levels": levels(found), "differences": of_changes}
    bands = {}
    for label, seeds in _others(found, baseline).items():
        before, after = ([found[of][seed] for seed in sorted(seeds)] for of in (baseline, label))
        if seeds and (band := over_k(before, after)):
            bands[label] = band
    words = {name: f"{name}, {band.about}: {band.text(name, baseline)}" for name, band in bands.items()}
    known = {name: table for name, table in tables.items() if table.rows}
    problems, passed = len(next(iter(found[baseline].values()))["per_problem"]), pass_estimates(of_changes)
    few = enough((f"{name} {of_changes.of}", e, problems) for name, by_k in passed.items() for e in by_k.values())
    return Compared(found, known, bands, [*left_out(found, baseline), *filter(None, [few])], words)


def left_out(found: Mapping[str, Runs], baseline: str) -> list[str]:
    """The variants that cannot be paired, and the measures that leave out problems, a line each."""
    lines = [
        f"{label} and {baseline} have no seed in common, so that nothing can be paired"
        for label, runs in found.items()
        if not runs.keys() & found[baseline].keys()
    ]
    problems = len(next(iter(found[baseline].values()))["per_problem"])
    for measure, values_of in measured(found):
        few = problems - len(next(iter(values_of[baseline].values())))
        if few and measure.name != "pair_diversity":
            lines.append(
                f"{measure.title}: {few} of {problems} problems left out, of which a run has too few scored samples"
            )
    return lines


def _others(found: Mapping[str, Runs], baseline: str) -> dict[str, Collection[int]]:
    """The trained variants besides the baseline, each with the seeds that both have."""
    others = {label: runs.keys() & found[baseline].keys() for label, runs in found.items()}
    return {label: seeds for label, seeds in others.items() if label not in (baseline, BEFORE)}
