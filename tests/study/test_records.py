"""Runs are found again by their recipe as given, and no record is lost: of writers side by side, or where one is
killed."""

import gzip
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import diver_paper
from diver.core.settings import merge
from diver.core.types import DiverError
from diver.recipe.load import load_recipe
from diver_paper.aggregate import jobs
from diver_paper.experiments import EXPERIMENTS
from diver_paper.job import Job, study_recipe
from diver_paper.records import Records, add, main, read, rounded
from diver_paper.reproduce import load_regime

REGIME = load_regime()
TINY = Path(diver_paper.__file__).with_name("tiny.toml")
JOB = Job({"method": {"name": "diver-mix", "shaping": {"coef": 0.2}}}, 3)


def record(job):
    return {"recipe": job.recipe(REGIME), "seed": job.seed, "metrics": {"a": [1, None]}, "evaluations": {"5": {}}}


def test_a_run_is_found_again_and_its_line_can_be_read(tmp_path):
    records = Records.of(tmp_path, "paper-tiny", "runs/")
    assert records.find(JOB, REGIME) is None
    records.add(JOB, record(JOB))
    (line,) = gzip.decompress((tmp_path / "records" / "paper-tiny.jsonl.gz").read_bytes()).splitlines()
    assert json.loads(line) == {"name": "runs/diver-mix_coef-0.2_seed3", **record(JOB)}
    assert records.find(JOB, REGIME) == record(JOB)
    assert records.find(JOB._replace(seed=4), REGIME) is None
    assert records._replace(prefix="runs-main/").find(JOB, REGIME) is None


def test_a_run_of_another_regime_is_not_taken_for_it(tmp_path):
    records = Records(tmp_path / "x.jsonl.gz")
    records.add(JOB, record(JOB))
    other = merge(REGIME, {"train": {"steps": 7}})
    with pytest.raises(DiverError, match=r"x.jsonl.gz: .*coef-0.2_seed3 .*train.steps was 140, now 7.*--out"):
        records.find(JOB, other)
    records.add(JOB, {"seed": 3})
    with pytest.raises(DiverError, match="is not the record of a run"):
        records.find(JOB, REGIME)


@pytest.mark.parametrize(
    "content",
    [b"[]", gzip.compress(b"[]"), gzip.compress(b'{"name": "a"}\n')[:-9], gzip.compress(b"{")],
    ids=["not compressed", "not a record", "cut", "not JSON"],  # the bytes have the time of day in them
)
def test_what_is_no_file_of_records_is_told_and_not_replaced(content, tmp_path):
    file = tmp_path / "x.jsonl.gz"
    file.write_bytes(content)
    for use in (lambda: Records(file).find(JOB, REGIME), lambda: Records(file).add(JOB, record(JOB))):
        with pytest.raises(DiverError, match="x.jsonl.gz: is not a file of records"):
            use()
    assert file.read_bytes() == content


def test_the_same_records_give_the_same_bytes(tmp_path):
    first, second = tmp_path / "1.jsonl.gz", tmp_path / "2.jsonl.gz"
    given = {"b": {"x": 1.5}, "a/c": {"x": [None, "é"]}, "a-b/c": {}}
    add(first, given)
    for name in sorted(given):
        add(second, {name: {"old": True}})
        add(second, {name: given[name]})
    assert first.read_bytes() == second.read_bytes() and [*read(first)] == ["a-b/c", "a/c", "b"]


WRITER = """
import sys
from pathlib import Path
from diver_paper.records import add
for i in range(int(sys.argv[2])):
    add(Path("x.jsonl.gz"), {f"{sys.argv[1]}{i:03}": {"metrics": [i] * 20_000}})
    print(i, flush=True)
"""


def writer(folder, name, count):
    command = [sys.executable, "-c", WRITER, name, str(count)]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)


def test_processes_that_write_side_by_side_keep_each_others_records(tmp_path):
    processes = [writer(tmp_path, name, 10) for name in "ab"]
    assert [process.wait() for process in processes] == [0, 0]
    for process in processes:
        process.stdout.close()
    assert [*read(tmp_path / "x.jsonl.gz")] == [f"{name}{i:03}" for name in "ab" for i in range(10)]


