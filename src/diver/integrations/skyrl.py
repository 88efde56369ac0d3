"""SkyRL: the advantages of a generated batch as rewards of its tokens, which a registered estimator passes on.

`diver.integrations.skyrl_main` is the entry point that puts this into SkyRL's trainer. No part of SkyRL is imported
here.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np

from diver.core.types import Progress
from diver.integrations.api import advantages
from diver.integrations.seam import SEAMS, decoder, written_by_policy
from diver.losses import GspoLoss
from diver.methods import Method

NAME = "diver"  # name of the estimator
SEAM = SEAMS["SkyRL"]


def check_config(method: Method, config: Any) -> None:
    """Raises DiverError if `config`, SkyRL's SkyRLTrainConfig, would change the advantages or has another loss than
    the method."""
    loss = method.loss
    algorithm = {
        "advantage_estimator": NAME,
        "advantage_batch_normalize": False,
        "policy_loss_type": "gspo" if isinstance(loss, GspoLoss) else "regular",
        "loss_reduction": loss.aggregation.replace("-", "_"),
        "eps_clip_low": getattr(loss, "clip_low", None),
        "eps_clip_high": getattr(loss, "clip_high", None),
        "use_kl_in_reward": False,
        "use_kl_loss": loss.kl_coef > 0,
        "use_entropy_loss": loss.entropy_coef > 0,
        **({"kl_loss_coef": loss.kl_coef} if loss.kl_coef else {}),
        **({"entropy_loss_coef": loss.entropy_coef} if loss.entropy_coef else {}),
    }
    wanted = {f"trainer.algorithm.{name}": value for name, value in algorithm.items()}
    wanted["generator.step_wise_trajectories"] = False  # it splits a response into several rows
    SEAM.check_settings(method, wanted, config)
    method.check_group_size(config.generator.n_samples_per_prompt, "generator.n_samples_per_prompt")


def token_rewards(
    method: Method,
    output: Mapping[str, Any],
    outcomes: Sequence[float],
    groups: Sequence[Hashable],
    tokenizer: Any,
    progress: Progress,
) -> list[list[float]]:
    """The advantage of every token of SkyRL's GeneratorOutput, 0 at the tokens of tools.

    `outcomes` are its rewards before they became per token; `groups` comes from `groups_of`. A user's generator
    may add a column `answer_ends`: the number of characters of each response up to the end of its answer.
    """
    decode, tokens = decoder(tokenizer), output["response_ids"]
    masks = [written_by_policy(mask, len(mask)) for mask in output["loss_masks"]]
    texts = [decode(list(compress(ids, mask))) for ids, mask in zip(tokens, masks, strict=True)]
    columns = {"logprobs": output.get("rollout_logprobs"), "answer_ends": output.get("answer_ends")}
    if output.get("stop_reasons"):
        columns["truncated"] = [reason == "length" for reason in output["stop_reasons"]]
    columns |= {"tokens": tokens, "masks": [mask.tolist() for mask in masks]}
    shaped = advantages(texts, outcomes, groups, method, progress, **columns, decode=decode)
    return [np.where(mask, values, 0.0).tolist() for mask, values in zip(masks, shaped, strict=True)]


def outcomes_of(rewards: Sequence[Any]) -> list[float]:
    """One outcome per response; an environment may give a reward for each token."""
    return [float(sum(reward)) if isinstance(reward, list) else float(reward) for reward in rewards]


def groups_of(uids: Sequence[str], size: int) -> list[tuple[str, int]]:
    """The group of each row. Dynamic sampling may replace groups by copies of others; each copy is a group."""
    counts: Counter[str] = Counter()
    groups = []
    for uid in uids:
        groups.append((uid, counts[uid] // size))
        counts[uid] += 1
    return groups
