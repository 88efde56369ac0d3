"""Dumps of trajectories: turns, actions and outcomes, and no word of a tool in what the policy wrote.

verifiers-0.4.0.jsonl was written by `write_episode` of verifiers 0.4.0. TRL's parquet is written by the same call of
pandas as in `GRPOTrainer.log` of TRL 1.16. The others are written by hand from the code of verl 0.9.1, SkyRL 0.3 and
verifiers before 0.4.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from diver_command import succeeds
from report_page import packed
from rows import write_rows

import diver
from diver.core.turns import Action, Turn
from diver.core.types import DiverError, Group, Problem, Rollout
from diver.pages.groups import ACTION, BYTES, TURNS, Shown, browser_data
from diver.pages.page import pack
from diver.pages.source import Sample
from diver.rollouts.columns import Part
from diver.rollouts.grouping import grouped
from diver.rollouts.marks import with_special_tokens, without_special_tokens
from diver.rollouts.problems import diversity_values

SECRET = "the tool's own words"
SEARCH = Action("search", '{"k": 2, "query": "x"}')
OTHER = Action("search", '{"query": "y"}')


def call(name, arguments, **more):
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def chat(*calls, end="It is 7."):
    messages = []
    for one in calls:
        messages.append({"role": "assistant", "content": "I look.", "tool_calls": [one]})
        messages.append({"role": "tool", "name": "search", "content": SECRET})
    return [*messages, {"role": "assistant", "content": end}]


def checked(groups, layout, actions, outcomes):
    """The one group of a dump, of which every rollout has turns by both sides, these actions and outcomes."""
    assert layout in groups.notes[0] and len(groups) == 1
    (group,) = groups
    assert [rollout.actions for rollout in group.rollouts] == actions
    assert group.outcomes.tolist() == outcomes
    for rollout in group.rollouts:
        assert [turn.by_policy for turn in rollout.turns] == [True, False] * len(rollout.actions) + [True]
        assert SECRET not in rollout.response
        assert all(SECRET in turn.text for turn in rollout.turns if not turn.by_policy)
    return group


def test_trl_completions_with_tools(tmp_path):
    """Parquet has one type for the arguments of all calls, so a call gets the arguments of others as nulls."""
    completions = [
        chat(call("search", {"query": "x", "k": 2})),
        chat(call("search", {"k": 2, "query": "x"}), call("search", {"query": "y"})),
        chat(call("search", {"query": "y"}), end="7"),
    ]
    prompt = [{"role": "user", "content": "Where is x?"}]
    table = {
        "step": [3] * 3, "prompt": [prompt] * 3, "completion": completions, "correct": [1.0, 0.0, 1.0],
        "advantage": [0.5, -1.0, 0.5],
    }  # fmt: skip
    (tmp_path / "completions").mkdir()
    pd.DataFrame(table).to_parquet(tmp_path / "completions" / "completions_00003.parquet")
    group = checked(diver.read(tmp_path), "TRL", [(SEARCH,), (SEARCH, OTHER), (OTHER,)], [1, 0, 1])
    assert group.rollouts[0].response == "I look.\nIt is 7."  # what is graded: a call is no answer
    assert group.rollouts[0].turns[0].text == f"I look.\n{SEARCH}"
    assert len({rollout.key for rollout in group.rollouts}) == 3 and group.problem.meta["step"] == 3


def test_verl_agent_loop(tmp_path):
    """`_write_generations` has responses decoded without special tokens: of Qwen's template its words are left."""
    asks = 'I look.\n<tool_call>\n{"name": "search", "arguments": {"query": "x", "k": 2}}\n</tool_call>'
    answers = f"\nuser\n<tool_response>\n{SECRET}\n</tool_response>\nassistant\n"
    other = '<tool_call>\n{"name": "search", "arguments": {"query": "y"}}\n</tool_call>'
    rows = [
        {"input": "user\nWhere?\nassistant\n", "output": output, "gts": "7", "score": score, "step": 5}
        for output, score in [(asks + answers + "It is 7.", 1.0), (asks + answers + other + answers + "8", 0.0)]
    ]
    write_rows(tmp_path / "5.jsonl", rows)
    group = checked(diver.read(tmp_path / "5.jsonl"), "verl", [(SEARCH,), (SEARCH, OTHER)], [1, 0])
    assert group.rollouts[0].response == asks + "\nIt is 7."


