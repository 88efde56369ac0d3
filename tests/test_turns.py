"""Messages with tool calls as turns: whose they are, what was done, and that untrusted text is only read."""

import json

import numpy as np
import pytest

from diver.core.files import to_json
from diver.core.run_folder import groups_from_rows, rollout_row
from diver.core.turns import LONGEST, Action, Turn, anchors, marked_actions, normalised, turns_of, with_tokens
from diver.core.types import DiverError, Grade, Group, Problem, Reward, Rollout
from diver.rollouts.problems import pair_values


def call(name, arguments):
    """A tool call as OpenAI's API writes it: the arguments are a JSON text."""
    return {"id": "c", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


CHAT = [
    {"role": "assistant", "content": "I look.", "tool_calls": [call("search", {"query": "x", "k": 2})]},
    {"role": "tool", "name": "search", "content": "found y", "state": "page 1", "reward": 0.5},
    {"role": "assistant", "content": "It is y."},
]
SEARCH = Action("search", '{"k": 2, "query": "x"}')


def test_messages_become_turns_of_the_policy_and_of_the_environment():
    first, tool, last = turns_of(CHAT)
    said = 'I look.\n{"name": "search", "arguments": {"k": 2, "query": "x"}}'
    assert first == Turn("assistant", said, (SEARCH,)) and first.by_policy
    assert tool == Turn("tool", "found y", state="page 1", reward=0.5) and not tool.by_policy
    assert last == Turn("assistant", "It is y.")


def test_a_trajectory_has_the_text_and_the_tokens_of_the_policy_alone():
    ids, mask = [10, 11, 50, 51, 52, 12], [1, 1, 0, 0, 0, 1]
    rollout = Rollout.of_turns(with_tokens(turns_of(CHAT), ids, mask), truncated=True)
    assert "found" not in rollout.response and rollout.response.endswith("\nIt is y.")
    assert (rollout.tokens, rollout.length, rollout.truncated) == ([10, 11, 12], 3, True)
    assert [list(turn.tokens) for turn in rollout.turns] == [[10, 11], [50, 51, 52], [12]]
    assert [part.tolist() for part in rollout.sequence] == [ids, [bool(m) for m in mask]]
    assert rollout.actions == (SEARCH,)


def test_a_response_of_one_turn_is_the_simplest_trajectory():
    text, turn = Rollout("a", [3, 4]), Rollout.of_turns([Turn("assistant", "a", tokens=[3, 4])])
    assert text.turns == () and (text.response, text.tokens) == (turn.response, turn.tokens)
    assert [a.tolist() for a in text.sequence] == [a.tolist() for a in turn.sequence] == [[3, 4], [True, True]]
    assert Rollout("<search>x  y</search>").actions == (Action("search", "x y"),)
    with pytest.raises(ValueError, match="no token ids"):
        _ = Rollout.of_turns(turns_of(CHAT)).sequence


def test_equal_calls_are_equal_actions_however_they_are_written():
    function = {"name": "add", "arguments": {"b": None, "a": [1, {"y": 2, "x": 1}]}}
    same = [
        {"type": "function", "function": function},  # TRL: an object; parquet adds the null
        function,
        {"name": "add", "arguments": '{"a":[1,{"x":1,"y":2}]}', "id": "c"},  # verifiers 0.4: flat, a text
        json.dumps(call("add", {"a": [1, {"x": 1, "y": 2}]})),  # verifiers before: a call as one text
    ]
    (one,) = {turns_of([{"role": "assistant", "tool_calls": [form]}])[0].actions for form in same}
    assert one == (Action("add", '{"a": [1, {"x": 1, "y": 2}]}'),)
    old = turns_of([{"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}])
    assert old[0].actions == (Action("f", "{}"),)
    for none in ({}, None, "", "{}", {"a": None}):
        (turn,) = turns_of([{"role": "assistant", "tool_calls": [{"name": "f", "arguments": none}]}])
        assert turn.actions == (Action("f", "{}"),)
    item = {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"}
    responses = turns_of([item, {"type": "function_call_output", "call_id": "c", "output": "o"}])
    assert [(t.by_policy, t.text, t.actions) for t in responses] == [
        (True, '{"name": "f", "arguments": {}}', (Action("f", "{}"),)),
        (False, "o", ()),
    ]


def test_actions_between_marks_stand_behind_the_thought_and_in_order():
    text = "<think><search>no</search></think><action>go  north</action>"
    text += '<tool_call>{"name": "f", "arguments": {"b": 1, "a": 2}}'
    assert marked_actions(text) == (Action("action", "go north"),)  # the second is not closed
    assert marked_actions(text + "</tool_call>") == (
        Action("action", "go north"),
        Action("f", '{"a": 2, "b": 1}'),
    )
    assert marked_actions("<tool_call><function=f></tool_call>") == (Action("tool_call", "<function=f>"),)
    assert marked_actions("<tool_call><search>x</search></tool_call>") == (Action("tool_call", "<search>x</search>"),)
    assert turns_of([{"role": "assistant", "content": "n", "actions": ["up", ("go", {"to": "b"})]}])[0].actions == (
        Action("up"),
        Action("go", '{"to": "b"}'),
    )


def test_thoughts_and_parts_of_a_message_are_text_of_the_policy():
    parts = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "u"}},
        {"type": "text", "text": "b"},
    ]
    (turn,) = turns_of([{"role": "assistant", "reasoning_content": "hm", "content": parts}])
    assert turn.text == "<think>\nhm\n</think>\nab"


def test_untrusted_arguments_are_bounded_and_never_an_error():
    long = json.dumps({"a": "x" * LONGEST})
    assert normalised(long) == long and normalised('{"a":  1}') == '{"a": 1}' and normalised("no  json") == "no json"
    deep = "[" * 50_000 + "]" * 50_000
    assert normalised(deep) == deep and normalised("[" * 600 + "]" * 600) == "[" * 600 + "]" * 600
    assert normalised("9" * 5000) == "9" * 5000 and normalised({"a": float("nan")}) == '{"a": NaN}'
    for odd in ({"id": "1"}, {"function": None}, {"function": {"name": 3}}, 7, None, "[", ""):
        assert turns_of([{"role": "assistant", "content": "a", "tool_calls": [odd]}])[0].actions == ()


def test_many_marks_that_are_never_closed_take_linear_time():
    """2 million characters of openers; a quadratic search would take hours and the test would not end."""
    assert marked_actions("<search>" * 250_000) == ()
    assert len(marked_actions("<search></search>" * 100_000)) == 100_000


def test_a_message_that_is_none_is_named():
    for messages, said in [
        (["a"], "message 0: must be a dict"),
        ([CHAT[0], {"content": "a"}], "message 1: has no role"),
        ([{"role": "tool", "reward": "high"}], "message 0: a reward is a finite number, not 'high'"),
        ([{"role": "tool", "reward": float("nan")}], "message 0: a reward is a finite number"),
        ([{"role": "tool", "content": 3}], "message 0: content is a text or a list of parts, not int"),
        ([{"role": "assistant", "actions": [3]}], "message 0: an action is a name"),
    ]:
        with pytest.raises(ValueError, match=said):
            turns_of(messages)


def test_a_mask_that_is_not_of_these_messages_is_refused():
    turns = turns_of(CHAT)
    for ids, mask, said in [
        ([1, 2], [1], "a mask of 1 for 2 tokens"),
        ([1, 2, 3], [1, 1, 1], "1 runs of policy tokens, but the messages have 2 policy turns"),
        ([9, 1, 2, 3], [0, 1, 0, 1], "differ in the order"),
    ]:
        with pytest.raises(ValueError, match=said):
            with_tokens(turns, ids, mask)
    two = turns_of([CHAT[0], CHAT[1], CHAT[1], CHAT[2]])
    assert [list(t.tokens) for t in with_tokens(two, [1, 2, 3, 4], [1, 0, 0, 1])] == [[1], [2, 3], [], [4]]
    cut = turns_of(CHAT[:2])  # the limit came before the policy's next turn
    assert [list(t.tokens) for t in with_tokens(cut, np.array([1, 2]), [1, 0])] == [[1], [2]]


def test_anchors_are_what_the_environment_names_or_else_says():
    policy, named, told = Turn("assistant"), Turn("tool", "t", state="s"), Turn("user", "t")
    assert [*anchors([policy, named, policy, told, policy])] == [("start",), ("state", "s"), ("text", "t")]
    assert [*anchors([told, told, policy])] == [("text", "t", "t")]
    assert [*anchors([policy, named, told, policy])] == [("start",), ("state", "s")]  # a second tool answers, too
    assert [*anchors([named, Turn("tool", "t", state="r"), policy])] == [("state", "r")]
    assert [*anchors([policy, policy])] == [("start",), None]
    assert [*anchors([told, Turn("assistant", state="s")])] == [("state", "s")]
    assert [*anchors([])] == []


def test_a_run_folder_keeps_the_turns(tmp_path):
    turns = turns_of([*CHAT, {"role": "user", "content": "", "state": {"at": [1, 2]}}])
    known = {"tokens": [1, 2], "reward": Reward(1.0), "grade": Grade.CORRECT}
    group = Group(Problem("p", "Q", "7"), (Rollout.of_turns(turns, **known), Rollout("a", index=1, **known)), "Q")
    rows = [json.loads(to_json(rollout_row(3, 0, group, rollout))) for rollout in group.rollouts]
    assert "turns" not in rows[1]  # a response of one turn has the row that it had
    (found,) = groups_from_rows((f"x:{i}", row) for i, row in enumerate(rows))
    assert [rollout.turns for rollout in found.rollouts] == [turns, ()]
    assert found.responses == group.responses and found.rollouts[0].actions == (SEARCH,)
    tool = rows[0]["turns"][1]
    for broken in ([3], None, [{"role": "tool"}], [{**tool, "reward": "high"}], [{**tool, "actions": [1]}]):
        with pytest.raises(DiverError, match="x:0: turn 0: must have role, text and actions"):
            groups_from_rows([("x:0", {**rows[0], "turns": broken})])


def test_pairs_of_correct_trajectories_differ_by_their_actions():
    """Two of three act alike, so two of the three pairs differ; their texts, which are all different, do not count."""
    calls = (("go", "north"), ("go", "north"), ("go", "south"))
    rollouts = [
        Rollout.of_turns((Turn("assistant", f"I try ${i} + 1 = {i + 1}$", (Action(*call),)),))
        for i, call in enumerate(calls)
    ]
    assert pair_values(rollouts)["pair_diversity"] == pytest.approx(2 / 3)
