"""Loggers in addition to metrics.jsonl in the run folder, which is always written."""

import hashlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from diver.core.types import DiverError
from diver.recipe.sections import Log
from diver.tasks.hub import one_line
from diver.train.alerts import AlertLog


class TensorBoard:
    def __init__(self, folder: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # Drop the steps after the last checkpoint: the run resumes there and logs them again.
        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)
        self.close = self._writer.close

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)


class WandB:
    def __init__(self, folder: Path, project: str, config: Mapping[str, Any]) -> None:
        import wandb

        try:
            self._run = wandb.init(
                project=project,
                name=folder.resolve().name,
                id=run_id(folder, config),
                resume="allow",
                dir=str(folder.resolve()),
                config=dict(config),
            )
        except wandb.errors.Error as e:
            raise DiverError(f"log.to: wandb: {e}") from None
        self.close = self._run.finish

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log(dict(metrics), step=step)


class MLflow:
    """Logs to the experiment `project` on MLFLOW_TRACKING_URI, by default a database in the current folder."""

    def __init__(self, folder: Path, project: str, config: Mapping[str, Any]) -> None:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException

        run_tag = run_id(folder, config)
        try:
            self._client = MlflowClient()
            experiment = self._client.get_experiment_by_name(project)
            project_id = experiment.experiment_id if experiment else self._client.create_experiment(project)
            runs = self._client.search_runs([project_id], filter_string=f"tags.`diver.run` = '{run_tag}'")
            name, tags = folder.resolve().name, {"diver.run": run_tag}
            self._run = (runs[0] if runs else self._client.create_run(project_id, run_name=name, tags=tags)).info.run_id
            self._client.update_run(self._run, status="RUNNING")
            self._client.log_dict(self._run, dict(config), "config.json")
        except MlflowException as e:
            raise DiverError(f"log.to: mlflow: {one_line(e)}") from None

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._client.log_metric(self._run, name.replace("@", "_at_"), value, step=step)  # MLflow allows no @

    def close(self) -> None:
        self._client.set_terminated(self._run)


class Trackio(WandB):
    """Logs to `project` in TRACKIO_DIR, unless TRACKIO_SPACE_ID or TRACKIO_SERVER_URL names another place.

    A run of trackio has the methods of one of wandb.
    """

    def __init__(self, folder: Path, project: str, config: Mapping[str, Any]) -> None:
        import trackio

        name = f"{folder.resolve().name}-{run_id(folder, config)[:4]}"  # trackio identifies a run by its name
        self._run = trackio.init(project, name=name, resume="allow", embed=False, config=dict(config))
        self.close = self._run.finish


Logger = AlertLog | TensorBoard | WandB | MLflow
SERVICES: dict[str, type[WandB | MLflow]] = {"wandb": WandB, "mlflow": MLflow, "trackio": Trackio}


def run_id(folder: Path, config: Mapping[str, Any]) -> str:
    """An id of the run folder and its first start, by which a resumed run continues its curves."""
    return hashlib.blake2b(f"{folder.resolve()} {config['started']}".encode(), digest_size=8).hexdigest()


def check_loggers(settings: Log) -> None:
    """Raises DiverError if the library of a logger is not installed."""
    # A folder such as wandb/ in the current folder is found as a module too, but without a file as its origin.
    if missing := [name for name in settings.to if not getattr(find_spec(name), "origin", None)]:
        raise DiverError(f"log.to: {missing[0]} is not installed; pip install {missing[0]}")


def open_loggers(settings: Log, folder: Path, config: Mapping[str, Any], step: int) -> list[Logger]:
    """The loggers of `settings.to`. `step` is the last completed step."""
    return [
        TensorBoard(folder, step) if name == "tensorboard" else SERVICES[name](folder, settings.project, config)
        for name in settings.to
    ]
