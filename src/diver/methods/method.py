"""A `Method` = a name + settings; a name and nothing else IS the paper's setting.

`Method.apply` is the only way from verified groups to advantages, whatever engine trains:
diversity -> shaping -> selection -> advantage. No torch here.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from diver.diversity import Diversity, measure, resolve
from diver.losses.objective import Loss
from diver.methods.advantage import Std, bootstrap_pass_at_k_advantage, group_advantage, pass_at_k_advantage
from diver.methods.shaping import Bonus, Combine, Shaping, bonus, intrinsic_reward, paid, shape
from diver.settings import choose, merge, read, settings
from diver.types import DiverError, Group, Progress, Reward

Decode = Callable[[Sequence[int]], str]

OBSERVED = ("textual", "equational")  # measured for every method, so that any two runs can be compared


@settings
class Selection:
    """Train on G of more samples, chosen by diversity (paper, appendix B.1)."""

    keep: Literal["all", "most", "least"] = "all"
    """all: no selection; most or least: the G rollouts of highest or lowest mean of TD and ED."""
    samples: int = 2
    """How many times G rollouts are sampled, where `keep` is not all."""

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")

    @property
    def multiplier(self) -> int:
        """Rollouts sampled for each one kept."""
        return 1 if self.keep == "all" else self.samples


@settings
class PassAtK:
    """Pass@k Training (arXiv 2508.10751): the reward of a set of k responses is that of its best."""

    k: int = 4
    """The size of a set. With fewer than k wrong responses a group teaches nothing: at G = 8, k = 4 from 5 correct on."""
    form: Literal["analytic", "bootstrap"] = "analytic"
    """analytic: the exact mean over all sets; bootstrap: over random sets."""
    sets: int | None = None
    """How many random sets the bootstrap draws; none: as many as the group has responses."""

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError(f"k must be at least 1, not {self.k}")
        if self.sets is not None and self.sets < 1:
            raise ValueError(f"sets must be at least 1, not {self.sets}")


@settings
class Method:
    """What a group of verified rollouts becomes before the update. The defaults are DIVER-MIX."""

    name: str = "diver-mix"
    """One of METHODS: the setting that the others start from."""
    pays: Mapping[str, Bonus] = dataclasses.field(default_factory=lambda: {"textual": Bonus(), "equational": Bonus()})
    """The diversity metrics that are paid, each with its weight and bound; none: lambda is 0."""
    combine: Combine = "mean"
    """Weighted mean or weighted sum of the clipped metrics (ours; with one metric of weight 1, the paper's term)."""
    diversity: Diversity = Diversity()
    """How the metrics are measured."""
    shaping: Shaping = Shaping()
    """lambda, sigma, gamma, and which responses are paid."""
    selection: Selection = Selection()
    """Which rollouts are kept."""
    estimator: Literal["grpo", "pass-at-k"] = "grpo"
    """How rewards become advantages: normalised in the group, or by Pass@k Training, which knows correct and wrong only."""
    pass_at_k: PassAtK = PassAtK()
    """Of the estimator pass-at-k."""
    std: Std = "population"
    """Whose standard deviation divides in GRPO: the paper's 1/G, or the sample's 1/(G-1)."""
    tolerance: float = 1e-8
    """A group whose rewards differ by no more than this has GRPO advantages of exactly 0."""
    loss: Loss = Loss()
    """The objective of the update."""

    def __post_init__(self) -> None:
        if self.tolerance < 0:
            raise ValueError(f"tolerance must be at least 0, not {self.tolerance}")
        if self.pays and not sum(spec.weight for spec in self.pays.values()):
            raise ValueError("pays: at least one weight must be above 0")
        if self.pays and self.estimator == "pass-at-k":
            raise ValueError(
                "estimator pass-at-k sees only whether a response is correct, so what is paid for diversity would be "
                'lost: start from name = "pass-at-k", which pays nothing'
            )
        for metric in self.pays:
            resolve(metric, self.diversity)

    @classmethod
    def named(cls, name: str, **overrides: Any) -> Method:
        """The method of that name, with a nested table over its settings: `named("diver-td", shaping={"ratio": 0.5})`.

        Tables are merged key by key, `pays` too: a metric leaves DIVER-MIX by weight 0 or by another name. Raises
        DiverError with the dotted key and the choices for an unknown name or key, a wrong type or a value out of range.
        """
        choose(name, METHODS, "method.name")
        return read(cls, merge({"name": name, **METHODS[name]}, overrides), "method")

    def check_group(self, size: int, key: str) -> None:
        """Raises DiverError where no group of `size` responses, the setting `key`, could ever have a signal."""
        if self.estimator == "pass-at-k" and self.pass_at_k.k >= size:
            raise DiverError(
                f"method.pass_at_k.k is {self.pass_at_k.k} with {key} = {size}: k must be below G, "
                "or no group ever has a signal"
            )

    def ratio(self, progress: Progress | float) -> float:
        """lambda at `progress`; 0 for a method that pays nothing."""
        return self.shaping.ratio * self.shaping.schedule.factor(progress) if self.pays else 0.0

    def apply(self, groups: Iterable[Group], progress: Progress | float, decode: Decode | None = None) -> list[Group]:
        """The groups to train on: every rollout with its diversity, the parts of its reward, and its advantage.

        TD and ED are measured whatever is paid. With a selection, diversity is that within all the samples, and the
        advantage is taken over the kept ones, which stay in their order. `decode` (token ids -> text) is for metrics
        that look at the first tokens of a text only. Raises ValueError where an outcome is missing or not finite.
        """
        ratio = self.ratio(progress)
        done = []
        for group in groups:
            group = self._select(self._shape(group, ratio, decode))
            done.append(group.with_each(advantage=self._advantage(group, progress).tolist()))
        return done

    def metrics(
        self, groups: Sequence[Group], progress: Progress | float, sampled: Sequence[Group] | None = None
    ) -> dict[str, float]:
        """What the run folder logs of the groups that `apply` returned.

        reward/outcome, group/solve_all and group/solve_none come from the outcomes of `sampled`: with a selection, give
        what `apply` was given. Diversity and the shaped reward are means over the rollouts that are trained on.
        shaping/clipped is the share of paid bonuses held down by their bound, 0 where nothing is paid.
        """
        if not groups:
            raise ValueError("metrics need at least one group")
        outcomes = [group.outcomes for group in (groups if sampled is None else sampled)]
        correct = [o >= self.shaping.threshold for o in outcomes]
        rollouts = [rollout for group in groups for rollout in group.rollouts]
        return {
            "reward/outcome": float(np.concatenate(outcomes).mean()),
            "reward/shaped": float(np.concatenate([group.rewards for group in groups]).mean()),
            **{f"diversity/{k}": float(np.mean([r.diversity[k] for r in rollouts])) for k in rollouts[0].diversity},
            "shaping/coef": self.ratio(progress),
            "shaping/clipped": self._clipped(groups),
            "group/solve_all": float(np.mean([c.all() for c in correct])),
            "group/solve_none": float(np.mean([not c.any() for c in correct])),
        }

    def _shape(self, group: Group, ratio: float, decode: Decode | None) -> Group:
        outcomes = group.outcomes
        if not np.isfinite(outcomes).all():
            i = int(np.isfinite(outcomes).argmin())
            raise ValueError(
                f"problem {group.problem.id!r}, rollout {i}: the outcome is {outcomes[i]}; "
                "every rollout needs a finite outcome before it is shaped"
            )
        diversity = measure(group, list(dict.fromkeys((*OBSERVED, *self.pays))), self.diversity, decode)
        columns = {name: values.tolist() for name, values in diversity.items()}
        group = group.with_each(
            diversity=[dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        )
        if not self.pays:
            return group.with_each(reward=[Reward(float(r)) for r in outcomes])
        paid_for = bonus(self._intrinsic(group), self.pays, self.shaping.bound, self.combine)
        return group.with_each(reward=shape(outcomes, paid_for, ratio, self.shaping, self._lengths(group)))

    def _lengths(self, group: Group) -> np.ndarray | None:
        return np.array([r.length for r in group.rollouts]) if self.shaping.needs_lengths else None

    def _intrinsic(self, group: Group) -> dict[str, np.ndarray]:
        lengths = self._lengths(group)
        columns = {name: np.array([r.diversity[name] for r in group.rollouts]) for name in self.pays}
        return {name: intrinsic_reward(d, lengths, self.shaping.discount) for name, d in columns.items()}

    def _clipped(self, groups: Sequence[Group]) -> float:
        clipped = [
            values[paid(group.outcomes, self.shaping)] > (self.pays[name].bound or self.shaping.bound)
            for group in groups
            for name, values in self._intrinsic(group).items()
        ]
        total = sum(c.size for c in clipped)
        return sum(int(c.sum()) for c in clipped) / total if total else 0.0

    def _advantage(self, group: Group, progress: Progress | float) -> np.ndarray:
        if self.estimator == "grpo":
            return group_advantage(group.rewards, self.std, self.tolerance)
        how, threshold = self.pass_at_k, self.shaping.threshold
        if how.form == "analytic":
            return pass_at_k_advantage(group.rewards, how.k, threshold)
        # A stream of the problem, step and responses: a resumed run draws the same sets, one of another seed does not.
        key = hashlib.blake2b(repr((group.problem.id, progress, group.responses)).encode(), digest_size=8).digest()
        random = np.random.default_rng(int.from_bytes(key))
        return bootstrap_pass_at_k_advantage(group.rewards, how.k, how.sets or len(group), random, threshold)

    def _select(self, group: Group) -> Group:
        if self.selection.keep == "all":
            return group
        size, rest = divmod(len(group), self.selection.samples)
        if rest or not size:
            raise ValueError(
                f"problem {group.problem.id!r}: a selection of 1 in {self.selection.samples} needs a multiple of "
                f"{self.selection.samples} rollouts, not {len(group)}"
            )
        score = np.mean([[r.diversity[name] for r in group.rollouts] for name in OBSERVED], axis=0)
        kept = select(score, size, self.selection.keep)
        return dataclasses.replace(group, rollouts=tuple(group.rollouts[i] for i in kept))


METHODS: dict[str, dict[str, Any]] = {
    "grpo": {"pays": {}, "loss": {"clip_low": 0.20, "clip_high": 0.20}},
    "clip-higher": {"pays": {}},
    "clip-cov": {"pays": {}, "loss": {"surrogate": "clip-cov", "clip_low": 1.0, "clip_high": 1.0}},
    "kl-cov": {"pays": {}, "loss": {"surrogate": "kl-cov"}},
    "pass-at-k": {"pays": {}, "estimator": "pass-at-k"},
    "entropy-bonus": {"pays": {}, "loss": {"entropy": 0.001}},
    "high-entropy": {"pays": {}, "loss": {"entropy_share": 0.2}},
    "diver-td": {"pays": {"textual": {}}},
    "diver-ed": {"pays": {"equational": {}}},
    "diver-mix": {"pays": {"textual": {}, "equational": {}}},
}


def select(score: np.ndarray, size: int, keep: Literal["most", "least"]) -> list[int]:
    """The indices of the `size` highest or lowest scores, in their order; of equal scores the earlier ones."""
    order = np.argsort(-score if keep == "most" else score, kind="stable")
    return sorted(order[:size].tolist())