def test_skyrl_evaluations(tmp_path):
    """`dump_per_dataset_eval_results` decodes with special tokens; the search environment answers as a user."""
    turn = f"<|im_end|>\n<|im_start|>user\n\n<information>{SECRET}</information>\n<|im_end|>\n<|im_start|>assistant\n"
    rows = [
        {
            "input_prompt": "Where?", "output_response": response, "score": score, "stop_reason": "stop",
            "env_class": "search", "env_extras": {"reward_spec": {"ground_truth": "7"}}, "data_source": "nq",
        }
        for response, score in [
            (f"<search> x </search>{turn}<answer>7</answer><|im_end|>", [0.0, 0.0, 1.0]),
            (f"<search>x</search>{turn}<search>z</search>{turn}<answer>8</answer><|im_end|>", 0.0),
        ]
    ]  # fmt: skip
    folder = tmp_path / "dumped_evals" / "global_step_20_evals"
    write_rows(folder / "nq.jsonl", rows)
    x, z = Action("search", "x"), Action("search", "z")
    group = checked(diver.read(tmp_path), "SkyRL", [(x,), (x, z)], [1, 0])
    assert group.rollouts[0].response == "<search> x </search>\n<answer>7</answer>"


def skyrl_row(response, env_class="search"):
    return {
        "input_prompt": "Where?", "output_response": response, "score": 1.0, "stop_reason": "stop",
        "env_class": env_class, "env_extras": {}, "data_source": "nq",
    }  # fmt: skip


def test_skyrl_with_all_turns_in_one(tmp_path):
    """`run_search.sh` and `run_skyrl_sql.sh` have use_conversation_multi_turn=false, so no token separates turns."""
    search = f"<search>x</search>\n<information>{SECRET}</information>\n"
    sql = f"<sql>x</sql>\n\n<observation>{SECRET}\n<reminder>4 turns left</reminder></observation>\n\n"
    rows = [skyrl_row(search + "<answer>7</answer>"), skyrl_row(search + search[:-30])]
    rows.append(skyrl_row(sql + "7", "text2sql"))
    (group,) = diver.read(write_rows(tmp_path / "x.jsonl", rows))
    assert group.responses == [
        "<search>x</search>\n<answer>7</answer>", "<search>x</search>\n<search>x</search>", "<sql>x</sql>\n7"
    ]  # fmt: skip
    assert [[turn.by_policy for turn in rollout.turns] for rollout in group.rollouts] == [
        [True, False, True], [True, False, True, False], [True, False, True]
    ]  # fmt: skip
    x = Action("search", "x")
    assert [rollout.actions for rollout in group.rollouts] == [(x,), (x, x), (Action("sql", "x"),)]
    assert [SECRET in rollout.turns[1].text for rollout in group.rollouts] == [True] * 3
    text = "a <information>b</information>"  # other environments do not write these tags
    (group,) = diver.read(write_rows(tmp_path / "y.jsonl", [skyrl_row(text, "gsm8k")]))
    assert group.responses == [text]
    assert len(with_special_tokens("<information>" * 100_000, "search")) == 100_001


def test_a_tool_that_says_the_mark_of_another_template(tmp_path):
    header = "<|eot_id|><|start_header_id|>{}<|end_header_id|>\n\n"
    text = "a" + header.format("user") + "b <|im_start|>assistant\nc<|im_end|>" + header.format("assistant") + "d"
    (group,) = diver.read(write_rows(tmp_path / "x.jsonl", [skyrl_row(text)]))
    assert group.responses == ["a\nd"]


def test_verifiers_traces(tmp_path):
    shutil.copy(Path(__file__).with_name("verifiers-0.4.0.jsonl"), tmp_path / "traces.jsonl")
    (group,) = groups = diver.read(tmp_path)
    assert "prime-rl" in groups.notes[0] and group.outcomes.tolist() == [1, 0, 1]
    assert [rollout.actions for rollout in group.rollouts] == [(SEARCH,), (SEARCH,), (OTHER,)]
    first = group.rollouts[0]
    assert [turn.role for turn in first.turns] == ["assistant", "tool", "assistant"]
    assert first.turns[1].text == "<b>x</b> is in 7" and "<b>" not in first.response
    assert first.logprobs.tolist() == [-0.5, -0.25, -1]
    keys = [rollout.key for rollout in group.rollouts]
    assert keys[0] == keys[1] != keys[2]


