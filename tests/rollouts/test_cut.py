"""Stored responses without the prompt in front and up to their end; which rows count; the order of the results."""

import json

import pytest
from diver_command import diver
from rows import write_rows

from diver.rollouts import Columns, read_rollouts

SHOTS = "Question: 1 + 4?\nAnswer: The answer is 5.\n\nQuestion: 2 + 6?\nAnswer:"


def texts(path, **columns):
    found = read_rollouts(path, Columns(**columns))
    return [r.response for group in found for r in group.rollouts], found.notes


def begun(responses, prompt=SHOTS):
    return [{"prompt": prompt, "answer": "8", "generated_text": prompt + text} for text in responses]


ASKED = "user\nWhat is 2 + 6?<|im_end|>\n<|im_start|>assistant\n"
CHAT = f"<|im_start|>system\nYou are helpful.<|im_end|>\n<|im_start|>{ASKED}"
ROLE = "<|start_header_id|>{}<|end_header_id|>\n\n"
LLAMA = f"<|begin_of_text|>{ROLE.format('user')}What is 2 + 6?<|eot_id|>{ROLE.format('assistant')}"


@pytest.mark.parametrize(
    "header", [CHAT, LLAMA, "user\nWhat is 2 + 6?\nassistant\n", "<s>[INST] What is 2 + 6? [/INST] "]
)
def test_a_prompt_behind_a_chat_header_is_cut_off(header, tmp_path):
    rows = [
        {"question": "What is 2 + 6?", "answer": "8", "response": header + text} for text in ("It is 8.", "<think>7")
    ]
    found, notes = texts(write_rows(tmp_path / "x.jsonl", rows))
    assert found == ["It is 8.", "<think>7"]
    assert any("2 of 2 responses begin with their prompt: cut off (--keep-prompt)" in note for note in notes)
    kept, _ = texts(tmp_path / "x.jsonl", keep_prompt=True)
    assert kept == [row["response"] for row in rows]  # the end marks of the prompt end nothing


def test_prompts_in_front_of_most_responses_are_cut_off_and_a_flag_keeps_them(tmp_path):
    path = write_rows(tmp_path / "x.jsonl", begun(["", " Let me see.", " The answer is 8."]))
    found, notes = texts(path)
    assert found == ["", " Let me see.", " The answer is 8."]
    assert [note for note in notes if "their prompt" in note] == [
        f"{path}: 3 of 3 responses begin with their prompt: cut off (--keep-prompt)"
    ]
    kept, notes = texts(path, keep_prompt=True)
    assert kept[0].startswith("Question: 1 + 4?") and not any("their prompt" in note for note in notes)
    assert "1 correct, 2 no_answer" in diver("grade", path)[1]
    assert "1 correct, 2 wrong" in diver("grade", path, "--keep-prompt")[1]


def test_where_few_responses_begin_with_their_prompt_nothing_is_cut_off(tmp_path):
    """A response may restate its question; a note names the rows."""
    texts_of = ["What is 2 + 6? It is 8.", "It is 8.", "8", "2 + 6 = 8"]
    rows = [{"question": "What is 2 + 6?", "answer": "8", "response": text} for text in texts_of]
    path = write_rows(tmp_path / "x.jsonl", rows)
    found, notes = texts(path)
    assert found == texts_of
    assert f"{path}: 1 of 4 responses begin with their prompt (rows 1): not cut off" in notes
    short = [{"question": "12", "answer": "8", "response": text} for text in ("12 is 8", "12 or 8")]  # an id
    assert texts(write_rows(tmp_path / "y.jsonl", short))[0] == ["12 is 8", "12 or 8"]


ENDS = [  # what is read, what is left
    (r"\boxed{8}", "<|im_end|>\n<|im_start|>user\nWhat is 1 + 1?<|im_end|>\n<|im_start|>assistant\n\\boxed{2}"),
    (r"\boxed{8}", r"<|endoftext|>Human: \boxed{2}"),
    (r"\boxed{8}", r"<|eot_id|>\boxed{2}"),
    (r"\boxed{8}", "</s>\n"),
    ("The answer is 8.", "\n\nQuestion: 1 + 1?\nAnswer: The answer is 2."),
    ("The answer is 8.", "\nQ: 1 + 1?\nA: The answer is 2."),
    ("The answer is 8.", "\n\nProblem:\nWhat is 1 + 1?\nSolution: 2"),
]
WHOLE = [
    "<think>\nQuestion: what is asked? 2 + 6.</think> The answer is 8.",
    "```\nQuestion: 1\n```\nThe answer is 8.",
    "I restate it.\n\nQuestion: What is 2 + 6?\nAnswer: 8",
    "Question: 2 and 6?\nThe answer is 8.",
    "The Question: is it 8? It is 8.",
    "<|im_start|>assistant\n<tool>6+2</tool><|im_end|>\n<|im_start|>tool\n<tool_response>8</tool_response><|im_end|>8",
    "<s>7</s> 8",
]


