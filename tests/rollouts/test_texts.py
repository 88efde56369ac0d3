"""Where the text of a response is: in objects of APIs, in parts of a message, at the end of a chat; or nowhere."""

import json

import pandas as pd
import pytest
from diver_command import fails, succeeds
from rows import write_rows

from diver.core.types import DiverError
from diver.rollouts import Columns, read_rollouts


def read(tmp_path, *rows, **columns):
    return read_rollouts(write_rows(tmp_path / "x.jsonl", [*rows]), Columns(**columns))


def test_a_row_without_a_text_is_a_response_without_an_answer(tmp_path):
    """By hand: one of four is correct, so Pass@1 is 25; the same responses when graded."""
    for nothing in (None, [], {}, float("nan")):
        rows = [{"prompt": "P", "completion": r"\boxed{2}", "reward": 1.0, "answer": "2"}]
        rows += [{"prompt": "P", "completion": nothing, "reward": 0.0, "answer": "2"}] * 3
        path = write_rows(tmp_path / "x.jsonl", rows)
        (group,) = found = read_rollouts(path)
        assert group.responses == [r"\boxed{2}", "", "", ""] and group.outcomes.tolist() == [1, 0, 0, 0]
        assert found.notes[1:] == [f"{path}:2: column 'completion' has no text: a response without an answer"]
        assert "| Pass@1          |  25.0 |" in succeeds("measure", path, "--metrics", "equational")
        assert "1 correct, 3 no_answer" in succeeds("grade", path)


def test_rows_without_a_text_before_the_first_text_and_rows_that_lack_the_column(tmp_path):
    (group,) = read(tmp_path, {"prompt": "P", "text": None}, {"prompt": "P", "text": "a"}, {"prompt": "P"})
    assert group.responses == ["", "a", ""]
    turns = [{"role": "user", "content": "P"}, {"role": "assistant", "content": "a"}]
    (group,) = read(tmp_path, *[{"messages": turns[:n]} for n in (1, 2, 1)])  # the first and the last broke off
    assert group.responses == ["", "a", ""]


def test_a_file_in_which_no_row_has_a_text_is_refused(tmp_path):
    for nothing in (None, [], {}):
        with pytest.raises(
            DiverError, match=r"x.jsonl:1: no response: no row has a text; found prompt, response, said \(--resp"
        ):
            read(tmp_path, *[{"prompt": p, "response": nothing, "said": "a"} for p in "PQ"])
    with pytest.raises(
        DiverError, match="x.jsonl:1: no column 'response.txt' for the response: found prompt, response"
    ):
        read(tmp_path, *[{"prompt": "P", "response": {"text": "a"}}] * 2, response="response.txt")
    with pytest.raises(DiverError, match="x.jsonl:1: no response: found prompt, said; accepted response"):
        read(tmp_path, {"prompt": "P", "said": "a"})


def test_an_empty_text_stays_an_empty_response(tmp_path):
    found = read(tmp_path, *[{"prompt": "P", "completion": ""}] * 2)
    assert found[0].responses == ["", ""] and len(found.notes) == 1


@pytest.mark.parametrize(
    "row",
    [
        {"outputs": [], "correct": []},
        {"outputs": []},
        {"outputs": None},
        {"response": [], "reward": []},
        {"completions": []},
    ],
)
def test_a_problem_without_responses_is_said(tmp_path, row):
    path = write_rows(tmp_path / "x.jsonl", [{"problem": "p", **row}, {"problem": "q", "output": "x", "correct": True}])
    found = read_rollouts(path)
    assert [g.problem.prompt for g in found] == ["q"]
    assert found.notes[1:] == [f"{path}:1: problem 'p' has no response: left out"]


@pytest.mark.parametrize(
    "row", [{"outputs": [], "correct": False}, {"outputs": [], "correct": [0]}, {"output": [], "score": 0}]
)
def test_an_outcome_says_that_there_is_a_response(tmp_path, row):
    found = read(tmp_path, {"problem": "p", **row}, {"problem": "q", "output": "x"})
    assert found[0].responses == [""] and found[0].outcomes.tolist() == [0]


def test_responses_of_a_list_that_have_no_text(tmp_path):
    (group,) = read(tmp_path, {"problem": "p", "responses": ["a", None, []], "correct": [1, 0, 0]})
    assert group.responses == ["a", "", ""] and group.outcomes.tolist() == [1, 0, 0]