def test_a_writer_that_is_killed_leaves_what_was_written_before_it(tmp_path):
    """Killed after each of some records, at whatever it does then; the others are not kept waiting by its lock."""
    done = set()
    for name, after in zip("abc", (1, 2, 3), strict=True):
        process = writer(tmp_path, name, 1000)
        done |= {f"{name}{int(process.stdout.readline()):03}" for _ in range(after)}
        process.kill()
        assert process.wait() == -signal.SIGKILL
        process.stdout.close()
        found = read(tmp_path / "x.jsonl.gz")
        assert done <= found.keys() and all(len(json.loads(line)["metrics"]) == 20_000 for line in found.values())


def test_records_that_are_single_files_are_added_once(tmp_path, capsys):
    """As older clones write them: the name is the path in the folder without .json, dots and all."""
    file, folder = tmp_path / "records" / "methods.jsonl.gz", tmp_path / "methods"
    (folder / "maze" / "rates").mkdir(parents=True)
    (folder / "maze" / "rates" / "grpo_learning_rate-0.0001_seed0.json").write_text('{"seed": 0}')
    add(file, {"maze/b": {"seed": 1}})
    main([str(file), str(folder)])
    (folder / "maze" / "b.json").write_text('{\n "seed": 1\n}\n')
    main([str(file), str(folder)])
    told = capsys.readouterr().out.splitlines()
    assert told == [f"{file}: 1 records added, 0 were there", f"{file}: 0 records added, 2 were there"]
    assert [*read(file)] == ["maze/b", "maze/rates/grpo_learning_rate-0.0001_seed0"]
    before = file.read_bytes()
    (folder / "maze" / "b.json").write_text('{"seed": 2}')
    (folder / "maze" / "c.json").write_text('{"seed": 3}')
    with pytest.raises(DiverError, match="methods.jsonl.gz: has another record of the name maze/b; nothing is added"):
        main([str(file), str(folder)])
    assert file.read_bytes() == before
    with pytest.raises(DiverError, match="give FILE and FOLDER"):
        main([])


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)], ids=lambda n: f"1 of {n}")
def test_the_recorded_flags_are_the_recipe(every):
    """`diver train tiny.toml FLAGS` trains what the record says."""
    different = {job.name: job for experiment in EXPERIMENTS.values() for _, job in jobs(experiment, 1)}
    for job in [*different.values(), JOB][::-every]:
        recipe = merge({"run": {"folder": "runs/tiny"}}, job.recipe(REGIME))
        assert load_recipe(TINY, job.flags) == study_recipe(recipe), job.name


def test_the_command_of_a_run_is_true():
    paper = "--method.diversity.until end --method.shaping.condition correct"
    assert JOB.command.endswith(f"tiny.toml --method.name diver-mix {paper} --method.shaping.coef 0.2 --run.seed 3")
    assert JOB._replace(trained=False).command == "diver reproduce"  # nothing is trained


def test_names_tell_runs_apart_and_equal_runs_are_shared():
    found = {}
    for experiment in EXPERIMENTS.values():
        for _, job in jobs(experiment, 5):
            assert found.setdefault(job.name, job) == job
    assert EXPERIMENTS["horizon"].variants["all"] == EXPERIMENTS["main"].variants["diver-mix"]
    assert "initial_seed0" in found and "clip-higher_seed4" in found


def test_numbers_keep_four_digits():
    assert [rounded(v) for v in (0.123456, 1234.56, 3, None)] == [0.1235, 1235.0, 3, None]


def test_a_method_of_a_variant_replaces_that_of_the_regime():
    regime = {"method": {"name": "diver-td", "diversity_rewards": {"textual": {"weight": 2.0}}}, "train": {"steps": 3}}
    assert Job({"method": {"name": "clip-higher"}}, 0).recipe(regime)["method"] == {"name": "clip-higher"}
    changed = Job({"method": {"shaping": {"coef": 0.2}}}, 0).recipe(regime)
    assert changed["method"] == {**regime["method"], "shaping": {"coef": 0.2}} and changed["train"] == {"steps": 3}
