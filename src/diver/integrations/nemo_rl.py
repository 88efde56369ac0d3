"""NeMo-RL: an advantage estimator in the place of its own (docs/engines/nemo-rl.md)."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

from diver.api import advantages
from diver.integrations.seam import SEAMS, no_schedule
from diver.methods import Method
from diver.types import DiverError

SEAM = SEAMS["NeMo-RL"]
OTHERS: dict[str, Any] = {
    "grpo.overlong_filtering": False,
    "grpo.invalid_tool_call_advantage": None,
    "grpo.malformed_thinking_advantage": None,
    "loss_fn.sequence_level_importance_ratios": False,
    "loss_fn.disable_ppo_ratio": False,
    "loss_fn.use_cispo": False,
    "loss_fn.use_kl_in_reward": False,
    "loss_fn.positive_example_nll_weight": 0.0,
    "data_plane.enabled": False,  # its trainers give an estimator no messages
}
"""What changes the advantages or the loss, where a configuration has it."""


class Estimator:
    """`compute_advantage` of NeMo-RL's estimators; `progress` gives how far the run is, 0 to 1."""

    def __init__(self, method: str | Method = "diver-mix", progress: Callable[[], float] = no_schedule) -> None:
        self.method, self.progress = SEAM.usable(method), progress

    def compute_advantage(
        self, prompt_ids: Any, rewards: Any, mask: Any, repeated_batch: Mapping[str, Any], **_: Any
    ) -> Any:
        """The advantages of a batch, a tensor like `mask` [B, T]; a group is the rows with the same prompt_ids."""
        groups = [tuple(row) if isinstance(row, list) else row for row in prompt_ids.tolist()]
        texts = [written(messages) for messages in repeated_batch["message_log"]]
        result = advantages(texts, rewards, groups, self.method, self.progress())
        return rewards.new_tensor(result).unsqueeze(-1).expand(mask.shape)

    def check(self, config: Any) -> None:
        """DiverError where `config`, NeMo-RL's MasterConfig, would change the advantages or has another loss than the method."""
        loss = self.method.loss
        wanted = {
            "grpo.advantage_clip_low": None,
            "grpo.advantage_clip_high": None,
            "loss_fn.ratio_clip_min": getattr(loss, "clip_low", None),
            "loss_fn.ratio_clip_max": getattr(loss, "clip_high", None),
            "loss_fn.ratio_clip_c": None,
            "loss_fn.token_level_loss": loss.aggregation == "token-mean",
            "loss_fn.reference_policy_kl_penalty": loss.kl_coef,
        }
        if loss.kl_coef:
            wanted["loss_fn.reference_policy_kl_type"] = "k3"
        SEAM.check_settings(self.method, wanted | OTHERS, lambda name: _read(config, name))
        if loss.aggregation == "token-sum":
            raise DiverError("method.loss.aggregation = 'token-sum': NeMo-RL's loss has no sum over tokens")


def written(messages: Any) -> str:
    """What the policy wrote in a message log: a few-shot prompt may have messages of an assistant, too, outside the loss."""
    own = [
        m for m in messages if m["role"] == "assistant" and ("token_loss_mask" not in m or m["token_loss_mask"].any())
    ]
    return "\n".join(message["content"] for message in own)


def install(method: str | Method = "diver-mix", progress: Callable[[], float] = no_schedule) -> None:
    """Have NeMo-RL's GRPO make this estimator, whatever grpo.adv_estimator says; before the training is set up."""
    import nemo_rl.algorithms.grpo as grpo

    if not hasattr(grpo, "_create_advantage_estimator"):
        raise DiverError("nemo_rl.algorithms.grpo has no _create_advantage_estimator: tried with NeMo-RL 0.7.0 only")

    def create(master_config: Any) -> Estimator:
        estimator = Estimator(method, progress)
        estimator.check(master_config)
        return estimator

    grpo._create_advantage_estimator = create


def _read(config: Any, name: str) -> Any:
    """A value by its dotted name; one of `OTHERS` need not be there."""
    for part in name.split("."):
        read = operator.getitem if isinstance(config, Mapping) else getattr
        try:
            config = read(config, part)
        except (KeyError, AttributeError):
            if name not in OTHERS:
                raise
            return OTHERS[name]
    return config
