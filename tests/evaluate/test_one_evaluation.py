"""One checkpoint has one Pass@k: training and `diver eval` sample, grade and reduce by the same function."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from diver_command import succeeds

from diver.core.files import MemoryLog
from diver.core.progress import progress_bar
from diver.core.types import Grade, Problem, Rollout
from diver.evaluate.evaluate import Task, evaluate, metrics, render_prompt
from diver.evaluate.results import read_results
from diver.grading import Verdict, verdicts
from diver.sample.base import Generation
from diver.tasks.templates import TEMPLATES

RECIPE = """
[sample]
group_size = 4
max_tokens = 40
max_prompt_tokens = 24
[train]
steps = 2
batch_size = 4
mini_batch_size = 2
learning_rate = 1e-4
[data.countdown]
problems = 64
[evaluate]
problems = 8
num_samples = 16
every = 0
temperature = 1.0
"""


def train(folder):
    Path("recipe.toml").write_text(RECIPE)
    succeeds("train", "recipe.toml", "--run.folder", folder, "--model.threads", 1)
    return [json.loads((Path(folder) / f"eval/step_{step:04d}.json").read_text()) for step in (0, 2)]


def evaluated(folder, name="out"):
    args = ("--limit", 8, "--samples", 16, "--k", "1,4,16", "--out", name)
    succeeds("eval", "--model", f"{folder}/checkpoints/step_0002", *args)
    return json.loads((Path(name) / "results.json").read_text())["benchmarks"]["countdown"]


@pytest.fixture(autouse=True)
def in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_checkpoint_has_the_pass_at_k_of_training_in_diver_eval_too():
    *_, last = train("run")
    again = evaluated("run")
    assert again["per_problem"] == last["per_problem"] and again["grades"] == last["grades"]
    assert again["estimates"] == last["estimates"]
    settings = ("problems", "samples", "seed", "template", "temperature", "max_tokens", "graders", "k", "generator")
    assert [again[key] for key in settings] == [last[key] for key in settings]
    compared = succeeds("compare", "run/eval/step_0002.json", "out", "run/eval/step_0000.json")
    same, before = compared.split(" against run/eval/step_0002.json (countdown after 2 steps)")[1:]
    assert len(re.findall(r"\+0\.0 \[-([\d.]+), \1\]", same)) == 5 and "Pass@16" in same and "differs" not in same
    assert len(re.findall(r"\+0\.0 \[-([\d.]+), \1\]", before)) < 3
    assert read_results(Path("run/eval/step_0002.json"))["model"] == "countdown after 2 steps"


def test_a_timeout_is_left_out_of_n_in_training_and_in_diver_eval(monkeypatch):
    def every_fourth_ends_in_a_timeout(grade):
        return lambda pairs, *args, **how: [
            Verdict(Grade.TIMEOUT) if i % 4 == 0 else found for i, found in enumerate(grade(pairs, *args, **how))
        ]

    monkeypatch.setattr("diver.evaluate.evaluate.verdicts", every_fourth_ends_in_a_timeout(verdicts))
    *_, last = train("run")
    assert last["unscored"] == last["grades"]["timeout"] == 32
    assert sum(row["n"] for row in last["per_problem"]) == 8 * 16 - 32
    assert last["estimates"]["pass@16"] == {"mean": None, "low": None, "high": None, "problems": 0}  # n < 16
    row = json.loads(Path("run/metrics.jsonl").read_text().splitlines()[-1])
    assert row["eval/pass@16"] is None and row["eval/pass@4"] > 0
    again = evaluated("run")
    assert again["per_problem"] == last["per_problem"] and again["unscored"] == 32


class Given:
    """A generator that answers with given responses, each with a count, as the prefix tree does."""

    name = "given"
    responses = (("2 + 2 = 4, so \\boxed{4}", 3), ("\\boxed{5}", 2))

    def generate(self, requests, params, have=()):
        assert len(requests) == 5 and not have and not params.stop_token_ids
        sample = 0
        for text, count in self.responses:
            yield Generation("p", sample, Rollout(text, num_tokens=9, index=sample), count)
            sample += count


def test_counts_are_samples():
    task = Task(
        name="sums", problems=[Problem("p", "2 + 2?", "4")], template="plain", temperature=1.0, max_tokens=9, samples=5,
        ks=[1, 2],
    )  # fmt: skip
    generations, grades = MemoryLog(), MemoryLog()
    result = evaluate(task, Given, generations, grades, solutions=True, progress=False)
    (row,) = result["per_problem"]
    counted = {"n": 5, "c": 3, "distinct": 1, "pair_diversity": 0.0, "solutions": [3]}
    assert row == {"id": "p", "digest": row["digest"], **counted}
    assert result["grades"] == {"correct": 3, "wrong": 2} and metrics(result) == {
        "eval/pass@1": 0.6, "eval/pass@2": pytest.approx(0.9)
    }  # fmt: skip
    assert [(row["sample"], row["count"]) for row in generations.rows()] == [(0, 3), (3, 2)]
    assert [(row["grade"], row["count"]) for row in grades.rows()] == [("correct", 3), ("wrong", 2)]


def test_a_grade_that_failed_is_made_again_and_a_response_that_failed_is_not(monkeypatch):
    class Refusing(Given):
        def generate(self, requests, params, have=()):
            yield Generation("p", 0, Rollout("\\boxed{4}", num_tokens=9))
            yield Generation("p", 1, Rollout("", num_tokens=0, index=1, grade=Grade.ERROR))

    task = Task(
        name="sums", problems=[Problem("p", "2 + 2?", "4")], template="plain", temperature=1.0, max_tokens=9, samples=2,
        ks=[1],
    )  # fmt: skip
    generations, grades = MemoryLog(), MemoryLog()
    with monkeypatch.context() as hanging:
        hanging.setattr(
            "diver.evaluate.evaluate.verdicts", lambda pairs, *_, **__: [Verdict(Grade.TIMEOUT)] * len(pairs)
        )
        assert evaluate(task, Refusing, generations, grades, progress=False)["grades"] == {"timeout": 1, "error": 1}
    for _ in range(2):
        assert evaluate(task, Given, generations, grades, progress=False)["grades"] == {"correct": 1, "error": 1}
        assert [row["grade"] for row in grades.rows()] == ["timeout", "error", "correct"]


class Thinking(Given):
    responses = (("It may be \\boxed{4}, or", 1),) * 3 + (("It is 5? No.</think> \\boxed{4}", 1),) * 2


@pytest.mark.parametrize(
    ("template", "question", "right"),
    [
        ("paper", "2 + 2?", 2),
        ("plain", "2 + 2? <think>", 2),
        ("plain", "2 + 2?", 5),
        ("plain", "Without a <think> block: 2 + 2?", 5),
    ],
)
def test_a_prompt_that_opens_a_thought(template, question, right):
    """The paper's prompt ends with <think>: a box before the thought is closed is no answer. Stored rows say so."""
    task = Task(
        name="sums", problems=[Problem("p", question, "4")], template=template, temperature=1.0, max_tokens=9,
        samples=5, ks=[1],
    )  # fmt: skip
    generations = MemoryLog()
    result = evaluate(task, Thinking, generations, MemoryLog(), progress=False)
    assert result["grades"] == {"correct": right} | ({"no_answer": 3} if right < 5 else {})
    again = evaluate(task, Given, generations, MemoryLog(), progress=False)  # nothing is sampled: graded from the rows
    assert again["grades"] == result["grades"]


