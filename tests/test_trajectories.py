"""`diver.advantages` on trajectories: what the environment says counts nowhere."""

import json

import numpy as np
import pytest

import diver
from diver.core.types import DiverError
from diver.methods import method_named

ON_ACTIONS = method_named("diver-actions", divisor="none", diversity={"orders": 1})
KEYED = "uniqueness-aware"  # a correct response counts less, the more others have its key
PLANS = ("ab", "ac", "ab", "d")
OUTCOMES = [1, 1, 0, 1]
GROUP = [7] * 4


def chat(plan, said="ok", content="I go."):
    """A call for each letter of the plan, each answered by the tool, and a last word."""
    messages = []
    for letter in plan:
        function = {"name": "go", "arguments": json.dumps({"to": letter})}
        messages.append(
            {"role": "assistant", "content": content, "tool_calls": [{"type": "function", "function": function}]}
        )
        messages.append({"role": "tool", "content": said})
    return [*messages, {"role": "assistant", "content": "There."}]


def text(plan):
    """What the policy wrote in `chat`."""
    return "\n".join([*(f'I go.\n{{"name": "go", "arguments": {{"to": "{p}"}}}}' for p in plan), "There."])


def test_methods_see_the_text_of_the_policy():
    for method in ("grpo", "max-rl", "diver-mix", "diver-td"):
        of_chats = diver.advantages([*map(chat, PLANS)], OUTCOMES, GROUP, method, truncated=[False] * 4)
        of_texts = diver.advantages([*map(text, PLANS)], OUTCOMES, GROUP, method, truncated=[False] * 4)
        assert of_chats.tolist() == of_texts.tolist()


@pytest.mark.parametrize("method", ["diver-mix", ON_ACTIONS], ids=["texts", "actions"])
def test_no_word_of_the_environment_counts(method):
    quiet = diver.advantages([*map(chat, PLANS)], OUTCOMES, GROUP, method)
    loud = [chat(plan, f"$x = {i}$ noise " * 100) for i, plan in enumerate(PLANS)]
    assert diver.advantages(loud, OUTCOMES, GROUP, method).tolist() == quiet.tolist()
    assert len({*quiet.tolist()}) > 2  # the diversity counts


def test_no_token_of_the_environment_counts_in_a_length_or_a_horizon():
    overlong = method_named("clip-higher", overlong={"buffer": 0.5, "max_tokens": 8})
    policy = method_named("diver-td", diversity={"tokenize": "policy", "horizon": 3, "orders": 1, "until": "end"})
    own = [[1, 2, 3, 4, 5], [1, 6, 3, 4, 5], [1, 2], [1, 7, 3, 4, 5, 6, 7]]
    for method in (overlong, policy):
        alone = diver.advantages(list("abcd"), OUTCOMES, GROUP, method, tokens=own, decode=str)
        for noise in ([90] * 30, [91, 92]):
            among = [[*ids[:1], *noise, *ids[1:]] for ids in own]
            masks = [[1] + [0] * len(noise) + [1] * (len(ids) - 1) for ids in own]
            chats = [[{"role": "assistant"}, {"role": "tool"}, {"role": "assistant"}] for _ in own]
            for responses in (list("abcd"), chats):
                found = diver.advantages(responses, OUTCOMES, GROUP, method, tokens=among, masks=masks, decode=str)
                assert found.tolist() == alone.tolist()
        assert len({*alone.tolist()}) > 2


def test_per_token_advantages_are_at_the_places_of_the_policys_tokens():
    tokens, masks = [[1, 9, 2], [3, 9, 9], [4, 9, 5], [6, 9, 7]], [[1, 0, 1], [1, 0, 0], [1, 0, 1], [1, 0, 1]]
    gigpo = method_named("gigpo", turn_weight=0.0)
    found = diver.advantages(list("abcd"), OUTCOMES, GROUP, gigpo, tokens=tokens, masks=masks)
    np.testing.assert_allclose(found, [[0.25, 0, 0.25], [0.25, 0, 0], [-0.75, 0, -0.75], [0.25, 0, 0.25]])


def test_diver_rewards_actions_that_nobody_else_does():
    """By hand, n-grams of order 1, lambda 0.1, sigma 0.65, a divisor of 1.

    Actions: ab, ac, ab, d. Diversity: ab (1/2 + 0 + 1) / 3, ac (1/2 + 1/2 + 1) / 3, d 1, each at most 0.65.
    """
    plain = [chat(plan, content=str(i)) for i, plan in enumerate(PLANS)]  # the texts differ, which does not matter
    rewards = np.array([1 + 0.1 * 0.5, 1 + 0.1 * 0.65, 0, 1 + 0.1 * 0.65])
    found = diver.advantages(plain, OUTCOMES, GROUP, ON_ACTIONS)
    np.testing.assert_allclose(found, rewards - rewards.mean(), atol=1e-12)


def test_actions_are_the_keys_of_trajectories():
    """Two texts with one sequence of actions have one key."""
    plain = [chat(plan, content=str(i)) for i, plan in enumerate(PLANS)]
    named = diver.advantages(plain, OUTCOMES, GROUP, KEYED, keys=["1", "2", "1", "3"])
    assert diver.advantages(plain, OUTCOMES, GROUP, KEYED).tolist() == named.tolist()
    with pytest.raises(DiverError, match="keys"):
        diver.advantages([*map(text, PLANS)], OUTCOMES, GROUP, KEYED)
    with pytest.raises(DiverError, match="keys"):
        diver.advantages([chat("")] * 4, OUTCOMES, GROUP, KEYED)


def test_what_is_no_trajectory_is_named():
    for responses, said in [
        ([chat("a"), 3], r"row 1: a response is a text \(str\), not int; a trajectory is a list of messages"),
        ([chat("a"), ["b"]], r"row 1: a response is a text \(str\), not list"),
        ([chat("a"), [{"content": "b"}]], "row 1, message 0: has no role"),
        ([chat("a"), [{"role": "user", "content": "b"}]], "row 1: none of its 1 messages has the role assistant"),
    ]:
        with pytest.raises(ValueError, match=said):
            diver.advantages(responses, [1, 0], [0, 0], "grpo")
    one = {"responses": [chat("a")] * 2, "outcomes": [1, 0], "group_ids": [0, 0], "method": "grpo"}
    with pytest.raises(ValueError, match="row 0: a mask has one value for each of the row's `tokens`"):
        diver.advantages(**one, tokens=[[1, 2]] * 2, masks=[[1]] * 2)
    with pytest.raises(ValueError, match="row 0: a mask has one value for each"):
        diver.advantages(**one, tokens=[[1, 2]] * 2, masks=[[1, 0]] * 2, logprobs=[[-1.0]] * 2)
    with pytest.raises(ValueError, match="row 0: a mask has one value for each"):
        diver.advantages(**one, masks=[[1, 0]] * 2)
    with pytest.raises(ValueError, match="row 0: the mask has 1 runs of policy tokens, but the messages have 2"):
        diver.advantages(**one, tokens=[[1, 2]] * 2, masks=[[1, 0]] * 2)
