"""ms-swift: an outcome reward model whose rewards are the advantages, in a plugin of two lines
(docs/engines/ms-swift.md).

ms-swift subtracts the mean of a group from its rewards, as TRL does, and with scale_rewards="none" divides by nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from diver.core.types import DiverError, Problem
from diver.integrations.seam import SEAMS
from diver.integrations.trl.adapter import GroupAdvantage
from diver.methods import Method

SEAM = SEAMS["ms-swift"]
REQUIRED: dict[str, Any] = {
    "advantage_estimator": "grpo",  # other estimators rescale the advantage
    "dynamic_sample": False,  # it samples again by the std of the advantages, which is not 0 where all are correct
    "overlong_filter": False,
}
OWN = ("messages", "prompt_id", "request_id", "finish_reason", "is_truncated", "rollout_infos", "response_token_ids")
"""The arguments of a reward function besides the columns of the data set."""


class Diver(GroupAdvantage):
    """The reward function, which ms-swift makes with its GRPOConfig; the options are those of `GroupAdvantage`.

    Without a tokenizer, it cannot tell a thought that the chat template opened from an answer.
    """

    stock = False

    def __init__(self, args: Any, method: str | Method = "diver-mix", **options: Any) -> None:
        super().__init__(SEAM.usable(method), args, None, **options)

    def __call__(self, completions: Sequence[str], **inputs: Any) -> list[float]:  # type: ignore[override]
        """This process's advantages. ms-swift calls it, on all processes at once."""
        prompts = [messages[:-1] for messages in inputs["messages"]]
        tokens = [  # a scheduler of turns gives a list for each turn
            [token for turn in ids for token in (turn if isinstance(turn, list) else [turn])]
            for ids in inputs["response_token_ids"]
        ]
        return super().__call__(prompts, completions, tokens, **inputs)

    def _use(self, args: Any) -> None:
        super()._use(args)
        wanted = dict(REQUIRED)
        if self.method.loss.aggregation == "token-mean":  # ms-swift divides by the tokens of a generation
            wanted["steps_per_generation"] = args.gradient_accumulation_steps
        SEAM.check_settings(self.method, wanted, args)
        if args.kl_in_reward:
            raise DiverError("ms-swift's kl_in_reward would be subtracted from the advantage: set it to false")

    def _truncated(self, tokens: Sequence[Sequence[int]], inputs: Mapping[str, Any]) -> Sequence[bool]:
        """The values of ms-swift. Raises DiverError on all processes if it gives only the last turn of a rollout."""
        if any(infos.get("num_turns", 1) > 1 for infos in inputs["rollout_infos"]):
            raise DiverError("ms-swift gives a reward function the last turn of a rollout alone; train with one turn")
        return inputs["is_truncated"]

    def _is_thinking(self, prompt: Any, ids: Sequence[int]) -> bool:
        return False

    def _problems(self, prompts: Sequence[Any], inputs: Mapping[str, Any]) -> list[Problem]:
        columns = {name: column for name, column in inputs.items() if name not in OWN}
        return super()._problems(prompts, columns)


def register(method: str | Method = "diver-mix", *, name: str = "diver", **options: Any) -> None:
    """Register the reward function under `name`, for --reward_funcs."""
    from swift.rewards import orms

    SEAM.usable(method)
    orms[name] = lambda args: Diver(args, method, **options)