RUN_ON = "\n\nQuestion: 1 + 1?\nAnswer: \\boxed{2}"


@pytest.mark.parametrize(
    ("template", "text", "grade", "noted"),
    [
        ("plain", r"\boxed{4}" + RUN_ON, "correct", True),
        ("plain", r"\boxed{4}" + "\n\nProblem: 1 + 1?\n\\boxed{2}", "correct", True),
        ("prime-zero", r"\boxed{4}" + "\n\nUser: 1 + 1? Assistant: \\boxed{2}", "correct", True),
        ("plain", r"\boxed{2}" + RUN_ON.replace("{2}", "{4}"), "wrong", True),
        ("plain", "<think>" + RUN_ON + r"</think> \boxed{4}", "correct", False),
        ("plain", "```" + RUN_ON + "\n``` so \\boxed{4}", "correct", False),
        ("plain", "I am asked:\n\nQuestion: 2 + 2?\nIt is \\boxed{4}", "correct", False),
        ("qwen-math", r"\boxed{4}<|im_end|> \boxed{2}", "correct", False),
        ("qwen-math", r"\boxed{4}" + RUN_ON, "wrong", False),  # its stop words are end marks alone
    ],
)
def test_a_response_ends_where_a_base_model_asks_itself_another_question(template, text, grade, noted):
    """Also one that is stored: sampling and grading end it at the same place."""
    task = Task(
        name="sums", problems=[Problem("p", "2 + 2?", "4")], template=template, temperature=1.0, max_tokens=9,
        samples=1, ks=[1],
    )  # fmt: skip
    asked = []

    class Once(Given):
        def generate(self, requests, params, have=()):
            asked.append(params.stop)
            yield Generation("p", 0, Rollout(text, num_tokens=9, index=0, truncated=True))

    generations, said = MemoryLog(), []
    result = evaluate(task, Once, generations, MemoryLog(), progress=False, log=said.append)
    assert result["grades"] == {grade: 1} and [row["response"] for row in generations.rows()] == [text]
    assert evaluate(task, Once, generations, MemoryLog(), progress=False)["grades"] == {grade: 1}
    assert any("where another question begins" in line for line in said) == noted
    labels = {"plain": ("\nQuestion:", "\nQ:", "\nProblem:"), "prime-zero": ("\nUser:", "\nHuman:", "\nAssistant:")}
    assert asked == [labels.get(template, ())]


