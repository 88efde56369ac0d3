"""The front of a run by the real command: its ends, resume, kill -9, and half of the samples from each end."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from diver_command import fails, succeeds
from safetensors.torch import load_file, save_file

import diver
from diver.core.files import JsonlLog
from diver.core.types import DiverError, Grade
from diver.evaluate.config import EvalConfig, parse_numbers
from diver.evaluate.front import Pair, evaluate_front, front_table, halves, write_front
from diver.recipe.sections import Model
from diver.tasks.testbeds import policy_folder

RECIPE = """
[model]
threads = 1
[sample]
group_size = 4
max_tokens = 28
max_prompt_tokens = 24
[train]
steps = 1
batch_size = 4
mini_batch_size = 2
learning_rate = 1e-3
[data.countdown]
problems = 64
[evaluate]
problems = 3
num_samples = 4
temperature = 0.7
[run]
seed = 3
"""
RUN = "runs/tiny"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    (folder / "tiny.toml").write_text(RECIPE)
    succeeds("train", "tiny.toml", cwd=folder)
    return folder / "runs/tiny"


@pytest.fixture(autouse=True)
def in_tmp(tmp_path, monkeypatch, trained):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained, RUN)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, trained):
    """A front in one go, and its command."""
    args = ["eval", RUN, "--alphas", "0,0.5", "--temperatures", "0.3,0.7", "--generator", "tree", "--samples", 16]
    folder = tmp_path_factory.mktemp("whole")
    shutil.copytree(trained, folder / RUN)
    succeeds(*args, "--out", "front", cwd=folder)
    return folder / "front", [*args, "--out", "front"]


def rows(folder, kind="generations"):
    (file,) = (Path(folder) / kind).iterdir()
    return [*JsonlLog(file).rows()]


def files(folder):
    """All that the settings decide, with rows in any order."""
    found = {p.relative_to(folder): p.read_text() for p in Path(folder).rglob("*") if p.is_file()}
    found = {p: text for p, text in found.items() if p.name not in (".lock", "provenance.jsonl")}
    return {p: sorted(text.splitlines()) if p.suffix == ".jsonl" else text for p, text in found.items()}


@pytest.mark.parametrize("generator", ["transformers", "tree"])
def test_the_ends_are_the_evaluations_of_base_and_run_bit_for_bit(generator):
    shutil.rmtree(f"{RUN}/eval")  # else the run's own evaluation is the answer
    given = ["--generator", generator, "--samples", 8]
    succeeds("eval", RUN, *given, "--out", "plain")
    succeeds("eval", RUN, *given, "--alphas", "0,1", "--out", "front")
    for step, alpha in (("step_0000", 0), ("step_0001", 1)):
        front = Path(f"front/alpha_{alpha}_temperature_0.7")
        for kind in ("generations", "grades"):
            found, expected = ([{**row, "key": 0} for row in rows(f, kind)] for f in (front, Path("plain") / step))
            assert found == expected and sum(row.get("count", 1) for row in found) == 3 * 8
        assert (front / "results.json").read_text() == Path(f"plain/{step}/results.json").read_text()
    assert rows("front/alpha_0_temperature_0.7") != rows("front/alpha_1_temperature_0.7")


def test_a_pair_in_between_is_the_evaluation_of_the_blended_model():
    """By the same streams; what the front has written to load it is gone."""
    Path("sums.jsonl").write_text("".join(f'{{"problem": "Use 1 and {i}.", "answer": "{i}"}}\n' for i in range(3)))
    given = ["--benchmarks", "sums.jsonl", "--samples", 4, "--max-tokens", 20, "--template", "plain"]
    given += ["--temperature", 0.7, "--seed", 3]
    succeeds("eval", RUN, *given, "--alphas", "0.25", "--out", "front")
    succeeds("blend", RUN, "--alpha", 0.25, "--out", "quarter")
    succeeds("eval", "--model", "quarter", *given, "--out", "plain")
    (pair,) = (p for p in Path("front").iterdir() if p.is_dir())
    assert [{**row, "key": 0} for row in rows(pair)] == [{**row, "key": 0} for row in rows("plain")]
    assert {p.name for p in Path("front").iterdir()} == {pair.name, ".lock", "front.json", "front.md"}
    assert not Path(f"{RUN}/eval/front.json").exists()  # the problems are others than those of the run


def test_blend_of_a_run_is_that_of_its_models():
    succeeds("blend", RUN, "--alpha", 0.5, "--out", "half")
    ends = [load_file(f / "model.safetensors") for f in (policy_folder(), Path(f"{RUN}/checkpoints/step_0001"))]
    for name, tensor in load_file("half/model.safetensors").items():
        assert torch.equal(tensor, torch.lerp(ends[0][name], ends[1][name], 0.5))
    names = {p.name for p in Path("half").iterdir()}
    assert names <= {p.name for p in Path(f"{RUN}/checkpoints/step_0001").iterdir()} | {"blend.json"}


def test_blend_of_a_run_whose_base_model_has_changed_is_refused():
    shutil.copytree(policy_folder(), "base")
    path = Path(f"{RUN}/config.json")
    config = json.loads(path.read_text())
    config["recipe"]["model"]["path"] = "base"
    config["content"] = {"model.path": "00000000", "data.path": "0"}
    path.write_text(json.dumps(config))
    assert re.search("content of model.path, 'base', has changed", fails("blend", RUN, "--out", "half"))


def test_half_of_the_rows_are_made_again(whole):
    """Prompts that share a random stream are drawn together, so what is missing is drawn as before."""
    shutil.copytree(whole[0], "front")
    for file in Path("front").rglob("*.jsonl"):
        if file.parent.name in ("generations", "grades"):
            lines = file.read_text().splitlines(keepends=True)
            assert len(lines) > 3
            file.write_text("".join(lines[::2]))
    out = succeeds(*whole[1])
    assert files("front") == files(whole[0])
    assert re.search(r"\| alpha 0.5, temperature 0.3 +\|", out) and "half of each" not in out  # alpha 1 is not there
    for result in Path("front").rglob("results.json"):
        (found,) = json.loads(result.read_text())["benchmarks"].values()
        assert [row["n"] for row in found["per_problem"]] == [16] * 3  # a row with a count counts once


def test_nothing_is_made_again_and_the_page_has_the_front(whole):
    shutil.copytree(whole[0], "front")
    before = {p: p.stat().st_mtime_ns for p in Path("front").rglob("*.jsonl")}
    out = succeeds(*whole[1])
    assert {p: p.stat().st_mtime_ns for p in Path("front").rglob("*.jsonl")} == before
    assert json.loads(Path(f"{RUN}/eval/front.json").read_text()) == json.loads(Path("front/front.json").read_text())
    assert f"page: {RUN}/report.html" in out
    assert "<h2>Weights between</h2>" in Path(f"{RUN}/report.html").read_text()


def test_rows_with_a_count_are_read_as_so_many_responses(whole):
    """By `diver measure` and `diver browse`, with the counts of results.json."""
    folder = whole[0] / "alpha_0_temperature_0.3"
    assert len(rows(folder)) < 3 * 16
    (result,) = json.loads((folder / "results.json").read_text())["benchmarks"].values()
    groups = {group.problem.id: group for group in diver.read(folder)}
    found = {name: [r.grade for r in group.rollouts] for name, group in groups.items()}
    assert {name: (len(grades), grades.count(Grade.CORRECT)) for name, grades in found.items()} == {
        row["id"]: (row["n"], row["c"]) for row in result["per_problem"]
    }
    assert [*groups] == [row["id"] for row in result["per_problem"]]
    assert "neighbouring responses of a problem are equal" not in succeeds("measure", folder)


def test_responses_that_cannot_be_graded_are_counted_and_have_no_point(tmp_path, monkeypatch):
    Path("fails_always.py").write_text("def grade(response, problem):\n    raise KeyError('level')\n")
    monkeypatch.syspath_prepend(tmp_path)
    args = ("--alphas", "0", "--samples", 2, "--generator", "tree", "--grader", "fails_always:grade", "--out", "front")
    out = succeeds("eval", RUN, *args)
    assert "countdown: 6 responses unscored: left out, not counted as wrong\n" in out
    assert re.search(r"\| alpha 0, temperature 0.7 +\| +– \| +– \|", out)
    (row,) = json.loads(Path("front/front.json").read_text())["benchmarks"]["countdown"]["rows"]
    assert row["pass@1"] is None and "<circle" not in Path(f"{RUN}/report.html").read_text().partition("<h2>Weights")[2]


KILLED = """
import os, signal, sys
from diver.core.files import JsonlLog
from diver.sample import blend
from diver.cli import main
left = [int(sys.argv.pop(1)), int(sys.argv.pop(1))]
def counted(function, i):
    def call(*given):
        left[i] -= 1
        if not left[i]:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*given)
    return call