@pytest.mark.parametrize(("answer", "rest"), ENDS)
def test_what_follows_the_end_of_a_response_is_not_read(answer, rest, tmp_path):
    path = write_rows(tmp_path / "x.jsonl", [{"question": "What is 2 + 6?", "answer": "8", "response": answer + rest}])
    found, notes = texts(path)
    assert found == [answer]
    assert any("1 of 1 responses go on after an end mark of the model or with another question" in n for n in notes)
    assert "\n1 correct\n" in diver("grade", path)[1]


@pytest.mark.parametrize("text", WHOLE)
def test_a_thought_code_and_a_question_restated_are_read_whole(text, tmp_path):
    path = write_rows(tmp_path / "x.jsonl", [{"question": "What is 2 + 6?", "answer": "8", "response": text}])
    assert texts(path)[0] == [text]


def test_results_keep_the_order_of_the_file_its_row_and_its_id(tmp_path):
    rows = [
        {"id": f"q{i % 3}-{i}", "question": f"{i % 3} + 1?", "answer": str(i % 3 + 1), "response": f"{i}"}
        for i in range(9)
    ]
    path = write_rows(tmp_path / "x.jsonl", rows)
    assert diver("grade", path, "--out", tmp_path / "out")[0] == 0
    graded = [json.loads(line) for line in (tmp_path / "out" / "samples.jsonl").open()]
    assert [(row["row"], row["id"], row["response"]) for row in graded] == [
        (i + 1, f"q{i % 3}-{i}", str(i)) for i in range(9)
    ]
    assert [row["correct"] for row in graded] == [False] * 9 and {row["file"] for row in graded} == {"x.jsonl"}


LM_EVAL = {"arguments": {"gen_args_0": {"arg_0": "p", "arg_1": {"until": ["Question:"]}}}}


def test_a_document_that_occurs_for_each_filter_without_its_name_counts_once(tmp_path):
    """lm-eval up to 0.4.6. The same document with other responses is another one."""
    first = [{"doc_id": i, "doc_hash": f"h{i}", "target": "7", "resps": [[t]], **LM_EVAL} for i, t in enumerate("78")]
    rows = [{**row, "exact_match": score} for score in (0.0, 1.0) for row in first]
    path = write_rows(tmp_path / "samples_gsm8k_2024-06-01.jsonl", rows)
    found, notes = texts(path)
    assert found == ["7", "8"] and any("the rows of the first filter" in note for note in notes)
    rows[2] = {**rows[2], "resps": [["9"]]}
    assert sorted(texts(write_rows(path, rows))[0]) == ["7", "8", "9"]


def test_rows_that_a_resumed_evaluation_wrote_twice_count_once(tmp_path):
    rows = [{"question": "q?", "answer": "7", "sample": i, "response": "7"} for i in range(4)]
    path = write_rows(tmp_path / "x.jsonl", [*rows, *rows[:3]])
    found, notes = texts(path)
    assert len(found) == 4 and f"{path}: 3 rows occur again, with the number of their sample: left out" in notes
    unnumbered = [{name: value for name, value in row.items() if name != "sample"} for row in rows]
    assert len(texts(write_rows(path, unnumbered))[0]) == 4  # equal samples
    rows = [{"key": "k", "problem": "p", "sample": i, "response": "7", "truncated": False} for i in (0, 1, 1)]
    rows[1]["response"] = ""  # sampled again
    (tmp_path / "generations").mkdir()
    found, notes = texts(write_rows(tmp_path / "generations" / "sums.jsonl", rows))
    assert found == ["7", "7"] and any("1 rows are of samples that occur again" in note for note in notes)


@pytest.mark.parametrize(
    ("reason", "truncated"),
    [
        *(
            (reason, True)
            for reason in ("length", "max_tokens", "MAX_TOKENS", "model_length", "max_output_tokens", "True")
        ),
        *((reason, False) for reason in ("stop", "STOP", "eos", "end_turn", "content_filter", "False")),
    ],
)
def test_files_and_servers_have_one_table_of_finish_reasons(reason, truncated, tmp_path):
    row = {"question": "q?", "response": "7 and", "finish_reason": reason}
    (group,) = read_rollouts(write_rows(tmp_path / "x.jsonl", [row]))
    assert group.rollouts[0].truncated is truncated
    choice = {"finish_reason": reason, "message": {"role": "assistant", "content": "7 and"}}
    (group,) = read_rollouts(write_rows(tmp_path / "y.jsonl", [{"question": "q?", "response": {"choices": [choice]}}]))
    assert group.rollouts[0].truncated is truncated


def test_one_empty_reference_answer_does_not_refuse_a_file(tmp_path):
    rows = [{"question": f"{i} + {i}?", "answer": str(2 * i), "response": str(2 * i)} for i in range(1, 4)]
    rows[1]["answer"] = ""
    code, out, _ = diver("grade", write_rows(tmp_path / "x.jsonl", rows))
    assert code == 0 and "\n2 correct\n" in out
    assert "1 of 3 groups have no reference answer: left out (the first is 'problem-2')" in out
    none = [{**row, "answer": ""} for row in rows]
    code, _, err = diver("grade", write_rows(tmp_path / "x.jsonl", none))
    assert code == 2 and "has no reference answer; --answer names its column" in err
