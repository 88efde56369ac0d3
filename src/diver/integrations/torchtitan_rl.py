"""torchtitan's RL experiment: `Rollouter.Config.advantage` (docs/engines/torchtitan-rl.md)."""

from collections.abc import Callable
from typing import Any

from diver.integrations.seam import SEAMS, no_schedule
from diver.methods import Method
from diver.types import DiverError

SEAM = SEAMS["torchtitan-rl"]
CUT_SHORT = {"truncated"}, {"errored"}
"""What a rubric with a truncation_reward or an error_reward has in the place of its functions."""


class GroupAdvantages:
    """The advantage of each rollout of torchtitan's RolloutGroup, in its order.

    The outcome is the reward function `outcome` of `reward_breakdown`; "" is the sum of the rubric, in which a format reward
    may count. `progress` gives how far the run is, 0 to 1.
    """

    def __init__(
        self, method: str | Method = "diver-mix", outcome: str = "", progress: Callable[[], float] = no_schedule
    ) -> None:
        self.method, self.outcome, self.progress = SEAM.usable(method), outcome, progress

    def __call__(self, group: Any) -> list[float]:
        turns = [rollout.turns for rollout in group.rollouts]
        columns = {
            "tokens": [[token for turn in rollout for token in turn.completion_token_ids] for rollout in turns],
            "logprobs": [[value for turn in rollout for value in turn.completion_logprobs] for rollout in turns],
        }
        outcomes = [self._outcome(rollout) for rollout in group.rollouts]
        texts = ["\n".join(written(turn.completion_message) for turn in rollout) for rollout in turns]
        return SEAM.of_group(self.method, texts, outcomes, self.progress(), **columns)

    def _outcome(self, rollout: Any) -> float | None:
        if not self.outcome or {*rollout.reward_breakdown} in CUT_SHORT:
            return rollout.reward
        if self.outcome not in rollout.reward_breakdown:
            raise DiverError(f"reward_breakdown has no {self.outcome!r}; it has: {', '.join(rollout.reward_breakdown)}")
        return rollout.reward_breakdown[self.outcome]


def written(message: Any) -> str:
    """The text of a completion's message, with its thought; "" where none could be parsed."""
    parts = (message or {}).get("reasoning_content"), (message or {}).get("content")
    return "\n".join(part for part in parts if isinstance(part, str) and part)