# ---- objects of APIs -------------------------------------------------------------------------------------------------


def chat(*texts, ends=("stop", "length")):
    choices = [
        {"index": i, "message": {"role": "assistant", "content": t}, "finish_reason": ends[i % 2]}
        for i, t in enumerate(texts)
    ]
    return {"id": "c", "object": "chat.completion", "choices": choices}


RESPONSE = {
    "object": "response", "text": {"format": {"type": "text"}}, "status": "completed",
    "output": [
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "function_call", "name": "add", "arguments": "{}", "call_id": "1"},
        {"type": "function_call_output", "call_id": "1", "output": "4"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "so 4"}]},
    ],
}  # fmt: skip
VLLM = {"request_id": "0", "prompt": "P", "prompt_token_ids": [1], "finished": True}
VLLM |= {"outputs": [{"index": i, "text": t, "token_ids": [i], "finish_reason": "stop"} for i, t in enumerate("ab")]}


@pytest.mark.parametrize(
    "row, texts",
    [
        ({"response": chat("a", "b")}, ["a", "b"]),
        ({"responses": [chat("a"), chat("b", "c")]}, ["a", "b", "c"]),
        ({"response": {"status_code": 200, "body": chat("a")}}, ["a"]),
        ({"response": {"object": "text_completion", "choices": [{"index": 0, "text": "a"}]}}, ["a"]),
        ({"choices": chat("a", "b")["choices"]}, ["a", "b"]),
        ({"response": {"role": "assistant", "content": "a"}}, ["a"]),
        ({"response": {"type": "message", "content": [{"type": "text", "text": "a"}]}}, ["a"]),
        ({"response": RESPONSE}, ["so 4"]),
        ({"response": RESPONSE["output"]}, ["so 4"]),
        ({"response": VLLM}, ["a", "b"]),
        ({"outputs": VLLM["outputs"]}, ["a", "b"]),
        ({"outputs": [{"generated_text": "a"}, {"generated_text": "b"}]}, ["a", "b"]),
        ({"response": {"candidates": [{"content": {"role": "model", "parts": [{"text": "a"}]}}]}}, ["a"]),
        ({"response": chat(None, "b")}, ["", "b"]),
        ({"response": {"choices": [{"message": {"content": None, "refusal": "no"}}]}}, ["no"]),
        ({"response": {"error": {"message": "timeout"}}}, [""]),
        ({"response": {"choices": []}}, [""]),
    ],
)
def test_a_response_that_is_an_object(tmp_path, row, texts):
    (group,) = read(tmp_path, {"prompt": "P", **row})
    assert group.responses == texts


def stored(kind, content):
    """A message as LangChain's `dumpd` writes it."""
    name = ["langchain", "schema", "messages", f"{kind}Message"]
    return {"lc": 1, "type": "constructor", "id": name, "kwargs": {"content": content, "additional_kwargs": {}}}


@pytest.mark.parametrize(
    "message", [stored, lambda kind, content: {"type": kind.lower(), "data": {"content": content}}]
)
def test_messages_as_langchain_stores_them(tmp_path, message):
    """Their texts were empty, and the prompts of all problems equal."""
    for number in "12":
        asked = [message("System", "Guess."), message("Human", f"P{number}")]
        chats = [[*asked, message("AI", text), message("Tool", "4")] for text in ("a", "b")]
        rows = [{"messages": chat, "reward": reward} for reward, chat in enumerate(chats)]
        split = [
            {"prompt": asked, "completion": [message("AI", "a")]},
            {"prompt": asked, "response": message("AI", "b")},
        ]
        for given in (rows, split):
            (group,) = read(tmp_path, *given)
            assert group.responses == ["a", "b"]
            assert [turn["content"] for turn in group.problem.prompt] == ["Guess.", f"P{number}"]
    two = [{"prompt": [message("Human", f"P{i}")], "completion": [message("AI", "a")]} for i in range(2)]
    assert len(read(tmp_path, *two)) == 2