def test_verifiers_says_what_stopped_a_trace(tmp_path):
    """`Trace.is_truncated` of verifiers 0.4: a limit stopped the trace, or the last response reached its length."""
    (line, *_) = Path(__file__).with_name("verifiers-0.4.0.jsonl").read_text().splitlines()
    rows = [json.loads(line) for _ in range(3)]
    for row, condition in zip(rows, ("max_turns", "agent_completed", None), strict=True):
        row["traces"][0] |= {"stop_condition": condition}
        row["traces"][0]["nodes"][2]["message"]["reasoning_content"] = "hm"
    (group,) = diver.read(write_rows(tmp_path / "traces.jsonl", rows))
    assert group.truncated.tolist() == [True, False, False]
    first = group.rollouts[0]
    assert first.turns[0].text.startswith("<think>\nhm\n</think>\nI look.") and "hm" not in first.response


def test_results_of_verifiers_before(tmp_path):
    """Calls of tools are JSON texts there, with arguments that are a JSON text again."""
    calls = [json.dumps({"id": "c", **call("search", json.dumps({"query": "x", "k": 2}))})], None
    rows = [
        {
            "example_id": 0, "prompt": [{"role": "user", "content": "Where?"}], "answer": "7", "task": "search",
            "completion": [
                {"role": "assistant", "content": "I look.", "tool_calls": calls[0]},
                {"role": "tool", "tool_call_id": "c", "content": SECRET},
                {"role": "assistant", "content": answer, "tool_calls": calls[1]},
            ],
            "reward": reward,
        }
        for answer, reward in (("7", 1.0), ("8", 0.0))
    ]  # fmt: skip
    write_rows(tmp_path / "results.jsonl", rows)
    group = checked(diver.read(tmp_path / "results.jsonl"), "named columns", [(SEARCH,), (SEARCH,)], [1, 0])
    assert group.rollouts[0].key == group.rollouts[1].key


def test_messages_with_tool_calls(tmp_path):
    """OpenAI's messages: the prompt ends with the user, and the rest is the trajectory."""
    asked = [{"role": "system", "content": "S"}, {"role": "user", "content": "Where?"}]
    look = call("search", '{"query":"x","k":2}', id="c")
    rows = [
        {"messages": [*asked, *chat(look)], "reward": 1},
        {"messages": [*asked, *chat(look, call("search", '{"query":"y"}', id="d"))], "reward": 0},
    ]
    write_rows(tmp_path / "chats.jsonl", rows)
    group = checked(diver.read(tmp_path / "chats.jsonl"), "named columns", [(SEARCH,), (SEARCH, OTHER)], [1, 0])
    assert group.problem.prompt == tuple(asked)


@pytest.mark.parametrize(
    "later",
    [
        [{"role": "system", "content": "Two calls left."}, {"role": "assistant", "content": "7"}],
        [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": "7"}],
        [{"role": "assistant", "content": "7"}, {"role": "user", "content": "###STOP###"}],
    ],
)
def test_who_speaks_after_the_first_action_is_the_environment(tmp_path, later):
    """A question ends before the policy acts, so equal questions are one problem, whose trajectories differ."""
    asked = [{"role": "system", "content": "S"}, {"role": "user", "content": "Where?"}]
    rows = [{"messages": [*asked, *chat(call("search", {"query": q}))[:2], *later], "reward": 1} for q in "xy"]
    (group,) = diver.read(write_rows(tmp_path / "x.jsonl", rows))
    assert group.problem.prompt == tuple(asked) and group.responses == ["I look.\n7"] * 2
    assert [rollout.actions for rollout in group.rollouts] == [(Action("search", f'{{"query": "{q}"}}'),) for q in "xy"]
    assert [len(rollout.turns) for rollout in group.rollouts] == [4, 4]


def policy(**message):
    return {"role": "assistant", "content": "", **message}


def search(**arguments):
    return {"name": "search", **arguments}


@pytest.mark.parametrize(
    "acts",
    [
        lambda q: [policy(tool_calls=[search(args=q, type="tool_call")])],  # LangChain
        lambda q: [policy(content=[search(input=q, type="tool_use")])],  # Anthropic
        lambda q: [policy(tool_calls=[{"type": "custom", "custom": search(input=json.dumps(q))}])],
        lambda q: [policy(content=f"<tool_call>{json.dumps(search(parameters=q))}</tool_call>")],  # Llama
        lambda q: [policy(actions=[["search", q]])],
        lambda q: [{"role": "tool_call", "content": json.dumps(search(arguments=q))}],  # ms-swift
        lambda q: [{"from": "function_call", "value": json.dumps(search(arguments=q))}],  # ShareGPT
        lambda q: [{"type": "reasoning", "summary": []}, search(type="custom_tool_call", input=json.dumps(q))],
    ],
)
def test_other_forms_of_a_call(tmp_path, acts):
    """Their arguments were lost, so that different calls were equal, or the call was."""
    answer = [{"role": "tool", "content": SECRET}, {"role": "assistant", "content": "7"}]
    rows = [{"prompt": "Q", "completion": [*acts({"query": q}), *answer], "reward": 1} for q in "xy"]
    (group,) = diver.read(write_rows(tmp_path / "x.jsonl", rows))
    assert [rollout.actions for rollout in group.rollouts] == [(Action("search", f'{{"query": "{q}"}}'),) for q in "xy"]
    for rollout in group.rollouts:
        assert [turn.role for turn in rollout.turns if not turn.by_policy] == ["tool"]
        assert rollout.response.strip().endswith("7") and SECRET not in rollout.response


def test_reasoning_of_openais_responses_is_no_environment(tmp_path):
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "7"}]}
    rows = [{"prompt": "Q", "output": [{"type": "reasoning", "summary": []}, said], "reward": 1}]
    (group,) = diver.read(write_rows(tmp_path / "x.jsonl", rows))
    assert group.responses == ["7"] and group.rollouts[0].turns == ()


