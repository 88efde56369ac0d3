"""Objects with exactly the fields that an adapter may use, by the code of each engine at the version that is named."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace
from typing import Any

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
    TRUNCATED = "truncated"


@dataclass
class SlimeSample:
    """slime.utils.types.Sample, slime 624b824 (2026-08-21)."""

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
    metadata: dict[str, Any] = field(default_factory=dict)

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