def test_objects_say_which_responses_were_cut_off_and_their_outcomes(tmp_path):
    (group,) = read(tmp_path, {"prompt": "P", "response": chat("a", "b")})
    assert [r.truncated for r in group.rollouts] == [False, True] and [r.reward for r in group.rollouts] == [None, None]
    completions = [{"full_model_response": "a", "score": 1.0}, {"full_model_response": "b", "score": 0.0}]
    (group,) = found = read(tmp_path, {"question": "P", "completions": completions})
    assert (group.responses, group.outcomes.tolist()) == (["a", "b"], [1, 0])
    assert found.notes[0].endswith("; outcome: score of each response")
    completions = [{"text": "a", "score": 1.0}, {"text": "b", "score": 0.0}]
    (group,) = read(tmp_path, {"question": "P", "completions": completions, "correct": [0, 1]})
    assert group.outcomes.tolist() == [0, 1]  # a column of the row goes first


def test_an_object_without_a_text_is_named(tmp_path):
    with pytest.raises(DiverError, match=r"x.jsonl:1: a response must be a text, not \{'said': 'a'\}"):
        read(tmp_path, {"prompt": "P", "response": {"said": "a"}})


def test_nemo_gyms_rollouts(tmp_path):
    """`responses_create_params`, `response` and `_ng_task_index`, as NeMo-Gym's example_rollouts.jsonl has them."""
    rows = [
        {
            "responses_create_params": {"input": [{"role": "user", "content": "Guess."}]}, "response": RESPONSE,
            "reward": reward, "_ng_task_index": task, "_ng_rollout_index": i % 2,
        }
        for i, (task, reward) in enumerate([(0, 1.0), (0, 0.0), (1, 0.0), (1, 0.0)])
    ]  # fmt: skip
    groups = read(tmp_path, *rows)
    assert [(g.responses, g.outcomes.tolist()) for g in groups] == [(["so 4"] * 2, [1, 0]), (["so 4"] * 2, [0, 0])]
    assert groups[0].problem.prompt == ({"role": "user", "content": "Guess."},)


# ---- parts of a message, the end of a chat ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text", "output_text", "input_text"])
def test_texts_in_parts_of_a_message(tmp_path, kind):
    def say(role, text):
        parts = [
            {"type": "reasoning", "text": "hm"},
            {"type": kind, "text": text},
            {"type": "input_image", "image": ""},
        ]
        return [{"role": role, "content": parts}]

    (group,) = read(tmp_path, {"prompt": say("user", "What?"), "completion": say("assistant", "one two")})
    assert group.responses == ["one two"] and group.problem.prompt == ({"role": "user", "content": "What?"},)
    (group,) = read(tmp_path, {"prompt": "P", "response": say("assistant", "one two")[0]["content"]})
    assert group.responses == ["one two"]


@pytest.mark.parametrize("role", ["model", "Assistant", "ASSISTANT", "ai", "bot", "gpt", "agent", "solver", "llm_2"])
def test_whoever_neither_asks_nor_is_a_tool_responds(tmp_path, role):
    asked = [{"role": "System", "content": "s"}, {"role": "Human", "content": "P"}]
    said = {"role": role, "content": "one two"}
    tool = [{"role": other, "content": "3"} for other in ("tool", "Function", "user", "environment")]
    (group,) = read(tmp_path, {"prompt": "P", "completion": [said, *tool]})
    assert group.responses == ["one two"]
    (group,) = read(tmp_path, {"messages": [*asked, said]})
    assert group.responses == ["one two"] and [turn["content"] for turn in group.problem.prompt] == ["s", "P"]


def test_who_is_not_the_assistant_is_left_out_where_somebody_is(tmp_path):
    """As before: an environment with a name of its own, and the items of OpenAI's Responses that have no role."""
    turns = [{"role": "assistant", "content": "a"}, {"role": "referee", "content": "GGXXX"}]
    (group,) = read(tmp_path, {"prompt": "P", "completion": [*turns, {"role": "assistant", "content": "b"}]})
    assert group.responses == ["a\nb"]
    items = [{"role": None, "content": [{"type": "text", "text": "hm"}], "type": "reasoning"}, turns[0]]
    (group,) = read(tmp_path, {"prompt": "P", "response": items})
    assert group.responses == ["a"]