def test_what_a_tool_says_in_anthropics_messages(tmp_path):
    """A user has the answer of the tool; it is no question."""
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": SECRET}]}
    rows = [
        {"messages": [
            {"role": "user", "content": "Q"},
            policy(content=[{"type": "tool_use", "id": "t", "name": "f", "input": {"a": a}}]),
            {"role": "user", "content": [result]},
            policy(content="7"),
        ], "reward": 1}
        for a in (1, 2)
    ]  # fmt: skip
    (group,) = diver.read(write_rows(tmp_path / "x.jsonl", rows))
    assert [[turn.text for turn in rollout.turns][1:] for rollout in group.rollouts] == [[SECRET, "7"]] * 2


def test_actions_of_a_message_that_are_none_are_refused(tmp_path):
    rows = [{"prompt": "Q", "completion": [policy(actions=[3])], "reward": 1}]
    with pytest.raises(DiverError, match=r"x.jsonl:1, message 0: an action is a name, or a pair of name and arguments"):
        diver.read(write_rows(tmp_path / "x.jsonl", rows))


def test_actions_of_a_dump_are_measured_and_counted(tmp_path):
    """By hand: xx and x differ by 1 of 2 actions, x and y by 1 of 1, xx and y by 2 of 2. Equal plans are one."""
    calls = {query: call("search", {"query": query}) for query in "xy"}
    plans, texts = ["xx", "x", "y", "x"], ["It is 7.", "It is 7.", "It is 7.", "Seven, it is 7."]
    rows = [
        {"prompt": "Q", "completion": chat(*map(calls.get, plan), end=end), "correct": 1}
        for plan, end in zip(plans, texts, strict=True)
    ]
    path = write_rows(tmp_path / "x.jsonl", rows)
    succeeds("measure", path, "--metrics", "action-edits,actions", "--out", tmp_path / "out")
    (row,) = (json.loads(line) for line in (tmp_path / "out" / "groups.jsonl").read_text().splitlines())
    assert row["each"]["action-edits"] == pytest.approx([(0.5 + 1 + 0.5) / 3, (0.5 + 1) / 3, 1, (0.5 + 1) / 3])
    (group,) = diver.read(path)
    assert diversity_values(group, 0.5)["distinct@4"] == 3


def test_a_response_of_one_turn_stays_a_text(tmp_path):
    rows = [
        {"prompt": "Q", "completion": [{"role": "assistant", "content": "a"}], "reward": 1},
        {"prompt": "Q", "completion": "b\nuser\nno mark", "reward": 0},
    ]
    (group,) = diver.read(write_rows(tmp_path / "x.jsonl", rows))
    assert group.responses == ["a", "b\nuser\nno mark"] and [r.turns for r in group.rollouts] == [(), ()]
    assert [r.key for r in group.rollouts] == [None, None]
    talk = [
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "b"},
    ]
    rows = [{"prompt": "Q", "completion": [*talk[:2], {**talk[2], "content": end}], "reward": 1} for end in "bc"]
    (group,) = diver.read(write_rows(tmp_path / "y.jsonl", rows))
    assert [len(r.turns) for r in group.rollouts] == [3, 3] and [r.key for r in group.rollouts] == [None, None]
    assert diversity_values(group, 0.5)["distinct@2"] == 2  # nothing was done, so the texts count


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("one turn<|im_end|>", None),
        (None, None),
        ("a<|im_end|>\n<|im_start|>tool\nb<|im_end|>\n<|im_start|>assistant\n", ["assistant a", "tool b"]),
        (
            "a<|eot_id|><|start_header_id|>ipython<|end_header_id|>\n\nb<|eot_id|><|start_header_id|>assistant"
            "<|end_header_id|>\n\nc<|eot_id|>",
            ["assistant a", "ipython b", "assistant c"],
        ),
    ],
)
def test_marks_of_templates(text, messages):
    found = with_special_tokens(text)
    assert found == text if messages is None else [f"{m['role']} {m['content']}" for m in found] == messages


