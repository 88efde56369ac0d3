"""slime: `--custom-reward-post-process-path diver.integrations.slime.post_process` and DIVER_METHOD or DIVER_RECIPE.

With the estimators grpo and gspo the value that this function gives for a sample becomes the advantage of each of its
tokens, unchanged.
"""

import functools
from collections.abc import Sequence
from typing import Any

from diver.core.types import DiverError, Progress
from diver.integrations.api import advantages
from diver.integrations.configured import configured
from diver.integrations.seam import SEAMS, written_by_policy
from diver.losses import GspoLoss
from diver.methods import Method

SEAM = SEAMS["slime"]
KL = ("k3", "low_var_kl")  # slime's estimators that equal ours; the second also bounds it
OTHERS: dict[str, Any] = {
    "custom_advantage_function_path": None,
    "custom_pg_loss_reducer_function_path": None,
    "use_opd": False,  # subtracts a divergence from a teacher from the advantage
}
"""Settings that change the advantages or the loss, if this version of slime has them."""


class PostProcess:
    """`(args, samples) -> (outcomes, advantages)`, the first for slime's log.

    slime does not pass the step. It is counted from the groups that the data source had returned at the first call. A
    resumed run therefore continues with lambda where it was (with over-sampling, somewhat later). A reward function may
    put the number of characters up to the end of the answer into `sample.metadata["answer_end"]`.
    """

    def __init__(self, method: str | Method = "diver-mix") -> None:
        self.method = SEAM.usable(method)
        self.step: int | None = None

    def __call__(self, args: Any, samples: Sequence[Any]) -> tuple[list[float], list[float]]:
        self._check_whole(samples)
        if self.step is None:
            self.check(args)
            self.step = min(sample.group_index for sample in samples) // args.rollout_batch_size
        outcomes = [float(sample.get_reward_value(args)) for sample in samples]
        masks = [written_by_policy(sample.loss_mask, sample.response_length) for sample in samples]
        if "responses" in self.method.needs and not all(mask.all() for mask in masks):
            raise DiverError(f"method {self.method.name!r} needs responses, and slime's contain what a tool answered")
        tokens = [sample.tokens[len(sample.tokens) - sample.response_length :] for sample in samples]
        ends = [(sample.metadata or {}).get("answer_end") for sample in samples]
        shaped = advantages(
            [sample.response for sample in samples],
            outcomes,
            [sample.group_index for sample in samples],
            self.method.limited(args.rollout_max_response_len),
            Progress(self.step, args.num_rollout),
            tokens=tokens,
            masks=[mask.tolist() for mask in masks],
            logprobs=None if samples[0].rollout_log_probs is None else [s.rollout_log_probs for s in samples],
            answer_ends=ends if any(end is not None for end in ends) else None,
            truncated=[sample.status.value == "truncated" for sample in samples],
        )
        self.step += 1
        return outcomes, [float(value) for value in shaped]

    def check(self, args: Any) -> None:
        """Raises DiverError if slime would change the advantages, or has another loss than the method."""
        loss = self.method.loss
        wanted = {
            "advantage_estimator": "gspo" if isinstance(loss, GspoLoss) else "grpo",
            "normalize_advantages": False,
            "loss_type": "policy_loss",
            "eps_clip": getattr(loss, "clip_low", None),
            "eps_clip_high": getattr(loss, "clip_high", None),
            "eps_clip_c": None,
            "calculate_per_token_loss": loss.aggregation == "token-mean",
            "entropy_coef": loss.entropy_coef,
            "kl_loss_coef": loss.kl_coef,
        }
        if loss.kl_coef:
            wanted |= {"use_kl_loss": True, "kl_loss_type": args.kl_loss_type if args.kl_loss_type in KL else KL[0]}
            wanted |= {"use_unbiased_kl": False}
        wanted |= {name: value for name, value in OTHERS.items() if hasattr(args, name)}
        SEAM.check_settings(self.method, wanted, args)
        if args.num_rollout is None:
            raise DiverError("num_rollout: slime does not pass --num-epoch to a reward function; give --num-rollout")
        self.method.check_group_size(args.n_samples_per_prompt, "n_samples_per_prompt")

    def _check_whole(self, samples: Sequence[Any]) -> None:
        """Raises DiverError for a rollout of several samples, and for a sample without a group or a reward."""
        seen = set()
        for sample in samples:
            rollout = getattr(sample, "rollout_id", None)
            if rollout is not None and rollout in seen:
                raise DiverError(f"rollout {rollout}: has several samples; a rollout is one response")
            seen.add(rollout)
            for name in ("group_index", "reward"):
                if getattr(sample, name) is None:
                    raise DiverError(f"sample {sample.index}: has no {name} ({sample.status})")


@functools.cache
def _configured() -> PostProcess:
    return PostProcess(configured().method)


def post_process(args: Any, samples: Sequence[Any]) -> tuple[list[float], list[float]]:
    """`PostProcess` with the method that DIVER_METHOD names, or that of the recipe DIVER_RECIPE."""
    return _configured()(args, samples)
