"""Checkpoints at rollout boundaries: a plain Hugging Face folder, plus the optimizer and the step.

The only other state is that of the method (`State`): a JSON file, with its arrays in a second file. Random streams and
the order of problems are keyed by the step (`diver.core.seeds.stream_seed`). So a resumed run gives the same results on
the same machine with the same number of threads.
"""

import hashlib
import json
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError

from diver.core.files import read_json, to_json, write_parts, write_text
from diver.core.run_folder import RunFolder
from diver.core.types import DiverError, State
from diver.recipe.sections import Train
from diver.sample.policy import Policy

CHECKSUMS = "checksums.json"
"""SHA-256 of each file: flipped bytes of weights would look like a policy that has diverged."""
ADVICE = "delete it to resume from the last one"


def save(
    folder: RunFolder,
    step: int,
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    keep: int,
    state: State | None = None,
) -> None:
    """Write checkpoints/step_NNNN, complete or not at all, and delete all but the newest `keep`.

    `state` is that of the method.
    """
    try:
        with folder.new_checkpoint(step) as path:
            policy.model.save_pretrained(path)
            policy.tokenizer.save_pretrained(path)
            torch.save({"step": step, "optimizer": optimizer.state_dict()}, path / "trainer.pt")
            if state:
                write_state(path, state)
            write_text(
                path / CHECKSUMS,
                json.dumps({str(f.relative_to(path)): _checksum(f) for f in path.rglob("*") if f.is_file()}, indent=1),
            )
    except (OSError, RuntimeError, SafetensorError) as e:  # each library reports a full disk differently
        free = shutil.disk_usage(folder.path).free >> 20
        raise DiverError(
            f"{folder.path}/checkpoints: step {step} could not be saved, with {free:,} MB free on the disk "
            f"({str(e).splitlines()[0]}); free space and run the same command again: "
            "it resumes from the last checkpoint"
        ) from None
    folder.drop_checkpoints(keep)


def check(path: Path) -> None:
    """Raises DiverError if a file of the checkpoint is missing or differs from what was saved."""
    if not (path / CHECKSUMS).is_file():
        return  # an earlier version of DIVER saved no checksums
    for name, checksum in read_json(path / CHECKSUMS).items():
        if not (path / name).is_file():
            raise DiverError(f"{path}: {name} of this checkpoint is missing; {ADVICE}")
        if _checksum(path / name) != checksum:
            raise DiverError(f"{path}: {name} of this checkpoint has changed since it was saved; {ADVICE}")


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass
class Saver:
    """Saves every `save_steps` steps, and at least every `save_minutes`. `step` is the last saved step."""

    folder: RunFolder
    policy: Policy
    optimizer: torch.optim.Optimizer
    config: Train
    step: int
    state: State
    last: float = field(default_factory=lambda: time.monotonic())

    def due(self, step: int) -> bool:
        minutes = (time.monotonic() - self.last) / 60
        return step % self.config.save_steps == 0 or 0 < self.config.save_minutes <= minutes

    def save(self, step: int) -> None:
        if step != self.step:
            save(self.folder, step, self.policy, self.optimizer, self.config.save_total_limit, self.state)
            self.step, self.last = step, time.monotonic()


def restore(path: Path, policy: Policy, optimizer: torch.optim.Optimizer) -> int:
    """Restore the state of `optimizer` (`load_policy` has loaded the weights); returns the step."""
    try:
        state = torch.load(path / "trainer.pt", map_location=policy.model.device, weights_only=True)
        step = int(state["step"])
        if path.name != f"step_{step:04d}":
            raise ValueError(f"its trainer.pt is of step {step}")
        optimizer.load_state_dict(state["optimizer"])
        return step
    except torch.OutOfMemoryError:  # also a RuntimeError, but the checkpoint is not damaged
        raise
    except (OSError, EOFError, KeyError, ValueError, RuntimeError, UnpicklingError) as e:
        raise DiverError(f"{path}: this checkpoint cannot be read ({e}); {ADVICE}") from None


STATE, ARRAYS = "method.json", "method.bin"
"""File names of the state's values, and of its arrays (int32, concatenated)."""


def write_state(path: Path, state: State) -> None:
    """Write the state into the folder `path`."""
    values, arrays = without_arrays(state)
    if arrays:
        write_parts(path / ARRAYS, (np.ascontiguousarray(array, "<i4").tobytes() for array in arrays))
    write_text(path / STATE, to_json(values))


def without_arrays(state: State) -> tuple[State, list[np.ndarray]]:
    """The state with {ARRAYS: length} in place of each array, and the arrays in order."""
    arrays: list[np.ndarray] = []

    def replaced(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays.append(value)
            return {ARRAYS: len(value)}
        return {key: replaced(v) for key, v in value.items()} if isinstance(value, dict) else value

    return replaced(state), arrays


def read_state(path: Path) -> State:
    """The state in the folder `path`; empty if the method has none."""
    if not (path / STATE).is_file():
        return {}
    array = np.fromfile(path / ARRAYS, "<i4") if (path / ARRAYS).is_file() else np.empty(0, np.int32)
    start = 0

    def restored(value: Any) -> Any:
        nonlocal start
        if isinstance(value, dict) and value.keys() == {ARRAYS}:
            start += value[ARRAYS]
            return array[start - value[ARRAYS] : start].copy()  # a view would keep the complete array in memory
        return {key: restored(v) for key, v in value.items()} if isinstance(value, dict) else value

    state = dict(restored(read_json(path / STATE)))
    if start != len(array):
        raise DiverError(f"{path / ARRAYS}: has {len(array)} values where {STATE} has {start}; delete this checkpoint")
    return state
