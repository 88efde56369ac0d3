import json
import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from local_hub import COMMIT, GATED
from rows import write_rows

from diver.core.types import DiverError, Grade
from diver.grading import GRADERS, grade
from diver.grading.choice import listed
from diver.tasks.benchmarks import BENCHMARKS, find, load
from diver.tasks.templates import TEMPLATES
from diver_paper import paper

DATA = Path(os.environ.get("DIVER_DATA", Path(__file__).parents[3] / "shared" / "data"))
FILES = {
    "aime24": ("aime24", 30),
    "amc": ("amc83", 83),
    "math500": ("math500", 500),
    "minerva": ("minerva", 272),
    "olympiad": ("olympiadbench", 675),
    "arc-c": ("arc_challenge_test", 1172),
    "mmlu-pro": ("mmlu_pro_test_quarter", 3014),
}
HUB_ROWS = {  # in the layout of the hub, with texts of our own
    "aime24": {"id": 60, "problem": "1+1?", "solution": "So \\boxed{2}.", "answer": "2", "url": "u", "year": "2024"},
    "aime25": {
        "problem_id": "aime_0",
        "prompt": "1+1? Mark your solution with \\boxed",
        "verification_info": '{"ground_truth": 2}',
    },
    "amc": {"id": 0, "problem": "1+1?", "answer": 2.0, "url": "u"},
    "math500": {"problem": "1+1?", "solution": "So \\boxed{2}.", "answer": "2", "unique_id": "test/algebra/1.json"},
    "minerva": {"question": "1+1?", "answer": "2"},
    "olympiad": {"id": 7, "question": "1+1?", "context": None, "final_answer": ["$2$"], "is_multiple_answer": False},
    "arc-c": {
        "id": "M_1",
        "question": "1+1?",
        "choices": {"text": ["one", "two", "three"], "label": ["1", "2", "3"]},
        "answerKey": "2",
    },
    "gpqa": {
        "Record ID": "rec1",
        "Question": "1+1?",
        "Correct Answer": "two\n",
        "Incorrect Answer 1": "one",
        "Incorrect Answer 2": "three",
        "Incorrect Answer 3": "four",
    },
    "mmlu-pro": {
        "question_id": 70,
        "question": "1+1?",
        "options": ["one", "two", "three"],
        "answer": "B",
        "answer_index": 1,
        "cot_content": "",
        "category": "math",
        "src": "s",
    },
}


def write(folder, rows, name="rows.jsonl"):
    return write_rows(folder / name, rows)


def test_the_entries_are_those_of_the_paper_and_usable():
    names = (*paper.IN_DOMAIN, *paper.OUT_OF_DOMAIN)
    assert tuple(BENCHMARKS) == (*names, "countdown", "maze", "graph-coloring")
    for name, entry in BENCHMARKS.items():
        assert entry.name == name and entry.template in ("", *TEMPLATES) and entry.source.verifier in GRADERS
        assert entry.title
    assert [n for n in names if BENCHMARKS[n].samples == 32] == ["aime24", "aime25", "amc"]
    assert {n for n in names if BENCHMARKS[n].options} == set(paper.OUT_OF_DOMAIN)
    assert {BENCHMARKS[n].domain for n in paper.IN_DOMAIN} == {"in"}
    assert {BENCHMARKS[n].domain for n in paper.OUT_OF_DOMAIN} == {"out"}
    assert {(BENCHMARKS[n].temperature, BENCHMARKS[n].max_tokens) for n in names} == {(0.6, 8192)}


def test_the_page_has_every_benchmark_with_its_samples_and_grader():
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[\w`, -]+`) \| .* \| (\d+) \| (?:`(\w+)`|their own) \|$", page, re.MULTILINE)
    found = {
        name: (int(samples), grader or name) for names, samples, grader in rows for name in names[1:-1].split("`, `")
    }
    assert found == {name: (entry.samples, entry.grader) for name, entry in BENCHMARKS.items()}


@pytest.mark.parametrize("name", FILES)
def test_the_files_at_hand(name):
    stem, count = FILES[name]
    file = DATA / f"{stem}.jsonl"
    if not file.is_file():
        pytest.skip(f"{file.name} is not in DIVER_DATA")
    loaded = load(f"{name}={file}", seed=0)
    assert len(loaded.problems) == count and loaded.benchmark.name == name
    assert {p.verifier for p in loaded.problems} == {BENCHMARKS[name].source.verifier}
    raw = {row["id"]: row for row in map(json.loads, file.read_text().splitlines())}
    if not BENCHMARKS[name].options:
        assert loaded.random_baseline is None
        assert all((p.prompt, p.answer) == (raw[p.id]["problem"], raw[p.id]["answer"]) for p in loaded.problems)
        return
    for p in loaded.problems:
        before = listed(raw[p.id]["problem"]).options
        assert p.meta["options"][p.answer] == before[raw[p.id]["answer"]]
        assert sorted(p.meta["options"].values()) == sorted(before.values())


