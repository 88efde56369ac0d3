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
from diver.sweep.records import add
from diver.sweep.records import lines as read
from diver_paper.experiments import EXPERIMENTS
from diver_paper.plan import command, label_of, load_regime, make_plan, runs_of
from diver_paper.runs import find, flags, given, records_file, rounded, study_recipe

REGIME = load_regime()
TINY = Path(diver_paper.__file__).with_name("tiny.toml")
CHANGES = {"method": {"name": "diver-mix", "shaping": {"coef": 0.2}}}
RESULTS = Path(__file__).parents[2] / "docs" / "results"


def record(changes, seed):
    return {"recipe": given(REGIME, changes, seed), "seed": seed, "metrics": {"a": [1, None]}, "evaluations": {"5": {}}}


def test_a_run_is_found_by_its_recipe(tmp_path):
    file, recipe = records_file(tmp_path, "paper-tiny"), given(REGIME, CHANGES, 3)
    assert find(file, recipe) is None
    add(file, {"runs/any": record(CHANGES, 3)})
    assert find(file, recipe) == {"name": "runs/any", **record(CHANGES, 3)}
    assert find(file, recipe, "runs/") and find(file, recipe, "runs-main/") is None
    assert find(file, recipe, trained=False) is None
    for other in (given(REGIME, CHANGES, 4), given(merge(REGIME, {"train": {"steps": 7}}), CHANGES, 3)):
        assert find(file, other) is None


def test_the_untrained_policy_is_no_run_of_its_recipe(tmp_path):
    """clip-higher with seed 0 is the regime itself, which the record of the untrained policy has, too."""
    file = tmp_path / "x.jsonl.gz"
    add(file, {"initial_seed0": {**record({}, 0), "metrics": {}}, "clip-higher_seed0": record({}, 0)})
    names = [find(file, given(REGIME, {}, 0), trained=trained)["name"] for trained in (False, True)]
    assert names == ["initial_seed0", "clip-higher_seed0"]


@pytest.mark.parametrize(
    "content",
    [b"[]", gzip.compress(b"[]"), gzip.compress(b'{"name": "a"}\n')[:-9], gzip.compress(b"{")],
    ids=["not compressed", "not a record", "cut", "not JSON"],  # the bytes have the time of day in them
)
def test_what_is_no_file_of_records_is_told_and_not_replaced(content, tmp_path):
    file = tmp_path / "x.jsonl.gz"
    file.write_bytes(content)
    for use in (lambda: find(file, REGIME), lambda: add(file, {"a": record({}, 0)})):
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
from diver.sweep.records import add
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


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)], ids=lambda n: f"1 of {n}")
def test_the_flags_of_a_setting_are_the_recipe(every):
    """`diver train tiny.toml FLAGS` trains what the record says."""
    variants = {label_of(c): c for experiment in EXPERIMENTS.values() for c in experiment.variants.values()}
    for changes in [*variants.values(), CHANGES][::-every]:
        recipe = merge({"run": {"folder": "runs/tiny"}}, given(REGIME, changes, 3))
        assert load_recipe(TINY, flags({**changes, "run": {"seed": 3}})) == study_recipe(recipe), label_of(changes)


def test_the_command_of_a_run_is_true():
    paper = "--method.diversity.until end --method.shaping.condition correct"
    words = command(CHANGES, 3)
    assert words.endswith(f"tiny.toml --method.name diver-mix {paper} --method.shaping.coef 0.2 --run.seed 3")


def test_names_tell_settings_apart_and_equal_ones_are_shared():
    found = {}
    for experiment in EXPERIMENTS.values():
        for _, changes, _ in runs_of(experiment, 1):
            assert found.setdefault(label_of(changes), changes) == changes
    assert EXPERIMENTS["horizon"].variants["all"] == EXPERIMENTS["main"].variants["diver-mix"]
    assert label_of(CHANGES) == "diver-mix_coef-0.2" and "clip-higher" in found


def test_only_runs_without_a_record_are_planned(tmp_path):
    """The records of a clone have five seeds of main."""
    of = EXPERIMENTS["main"]
    assert make_plan(of, 5, RESULTS, tmp_path) is None
    plan = make_plan(of, 6, RESULTS, tmp_path)
    assert [setting.seeds for setting in plan.settings] == [(5,)] * len(of.variants)
    assert plan.trained(plan.setting("diver-mix"), 5).method.diversity.until == "end"
    assert [s.seeds for s in make_plan(of, 2, tmp_path, tmp_path).settings] == [(0, 1)] * len(of.variants)


def test_numbers_have_four_digits():
    assert [rounded(v) for v in (0.123456, 1234.56, 3, None)] == [0.1235, 1235.0, 3, None]


def test_a_method_of_a_variant_replaces_that_of_the_regime():
    regime = {"method": {"name": "diver-td", "diversity_rewards": {"textual": {"weight": 2.0}}}, "train": {"steps": 3}}
    assert given(regime, {"method": {"name": "clip-higher"}}, 0)["method"] == {"name": "clip-higher"}
    changed = given(regime, {"method": {"shaping": {"coef": 0.2}}}, 0)
    assert changed["method"] == {**regime["method"], "shaping": {"coef": 0.2}} and changed["train"] == {"steps": 3}
