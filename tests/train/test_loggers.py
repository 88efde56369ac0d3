"""Each logger by the library itself, offline: what it stored is what was logged,
and a run that resumes is the same run.

A logger that is not installed is skipped by name: `make test-trl` has wandb, `pip install mlflow trackio` the others.
"""

import os

import pytest

from diver.recipe.sections import Log
from diver.train.loggers import check_loggers, open_loggers, run_id

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
