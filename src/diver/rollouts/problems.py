"""Values of groups, tables with one row per problem, and means with intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from diver.core.rounding import reaches
from diver.core.statistics import (
    EFFECTIVE,
    PAIRS,
    SUPPORT,
    Estimate,
    bounds_of,
    by_problem,
    distinct_at_k,
    effective_number,
    interval,
    pair_diversity,
    pass_at_k,
)
from diver.core.tables import Cell, Measure, clean
from diver.core.types import Group, Problem, Rollout
from diver.diversity import action_key, formulas, metrics, textual_dissimilarity
from diver.diversity.equational import unique_fractions
from diver.grading.base import same_formulas

if TYPE_CHECKING:
    import pandas as pd

TITLES = {
    **metrics.TITLES, "words": "length in words",
    "pair_diversity": PAIRS[True], "pair_diversity:formulas": PAIRS[False],
    "pair_diversity:textual": "TD of correct pairs",
}  # fmt: skip

RANGES = metrics.RANGES | dict.fromkeys(("words", "entropy", "length_mean"), (0.0, math.inf))
"""The range of metrics that are not fractions (`bounds_of`)."""

EFFECTIVE_OF = {"pair_diversity": EFFECTIVE[True], "pair_diversity:formulas": EFFECTIVE[False]}
PAIR_KINDS = ("pair_diversity", "pair_diversity:formulas", "pair_diversity:textual")
"""How two correct responses of a group are compared. The first kind compares the solutions of the verifier, or the
actions of trajectories; the second compares formulas. If no response has formulas, the third compares the texts."""
RIGHT, WRONG = "correct", "wrong"
LARGEST = 64  # maximum responses per group whose diversity is measured: BLEU compares all pairs
SINGLE = "single responses, whose diversity is not defined: it is left out"


class ProblemTable(NamedTuple):
    """The values of each problem: the means of its groups, averaged over the groups."""

    problems: list[str]
    """See `name_of`."""
    columns: dict[str, np.ndarray]
    """float64 [problems] each: the metrics by their names, `pass@k`, and `words`, the mean length of a response."""


def group_row(group: Group, ks: Sequence[int] = (), threshold: float = 0.5) -> dict[str, float]:
    """The means of a measured group: its metrics, `pass@k` for k in `ks`, and `words` (split at white space).

    The metrics of a single response are NaN, since it has no other response to differ from. An outcome of at least
    `threshold` is correct. Pass@k counts the responses with a known outcome. It is NaN if there are fewer than k.
    """
    names = group.rollouts[0].diversity
    several = len(group) > 1
    row = {name: float(np.mean([r.diversity[name] for r in group.rollouts])) if several else np.nan for name in names}
    scored, correct = int((~np.isnan(group.outcomes)).sum()), int(reaches(group.outcomes, threshold).sum())
    row |= {f"pass@{k}": float(pass_at_k(scored, correct, k)) for k in ks}
    row |= pair_values(correct_of(group, threshold))
    return {**row, "words": float(np.mean([len(response.split()) for response in group.responses]))}


def correct_of(group: Group, threshold: float) -> list[Rollout]:
    """The rollouts whose outcome is known and at least `threshold`."""
    return [r for r, correct in zip(group.rollouts, reaches(group.outcomes, threshold), strict=True) if correct]


def pair_values(correct: Sequence[Rollout]) -> dict[str, float]:
    """The chance that two correct responses of a group differ, under the kind of `PAIR_KINDS` that applies.

    The other kinds are NaN, and all kinds are NaN for fewer than two responses. `pair_diversity:textual` is the mean
    textual dissimilarity of the pairs.
    """
    values = dict.fromkeys(PAIR_KINDS, math.nan)
    if len(correct) < 2:
        return values
    solutions = [r.solution for r in correct]
    texts = [r.until_answer for r in correct]
    formula_sets = [formulas(text) for text in texts]
    if None not in solutions:
        values["pair_diversity"] = pair_diversity([*Counter(solutions).values()])
    elif all(r.turns and r.actions for r in correct):
        values["pair_diversity"] = pair_diversity([*Counter(map(action_key, correct)).values()])
    elif any(formula_sets):
        counts = Counter(map(same_formulas, texts, formula_sets))
        values["pair_diversity:formulas"] = pair_diversity([*counts.values()])
    else:
        n = len(texts[:LARGEST])
        values["pair_diversity:textual"] = float(textual_dissimilarity(texts[:LARGEST]).sum() / (n * (n - 1)))
    return values


def name_of(problem: Problem) -> str:
    """The id of a problem, after its benchmark if known: two benchmarks may number their problems alike."""
    return f"{problem.source}/{problem.id}" if problem.source else problem.id


def owner(problem: Problem, column: str = "") -> str:
    """The label of the responses in tables. `column` is the column of --by, which labels responses without a value."""
    return clean(problem.meta.get("by", f"(no {column or 'name'})"))


def problem_table(groups: Sequence[Group], ks: Sequence[int] = (), threshold: float = 0.5) -> ProblemTable:
    """One row per problem of measured groups. A problem with several groups (at several steps) has the mean of the
    known values."""
    problems = [name_of(group.problem) for group in groups]
    rows = [group_row(group, ks, threshold) for group in groups]
    columns = {name: by_problem(problems, [row[name] for row in rows]) for name in rows[0]}
    return ProblemTable(list(dict.fromkeys(problems)), columns)


def summary(table: ProblemTable) -> Mapping[str, Estimate]:
    """The mean of each column over problems with its 95 % interval; columns without any value are left out.

    The diversity of correct pairs is that of the kind that most problems have.
    """
    kind = kind_of_pairs([table.columns])
    names = [name for name, v in table.columns.items() if not np.isnan(v).all()]
    return {name: estimate(name, table.columns[name]) for name in names if name == kind or name not in PAIR_KINDS}


def kind_of_pairs(tables: Sequence[Mapping[str, ArrayLike]]) -> str | None:
    """The kind of `PAIR_KINDS` that most values in these tables have; None if no two correct responses are known."""
    supports = {kind: sum(support_of(table[kind]) for table in tables if kind in table) for kind in PAIR_KINDS}
    return max(supports, key=lambda kind: supports[kind]) if any(supports.values()) else None


def support_of(values: ArrayLike) -> int:
    """The number of known values."""
    return int(np.count_nonzero(~np.isnan(np.asarray(values, dtype=np.float64))))


def pair_columns(
    kind: str, estimates: Sequence[Estimate | None], support: Sequence[int | None]
) -> dict[Measure, Sequence[Cell]]:
    """The columns of a table on pairs of this kind: diversity, number of problems with pairs, effective number."""
    columns: dict[Measure, Sequence[Cell]] = {column(kind): estimates, Measure(f"{kind}_problems", SUPPORT): support}
    if title := EFFECTIVE_OF.get(kind):
        effective = Measure(f"{kind}_effective", title, digits=2)
        columns[effective] = [effective_number(estimate.mean) if estimate else None for estimate in estimates]
    return columns


def estimate(name: str, values: ArrayLike) -> Estimate:
    """The mean of values of the column `name` with its 95 % interval, which stays in the range of these values."""
    mean = interval(values, bounds_of(name.partition(":")[0]))
    return mean.within(*RANGES[name]) if name in RANGES else mean


def title(name: str) -> str:
    """The title of a column in tables and figures."""
    return TITLES.get(name, name.replace("pass@", "Pass@"))


def is_metric(name: str) -> bool:
    return name != "words" and not name.startswith("pass@") and name not in EFFECTIVE_OF


def column(name: str) -> Measure:
    """The format of a column in tables: Pass@k and shares of pairs in per cent, lengths with one decimal."""
    percent = name.startswith("pass@") or name in EFFECTIVE_OF
    return Measure(name, title(name), 100 if percent else 1, 3 if is_metric(name) else 1)


# ---- values of a group, for the page of rollouts


def outcome_values(group: Group, threshold: float) -> dict[str, float]:
    """Cheap values of every group that is read; NaN if unknown.

    A name that ends in :correct or :wrong covers these responses alone. Entropy comes from the file, in nats per token.
    Without it, the mean of -log p over the sampled tokens is an estimate.
    """
    outcomes = group.outcomes
    right = reaches(outcomes, threshold)
    size, correct, scored = len(group), int(right.sum()), int((~np.isnan(outcomes)).sum())
    values = {"reward/outcome": float(np.nanmean(outcomes)) if scored else math.nan}
    values |= {f"pass@{k}": float(pass_at_k(scored, correct, k)) for k in powers(size)}
    if size == scored > 1:
        kinds = {"solve_all": correct == size, "mixed": 0 < correct < size, "solve_none": correct == 0}
        values |= {f"group/{name}": float(holds) for name, holds in kinds.items()}
    by_rollout = {
        "policy/entropy": [entropy(r) for r in group.rollouts],
        "response/length_mean": [_length(r) for r in group.rollouts],
        "response/turns_mean": [r.policy_turns or math.nan for r in group.rollouts],
        "response/words": [float(len(r.response.split())) for r in group.rollouts],
        "response/truncated": [float(r.truncated) for r in group.rollouts],
    }
    masks = {"": np.full(size, True), f":{RIGHT}": right, f":{WRONG}": ~right & ~np.isnan(outcomes)}
    for name, numbers in by_rollout.items():
        column = np.array(numbers)
        for suffix, mask in masks.items():
            if (rows := mask & ~np.isnan(column)).any():
                values[f"{name}{suffix}"] = float(column[rows].mean())
    return values


def powers(size: int) -> list[int]:
    """1, 2, 4, ... up to `size`, and `size` itself."""
    return sorted({1 << i for i in range(size.bit_length())} | {size})


def diversity_values(group: Group, threshold: float) -> dict[str, float]:
    """TD of all, of the correct and of the wrong responses, ED, distinct@k, and the diversity of correct pairs.

    Texts are measured up to the answer if it is known. Two correct responses differ if their sets of formulas differ;
    without formulas, if their words differ. Trajectories differ if their actions differ.
    """
    group = replace(group, rollouts=group.rollouts[:LARGEST])
    texts, outcomes, correct = [r.until_answer for r in group.rollouts], group.outcomes, correct_of(group, threshold)
    right = reaches(outcomes, threshold)
    dissimilarity, formula_sets = textual_dissimilarity(texts), [*map(formulas, texts)]

    def mean(chosen: np.ndarray) -> float:
        n = int(chosen.sum())
        return float(dissimilarity[np.ix_(chosen, chosen)].sum() / (n * (n - 1))) if n > 1 else math.nan

    values = {
        "diversity/textual": mean(np.ones(len(texts), dtype=bool)),
        "diversity/equational": float(np.mean(unique_fractions(formula_sets))) if len(texts) > 1 else math.nan,
        f"diversity/textual:{RIGHT}": mean(right),
        f"diversity/textual:{WRONG}": mean(~right & ~np.isnan(outcomes)),
        **pair_values(correct),
    }
    if scored := int((~np.isnan(outcomes)).sum()):
        solutions = (
            action_key(r) if r.turns and r.actions else same_formulas(text, formula_set)
            for r, text, formula_set, is_right in zip(group.rollouts, texts, formula_sets, right, strict=True)
            if is_right
        )
        counts = [*Counter(solutions).values()]
        values |= {f"distinct@{k}": distinct_at_k(scored, counts, k) for k in powers(len(texts))}
    return values


def entropy(rollout: Rollout) -> float:
    if not math.isnan(rollout.entropy) or rollout.logprobs is None:
        return rollout.entropy
    return -float(rollout.logprobs.mean(dtype=float))


def _length(rollout: Rollout) -> float:
    if rollout.known_length is None:
        return math.nan if rollout.logprobs is None else float(len(rollout.logprobs))
    return float(rollout.known_length)


def estimate_of(table: pd.DataFrame, name: str) -> Estimate | None:
    """The mean of a column of groups over problems, with its interval; None if no value is known."""
    if name not in table or (cells := table[name].dropna()).empty:
        return None
    values = by_problem(table["problem"][cells.index], cells)
    section, _, measure = name.rpartition("/")
    return interval(values, (0.0, 1.0)) if section == "group" else estimate(measure.partition(":")[0], values)


def shared_ks(tables: Iterable[pd.DataFrame], kind: str) -> list[int]:
    """The values of k that most groups have. For pass, the smallest, one in the middle and the largest. For distinct,
    the largest if it is above 1."""
    counts = Counter[int]()
    for table in tables:
        supports = table.filter(like=f"{kind}@").count()
        counts.update({int(name.partition("@")[2]): n for name, n in supports[supports > 0].items()})
    ks = sorted(k for k, n in counts.items() if 2 * n > max(counts.values()))
    if kind == "distinct":
        return [k for k in ks[-1:] if k > 1]
    return sorted({ks[0], ks[len(ks) // 2], ks[-1]}) if ks else []
