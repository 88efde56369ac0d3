"""Each logger by the library itself, offline: what it stored is what was logged,
and a run that resumes is the same run.

A logger that is not installed is skipped by name: `make test-trl` has wandb, `pip install mlflow trackio` the others.
"""

import os
from importlib.util import find_spec

import pytest

from diver.core.types import DiverError
from diver.recipe.sections import Log
from diver.train.loggers import SERVICES, check_loggers, open_loggers, run_id

pytestmark = pytest.mark.slow
CONFIG = {"started": "2026-01-01T00:00:00", "recipe": {"train": {"steps": 2}}}
ROW = {"reward/outcome": 0.25, "eval/pass@1": 0.5}


def log_two_steps(name, folder):
    """One step, a stop, and another."""
    pytest.importorskip(name)
    settings = Log(to=(name,), project="tests")
    check_loggers(settings)
    for step in (1, 2):
        (logger,) = open_loggers(settings, folder, CONFIG, step - 1)
        logger.log(step, {key: value * step for key, value in ROW.items()})
        logger.close()


def test_mlflow(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    log_two_steps("mlflow", tmp_path)
    from mlflow import MlflowClient

    client = MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("tests").experiment_id])
    assert (run.info.run_name, run.info.status) == (tmp_path.name, "FINISHED")
    history = client.get_metric_history(run.info.run_id, "eval/pass_at_1")
    assert [(m.step, m.value) for m in history] == [(1, 0.5), (2, 1.0)]


def test_trackio(tmp_path, monkeypatch):
    pytest.importorskip("trackio")
    from trackio.sqlite_storage import SQLiteStorage

    monkeypatch.setattr("trackio.utils.TRACKIO_DIR", tmp_path)
    monkeypatch.setattr("trackio.sqlite_storage.TRACKIO_DIR", tmp_path)
    log_two_steps("trackio", tmp_path)
    (name,) = SQLiteStorage.get_runs("tests")
    rows = SQLiteStorage.get_logs("tests", name)
    assert [(row["step"], row["eval/pass@1"]) for row in rows] == [(1, 0.5), (2, 1.0)]


def test_wandb(tmp_path, monkeypatch):
    for name, value in {"MODE": "offline", "SILENT": "true"}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    log_two_steps("wandb", tmp_path)
    stored = [name for name in os.listdir(tmp_path / "wandb") if name.startswith("offline-run")]
    assert stored and all(name.endswith(run_id(tmp_path, CONFIG)) for name in stored)


def test_tensorboard_has_each_step_once_where_a_run_was_killed_before_it_saved(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    settings = Log(to=("tensorboard",))
    for steps in ((0, 1, 2), (1, 2, 3)):  # row 0 is kept, the steps are done again
        (logger,) = open_loggers(settings, tmp_path, CONFIG, 0)
        for step in steps:
            logger.log(step, ROW)
        logger.close()
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("reward/outcome")] == [0, 1, 2, 3]


def test_a_folder_of_its_runs_is_no_logger(tmp_path, monkeypatch):
    """wandb writes its runs into a folder wandb/ of the current one, which is on the path of modules."""
    name = next((name for name in SERVICES if find_spec(name) is None), None)
    if name is None:
        pytest.skip("all loggers are installed")
    (tmp_path / name).mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DiverError, match=f"log.to: {name} is not installed; pip install {name}"):
        check_loggers(Log(to=(name,)))