@pytest.mark.parametrize(
    "turn",
    [
        {"type": "ai", "content": "one two"},  # LangChain
        {"from": "gpt", "value": "one two"},  # ShareGPT
        {"role": "assistant", "value": "one two"},
        {"role": "assistant", "text": "one two"},
        {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "one two"}]},  # Gemini
        {"role": "assistant", "content": None, "parts": [{"text": "one two"}]},
    ],
)
def test_texts_of_turns_that_stand_elsewhere_than_in_their_content(tmp_path, turn):
    (group,) = found = read(tmp_path, {"prompt": "P", "completion": [turn]})
    assert group.responses == ["one two"] and len(found.notes) == 1


@pytest.mark.parametrize("said", [lambda p: {"text": p}, lambda p: {"value": p}, lambda p: {"parts": [{"text": p}]}])
def test_two_problems_that_differ_in_such_a_text_are_two(tmp_path, said):
    groups = read(tmp_path, *[{"prompt": [{"role": "user", **said(p)}], "completion": p} for p in "PQ"])
    assert [g.problem.prompt for g in groups] == [({"role": "user", "content": p},) for p in "PQ"]
    assert len({g.problem.id for g in groups}) == 2


def test_the_content_of_a_turn_goes_before_its_other_fields_and_a_number_is_no_text(tmp_path):
    turn = {"role": "assistant", "content": "a", "text": "b", "value": "c"}
    empty = {"role": "assistant", "content": "", "value": 0.5}
    for response, text in (([turn], "a"), (turn | {"text": None}, "a"), ([empty], ""), (empty, "")):
        (group,) = read(tmp_path, {"prompt": "P", "response": response}, {"prompt": "P", "response": "x"})
        assert group.responses == [text, "x"]


def test_a_chat_in_which_no_text_is_found_is_said(tmp_path):
    """Not where the assistant says nothing, as with a call of a tool alone."""
    other = {"prompt": "P", "completion": "x"}
    for chat in (
        [{"role": "user", "content": "P"}],
        [{"role": "assistant", "said": "a"}],
        [{"role": "assistant", "content": [{"type": "text", "said": "a"}]}],
        [{"type": "ai", "said": {"content": "a"}}],
    ):
        (group,) = found = read(tmp_path, {"prompt": "P", "completion": chat}, other)
        said = "x.jsonl:1: has a chat in which no text of the assistant is found: a response without an answer"
        assert group.responses == ["", "x"] and len(found.notes) == 2 and found.notes[1].endswith(said)
    for content in ("", None, []):
        chat = [{"role": "assistant", "content": content, "tool_calls": [{"id": "1"}]}]
        (group,) = found = read(tmp_path, {"prompt": "P", "completion": chat}, other)
        assert group.responses == ["", "x"] and len(found.notes) == 1


def test_several_outcomes_of_one_response_name_its_column(tmp_path):
    chat = [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}]
    said = (
        "x.jsonl:1: column 'responses' has 1 response, but there are 2 outcomes; a chat is one response; write several"
    )
    with pytest.raises(DiverError, match=said):
        read(tmp_path, {"prompt": "P", "responses": chat, "reward": [1, 0]})
    with pytest.raises(DiverError, match="x.jsonl:1: column 'output' has 1 response, but there are 3 outcomes; "):
        read(tmp_path, {"prompt": "P", "output": "a", "outputs": ["a", "b", "c"], "score": [1, 0, 0]})
    (group,) = read(tmp_path, {"prompt": "P", "responses": [[turn] for turn in chat], "reward": [1, 0]})
    assert group.responses == ["a", "b"] and group.outcomes.tolist() == [1, 0]


def test_the_end_of_a_chat_is_the_response(tmp_path):
    """The same chat twice is one problem; the first answer of the assistant is part of its prompt."""
    begin = [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}, {"role": "user", "content": "C"}]
    tool = [{"role": "assistant", "content": None, "tool_calls": []}, {"role": "tool", "content": "3"}]
    rows = [{"messages": [*begin, {"role": "assistant", "content": t}]} for t in "de"]
    (group,) = read(tmp_path, *rows, {"messages": [*begin, *tool, {"role": "assistant", "content": "f"}]})
    assert group.responses == ["d", "e", "\nf"] and group.problem.prompt == tuple(begin)
    (group,) = read(tmp_path, *rows, response="messages")
    assert group.responses == ["B\nd", "B\ne"]
    (group,) = read(tmp_path, *[{**row, "response": t} for row, t in zip(rows, "de", strict=True)])
    assert group.responses == ["d", "e"] and group.problem.prompt == tuple(begin)


