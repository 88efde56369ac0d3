"""What the page says of a group: Pass@k, distinct@k by the formulas written, diversity, entropy and length, by right
and by wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from diver.core.statistics import Estimate, by_problem, distinct_at_k, interval, pass_at_k
from diver.core.types import Group, Rollout
from diver.diversity import formulas, textual_dissimilarity
from diver.diversity.equational import unique_fractions
from diver.look.problems import estimate
from diver.tasks.verify.base import same_formulas

if TYPE_CHECKING:
    import pandas as pd

RIGHT, WRONG = "correct", "wrong"
LARGEST = 64  # responses of a group whose diversity is measured; of more, the first


def outcome_values(group: Group, threshold: float) -> dict[str, float]:
    """What costs next to nothing, of every group that is read; NaN where it is not known.

    A name that ends in :correct or :wrong is of those responses alone. Entropy is that of the file, in nats per token;
    where it has none but log-probabilities, the mean of -log p over the sampled tokens, which estimates it.
    """
    outcomes = group.outcomes
    right = outcomes >= threshold
    known = not np.isnan(outcomes).any()
    size, correct = len(group), int(right.sum())
    values = {"reward/outcome": float(np.nanmean(outcomes)) if not np.isnan(outcomes).all() else math.nan}
    if known:
        values |= {f"pass@{k}": float(pass_at_k(size, correct, k)) for k in powers(size)}
        if size > 1:
            kinds = {"solve_all": correct == size, "mixed": 0 < correct < size, "solve_none": correct == 0}
            values |= {f"group/{name}": float(is_so) for name, is_so in kinds.items()}
    by_rollout = {
        "policy/entropy": [entropy(r) for r in group.rollouts],
        "response/length_mean": [_length(r) for r in group.rollouts],
        "response/words": [float(len(r.response.split())) for r in group.rollouts],
        "response/truncated": [float(r.truncated) for r in group.rollouts],
    }
    parts = {"": np.full(size, True), f":{RIGHT}": right, f":{WRONG}": ~right & ~np.isnan(outcomes)}
    for name, numbers in by_rollout.items():
        column = np.array(numbers)
        for suffix, part in parts.items():
            if (chosen := part & ~np.isnan(column)).any():
                values[f"{name}{suffix}"] = float(column[chosen].mean())
    return values


def powers(size: int) -> list[int]:
    """1, 2, 4, ... up to `size`, and `size` itself."""
    return sorted({1 << i for i in range(size.bit_length())} | {size})


def diversity_values(group: Group, threshold: float) -> dict[str, float]:
    """TD of all responses, of the correct ones and of the wrong ones, ED, and distinct@k, all up to the answer where it
    is known.

    Correct responses that write other sets of formulas (without any, other words) are different.
    """
    rollouts = group.rollouts[:LARGEST]
    texts = [r.until_answer for r in rollouts]
    outcomes = group.outcomes[:LARGEST]
    right = outcomes >= threshold
    dissimilarity = textual_dissimilarity(texts)
    written = [formulas(text) for text in texts]

    def mean(chosen: np.ndarray) -> float:
        n = int(chosen.sum())
        return float(dissimilarity[np.ix_(chosen, chosen)].sum() / (n * (n - 1))) if n > 1 else math.nan

    everyone = np.ones(len(texts), dtype=bool)
    values = {"diversity/textual": mean(everyone), "diversity/equational": float(np.mean(unique_fractions(written)))}
    if len(texts) < 2:
        values = dict.fromkeys(values, math.nan)
    values |= {
        f"diversity/textual:{RIGHT}": mean(right),
        f"diversity/textual:{WRONG}": mean(~right & ~np.isnan(outcomes)),
    }
    if not np.isnan(outcomes).any():
        solutions = [same_formulas(t, f) for t, f, is_right in zip(texts, written, right, strict=True) if is_right]
        counts = [*Counter(solutions).values()]
        values |= {f"distinct@{k}": distinct_at_k(len(texts), counts, k) for k in powers(len(texts))}
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
    """A value of groups over problems, with its interval; None where it is not known of any."""
    if name not in table or (known := table[name].dropna()).empty:
        return None
    values = by_problem(table["problem"][known.index], known)
    room, _, measure = name.rpartition("/")
    return interval(values, (0.0, 1.0)) if room == "group" else estimate(measure.partition(":")[0], values)


def shared_ks(tables: Iterable[pd.DataFrame], kind: str) -> list[int]:
    """The values of k that most groups have: of pass the smallest, one in the middle and the largest; of distinct the
    largest, if it is above 1."""
    counts = Counter[int]()
    for table in tables:
        known = table.filter(like=f"{kind}@").count()
        counts.update({int(name.partition("@")[2]): n for name, n in known[known > 0].items()})
    ks = sorted(k for k, n in counts.items() if 2 * n > max(counts.values()))
    if kind == "distinct":
        return [k for k in ks[-1:] if k > 1]
    return sorted({ks[0], ks[len(ks) // 2], ks[-1]}) if ks else []
