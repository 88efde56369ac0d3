"""AReaL: a rollout workflow that samples the whole group of a prompt (docs/engines/areal.md).

With reward_norm and adv_norm null, discount and gae_lambda 1 and kl_ctl 0 the reward of a response is the advantage of each
of its tokens.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from diver.integrations.seam import SEAMS, decoder, no_schedule
from diver.methods import Method
from diver.types import DiverError

SEAM = SEAMS["AReaL"]
ACTOR: dict[str, Any] = {
    "reward_norm": None,
    "adv_norm": None,
    "reward_scaling": 1.0,
    "reward_bias": 0.0,
    "overlong_reward_penalty": False,
    "mask_no_eos_with_zero": False,
    "discount": 1.0,
    "gae_lambda": 1.0,
    "kl_ctl": 0.0,  # of a divergence in the reward
}
LOSS: dict[str, Any] = {
    "importance_sampling_level": "token",
    "c_clip": None,
    "m2_threshold": None,
    "use_sapo_loss": False,
}
"""What makes another loss of it, in the versions that have it."""


class GroupWorkflow:
    """Mix into a RolloutWorkflow: `group_size` episodes of `workflow` for a prompt, with the advantages as their rewards.

    `progress` gives how far the run is, 0 to 1. AReaL's own group size is then 1.
    """

    def __init__(
        self,
        workflow: Any,
        group_size: int,
        tokenizer: Any,
        method: str | Method = "diver-mix",
        progress: Callable[[], float] = no_schedule,
    ) -> None:
        self.workflow, self.group_size, self.decode = workflow, group_size, decoder(tokenizer)
        self.method, self.progress = SEAM.usable(method), progress

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> Any:
        from areal.utils.data import concat_padded_tensors

        episodes = [self.workflow.arun_episode(engine, data) for _ in range(self.group_size)]
        results = await asyncio.gather(*episodes)
        if any(result is None for result in results):
            return None  # diversity and advantage are of whole groups
        return concat_padded_tensors(self.shaped(results))

    def shaped(self, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The episodes of a group, tensors of one row each, with the advantages in the place of their rewards."""
        own = [result["loss_mask"][0].bool() for result in results]
        tokens = [result["input_ids"][0][mask].tolist() for result, mask in zip(results, own, strict=True)]
        logprobs = [result["logprobs"][0][mask].tolist() for result, mask in zip(results, own, strict=True)]
        outcomes = [float(result["rewards"][0]) for result in results]
        texts = [self.decode(ids) for ids in tokens]
        columns = {"tokens": tokens, "logprobs": logprobs, "decode": self.decode}
        new = SEAM.of_group(self.method, texts, outcomes, self.progress(), **columns)
        return [{**r, "rewards": r["rewards"].new_tensor([a])} for r, a in zip(results, new, strict=True)]


def check(method: str | Method, actor: Any, group_size: int) -> None:
    """DiverError where `actor`, AReaL's PPOActorConfig, would change the advantages or has another clip than the method."""
    method = SEAM.usable(method)
    loss = method.loss
    if loss.aggregation != "token-mean":
        raise DiverError(f"method.loss.aggregation = {loss.aggregation!r}: AReaL has token-mean")
    clip = {"eps_clip": getattr(loss, "clip_low", None), "eps_clip_higher": getattr(loss, "clip_high", None)}
    SEAM.check_settings(method, {**ACTOR, **clip}, lambda name: getattr(actor, name))
    SEAM.check_settings(method, LOSS, lambda name: getattr(actor, name, LOSS[name]))
    if group_size != 1:
        raise DiverError(f"AReaL's group_size is {group_size}: GroupWorkflow samples the group itself, so set it to 1")
