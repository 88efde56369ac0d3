"""DPH-RL (arXiv 2509.07430): a divergence from the starting policy, on correct responses of that policy, in place of
the reward.

A token that the starting policy sampled has u = pi / pi_start. The term is coef times the mean of f(u), and A of such a
token is minus the derivative of the term by log pi. In the first mini-batch of a step the gradient is that of the
source. In later ones A stays and the clip bounds the ratio, as for `replay`. forward-kl has f = u - log u - 1, so
u f' = u - 1. js has f = u log u - (u + 1) log((u + 1) / 2), so u f' = u log(2 u / (u + 1)).
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from diver.core.settings import NonNegative, PositiveInt, ZeroToOne, settings
from diver.core.types import Group, Progress, State
from diver.methods.grpo import ClipHigher
from diver.methods.replay import restored_group, stored

KEY = "start"
"""The key in the state: the responses of the starting policy that are trained on, by problem."""
LARGEST, LARGEST_KL = 20.0, 10.0  # where the release clamps log u and f(u) of forward-kl


@settings
class DphRl(ClipHigher):
    """Anchors what the start solves.

    Before training, the policy samples `start_responses` to each problem. A problem that it solves gives no reward.
    Each update adds, for as many of these problems as a batch has, in turn, the divergence on one of their correct
    responses. All other problems are those of clip-higher. Departures: f is averaged over the tokens of each response,
    and solved problems are drawn with the others and then left out. The release has one file of problems for each kind
    and 4 responses to a problem where its text says 8. Its other form of JS, with a term on sampled responses, and its
    alpha divergence are not here.
    """

    name: str = "dph-rl"
    divergence: Literal["forward-kl", "js"] = "forward-kl"
    """f: the KL divergence of the starting policy from the policy, or the generator of the Jensen-Shannon divergence
    (`js_low_var` of the release)."""
    coef: NonNegative = 0.01
    """The coefficient of f. The release has 0.01 to 0.05 for forward-kl and 0.05 to 0.2 for js."""
    start_responses: PositiveInt = 8  # type: ignore[misc]  # a setting here
    """Responses of the starting policy to each problem."""
    solved: ZeroToOne = 1.0
    """A problem is solved if this part of them is correct, as in the release: all."""

    counts_correct = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.replay.alpha:
            raise ValueError("replay.alpha: the responses of the starting policy are replayed, no others; set it to 0")

    def anchors(self, correct: np.ndarray) -> np.ndarray:
        """Which responses of the starting policy are trained on, bool [n]: the first correct one, if it is solved."""
        solved = correct.any() and correct.mean() >= self.solved
        return (np.arange(len(correct)) == correct.argmax()) & solved

    def update_start(self, group: Group, state: State) -> None:
        if chosen := group.only(self.anchors(self.correct(group)) & np.array([r.length > 0 for r in group.rollouts])):
            state.setdefault(KEY, {})[group.problem.id] = {
                "prompt": np.array(group.prompt_tokens, np.int32),
                "responses": {str(r.index): stored(r, with_logprobs=True) for r in chosen.rollouts},
            }

    def trains_on(self, group: Group, state: State) -> bool:
        return group.problem.id not in state.get(KEY, {})

    def replayed(self, state: State, problems: int, progress: Progress) -> list[Group]:
        anchored = state.get(KEY, {})
        groups = []
        for name in list(anchored)[:problems]:
            entry = anchored[name] = anchored.pop(name)  # at the end of the queue
            index, size = [*map(int, entry["responses"])], len(entry["responses"])
            group = restored_group(name, entry)
            groups.append(group.with_each(index=index, age=[progress.step] * size, advantage=[0.0] * size))
        return groups

    def reweighed(self, replayed: Sequence[Group], now: Sequence[Group]) -> list[Group]:
        result = []
        for start, group in zip(replayed, now, strict=True):
            pairs = zip(start.rollouts, group.rollouts, strict=True)
            ratios = [np.asarray(new.logprobs, np.float64) - np.asarray(old.logprobs, np.float64) for old, new in pairs]
            advantages = [-self.coef * self._slope(ratio) for ratio in ratios]
            result.append(group.with_each(advantage=[float(a.mean()) for a in advantages], token_advantages=advantages))
        return result

    def _slope(self, log_ratio: np.ndarray) -> np.ndarray:
        """The derivative of f by log pi, float64 [T]."""
        u = np.exp(np.minimum(log_ratio, LARGEST))
        if self.divergence == "js":
            return u * np.log(2 * u / (u + 1))
        return np.where((np.abs(log_ratio) <= LARGEST) & (u - np.log(u) - 1 <= LARGEST_KL), u - 1, 0.0)