def test_words_of_templates():
    two = "a\nuser\n<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response>\nassistant\nb"
    assert [m["content"] for m in without_special_tokens(two)] == ["a", "1", "2", "b"]
    cut = "a\nuser\n<tool_response>\n1\n</tool_respo"
    assert [m["content"] for m in without_special_tokens(cut)] == ["a", "1\n</tool_respo"]
    assert [m["role"] for m in without_special_tokens(cut)] == ["assistant", "tool"]
    assert [m["content"] for m in without_special_tokens(two.replace("a\nuser", "auser"))] == ["a", "1", "2", "b"]
    assert without_special_tokens("one turn") == "one turn"
    assert len(without_special_tokens("a\nuser\n<tool_response>\n" * 100_000)) == 100_001


def test_the_page_folds_turns_and_escapes_what_tools_say(tmp_path):
    attack = "</script><img src=x onerror=alert(1)>\x1b[31m"
    rows = [
        {"prompt": "Q", "reward": reward, "completion": [
            {"role": "assistant", "content": "I look.", "tool_calls": [call("f", {"a": attack + str(reward)})]},
            {"role": "tool", "content": attack * 1000},
            *[{"role": "user", "content": "go on"}] * 100,
            {"role": "assistant", "content": "Done."},
        ]}
        for reward in (0, 1)
    ]  # fmt: skip
    path = write_rows(tmp_path / "x.jsonl", rows)
    succeeds("browse", path, "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<img" not in page and "\x1b" not in page
    browser = packed(page)["browser"]
    for response in browser["groups"][0]["responses"]:
        first, tool, *rest = response["turns"]
        assert (first["own"], tool["own"], tool["role"], response["all_turns"]) == (True, False, "tool", 103)
        assert first["actions"][0].startswith('f {"a": "</script>') and len(first["actions"][0]) <= ACTION
        assert len(rest) == TURNS - 2 and sum(len(t["text"]) for t in response["turns"]) <= browser["max_chars"]
        assert tool["cut"] == len(attack) * 1000 - len(tool["text"]) and "\x1b" not in tool["text"]


def test_what_tools_say_counts_in_the_bounds_of_memory():
    """Each group has 1 character of the policy, twice, and 80 of a tool; 200 hold two of them."""

    def group(name):
        turns = (Turn("assistant", "a"), Turn("tool", "x" * 80))
        return Group(Problem(name, name, ""), (Rollout.of_turns(turns),))

    sample = Sample(10, 200)
    for name in "abcd":
        sample.add(group(name), {})
    assert len(sample.groups()) == 2
    parts, read = [Part(name, group(name)) for name in "abcd"], []
    found = grouped((read.append(part) or part for part in parts), {}, [], "x.jsonl", open_chars=200)
    assert next(found).problem.id == "a" and len(read) == 3  # the third is one too many


def test_turns_on_the_page_are_bounded(monkeypatch):
    """Trajectories of 100 turns with 20 long actions each, in a twentieth of the room of a page."""
    monkeypatch.setattr("diver.pages.groups.BYTES", BYTES // 20)
    words = np.random.default_rng(0).integers(0, 1 << 40, (100, 500))
    turns = [
        Turn("assistant", f"{i} {row}", tuple(Action(f"{i} {j}", str(row)) for j in range(20)))
        for i, row in enumerate(" ".join(map(str, row)) for row in words)
    ]
    group = Group(Problem("p", "?", ""), tuple(Rollout.of_turns(turns) for _ in range(4)))
    data = browser_data([Shown(group)] * 3)
    assert len(pack(data)) <= BYTES // 20 and 100 < data["max_chars"] < 12_000
