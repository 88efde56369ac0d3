"""docs/recipes: each snippet, on objects with the fields that its trainer has, against advantages worked out by hand.

The four responses have no formula, so DIVER-MIX's diversity is TD / 2. Three of them are the same up to the end of the
answer and share no 4-gram with the fourth, so TD is 1/3 for each. The third was cut at the length limit and is not
rewarded for it: with lambda 0.1 the rewards are 1 + 1/60, 1 + 1/60, 1 and 0.
"""

import re
from enum import Enum
from pathlib import Path
from statistics import mean, pstdev
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

RECIPES = Path(__file__).parents[3] / "docs" / "recipes"
SAME = "two and two make <answer> four </answer>"
TEXTS = [SAME, SAME + " la la la la", SAME, "three and one less <answer> two </answer>"]
OUTCOMES = [1.0, 1.0, 1.0, 0.0]
TRUNCATED = [False, False, True, False]
TOKENS = [[5, 6, 0], [5, 6, 7, 0], [5, 6, 5, 6, 5], [8, 0]]  # at most 5


def by_hand(coef: float = 0.1) -> list[float]:
    rewards = [1 + coef / 6, 1 + coef / 6, 1, 0]
    return [(r - mean(rewards)) / pstdev(rewards) for r in rewards]


def snippet(name: str) -> dict:
    page = (RECIPES / f"{name}.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    namespace = {"__name__": "page"}
    exec(code, namespace)
    return namespace


class Tokenizer:
    def decode(self, ids, skip_special_tokens):
        assert skip_special_tokens
        return TEXTS[TOKENS.index(list(ids))]


def test_areal():
    """Episodes as RLVRWorkflow of AReaL 1.0.4 (4aef98d) gives them: tensors of one row, with the prompt."""
    episodes = [
        {
            "input_ids": torch.tensor([[1, 2, *ids]]),
            "loss_mask": torch.tensor([[0, 0, *[1] * len(ids)]]),
            "logprobs": torch.zeros(1, 2 + len(ids)),
            "rewards": torch.tensor([outcome]),
        }
        for ids, outcome in zip(TOKENS, OUTCOMES, strict=True)
    ]
    shaped = snippet("areal")["shaped"]
    found = shaped(episodes, Tokenizer(), 5)
    np.testing.assert_allclose([float(e["rewards"][0]) for e in found], by_hand(), atol=1e-6)
    assert [e["rewards"].shape for e in found] == [(1,)] * 4 and found[0]["input_ids"] is episodes[0]["input_ids"]
    half = shaped(episodes, Tokenizer(), 5, 0.5)  # of the cosine
    np.testing.assert_allclose([float(e["rewards"][0]) for e in half], by_hand(0.05), atol=1e-6)


def test_roll():
    """DataProtos of one row, ROLL 8eb27cc, with the prompt and padding."""
    responses = [
        SimpleNamespace(
            batch={
                "input_ids": torch.tensor([[1, 2, *ids, 0]]),
                "response_mask": torch.tensor([[0, 0, *[1] * len(ids), 0]]),
                "response_level_rewards": torch.tensor([outcome]),
            }
        )
        for ids, outcome in zip(TOKENS, OUTCOMES, strict=True)
    ]
    assert snippet("roll")["shaped"](responses, Tokenizer(), 5, 0.5) is responses
    given = [float(response.batch["response_level_rewards"][0]) for response in responses]
    np.testing.assert_allclose(given, by_hand(0.05), atol=1e-6)


def test_nemo_rl():
    """A repeated_batch of NeMo-RL 0.7.0 (7ea279a), two prompts, each behind an example that an assistant answers."""
    example = [{"role": "user", "content": "1 + 2?"}, {"role": "assistant", "content": "three"}]
    example = [{**message, "token_loss_mask": torch.zeros(2)} for message in example]
    own = [{"role": "assistant", "content": text, "token_loss_mask": torch.ones(3)} for text in TEXTS]
    own[1] = {"role": "assistant", "content": TEXTS[1]}
    batch = {"message_log": [[*example, message] for message in own * 2], "truncated": torch.tensor(TRUNCATED * 2)}
    given = snippet("nemo-rl")["Estimator"]().compute_advantage(
        prompt_ids=torch.tensor([[3, 4, 0]] * 4 + [[5, 6, 7]] * 4),
        rewards=torch.tensor(OUTCOMES * 2),
        mask=torch.ones(8, 5),
        repeated_batch=batch,
        logprobs_policy=None,
    )
    assert given.shape == (8, 5)
    np.testing.assert_allclose(given[:, 4].tolist(), by_hand() * 2, atol=1e-6)


def test_rllm():
    """TrajectoryGroups, rLLM 9beb6e0: Steps of a trace, and of a workflow that sets only their model_output."""

    def step(text, cut, own_workflow):
        output = SimpleNamespace(content=text, reasoning=None, finish_reason="length" if cut else "stop")
        return SimpleNamespace(thought="", model_response="" if own_workflow else text, model_output=output)

    groups = [
        SimpleNamespace(
            trajectories=[
                SimpleNamespace(steps=[step(text, cut, own_workflow)])
                for text, cut in zip(TEXTS, TRUNCATED, strict=True)
            ]
        )
        for own_workflow in (False, True)
    ]
    alone = SimpleNamespace(trajectories=groups[0].trajectories[:1])
    rewards = [np.array(OUTCOMES), np.array(OUTCOMES), np.array([1.0])]
    page = snippet("rllm")
    advantages, returns = page["estimator"](rewards, SimpleNamespace(), traj_groups=[*groups, alone])
    assert advantages is returns and advantages[2].tolist() == [0.0]
    np.testing.assert_allclose(advantages[:2], [by_hand()] * 2)
    thought = groups[0].trajectories[0].steps[0]
    thought.thought = "hm"
    assert page["written"](thought) == "hm\n" + SAME


def test_torchtitan_rl():
    """A RolloutGroup of torchtitan b5bcd76; the reward of a rollout also has a part for its format."""

    class Status(Enum):
        COMPLETED, TRUNCATED_LENGTH = "completed", "truncated_length"

        def is_truncated(self):
            return self is Status.TRUNCATED_LENGTH

    rollouts = [
        SimpleNamespace(
            turns=[SimpleNamespace(completion_message={"role": "assistant", "content": text})],
            status=Status.TRUNCATED_LENGTH if cut else Status.COMPLETED,
            reward=reward + 0.125,
            reward_breakdown={"correct": reward, "format": 0.125},
        )
        for text, cut, reward in zip(TEXTS, TRUNCATED, OUTCOMES, strict=True)
    ]
    page = snippet("torchtitan-rl")
    np.testing.assert_allclose(page["advantages_of"](SimpleNamespace(rollouts=rollouts)), by_hand())
    assert page["advantages_of"](SimpleNamespace(rollouts=[])) == []
    rollouts[3].reward, rollouts[3].reward_breakdown = 0.0, {"truncated": 0.0}  # by a rubric with truncation_reward=0.0
    np.testing.assert_allclose(page["advantages_of"](SimpleNamespace(rollouts=rollouts)), by_hand())
    rollouts[0].reward_breakdown = {"right": 1.0}
    with pytest.raises(KeyError, match="correct"):
        page["advantages_of"](SimpleNamespace(rollouts=rollouts))
    assert page["written"](None) == "" and page["written"]({"reasoning_content": "hm", "content": "2"}) == "hm\n2"


def test_miles():
    """Samples of miles 31f1ca9: the two groups of the first step, and those of the sixth of ten."""

    class Status(Enum):
        COMPLETED, TRUNCATED = "completed", "truncated"

    def samples(first_group):
        return [
            SimpleNamespace(
                group_index=first_group + g,
                response=text,
                status=Status.TRUNCATED if cut else Status.COMPLETED,
                get_reward_value=lambda args, outcome=outcome: outcome,
            )
            for g in range(2)
            for text, cut, outcome in zip(TEXTS, TRUNCATED, OUTCOMES, strict=True)
        ]

    post_process = snippet("miles")["post_process"]
    args = SimpleNamespace(rollout_batch_size=2, num_rollout=10)
    for first_group, coef in ((0, 0.1), (10, 0.05), (40, 0.0)):  # the last by over-sampling
        outcomes, advantages = post_process(args, samples(first_group))
        assert outcomes == OUTCOMES * 2
        np.testing.assert_allclose(advantages, by_hand(coef) * 2, atol=1e-12)


def test_each_page_has_a_test_and_is_linked():
    pages = {path.stem for path in RECIPES.glob("*.md")}
    assert all(f"test_{name.replace('-', '_')}" in globals() for name in pages)
    engines = (RECIPES.parent / "engines" / "README.md").read_text(encoding="utf-8")
    for name in pages:
        assert f"(../recipes/{name}.md)" in engines
        for link in re.findall(r"\]\((?!http)([^)#]+)\)", (RECIPES / f"{name}.md").read_text(encoding="utf-8")):
            assert (RECIPES / link).exists(), (name, link)
