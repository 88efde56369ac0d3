"""Checkpoints at rollout boundaries: a plain Hugging Face folder, plus the optimizer and the step.

Nothing else has state: every random stream is keyed by the step (`diver.io.run_folder.stream_seed`), and so is the place in the
problems, so resuming is exact on one machine and thread count.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from pickle import UnpicklingError

import torch
from safetensors import SafetensorError

from diver.generate.policy import Policy
from diver.io.run_folder import RunFolder
from diver.types import DiverError


def save(folder: RunFolder, step: int, policy: Policy, optimizer: torch.optim.Optimizer, keep: int) -> None:
    """checkpoints/step_NNNN: whole, or not there."""
    try:
        with folder.new_checkpoint(step) as path:
            policy.model.save_pretrained(path)
            policy.tokenizer.save_pretrained(path)
            torch.save({"step": step, "optimizer": optimizer.state_dict()}, path / "trainer.pt")
    except (OSError, RuntimeError, SafetensorError) as e:  # each library tells of a full disk in its own way
        free = shutil.disk_usage(folder.path).free >> 20
        raise DiverError(
            f"{folder.path}/checkpoints: step {step} could not be saved, with {free:,} MB free on the disk "
            f"({str(e).splitlines()[0]}); make room, then run the same command again: it goes on from the last whole "
            "checkpoint"
        ) from None
    folder.drop_checkpoints(keep)


def restore(path: Path, policy: Policy, optimizer: torch.optim.Optimizer) -> int:
    """Give `optimizer` its state back (the weights came with `load_policy`); returns the step."""
    try:
        state = torch.load(path / "trainer.pt", map_location=policy.model.device, weights_only=True)
        optimizer.load_state_dict(state["optimizer"])
        return int(state["step"])
    except torch.OutOfMemoryError:  # a RuntimeError too, and no fault of the checkpoint
        raise
    except (OSError, EOFError, KeyError, ValueError, RuntimeError, UnpicklingError) as e:
        raise DiverError(
            f"{path}: this checkpoint cannot be read ({e}); delete it to go on from the one before"
        ) from None