@pytest.mark.parametrize(
    ("stem", "name", "expected"),
    [("arc_challenge_test", "arc-c", 0.2502), ("mmlu_pro_test_quarter", "mmlu-pro", 0.1108)],
)
def test_random_baseline_of_the_files_at_hand(stem, name, expected):
    """ARC: (4/3 + 1165/4 + 3/5) / 1172.

    MMLU-Pro: (2498/10 + 193/9 + 155/4 + 91/8 + 44/7 + 19/6 + 11/5 + 3/3) / 3014.
    """
    if not (DATA / f"{stem}.jsonl").is_file():
        pytest.skip(f"{stem}.jsonl is not in DIVER_DATA")
    assert load(f"{name}={DATA / stem}.jsonl", seed=0).random_baseline == pytest.approx(expected, abs=1e-4)


def test_numbered_options_of_arc():
    if not (DATA / "arc_challenge_test.jsonl").is_file():
        pytest.skip("arc_challenge_test.jsonl is not in DIVER_DATA")
    loaded = load(f"arc-c={DATA / 'arc_challenge_test.jsonl'}", seed=0)
    numbered = [p for p in loaded.problems if p.answer in "1234"]
    assert len(numbered) == 22 and all(p.meta["options"].keys() <= set("12345") for p in numbered)


@pytest.mark.parametrize("name", HUB_ROWS)
def test_rows_of_the_hub_become_problems_that_can_be_judged(name, tmp_path):
    (problem,) = load(f"{name}={write(tmp_path, [HUB_ROWS[name]])}", seed=3).problems
    assert problem.prompt.split("\n\n")[0] == "1+1?"
    if BENCHMARKS[name].options:
        assert problem.meta["options"][problem.answer] == "two"
        assert problem.meta["shuffle"]["from"][problem.answer] == {"arc-c": "2", "gpqa": "A", "mmlu-pro": "B"}[name]
    else:
        assert problem.answer.strip("$") == "2"
        assert (problem.id == f"{name}-0") == (name == "minerva")  # the only one without ids
    right = problem.answer if BENCHMARKS[name].options else "2"
    assert grade([(f"\\boxed{{{right}}}", problem)]) == [Grade.CORRECT]


def test_parquet_in_the_layout_of_the_hub(tmp_path):
    import pyarrow
    from pyarrow.parquet import write_table

    write_table(pyarrow.Table.from_pylist([HUB_ROWS["gpqa"]]), tmp_path / "gpqa.parquet")
    by_file, by_folder = (load(f"gpqa={path}", 0) for path in (tmp_path / "gpqa.parquet", tmp_path))
    assert by_file.problems == by_folder.problems and by_file.random_baseline == 1 / 4


def test_the_notes_of_a_part_of_a_benchmark(tmp_path):
    rows = [HUB_ROWS["gpqa"], {"id": "x", "problem": "No options.", "answer": "A"}]
    loaded = load(f"gpqa={write(tmp_path, rows)}", 0)
    assert "gpqa: 2 of its 198 problems" in loaded.notes
    assert any("1 problems keep the order" in note for note in loaded.notes)


def test_rows_that_repeat_are_left_out_and_counted(tmp_path):
    """LUFFY's Avg@32 file: every problem 32 times, in verl's layout, the system prompt its own."""
    chat = [{"role": "system", "content": "Think."}, {"role": "user", "content": "1+1?"}]
    other = [chat[0], {"role": "user", "content": "1+2?"}]
    row = {"data_source": "aime", "reward_model": {"ground_truth": "2", "style": "rule"}}
    rows = [{**row, "prompt": chat}, {**row, "prompt": other, "reward_model": {"ground_truth": "3"}}] * 32
    path = write(tmp_path, rows)
    loaded = load(f"aime24={path}", 0)
    assert [(p.prompt, p.answer) for p in loaded.problems] == [("1+1?", "2"), ("1+2?", "3")]
    assert f"{path}: 62 duplicate rows left out, 2 problems remain" in loaded.notes


