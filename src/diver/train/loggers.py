"""Loggers in addition to metrics.jsonl in the run folder, which is always written."""

import hashlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from diver.config.sections import Log
from diver.train.alerts import AlertLog
from diver.types import DiverError


class TensorBoard:
    def __init__(self, folder: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # Steps after the one from which the run resumes are logged again.
        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1 if step else None)
        self.close = self._writer.close

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)


class WandB:
    def __init__(self, folder: Path, project: str, config: Mapping[str, Any]) -> None:
        import wandb

        # One id per run folder and first start, so a resumed run continues the same curves.
        folder = folder.resolve()
        run_id = hashlib.blake2b(f"{folder} {config['started']}".encode(), digest_size=8).hexdigest()
        try:
            self._run = wandb.init(
                project=project, name=folder.name, id=run_id, resume="allow", dir=str(folder), config=dict(config)
            )
        except wandb.errors.Error as e:
            raise DiverError(f"log.to: wandb: {e}") from None
        self.close = self._run.finish

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log(dict(metrics), step=step)


Logger = AlertLog | TensorBoard | WandB


def check_loggers(settings: Log) -> None:
    """Raises DiverError where the library of a logger is not installed."""
    if missing := [name for name in settings.to if find_spec(name) is None]:
        raise DiverError(f"log.to: {missing[0]} is not installed; pip install 'diver-rl[loggers]'")


def open_loggers(settings: Log, folder: Path, config: Mapping[str, Any], step: int) -> list[Logger]:
    """The loggers of `settings.to`. `step` is the last completed step."""
    return [
        TensorBoard(folder, step) if name == "tensorboard" else WandB(folder, settings.project, config)
        for name in settings.to
    ]
