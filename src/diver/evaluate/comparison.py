"""The paired comparison: a measure of each problem, over problems or over seeds and problems, and two evaluations side
by side."""

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np

from diver.core.bands import Band, simultaneous
from diver.core.files import number
from diver.core.settings import choose
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
"""Maximum number of k of a band. If there are more, k rises by a constant factor."""
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

    Both measures have the same `bounds`. A problem without a value (NaN) in one of the runs is left out.
    """
    shared = sorted(more.keys() & less.keys())
    rows = np.array([[side[seed] for seed in shared] for side in (less, more)], dtype=np.float64)
    rows = rows[..., ~np.isnan(rows).any((0, 1))] if rows.ndim == 3 else rows
    return paired_interval(rows[0], rows[1], bounds, confidence) if rows.size else UNKNOWN


# ---- one evaluation


def values(evaluation: Mapping[str, Any], measure: str, names: Collection[str] | None = None) -> np.ndarray:
    """pass@k, distinct@n or pair_diversity of the problems `names` (default: all), float64 [problems].

    NaN if a problem has too few scored samples, or, for distinct@n, another number of samples than n. pair_diversity is
    NaN for fewer than two correct samples.
    """
    rows = {row["id"]: row for row in evaluation.get("per_problem", ())}
    selected = [rows.get(name, {}) for name in (rows if names is None else names)]
    if measure == "pair_diversity":
        return np.array([number(row.get(measure)) for row in selected])
    n, c, distinct = (np.array([row.get(key, 0) for row in selected], dtype=np.int64) for key in ("n", "c", "distinct"))
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
    """Pass@k of `after` minus `before` for every k that all can estimate, with a simultaneous band of 95 %.

    Both have evaluations of the same seeds in one order. Only problems that all evaluations have count. None for fewer
    than two problems or two k.
    """
    rows = [{row["id"]: row for row in evaluation.get("per_problem", ())} for evaluation in (*before, *after)]
    digest_maps = [digests(evaluation) for evaluation in (*before, *after)]
    differing = set().union(*(other_problems(digest_maps[0], by_id) for by_id in digest_maps))
    names = [name for name in rows[0] if name not in differing and all(by_id.get(name, {}).get("n") for by_id in rows)]
    n, c = (np.array([[by_id[name][key] for name in names] for by_id in rows], dtype=np.int64) for key in ("n", "c"))
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
    """The number of problems that have the measure on both sides, if not all have it."""
    left_out: int = 0
    """The number of problems of both sides that are left out, since one side has too few scored samples."""
    problems: int = 0
    """The number of problems of the change."""

    @property
    def is_pass(self) -> bool:
        """Whether the measure is Pass@k."""
        return self.percent and self.support is None

    @property
    def significant(self) -> bool:
        """Whether the interval of the change is known and, as printed, excludes 0."""
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
    """Pass@k by rising k, then the distinct correct solutions of all n samples and the diversity of correct pairs.

    A row is there if either evaluation has its measure. If the evaluations share problems, all others are left out. An
    id that names different problems is left out, too. {} stands for a missing evaluation. Solutions are counted as
    written if the verifier cannot decide whether two of them are the same.
    """
    evaluations = (a, b)
    digest_maps = [digests(evaluation) for evaluation in evaluations]
    differing = other_problems(*digest_maps)
    names = [name for name in digest_maps[0] | digest_maps[1] if name not in differing]
    both_have = sum(name in digest_maps[0] and name in digest_maps[1] for name in names)
    exact = all(evaluation.get("exact_solutions", True) for evaluation in evaluations)
    ks = sorted({1, *a.get("k", ()), *b.get("k", ())})
    sizes = sorted({evaluation["samples"] for evaluation in evaluations if evaluation.get("samples")})
    measures = {f"pass@{k}": f"Pass@{k}" for k in ks}
    measures |= {f"distinct@{n}": f"Distinct@{n}" if exact else WRITTEN for n in sizes}
    rows = []
    for measure, label in {**measures, "pair_diversity": PAIRS[exact].capitalize()}.items():
        sides, bounds = [values(evaluation, measure, names) for evaluation in evaluations], bounds_of(measure)
        present = [~np.isnan(side) for side in sides]
        # A side without any value, such as a missing evaluation, leaves the other its problems.
        compared = all(map(np.any, present))
        x, y = (side[present[0] & present[1] if compared else present[0] | present[1]] for side in sides)
        base, trained, change = interval(x, bounds), interval(y, bounds), paired_interval(x, y, bounds)
        if measure != "pair_diversity":
            omitted, percent = both_have - len(x) if compared else 0, measure.startswith("pass")
            rows.append(Comparison(label, base, trained, change, percent, left_out=omitted, problems=len(x)))
            continue
        label = f"{label} ({counted(len(x), 'problem')})"
        rows.append(Comparison(label, base, trained, change, support=len(x)))
        base, trained = (Estimate(effective_number(e.mean), np.nan, np.nan) for e in (base, trained))
        change = Estimate(trained.mean - base.mean, np.nan, np.nan)
        rows.append(Comparison(EFFECTIVE[exact].capitalize(), base, trained, change, False, support=len(x)))
    return [row for row in rows if not (math.isnan(row.base.mean) and math.isnan(row.trained.mean))]


def legend(rows: Sequence[Comparison]) -> str:
    """The text below a table: what counts as a solution, how many problems rows leave out, and how many are enough."""
    text = "Distinct@n: distinct correct solutions among n samples."
    if any(row.label.endswith(WRITTEN) for row in rows):  # the label may begin with the title of a benchmark
        text = f"{WRITTEN}: sets of formulas that the correct samples write."
    text = f"{text} {ABOUT_PAIRS}" if any(row.support is not None for row in rows) else text
    omissions = [f"{row.label} leaves out {counted(row.left_out, 'problem')}" for row in rows if row.left_out]
    text = f"{text} Too few scored samples: {', '.join(dict.fromkeys(omissions))}." if omissions else text
    changes = ((f"The change of {row.label}", row.change, row.problems) for row in rows if row.is_pass)
    return f"{text} {enough(changes)}".strip()


def against(
    name_a: str, a: Mapping[str, Any], name_b: str, b: Mapping[str, Any]
) -> tuple[list[Comparison], dict[str, Band], str]:
    """Two evaluations compared on the benchmarks that both have.

    Returns:
        The measures; the difference over k by benchmark; and a text with both and with settings that differ.
    """
    pairs = [(result, b["benchmarks"][name]) for name, result in a["benchmarks"].items() if name in b["benchmarks"]]
    if not pairs:
        raise DiverError(f"{name_a} and {name_b} have no benchmark in common")
    rows: list[Comparison] = []
    notes: list[str] = []
    for left, right in pairs:
        title = left["title"]
        changes = [row for row in comparisons(left, right) if not math.isnan(row.change.mean)]
        if not changes:
            raise DiverError(f"{name_a} and {name_b} have no problem of {title} in common (same id, text and answer)")
        rows += [row._replace(label=f"{title} {row.label}") for row in changes]
        for key in (*SETTINGS, *OF_PROBLEMS):
            x, y = (side.get("source", {}).get("path") if key == "source" else side.get(key) for side in (left, right))
            # An evaluation made during training does not record its source.
            if x != y and (key in SETTINGS or None not in (x, y)):
                notes.append(f"{title}: {key} differs: {x} and {y}\n")
        sides = digests(left), digests(right)
        if sides[0].keys() != sides[1].keys():
            shared, sizes = len(sides[0].keys() & sides[1].keys()), " and ".join(str(len(ids)) for ids in sides)
            notes.append(f"{title}: compared over the {shared} problems that both have, of {sizes}\n")
        if differing := other_problems(*sides):
            notes.append(
                f"{title}: {len(differing)} problems of the same id have another text or answer and are left out\n"
            )
    table = markdown(["", name_a, name_b, "change  "], [row.cells() for row in rows])
    band_by_title = {left["title"]: over_k([left], [right]) for left, right in pairs}
    bands = {title: band for title, band in band_by_title.items() if band}
    notes = [f"{title}, {band.about}: {band.text(name_b, name_a)}\n" for title, band in bands.items()] + notes
    text = (
        f"{name_b} ({b['model']}) against {name_a} ({a['model']})\n\n{table}\nOver the problems of both: Pass@k in "
        f"percent. {legend(rows)} Brackets hold 95 % intervals; * marks a change whose interval excludes 0.\n"
        + "".join(notes)
    )
    return rows, bands, text


# ---- variants, each with the evaluations of its seeds


def measured(variants: Mapping[str, Runs]) -> list[tuple[Measure, dict[str, Values]]]:
    """Pass@k for the k of the evaluations, in per cent, then the distinct correct solutions of all samples, and the
    diversity of correct pairs if the evaluations have it. Solutions are counted as written if the verifier cannot
    decide whether two are the same.

    Each measure comes with its values, label -> seed -> problem, for the problems that have a value in every run.
    """
    evaluations = [evaluation for by_seed in variants.values() for evaluation in by_seed.values()]
    samples, exact = evaluations[0]["samples"], _exact_solutions(variants)
    measures = [Measure(f"pass@{k}", f"Pass@{k}", 100, best=True) for k in evaluations[0]["k"]]
    title = f"{'Distinct' if exact else WRITTEN}@{samples}"
    measures.append(Measure(f"distinct@{samples}", title, digits=2, best=True))
    if any("pair_diversity" in row for evaluation in evaluations for row in evaluation["per_problem"]):
        measures.append(Measure("pair_diversity", PAIRS[exact].capitalize(), 100))
    pairs: list[tuple[Measure, dict[str, Values]]] = []
    for measure in measures:
        rows = {name: {seed: values(e, measure.name) for seed, e in runs.items()} for name, runs in variants.items()}
        full = ~np.isnan([row for runs in rows.values() for row in runs.values()]).any(axis=0)
        if measure.name == "pair_diversity":
            measure = measure._replace(title=f"{measure.title} ({counted(int(full.sum()), 'problem')})")
        pairs.append((measure, {name: {seed: row[full] for seed, row in runs.items()} for name, runs in rows.items()}))
    return pairs


def _exact_solutions(variants: Mapping[str, Runs]) -> bool:
    """Whether the verifiers of all evaluations can decide whether two solutions are the same."""
    return all(evaluation.get("exact_solutions", True) for runs in variants.values() for evaluation in runs.values())


def levels(variants: Mapping[str, Runs]) -> Table:
    """Each variant with its number of seeds: means over seeds and problems, with 95 % intervals over both."""
    columns: dict[Measure, Sequence[Cell]] = {}
    for measure, values in measured(variants):
        estimates = [level(values[label], bounds_of(measure.name)) for label in variants]
        columns[measure] = estimates
        if measure.name == "pair_diversity":
            effective = Measure("effective_solutions", EFFECTIVE[_exact_solutions(variants)].capitalize(), digits=2)
            columns[effective] = [effective_number(estimate.mean) for estimate in estimates]
    return Table.of_columns("variant", starmap(with_seeds, variants.items()), columns)


def with_seeds(label: str, seeds: Collection[int]) -> str:
    return f"{label} ({counted(len(seeds), 'seed')})"


def differences(variants: Mapping[str, Runs], baseline: str) -> Table:
    """Each trained variant minus the baseline, with the number of seeds that both have: over these and over problems.

    Unknown where they have no seed in common.
    """
    others = _others(variants, baseline)
    columns = {
        measure._replace(sign="+", best=False): [
            difference(values[label], values[baseline], bounds_of(measure.name)) for label in others
        ]
        for measure, values in measured(variants)
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


def compare_variants(variants: Mapping[str, Runs], baseline: str | None = None) -> Compared:
    """Each variant, and every trained variant against `baseline`.

    Args:
        variants: label -> seed -> evaluation; `BEFORE` labels the evaluations before training, if they are known.
        baseline: the label of a variant. By default the first trained variant; if there is only one, `BEFORE`.
    """
    trained = [label for label in variants if label != BEFORE]
    baseline = baseline or (BEFORE if len(trained) == 1 and BEFORE in variants else trained[0])
    choose(baseline, variants, "--baseline")
    changes = differences(variants, baseline)
    tables = {"levels": levels(variants), **({"differences": changes} if changes.rows else {})}
    bands = {}
    for label, seeds in _others(variants, baseline).items():
        before, after = ([variants[variant][seed] for seed in sorted(seeds)] for variant in (baseline, label))
        if seeds and (band := over_k(before, after)):
            bands[label] = band
    words = {name: f"{name}, {band.about}: {band.text(name, baseline)}" for name, band in bands.items()}
    problems, passed = len(next(iter(variants[baseline].values()))["per_problem"]), pass_estimates(changes)
    note = enough((f"{name} {changes.of}", e, problems) for name, by_k in passed.items() for e in by_k.values())
    return Compared(variants, tables, bands, [*left_out(variants, baseline), *filter(None, [note])], words)


def left_out(variants: Mapping[str, Runs], baseline: str) -> list[str]:
    """A line for each variant that cannot be paired, and for each measure that leaves out problems."""
    lines = [
        f"{label} and {baseline} have no seed in common, so that nothing can be paired"
        for label, runs in variants.items()
        if not runs.keys() & variants[baseline].keys()
    ]
    problems = len(next(iter(variants[baseline].values()))["per_problem"])
    for measure, values_of in measured(variants):
        omitted = problems - len(next(iter(values_of[baseline].values())))
        if omitted and measure.name != "pair_diversity":
            lines.append(
                f"{measure.title}: {omitted} of {problems} problems left out, of which a run has too few scored samples"
            )
    return lines


def _others(variants: Mapping[str, Runs], baseline: str) -> dict[str, Collection[int]]:
    """The trained variants besides the baseline, each with the seeds that both have."""
    shared_seeds = {label: runs.keys() & variants[baseline].keys() for label, runs in variants.items()}
    return {label: seeds for label, seeds in shared_seeds.items() if label not in (baseline, BEFORE)}