def test_a_chat_that_the_response_continues_is_the_prompt(tmp_path):
    """The assistant's turn is the beginning of an answer, or the chat ends with the user."""
    prefilled = [{"role": "user", "content": "A"}, {"role": "assistant", "content": "So"}]
    (group,) = read(tmp_path, {"messages": prefilled, "response": " 4"})
    assert group.responses == [" 4"] and group.problem.prompt == tuple(prefilled)
    assert "no response" in fails("measure", write_rows(tmp_path / "y.jsonl", [{"messages": prefilled[:1]}]))


def test_choices_of_a_question_are_no_responses(tmp_path):
    options = [{"label": "A", "text": "iron"}, {"label": "B", "text": "zinc"}]
    for choices in (options, ["iron", "zinc"], []):
        with pytest.raises(DiverError, match="no response: found question, choices"):
            read(tmp_path, {"question": "Q", "choices": choices})
    (group,) = read(tmp_path, {"question": "Q", "choices": options, "response": "A"})
    assert group.responses == ["A"] and json.dumps(group.problem.prompt) == '"Q"'


def test_names_that_evaluations_give_their_responses(tmp_path):
    for name in ("model_output", "model_outputs", "full_model_response", "generated_text"):
        (group,) = read(tmp_path, {"question": "P", name: "a"}, {"question": "P", name: ""})
        assert group.responses == ["a", ""]


def test_the_score_of_gaokao_bench_is_what_a_question_is_worth(tmp_path):
    row = {
        "index": 0,
        "question": "P",
        "standard_answer": ["B"],
        "score": 5,
        "model_answer": ["C"],
        "model_output": "C",
    }
    (group,) = found = read(tmp_path, row)
    assert group.responses == ["C"] and group.rollouts[0].reward is None and group.problem.answer == "B"
    assert found.layouts == ["GAOKAO-Bench"]


def lm_eval_row(resps):
    arguments = [["Q", {"until": []}]] * max(1, len(resps))
    return {"doc_id": 0, "target": "4", "arguments": arguments, "resps": resps, "exact_match": 1.0}


def test_lm_eval_keeps_the_responses_of_all_requests(tmp_path):
    (group,) = read(tmp_path, lm_eval_row([["a"], ["b", "c"]]))
    assert group.responses == ["a", "b", "c"] and {r.reward for r in group.rollouts} == {
        None
    }  # whose it is, is not said
    (group,) = read(tmp_path, lm_eval_row([]), lm_eval_row([["a"]]), lm_eval_row(["b"]))
    assert group.responses == ["", "a", "b"] and group.rollouts[2].reward.outcome == 1


def test_a_list_in_a_cell_of_a_csv_is_refused(tmp_path):
    path = tmp_path / "x.csv"
    for cell in ("""['a', 'b']""", """[""a"", ""b""]""", """['a'\n 'b']""", """[{'text': 'a'}]"""):
        path.write_text(f'question,outputs\nP,"{cell}"\n')
        with pytest.raises(
            DiverError, match="x.csv, row 1: column 'outputs' has a list written as one text; write a row"
        ):
            read_rollouts(path)
    path.write_text("prompt,response,reward\nP,\"['a', 'b']\",\"[1, 0]\"\n")
    with pytest.raises(DiverError, match="x.csv, row 1: column 'response' has a list written as one"):
        read_rollouts(path)
    for name, cell in (("response", "['a', 'b']"), ("outputs", "[0, 1]")):  # a text, such as an interval
        path.write_text(f'question,{name}\nP,"{cell}"\n')
        assert read_rollouts(path)[0].responses == [cell]


def test_a_list_that_is_written_as_one_text_is_refused_in_every_format(tmp_path):
    cell = r"['\boxed{5}', '\boxed{6}']"
    said = "column 'responses' has a list written as one text; write a row for each response, or a list in JSON Lines"
    pd.DataFrame([{"question": "P", "responses": cell}]).to_parquet(tmp_path / "x.parquet")
    (tmp_path / "x.json").write_text(json.dumps([{"question": "P", "responses": cell}]))
    write_rows(tmp_path / "x.jsonl", [{"question": "P", "responses": cell}])
    for name in ("x.parquet, row ", "x.json, row ", "x.jsonl:"):
        with pytest.raises(DiverError, match=f"{name}1: {said}"):
            read_rollouts(tmp_path / name.split(",")[0].rstrip(":"))
    with pytest.raises(DiverError, match="x.jsonl:1: column 'response' has a list written as one text"):
        read(tmp_path, {"prompt": "P", "response": cell, "reward": "[1, 0]"})
    assert read(tmp_path, {"prompt": "P", "response": cell})[0].responses == [cell]  # a response may write a list
    assert read(tmp_path, {"prompt": "P", "responses": [cell]})[0].responses == [cell]


