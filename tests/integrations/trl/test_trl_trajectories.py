"""The reward function on completions with calls of tools: the advantages of `diver.advantages` on the same messages."""

import pytest

pytest.importorskip("accelerate")

from test_adapter import ANSWER_ENDS, OUTCOMES, TEXTS, Batch, adapter, arguments

import diver
from diver.core.types import DiverError
from diver.methods import method_named

ON_ACTIONS = method_named("diver-actions", diversity={"orders": 1})
PLANS = ("aa", "aa", "a", "c")


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where the schedule of a run is kept


def trajectory(plan, text):
    """A call for each letter, each answered by a tool, and the answer."""
    messages = []
    for letter in plan:
        call = {"type": "function", "function": {"name": "look", "arguments": {"at": letter, "again": False}}}
        messages.append({"role": "assistant", "reasoning_content": "hm", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "name": "look", "content": rf"\boxed{{9}} and $x = {letter}$"})
    return [*messages, {"role": "assistant", "content": text}]


@pytest.mark.parametrize("method", ["grpo", "diver-mix", ON_ACTIONS], ids=["grpo", "texts", "actions"])
def test_the_advantages_are_those_of_the_drop_in(method):
    batch, seen = Batch(chat=True), []
    completions = [trajectory(*pair) for pair in zip(PLANS, TEXTS, strict=True)] * 2
    batch.given["completions"] = completions
    reward = adapter(method, arguments(method), on_step=lambda *given: seen.extend(given[1]))
    found = reward(**batch.given)
    before = [len(rollout.response) - len(text) for rollout, text in zip(seen[0].rollouts, TEXTS, strict=True)]
    ends = [start + end for start, end in zip(before, ANSWER_ENDS, strict=True)]
    known = {"truncated": [False] * 8, "answer_ends": ends * 2}
    assert found == diver.advantages(completions, OUTCOMES * 2, [0] * 4 + [1] * 4, method, **known).tolist()
    assert "boxed{9}" not in "".join(seen[0].responses) and len(seen[0].rollouts[0].turns) == 5
    assert batch.extra["outcome"] == OUTCOMES * 2
    assert len({*found}) > 2 or method == "grpo"


def test_turns_are_only_those_of_trajectories():
    batch, seen = Batch(chat=True), []
    adapter("grpo", arguments(), on_step=lambda *given: seen.extend(given[1]))(**batch.given)
    assert [rollout.turns for rollout in seen[0].rollouts] == [()] * 4


def test_tokens_of_a_tool_are_none_of_the_response():
    """Which they are is not known, unless a rollout_func says so: a method that needs the tokens is refused."""
    method, batch, seen = method_named("grpo", overlong={"buffer": 0.5}), Batch(chat=True), []
    reward = adapter(method, arguments(method), on_step=lambda *given: seen.extend(given[1]))
    assert len(reward(**batch.given)) == 8
    batch.given["completions"] = [trajectory(*pair) for pair in zip(PLANS, TEXTS, strict=True)] * 2
    with pytest.raises(
        DiverError, match="'grpo' needs tokens, and TRL does not say which .* a tool's; choose a method without lengths"
    ):
        reward(**batch.given)

    reward(**batch.given, policy_mask=[[1, 0, 1]] * 8)
    assert [[r.tokens for r in group.rollouts] for group in seen[2:]] == [[[7, last] for last in range(100, 104)]] * 2


def test_an_advantage_for_each_turn_is_refused():
    with pytest.raises(DiverError, match="TRL subtracts their mean"):
        adapter(method_named("gigpo"), arguments())