def test_a_file_is_a_benchmark_of_its_own(tmp_path):
    rows = [{"problem": f"{i}+1?", "answer": str(i + 1)} for i in range(3)]
    loaded = load(str(write(tmp_path, rows, "my sums.jsonl")), 0)
    assert (loaded.benchmark.name, loaded.benchmark.domain, loaded.random_baseline) == ("my-sums", "synthetic", None)
    assert loaded.benchmark.grader == "auto" and len(loaded.problems) == 3
    assert len(load(str(tmp_path / "my sums.jsonl"), 0, limit=2).problems) == 2
    assert find(str(tmp_path / "aime24.jsonl")).name == "aime24-file"


OWN = """
from diver.recipe.data import Source
from diver.tasks.benchmarks import Benchmark
def problems():
    return [{"problem": f"{i}+1?", "answer": i + 1} for i in range(3)]
def ours(row):
    return {"problem": row["q"], "answer": row["a"]}
SUMS = Benchmark(name="sums", title="Sums", source=Source(path="own_sums:raw"), adapt=ours)
def raw():
    yield {"q": "1+1?", "a": 2}
"""


def test_a_benchmark_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "own_sums.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    loaded = load("own_sums:SUMS", 0)
    assert [(p.id, p.prompt, p.answer) for p in loaded.problems] == [("sums-0", "1+1?", "2")]
    assert loaded.benchmark.title == "Sums"
    loaded = load("own_sums:problems", 0, limit=2)
    assert loaded.benchmark.name == "problems" and [p.id for p in loaded.problems] == ["problems-0", "problems-1"]
    with pytest.raises(DiverError, match="--benchmarks: 'own_sums:NONE' cannot be imported"):
        load("own_sums:NONE", 0)


def test_countdown_is_the_same_whatever_the_seed():
    loaded = load("countdown", 0)
    assert len(loaded.problems) == 64 and loaded.problems == load("countdown", 1).problems
    assert load("countdown", 0, limit=3).problems == loaded.problems[:3]


def test_what_cannot_be_loaded(tmp_path):
    for name, words in {
        "aime26": ("aime26", "aime24, aime25", "countdown"),
        "gsm8k=x.jsonl": ("--benchmarks: unknown choice 'gsm8k'", "choices: aime24"),
        f"gpqa={tmp_path / 'none.jsonl'}": ("none.jsonl", "no such file"),
        f"aime25={write(tmp_path, [{**HUB_ROWS['aime25'], 'verification_info': '{'}])}": ("rows.jsonl:1", "aime25"),
        f"mmlu-pro={write(tmp_path, [{'answer_index': 1}], 'm.jsonl')}": ("m.jsonl:1", "options"),
        f"amc={write(tmp_path, [], 'empty.jsonl')}": ("empty.jsonl", "empty"),
    }.items():
        with pytest.raises(DiverError) as error:
            load(name, 0)
        assert all(word in str(error.value) for word in words) and "\n" not in str(error.value)
    with pytest.raises(
        DiverError, match="rows.jsonl:1: no prompt: found text; accepted problem, question, prompt, messages, "
    ):
        load(str(write(tmp_path, [{"text": "1+1?"}])), 0)  # and no key of a recipe


@pytest.mark.skipif(find_spec("datasets") is None, reason="datasets is not installed")
def test_from_the_hub(hub):
    """The real libraries, and a hub on this machine; the revision that it resolves is noted."""
    card = b"""---
configs:
- config_name: ARC-Challenge
  data_files: [{split: test, path: test.jsonl}]
---
"""
    hub.repositories |= {
        "datasets/math-ai/minervamath": {"test.jsonl": json.dumps(HUB_ROWS["minerva"]).encode()},
        "datasets/allenai/ai2_arc": {"README.md": card, "test.jsonl": json.dumps(HUB_ROWS["arc-c"]).encode()},
        "datasets/Idavidrein/gpqa": GATED,
    }
    minerva = load("minerva", seed=0)
    assert [(p.id, p.prompt, p.answer) for p in minerva.problems] == [("minerva-0", "1+1?", "2")]
    assert (
        f"math-ai/minervamath: revision {COMMIT}" in minerva.notes and "minerva: 1 of its 272 problems" in minerva.notes
    )
    (problem,) = load("arc-c", seed=0).problems
    assert problem.id == "M_1" and f"{problem.answer}) two" in problem.prompt
    with pytest.raises(DiverError, match="^.*gated.*$") as error:
        load("gpqa", seed=0)
    assert "\n" not in str(error.value)