@pytest.mark.parametrize(("template", "stop"), [("paper", ()), ("chat", ()), ("open-reasoner-zero", ())])
def test_a_thought_and_a_chat_model_have_no_stop_texts(template, stop):
    prompt = render_prompt(Problem("p", "2 + 2?", "4"), template, Given()) if template != "chat" else [{"role": "user"}]
    assert TEMPLATES[template].stop_texts(prompt) == stop


class InBatches(Given):
    """96 responses in three batches, each of which takes ten seconds and is then there at once."""

    clock = 0.0

    def generate(self, requests, params, have=()):
        for i in range(96):
            InBatches.clock += 10.0 if i % 32 == 0 else 0.0
            yield Generation("p", i, Rollout("\\boxed{4}", num_tokens=9, index=i))


def test_what_is_left_of_an_evaluation_is_told_by_whole_batches(monkeypatch):
    """When the second batch is there, 20 seconds have passed and the third takes 10 more.

    By the 6 responses that are a sixteenth, it would be 10 s x 90 / 6 = 150 s.
    """
    monkeypatch.setattr("diver.evaluate.evaluate.time", SimpleNamespace(monotonic=lambda: InBatches.clock))
    task = Task(
        name="sums", problems=[Problem("p", "2 + 2?", "4")], template="plain", temperature=1.0, max_tokens=9,
        samples=96, ks=[1],
    )  # fmt: skip
    said = []
    evaluate(task, InBatches, MemoryLog(), MemoryLog(), progress=False, log=said.append)
    assert [line for line in said if "left" in line] == [
        "sums: 32 of 96 responses took 10 s; what is left takes about 10 s"
    ]


def test_a_bar_of_bursts_shows_the_last_of_each_and_the_mean_rate(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress_bar(96, "sample", "response", bursts=True) as bar:
        for _ in range(32):
            bar.update()
        shown = capsys.readouterr().err.split("\r")[-1]
        assert "32/96" in shown and bar.smoothing == 0
