"""Objects with exactly the fields that an adapter may use, by the code of each engine at the version that is named."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace
from typing import Any

import numpy as np

TEXTS = [r"so $1+1=2$ \boxed{2}", r"we add: $2=1+1$, \boxed{2}", r"\boxed{3}", r"\boxed{2} it is"]
OUTCOMES = [1.0, 1.0, 0.0, 1.0]
TOKENS = [[5, 6, 7], [5, 6], [7], [6, 5, 5, 6]]
LOGPROBS = [[-0.5, -0.25, -0.125], [-1.0, -2.0], [-0.75], [-0.5, -0.5, -1.5, -0.25]]
GROUPS = 2  # each of these four


class Tokenizer:
    eos_token_id = 0

    def decode(self, tokens: Sequence[int], skip_special_tokens: bool = False) -> str:
        return TEXTS[TOKENS.index(list(tokens))] + "<eos>" * (not skip_special_tokens)


class Status(Enum):
    COMPLETED = "completed"


@dataclass
class SlimeSample:
    """slime.utils.types.Sample, slime 624b824 (2026-08-21) and miles 31f1ca9."""

    group_index: int
    index: int
    tokens: list[int]  # of the prompt, too
    response: str
    response_length: int
    reward: float | dict[str, float] | None
    rollout_log_probs: list[float] | None
    loss_mask: list[int] | None = None
    rollout_id: int | None = None
    status: Status = Status.COMPLETED

    def get_reward_value(self, args):
        return self.reward[args.reward_key] if args.reward_key else self.reward


def slime_samples(first_group: int = 0) -> list[SlimeSample]:
    columns = list(zip(TEXTS, OUTCOMES, TOKENS, LOGPROBS, strict=True))
    return [
        SlimeSample(first_group + g, len(columns) * g + i, [1, 2, *ids], text, len(ids), outcome, logprobs)
        for g in range(GROUPS)
        for i, (text, outcome, ids, logprobs) in enumerate(columns)
    ]


def slime_args(**changes: Any) -> SimpleNamespace:
    """The options as slime parses them, and as docs/engines/slime.md sets them."""
    fields = {
        "advantage_estimator": "grpo",
        "normalize_advantages": False,
        "custom_advantage_function_path": None,
        "custom_pg_loss_reducer_function_path": None,
        "use_opd": False,
        "use_unbiased_kl": False,
        "loss_type": "policy_loss",
        "eps_clip": 0.2,
        "eps_clip_high": 0.28,
        "eps_clip_c": None,
        "calculate_per_token_loss": True,
        "entropy_coef": 0.0,
        "use_kl_loss": False,
        "kl_loss_coef": 0.0,
        "kl_loss_type": "k1",
        "n_samples_per_prompt": 4,
        "rollout_batch_size": GROUPS,
        "rollout_max_response_len": 16,
        "num_rollout": 10,
        "reward_key": None,
    }
    return SimpleNamespace(**{**fields, **changes})


def miles_args(**changes: Any) -> SimpleNamespace:
    """Those of miles 31f1ca9, which has no advantage function of the user's."""
    args = slime_args(**changes)
    del args.custom_advantage_function_path
    return args


def skyrl_config(**changes: Any) -> SimpleNamespace:
    """The part of skyrl.train.config.SkyRLTrainConfig, SkyRL 0.3.0, that counts, as docs/engines/skyrl.md sets it."""
    algorithm = {
        "advantage_estimator": "diver",
        "advantage_batch_normalize": False,
        "policy_loss_type": "regular",
        "loss_reduction": "token_mean",
        "eps_clip_low": 0.2,
        "eps_clip_high": 0.28,
        "use_kl_in_reward": False,
        "use_kl_loss": False,
        "use_entropy_loss": False,
        "zero_variance_filter": False,
        **changes,
    }
    generator = {"step_wise_trajectories": algorithm.pop("step_wise", False), "n_samples_per_prompt": 4}
    return SimpleNamespace(
        trainer=SimpleNamespace(algorithm=SimpleNamespace(**algorithm)),
        generator=SimpleNamespace(**generator, merge_stepwise_output=False),
    )


def skyrl_output() -> tuple[dict[str, Any], list[str]]:
    """skyrl.train.generators.base.GeneratorOutput, and the uids of its rows."""
    output = {
        "prompt_token_ids": [[1, 2]] * 4 * GROUPS,
        "response_ids": TOKENS * GROUPS,
        "rewards": OUTCOMES * GROUPS,
        "loss_masks": [[1] * len(ids) for ids in TOKENS] * GROUPS,
        "stop_reasons": None,
        "rollout_metrics": None,
        "rollout_logprobs": LOGPROBS * GROUPS,
    }
    return output, [f"uid-{g}" for g in range(GROUPS) for _ in TEXTS]


