"""ROLL: the rewards of a prompt's responses in a user-defined rollout loop (docs/engines/roll.md).

With adv_estimator reinforce and neither norm_mean_type nor norm_std_type the reward of a response is the advantage of each
of its tokens.
"""

from collections.abc import Callable, Sequence
from typing import Any

from diver.integrations.seam import SEAMS, decoder, no_schedule
from diver.methods import Method

SEAM = SEAMS["ROLL"]
PIPELINE: dict[str, Any] = {
    "adv_estimator": "reinforce",
    "norm_mean_type": None,
    "norm_std_type": None,
    "whiten_rewards": False,
    "whiten_advantages": False,
    "use_reward_scaling": False,
    "add_token_level_kl": False,
    "reward_clip": None,
    "advantage_clip": None,
    "gamma": 1,
    "use_pg_clip_range": True,
    "dual_clip_loss": False,
    "importance_sampling": "token",
    "use_opd": False,
    "length_loss_weight": False,
    "difficulty_loss_weight": False,
}
AGGREGATIONS = {
    "token-mean": "token-mean",
    "sequence-mean": "seq-mean-token-mean",
    "token-sum": "seq-mean-token-sum",
}


def shaped(
    responses: Sequence[Any],
    tokenizer: Any,
    method: str | Method = "diver-mix",
    progress: Callable[[], float] = no_schedule,
) -> Sequence[Any]:
    """The responses to a prompt, DataProtos of one row, with the advantages in the place of their rewards (in place).

    After ROLL's query filter, which looks at the outcome.
    """
    decode = decoder(tokenizer)
    batches = [response.batch for response in responses]
    tokens = [_own(batch) for batch in batches]
    outcomes = [float(batch["response_level_rewards"][0]) for batch in batches]
    texts = [decode(ids) for ids in tokens]
    new = SEAM.of_group(SEAM.usable(method), texts, outcomes, progress(), tokens=tokens, decode=decode)
    for batch, advantage in zip(batches, new, strict=True):
        batch["response_level_rewards"] = batch["response_level_rewards"].new_tensor([advantage])
    return responses


def _own(batch: Any) -> list[int]:
    return batch["input_ids"][0][batch["response_mask"][0].bool()].tolist()


def check(method: str | Method, config: Any) -> None:
    """DiverError where `config`, ROLL's RLVRConfig, would change the advantages or has another loss than the method."""
    method = SEAM.usable(method)
    loss = method.loss
    wanted = {
        **PIPELINE,
        "pg_clip_low": getattr(loss, "clip_low", None),
        "pg_clip_high": getattr(loss, "clip_high", None),
        "loss_agg_mode": AGGREGATIONS[loss.aggregation],
        "entropy_loss_coef": loss.entropy_coef,
        "use_kl_loss": loss.kl_coef > 0,
        **({"kl_loss_coef": loss.kl_coef} if loss.kl_coef else {}),
    }
    SEAM.check_settings(method, wanted, lambda name: getattr(config, name))