JsonlLog.append, blend._read = counted(JsonlLog.append, 0), counted(blend._read, 1)
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("at", [(5, 0), (0, 9), (150, 0)], ids=["sampling", "blending", "later"])
def test_killed_it_ends_with_the_same_front(whole, at):
    program = [sys.executable, "-c", KILLED, *map(str, at), *map(str, whole[1])]
    done = subprocess.run(
        program, capture_output=True, text=True, timeout=900, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not Path("front/front.json").exists() and not Path(f"{RUN}/eval/front.json").exists()
    succeeds(*whole[1])
    assert files("front") == files(whole[0])


# ---- numbers


def result(correct, n=4, ks=(1, 2, 4), **more):
    """A result as `evaluate` gives it, as far as a front reads it."""
    estimates = {f"pass@{k}": {"mean": k / 10, "low": k / 20, "high": k / 5} for k in ks}
    rows = [{"id": str(i), "n": n, "c": c} for i, c in enumerate(correct)]
    found = {"per_problem": rows, "estimates": estimates, "k": [*ks], "unscored": 0}
    return {**found, "problems": len(correct), "samples": n, **more}


def test_half_of_each_by_enumerating_all_halves():
    """Every choice of k / 2 samples of four of each policy, equally likely."""
    base, trained = [0, 1, 2, 4], [1, 0, 3, 2]
    for k in (2, 4, 8):
        expected = []
        for b, t in zip(base, trained, strict=True):
            draws = [
                any(one) or any(other)
                for one in combinations([i < b for i in range(4)], k // 2)
                for other in combinations([i < t for i in range(4)], k // 2)
            ]
            expected.append(np.mean(draws))
        assert np.allclose(halves(result(base), result(trained), k), expected)
    assert np.isnan(halves(result(base), result([1, 0, 1, 0], n=1), 4)).all()  # too few samples


def test_the_table_has_a_row_for_each_pair_and_each_temperature_of_both_ends():
    front = {
        Pair(0.0, 0.3): result([0, 1]), Pair(0.0, 1.0): result([0, 1]),
        Pair(0.5, 0.3): result([2, 2]), Pair(1.0, 0.3): result([4, 0]),
    }  # fmt: skip
    table = front_table(front)
    assert [*table.rows] == [
        "alpha 0, temperature 0.3", "alpha 0, temperature 1", "alpha 0.5, temperature 0.3", "alpha 1, temperature 0.3",
        "half of each, temperature 0.3",
    ]  # fmt: skip
    assert table.rows["alpha 0.5, temperature 0.3"][1] == (0.2, 0.1, 0.4)
    one, two, four = table.rows["half of each, temperature 0.3"]
    assert np.isnan(one.mean)  # k = 1 has no half
    assert two.mean == (1 + 1 / 4) / 2 and four.mean == (1 + 1 / 2) / 2  # one of 4, then two: 1/4 and 1/2


def test_what_is_written(capsys):
    """Pairs have their numbers, so that no reader takes a label apart; a greedy pair has one sample."""
    front = {
        Pair(0.0, 0.0): {"sums": result([0, 1], n=1, ks=(1,))},
        Pair(1 / 3, 0.6): {"sums": result([2, 2])},
    }
    path = write_front(EvalConfig(model="m", format="csv"), Path("out"), front, "before", "after")
    assert capsys.readouterr().out.startswith("policy,pass@1,pass@1_low")
    written = json.loads(path.read_text())
    assert (written["base"], written["trained"], [*written["benchmarks"]]) == ("before", "after", ["sums"])
    found = written["benchmarks"]["sums"]
    assert (found["problems"], found["samples"], found["k"]) == (2, 4, [1, 2, 4])
    assert [(row["alpha"], row["temperature"], row["pass@1"], row["pass@4"]) for row in found["rows"]] == [
        (0, 0, 0.1, None), (1 / 3, 0.6, 0.1, 0.4)
    ]  # fmt: skip
    assert {p.name for p in Path("out").iterdir()} == {"front.json", "front.md", "front_sums.csv"}
    assert "| alpha 0.333333333333, temperature 0.6 |" in Path("out/front.md").read_text()


def test_close_pairs_have_folders_of_their_own():
    assert Pair(0.5, 1.0).folder == "alpha_0.5_temperature_1"
    assert len({Pair(alpha, 0.6).folder for alpha in (0.1234567, 0.1234568, 0.123457)}) == 3


# ---- what is refused, before anything is sampled


def test_models_that_cannot_be_blended_are_refused_before_the_first_sample(monkeypatch):
    weights = load_file(policy_folder() / "model.safetensors")
    name = next(name for name, tensor in weights.items() if tensor.ndim == 2)
    shutil.copytree(policy_folder(), "other")
    save_file({**weights, name: weights[name][:-1].contiguous()}, "other/model.safetensors")
    given = ["--base", "countdown", "--model", "other", "--alphas", "0,0.5", "--temperatures", "0.3", "--out", "out"]
    assert (
        re.search(rf"{re.escape(name)} is \[419, 128\] in F32 and \[418, 128\] in F32", fails("eval", *given))
        and not Path("out").exists()
    )
    config = EvalConfig(model="other", samples=1, limit=1, max_tokens=4)
    with pytest.raises(DiverError, match="in F32 and"):
        evaluate_front(config, Model(path="countdown"), Model(path="other"), None, Path("out"), [Pair(0.5, 1.0)])


def test_settings_that_do_not_fit_are_one_line():
    for args, said in [
        (["--alphas", "0,1.5"], "--alphas 0,1.5: must be numbers from 0 to 1 separated by commas"),
        (["--alphas", "0,half"], "--alphas 0,half: must be numbers from 0 to 1 separated by commas"),
        (["--alphas", ","], "--alphas ,: must be numbers"),
        (["--alphas", "nan"], "--alphas nan: must be numbers"),
        (["--alphas", "0", "--temperatures", "-1"], "--temperatures -1: must be numbers"),
        (["--alphas", "0", "--temperatures", "inf"], "--temperatures inf: must be numbers"),
        (["--alphas", "0", "--temperatures", "0.3", "--temperature", "0.6"], "--temperatures: .* omit --temperature"),
        (["--temperatures", "0.3"], "--temperatures: is for a front; give --alphas"),
        (["--alphas", "0", "--all-steps"], "--all-steps: is for a run, without --step and --alphas"),
        (["--alphas", "0", "--base", "countdown"], "--base: is the base model of a front; give --model"),
        (["--alphas", "0", "--temperatures", "0,0.6", "--samples", 4], "temperature 0.* is greedy"),
    ]:
        line = fails("eval", RUN, *args)
        assert re.search(said, line), line
    for args, said in [
        (["--model", "countdown", "--alphas", "0"], "--alphas: name a run, or --base, --model and"),
        (["--model", "countdown", "--base", "countdown"], "give --model and --alphas, too"),
        (["--model", "countdown", "--base", "countdown", "--alphas", "0"], "--base, --model and --temperatures"),
        (["--model", "m", "--base", "n", "--alphas", "0", "--generator", "endpoint"], "--alphas: name a run"),
    ]:
        line = fails("eval", *args)
        assert re.search(said, line), line
    assert parse_numbers("--alphas", "1, 0,0.5,0.5") == [0, 0.5, 1] and parse_numbers("--alphas", "") == []
