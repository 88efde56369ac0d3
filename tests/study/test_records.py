"""Runs are found again by their recipe as given."""

import json
from pathlib import Path

import pytest

import diver_paper
from diver.config.load import load_recipe
from diver.config.recipe import make_recipe
from diver.settings import merge
from diver.types import DiverError
from diver_paper.aggregate import jobs
from diver_paper.experiments import EXPERIMENTS
from diver_paper.records import Job, find, rounded, save
from diver_paper.reproduce import load_regime

REGIME = load_regime()
TINY = Path(diver_paper.__file__).with_name("tiny.toml")
JOB = Job({"method": {"name": "diver-mix", "shaping": {"coef": 0.2}}}, 3)


def record(job):
    return {"recipe": job.recipe(REGIME), "seed": job.seed, "metrics": {"a": [1, None]}, "evaluations": {"5": {}}}


def test_a_run_is_found_again_and_its_file_can_be_read(tmp_path):
    assert find(tmp_path, JOB, REGIME) is None
    save(tmp_path, JOB, record(JOB))
    path = tmp_path / "diver-mix_coef-0.2_seed3.json"
    assert find(tmp_path, JOB, REGIME) == json.loads(path.read_text()) == record(JOB)
    assert '\n  "a": [1, null]\n' in path.read_text()
    assert find(tmp_path, JOB._replace(seed=4), REGIME) is None


def test_a_run_of_another_regime_is_not_taken_for_it(tmp_path):
    save(tmp_path, JOB, record(JOB))
    other = merge(REGIME, {"train": {"steps": 7}})
    with pytest.raises(DiverError, match=r"coef-0.2_seed3.json: .*train.steps was 140, now 7.*--out"):
        find(tmp_path, JOB, other)
    (tmp_path / f"{JOB.name}.json").write_text("[]")
    with pytest.raises(DiverError, match="is not the record of a run"):
        find(tmp_path, JOB, REGIME)


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)], ids=lambda n: f"1 of {n}")
def test_the_recorded_flags_are_the_recipe(every):
    """`diver train tiny.toml FLAGS` trains what the record says."""
    different = {job.name: job for experiment in EXPERIMENTS.values() for _, job in jobs(experiment, 1)}
    for job in [*different.values(), JOB][::-every]:
        recipe = merge({"run": {"folder": "runs/tiny"}}, job.recipe(REGIME))
        assert load_recipe(TINY, job.flags) == make_recipe(recipe), job.name


def test_the_command_of_a_run_is_true():
    assert JOB.command.endswith("tiny.toml --method.name diver-mix --method.shaping.coef 0.2 --run.seed 3")
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
