"""The real command, on rollouts of several origins."""

import base64
import gzip
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from diver_command import diver
from rows import write_rows

from diver.diversity import equational_diversity, textual_diversity
from diver.rollouts.measure import paths_of
from diver.tasks.testbeds import policy_folder

DATA = Path(os.environ.get("DIVER_DATA", Path(__file__).parents[2] / "../shared/data")).resolve()
QUICKSTART = Path(__file__).parents[2] / "recipes" / "quickstart.toml"
needs_data = pytest.mark.skipif(not DATA.exists(), reason="DIVER_DATA is not there")
ROWS = [
    {
        "problem": p,
        "response": f"{'a b c d e' if i % 2 else 'we add $1+1=2$ and'} <script>alert({p})</script> {p}",
        "correct": i % 3 == 0,
    }
    for p in ("one", "two", "three", "four")
    for i in range(4)
]


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_plain_file_from_beginning_to_end(tmp_path):
    write_rows(tmp_path / "mine.jsonl", ROWS)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "of-another").touch()
    metrics = ["--metrics", "textual,equational,self-bleu"]
    done = diver("measure", "mine.jsonl", "--k", "1,4", *metrics, "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "mine.jsonl: named columns: 16 responses to 4 problems in 4 groups of 4" in done.stdout
    for words in ("| TD ", "| ED ", "| 1 - Self-BLEU ", "| Pass@4 ", "index.html"):
        assert words in done.stdout
    rows = read(tmp_path / "out" / "groups.jsonl")
    responses = [row["response"] for row in ROWS[:4]]
    assert (rows[0]["size"], rows[0]["pass@4"], rows[0]["outcomes"]) == (4, 1.0, [1, 0, 0, 1])
    assert rows[0]["each"]["textual"] == textual_diversity(responses).tolist()
    assert rows[0]["equational"] == equational_diversity(responses).mean()
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["rollouts"]["mine"]["means"]["textual"]["mean"] == np.mean([row["textual"] for row in rows])
    assert summary["diversity"]["orders"] == 4
    page = (tmp_path / "out" / "index.html").read_text()
    assert "<script>alert" not in page and "one" in page and '"correct"' in page and '"wrong"' in page
    written = re.search("^written: (.*) in out$", done.stdout, re.MULTILINE)[1].split(", ")
    assert {p.name for p in (tmp_path / "out").iterdir()} - {"of-another"} == set(written) == {
        "groups.jsonl", "summary.json", "index.html",
    }  # fmt: skip


def test_two_benchmarks_that_number_their_problems_alike(tmp_path):
    (tmp_path / "eval" / "generations").mkdir(parents=True)
    row = {"key": "k", "problem": "60", "tokens": 3, "truncated": False, "logprob": None}
    for name, responses in (("aime24", ["u v", "x y"]), ("amc", ["u", "u"])):
        rows = [{**row, "sample": i, "response": response} for i, response in enumerate(responses)]
        write_rows(tmp_path / "eval" / "generations" / f"{name}.jsonl", rows)
    done = diver("measure", "eval", "--metrics", "textual", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0 and "4 responses to 2 problems in 2 groups of 2" in done.stdout, done.stderr
    rows = read(tmp_path / "out" / "groups.jsonl")
    assert [(r["benchmark"], r["problem"], r["textual"]) for r in rows] == [("aime24", "60", 1), ("amc", "60", 0)]
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())["rollouts"]["eval"]
    assert summary["problems"] == 2 and summary["means"]["textual"]["mean"] == 0.5
    page = (tmp_path / "out" / "index.html").read_text()
    packed = re.search('id="data">([^<]+)<', page)[1]
    groups = json.loads(gzip.decompress(base64.b64decode(packed)))["browser"]["groups"]
    assert [g["problem"] for g in groups] == ["aime24/60", "amc/60"]


def test_two_files_side_by_side_with_settings(tmp_path):
    write_rows(tmp_path / "a.jsonl", ROWS)
    write_rows(tmp_path / "b.jsonl", ROWS[:8])
    settings = ["--diversity.orders", "1", "--problem", "problem", "--response", "response", "--outcome", "correct"]
    done = diver("measure", "first=a.jsonl", "b.jsonl", *settings, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^\| +\| +first \| +b \|$", done.stdout, re.MULTILINE)
    assert "no Pass@k for k = 8: the most responses to a problem are 4" in done.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jsonl", "b.jsonl"]  # without --out nothing is written


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["no.jsonl"], "no.jsonl: no such file or folder"),
        (["mine.jsonl", "--metrics", "textul"], "diversity metric: unknown choice 'textul', did you mean 'textual'?"),
        (
            ["mine.jsonl", "--response", "said"],
            "mine.jsonl:1: no column 'said' for the response: found problem, response, correct",
        ),
        (["mine.jsonl", "--metrics", ","], "--metrics ,: name at least one, such as textual"),
        (["mine.jsonl", "--diversity.horizon", "9"], "need policy tokens"),
        (["a="], "'a=': give a path, or NAME=PATH"),
        (["mine.jsonl", "a/mine.jsonl"], "two of the paths have the same name; distinguish them by NAME=PATH"),
        (["mine.jsonl", "--out", "mine.jsonl"], "mine.jsonl: no folder can be made here, mine.jsonl is a file"),
        (["mine.jsonl", "--k", "x"], "--k x: must be numbers"),
        (["mine.jsonl", "--threshold", "nan"], "threshold: should be a finite number, not nan"),
        (
            ["mine.jsonl", "--outcome", "right"],
            "no column 'right', which --outcome names: found problem, response, correct",
        ),
        (["mine.jsonl", "--answer", "gold"], "no column 'gold', which --answer names"),
    ],
)
def test_a_wrong_argument_is_a_one_line_error(arguments, message, tmp_path):
    (tmp_path / "a").mkdir()
    for path in (tmp_path / "mine.jsonl", tmp_path / "a" / "mine.jsonl"):
        write_rows(path, ROWS)
    done = diver("measure", *arguments, cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_a_response_alone_has_no_diversity(tmp_path):
    write_rows(
        tmp_path / "x.jsonl", [{"problem": p, "response": r} for p, r in (("P", "a"), ("Q", "a b"), ("Q", "c d"))]
    )
    done = diver("measure", "x.jsonl", "--out", "out", cwd=tmp_path)
    assert "x: 1 of 2 groups are single responses, whose diversity is not defined: it is left out" in done.stdout
    assert re.search(r"\| TD +\| +1.000 \|", done.stdout), done.stdout + done.stderr
    alone, pair = read(tmp_path / "out" / "groups.jsonl")
    assert alone["textual"] is alone["each"]["textual"][0] is None and pair["textual"] == 1
    assert "TD" not in diver("measure", write_rows(tmp_path / "y.jsonl", [ROWS[0]])).stdout


def test_whose_responses_these_are(tmp_path):
    """A row without a model is of none, and not of one called None; what a terminal would obey is not printed."""
    names = ["None", None, "", "e\x1b[31mred", "half \ud800"]
    rows = [{"model": m, "problem": "P", "response": r, "correct": 1} for m in names for r in ("a b", "c d")]
    folder = write_rows(tmp_path / "x" / "a.jsonl", rows).parent
    shown = ["None", "(no model)", "e\ufffd[31mred", "half \ufffd"]
    printed = diver("measure", ".", "--by", "model", "--out", "../out", cwd=folder).stdout
    assert [cell.strip() for cell in printed.split("\n\n")[1].split("\n")[0].split("|")[2:-1]] == shown
    assert [row["size"] for row in read(tmp_path / "out" / "groups.jsonl")] == [2, 4, 2, 2]
    printed = diver("browse", ".", "--by", "model", "--out", "../x.html", cwd=folder).stdout
    assert [line.split("|")[1].strip() for line in printed.split("\n")[2:6]] == shown
    printed = diver("grade", write_rows(tmp_path / "y.jsonl", [{**rows[-3], "answer": "5"}]), "--by", "model").stdout
    assert "| e\ufffd[31mred " in printed
    done = diver("measure", ".", cwd=folder)
    assert re.search(r"^\| +\| +x \|$", done.stdout, re.MULTILINE), done.stderr
    assert [*paths_of(["..", "/"])] == [Path("..").resolve().name, "/"]


def test_the_names_of_columns_are_printed_without_what_a_terminal_would_obey(tmp_path):
    row = {"prompt": "P", "completion": "a", "advantage": 0.1, "r\x1b[2J": 1, "s\u202e": 2}
    done = diver("measure", write_rows(tmp_path / "x.jsonl", [row]))
    assert "--outcome names one of prompt, completion, advantage, r\ufffd[2J, s\ufffd\n" in done.stdout
    done = diver("measure", write_rows(tmp_path / "y.jsonl", [{"r\x1b[2J": 1}]))
    assert done.returncode == 2 and "y.jsonl:1: no problem: found r\ufffd[2J; accepted" in done.stderr


def test_what_is_read_is_not_replaced(tmp_path):
    file = write_rows(tmp_path / "own" / "groups.jsonl", ROWS)
    before = file.read_text()
    for rollouts in ("own/groups.jsonl", "own"):
        done = diver("measure", rollouts, "--out", "own", cwd=tmp_path)
        assert (
            done.returncode == 2
            and "--out: would replace own/groups.jsonl, which is read; choose another" in done.stderr
        )
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("mine")
    done = diver("measure", "own", "--out", "site", cwd=tmp_path)
    said = "--out: would replace site/index.html, which this command did not write; choose another --out"
    assert done.returncode == 2 and said in done.stderr
    for name in ("summary.json", "table.csv"):  # an unrelated summary, and a table without the summary beside it
        (tmp_path / name[:5]).mkdir()
        (tmp_path / name[:5] / name).write_text('{"mine": 1}')
        done = diver("measure", "own", "--out", name[:5], "--format", "csv", cwd=tmp_path)
        assert done.returncode == 2 and f"would replace {name[:5]}/{name}, which this command" in done.stderr
        assert {p.name: p.read_text() for p in (tmp_path / name[:5]).iterdir()} == {name: '{"mine": 1}'}
    assert file.read_text() == before and [p.name for p in (tmp_path / "own").iterdir()] == ["groups.jsonl"]
    (tmp_path / "graded").mkdir()
    (tmp_path / "graded" / "config.json").write_text("{}")  # as `diver grade` writes it
    done = diver("measure", "own", "--out", "graded", cwd=tmp_path)
    assert "--out graded: has other work, that of its config.json; choose another --out" in done.stderr
    assert [p.name for p in (tmp_path / "graded").iterdir()] == ["config.json"]
    for _ in range(2):  # its own results are replaced
        assert diver("measure", "own", "--out", "out", cwd=tmp_path).returncode == 0


def test_a_thousand_long_responses_to_one_problem(tmp_path):
    rng = np.random.default_rng(0)
    base = rng.integers(0, 400, 600)
    texts = [" ".join(map(str, np.where(rng.random(600) < 0.3, rng.integers(0, 400, 600), base))) for _ in range(1024)]
    write_rows(tmp_path / "one.jsonl", [{"problem": "p", "responses": texts}])
    done = diver("measure", "one.jsonl", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = read(tmp_path / "out" / "groups.jsonl")
    assert row["size"] == 1024 and row["each"]["textual"] == textual_diversity(texts).tolist()
    assert (tmp_path / "out" / "index.html").stat().st_size < 3_000_000


@needs_data
@pytest.mark.parametrize("groups", [20, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["lastletters_gpt35_150x40", "math_qwen_100x8"])
def test_real_rollouts_say_what_the_pure_functions_say(name, groups, tmp_path):
    by_problem = {}
    for row in read(DATA / f"rollouts_{name}.jsonl"):
        by_problem.setdefault(row["problem"], []).append(row["response"])
    by_problem = dict([*by_problem.items()][:groups])
    file = write_rows(tmp_path / "real.jsonl", [{"problem": p, "responses": found} for p, found in by_problem.items()])
    done = diver("measure", file, "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = read(tmp_path / "out" / "groups.jsonl")
    assert len(rows) == groups
    for row, responses in zip(rows, by_problem.values(), strict=True):
        assert row["each"]["textual"] == textual_diversity(responses).tolist()
        assert row["each"]["equational"] == equational_diversity(responses).tolist()


def test_rollouts_of_training_and_evaluation_are_read(tmp_path):
    """A run with a reward for hidden states, and an evaluation."""
    small = [
        "sample.group_size", 4, "train.batch_size", 4, "train.mini_batch_size", 4, "train.steps", 2,
        "data.countdown.problems", 64, "evaluate.problems", 0,
    ]  # fmt: skip
    model = [
        "method.diversity.hidden-state.model", policy_folder(), "method.diversity_rewards.hidden-state.weight", 1.0,
    ]  # fmt: skip
    flags = [f"--{word}" if i % 2 == 0 else word for i, word in enumerate([*small, *model, "run.folder", "run"])]
    trained = diver("train", QUICKSTART, *flags, cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    (logged, _) = read(tmp_path / "run" / "metrics.jsonl")
    drawn = diver("eval", "--model", "countdown", "--samples", 4, "--limit", 3, "--out", "drawn", cwd=tmp_path)
    assert drawn.returncode == 0, drawn.stderr
    how = ["--metrics", "textual,hidden-state", "--diversity.hidden-state.model", policy_folder(), "--out", "out"]
    done = diver("measure", "run", "drawn", *how, cwd=tmp_path)
    assert "run: diver train: 32 responses to 8 problems in 8 groups of 4\n" in done.stdout, done.stderr
    assert "drawn: diver eval: 12 responses to 3 problems in 3 groups of 4\n" in done.stdout
    first = [row for row in read(tmp_path / "out" / "groups.jsonl") if row["step"] == 1]
    for metric in ("textual", "hidden-state"):
        assert logged[f"diversity/{metric}"] == pytest.approx(np.mean([row[metric] for row in first]), abs=1e-6)
    assert all(row["pass@1"] is not None for row in read(tmp_path / "out" / "groups.jsonl"))


def test_text_without_spaces_is_warned_of_and_measured_by_its_characters(tmp_path):
    texts = ["先算八减四等于四，再乘以六得二十四。", "先算八减四等于四，再乘以六得三十四。"]
    write_rows(tmp_path / "zh.jsonl", [{"problem": "p", "response": text * 2} for text in texts])
    assert "zh: 2 of 2 responses have less than one space" in diver("measure", "zh.jsonl", cwd=tmp_path).stdout
    done = diver("measure", "zh.jsonl", "--diversity.tokenize", "zh", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0 and "less than one space" not in done.stdout
    (group,) = read(tmp_path / "out" / "groups.jsonl")
    assert 0 < group["textual"] < 0.5