def swift_rows() -> dict[str, Any]:
    """The columns of swift.rl_core.data.OnPolicySample.to_reward_row, ms-swift 4.6.0, with that of a data set."""
    prompts = [[{"role": "user", "content": f"1+1? ({g})"}] for g in range(GROUPS)]
    texts = TEXTS * GROUPS
    rows = range(len(texts))
    return {
        "completions": texts,
        "messages": [[*prompts[i // 4], {"role": "assistant", "content": texts[i]}] for i in rows],
        "prompt_id": [f"prompt_{i // 4}" for i in rows],
        "request_id": [f"chatcmpl-{i}" for i in rows],
        "finish_reason": ["stop" for _ in rows],
        "is_truncated": [False for _ in rows],
        "rollout_infos": [{} for _ in rows],
        "response_token_ids": [TOKENS[i % 4] for i in rows],
        "solution": ["2" for _ in rows],
        "trainer_state": SimpleNamespace(global_step=0, max_steps=20),
    }


def rllm_groups() -> list[Any]:
    """rllm.types.TrajectoryGroup of Trajectory of Step, rLLM 9beb6e0 (2026-08-15)."""
    steps = [
        SimpleNamespace(
            model_response=text, thought="", model_output=None, response_ids=ids, logprobs=logprobs, advantage=None
        )
        for text, ids, logprobs in zip(TEXTS, TOKENS, LOGPROBS, strict=True)
    ]
    trajectories = [SimpleNamespace(steps=[s], reward=r) for s, r in zip(steps, OUTCOMES, strict=True)]
    return [SimpleNamespace(trajectories=trajectories, group_role="agent") for _ in range(GROUPS)]


def torchtitan_group() -> Any:
    """torchtitan.experiments.rl.rollout.types.RolloutGroup of Rollout of RolloutTurn, torchtitan b5bcd76 (2026-08-21)."""
    rollouts = [
        SimpleNamespace(
            turns=[
                SimpleNamespace(
                    completion_message={"role": "assistant", "content": text},
                    completion_token_ids=ids,
                    completion_logprobs=logprobs,
                )
            ],
            reward=reward + 0.125,
            reward_breakdown={"correct": reward, "format": 0.125},
            advantage=None,
        )
        for text, ids, logprobs, reward in zip(TEXTS, TOKENS, LOGPROBS, OUTCOMES, strict=True)
    ]
    return SimpleNamespace(group_id=0, rollouts=rollouts, metrics=[])


@dataclass
class TokensWithLogprobs:
    """tinker_cookbook.completers.TokensWithLogprobs, tinker-cookbook 0.6.1."""

    tokens: list[int]
    maybe_logprobs: list[float] | None
    stop_reason: str = "stop"


@dataclass
class Transition:
    ob: Any
    ac: TokensWithLogprobs
    reward: float
    episode_done: bool
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass
class Trajectory:
    """tinker_cookbook.rl.types.Trajectory, tinker-cookbook 0.6.1."""

    transitions: list[Transition]
    final_ob: Any = None


def tinker_trajectories() -> list[Trajectory]:
    rows = zip(TOKENS, LOGPROBS, OUTCOMES, strict=True)
    return [Trajectory([Transition(None, TokensWithLogprobs(ids, lp), reward, True)]) for ids, lp, reward in rows]


def nemo_config(**changes: Any) -> Any:
    """MasterConfig of NeMo-RL 0.7.0 (7ea279a), as docs/engines/nemo-rl.md sets it."""
    loss = {
        "ratio_clip_min": 0.2,
        "ratio_clip_max": 0.28,
        "ratio_clip_c": None,
        "token_level_loss": True,
        "reference_policy_kl_penalty": 0.0,
        "reference_policy_kl_type": "k3",
    }
    grpo = {"advantage_clip_low": None, "advantage_clip_high": None, "adv_estimator": {"name": "grpo"}}
    grpo |= {"invalid_tool_call_advantage": None, "malformed_thinking_advantage": None}
    data_plane = changes.pop("data_plane", None)
    for name, value in changes.items():
        (grpo if name in grpo else loss)[name] = value
    return SimpleNamespace(grpo=SimpleNamespace(**grpo), loss_fn=SimpleNamespace(**loss), data_plane=data_plane)


def nemo_message_log() -> list[list[dict[str, Any]]]:
    shots = [{"role": "user", "content": "0+1?"}, {"role": "assistant", "content": r"\boxed{1}"}]
    masks = [np.zeros(2), np.zeros(3)]
    given = [{**m, "token_loss_mask": mask} for m, mask in zip(shots, masks, strict=True)]
    return [
        [*given, {"role": "assistant", "content": text, "token_loss_mask": np.ones(len(ids))}]
        for text, ids in zip(TEXTS * GROUPS, TOKENS * GROUPS, strict=True)
    ]


def areal_actor(**changes: Any) -> Any:
    """areal.api.cli_args.PPOActorConfig, AReaL 1.0.4 (4aef98d), as docs/engines/areal.md sets it."""
    norms = {"reward_norm": None, "adv_norm": None, "reward_scaling": 1.0, "reward_bias": 0.0, "kl_ctl": 0.0}
    masks = {"overlong_reward_penalty": False, "mask_no_eos_with_zero": False}
    loss = {"discount": 1.0, "gae_lambda": 1.0, "eps_clip": 0.2, "eps_clip_higher": 0.28}
    return SimpleNamespace(**{**norms, **masks, **loss, **changes})


def roll_config(**changes: Any) -> Any:
    """roll.pipeline.rlvr.rlvr_config.RLVRConfig, ROLL 8eb27cc (2026-08-19), as docs/engines/roll.md sets it."""
    rewards = {"adv_estimator": "reinforce", "norm_mean_type": None, "norm_std_type": None, "reward_clip": None}
    whiten = {"whiten_rewards": False, "whiten_advantages": False, "use_reward_scaling": False, "advantage_clip": None}
    loss = {"use_pg_clip_range": True, "pg_clip_low": 0.2, "pg_clip_high": 0.28, "dual_clip_loss": False, "gamma": 1}
    other = {"add_token_level_kl": False, "loss_agg_mode": "token-mean", "entropy_loss_coef": 0, "use_kl_loss": False}
    other |= {"kl_loss_coef": 0, "importance_sampling": "token", "use_opd": False}
    other |= {"length_loss_weight": False, "difficulty_loss_weight": False}
    return SimpleNamespace(**{**rewards, **whiten, **loss, **other, **changes})