def test_a_chat_that_is_written_as_one_text_is_refused(tmp_path):
    """As pandas writes TRL's completions into a CSV; its braces and names were measured as the response."""
    chat = [{"role": "assistant", "content": "a"}]
    (tmp_path / "x.csv").write_text(f'prompt,completion\nP,"{chat}"\n')
    with pytest.raises(DiverError, match="x.csv, row 1: column 'completion' has a chat written as one text"):
        read_rollouts(tmp_path / "x.csv")
    with pytest.raises(DiverError, match="x.jsonl:1: column 'completion' has a chat written as one text"):
        read(tmp_path, {"prompt": "P", "completion": json.dumps(chat)})
    (group,) = read(tmp_path, {"prompt": "P", "completion": '[{"role": "cook"}]'})
    assert group.responses == ['[{"role": "cook"}]']


def test_an_object_whose_text_is_null_is_a_response_without_an_answer(tmp_path):
    (group,) = read(tmp_path, *[{"prompt": "P", "response": {"text": said}} for said in (None, "a")])
    assert group.responses == ["", "a"]
    (group,) = read(tmp_path, {"prompt": "P", "outputs": [{"text": None, "finish_reason": "abort"}, {"text": "a"}]})
    assert group.responses == ["", "a"]


def test_a_chat_that_ends_with_the_turn_of_a_tool(tmp_path):
    """What the assistant said before it is the response, to the problem of the chats that go on."""
    asked, said = {"role": "user", "content": "P"}, {"role": "assistant", "content": "a"}
    tool, last = {"role": "tool", "content": "7"}, {"role": "assistant", "content": "b"}
    (group,) = read(tmp_path, {"messages": [asked, said, tool]}, {"messages": [asked, said, tool, last]})
    assert group.responses == ["a", "a\nb"] and group.problem.prompt == (asked,)


def test_one_unknown_outcome_of_several(tmp_path):
    rows = [{"problem": "P", "outputs": ["a", "b", "c"], "correct": [True, nothing, False]} for nothing in (None, "")]
    for row in rows:
        (group,) = found = read(tmp_path, row)
        assert [r.reward and r.reward.outcome for r in group.rollouts] == [1, None, 0] and len(found.notes) == 1
    (group,) = found = read(tmp_path, {"problem": "P", "outputs": ["a", "b"], "correct": [True, "maybe"]})
    assert not any(r.reward for r in group.rollouts) and "column 'correct' is no outcome" in found.notes[1]


def test_numbers_that_are_known_as_something_else_are_no_outcome(tmp_path):
    for name in ("epoch", "seed", "num_tokens", "entropy", "truncated", "answer"):
        (group,) = found = read(tmp_path, {"prompt": "P", "completion": "a", "advantage": 0.5, name: 1})
        assert group.rollouts[0].reward is None and "the outcome column is ambiguous" in found.notes[1]
    (group,) = read(tmp_path, {"prompt": "P", "completion": "a", "advantage": 0.5, "epoch": 0, "my_reward": 1})
    assert group.outcomes.tolist() == [1]
    (group,) = read(tmp_path, lm_eval_row([["a"]]) | {"length": 17})
    assert group.outcomes.tolist() == [1]  # exact_match


def test_one_score_of_several_choices_of_inspect_does_not_say_whose_it_is(tmp_path):
    choices = [{"message": {"role": "assistant", "content": text}} for text in "ab"]
    sample = {"id": 1, "epoch": 1, "input": "P", "target": "a", "scores": {"match": {"value": "C"}}}
    for n in (1, 2):
        (group,) = read(tmp_path, sample | {"output": {"choices": choices[:n]}})
        assert group.responses == [*"ab"][:n]
        assert [r.reward and r.reward.outcome for r in group.rollouts] == ([1] if n == 1 else [None, None])
