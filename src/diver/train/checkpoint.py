"""Checkpoints at rollout boundaries: a plain Hugging Face folder, plus the optimizer and the step.

There is no other state: random streams and the order of problems are keyed by the step (`diver.io.seeds.stream_seed`), so a
resumed run gives the same results on the same machine with the same number of threads.
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
    """Write checkpoints/step_NNNN, complete or not at all, and delete all but the newest `keep`."""
    try:
        with folder.new_checkpoint(step) as path:
            policy.model.save_pretrained(path)
            policy.tokenizer.save_pretrained(path)
            torch.save({"step": step, "optimizer": optimizer.state_dict()}, path / "trainer.pt")
    except (OSError, RuntimeError, SafetensorError) as e:  # each library reports a full disk differently
        free = shutil.disk_usage(folder.path).free >> 20
        raise DiverError(
            f"{folder.path}/checkpoints: step {step} could not be saved, with {free:,} MB free on the disk "
            f"({str(e).splitlines()[0]}); free space and run the same command again: it resumes from the last checkpoint"
        ) from None
    folder.drop_checkpoints(keep)


def restore(path: Path, policy: Policy, optimizer: torch.optim.Optimizer) -> int:
    """Restore the state of `optimizer` (`load_policy` has loaded the weights); returns the step."""
    try:
        state = torch.load(path / "trainer.pt", map_location=policy.model.device, weights_only=True)
        optimizer.load_state_dict(state["optimizer"])
        return int(state["step"])
    except torch.OutOfMemoryError:  # a RuntimeError too, and no sign of a damaged checkpoint
        raise
    except (OSError, EOFError, KeyError, ValueError, RuntimeError, UnpicklingError) as e:
        raise DiverError(
            f"{path}: this checkpoint cannot be read ({e}); delete it to resume from the last one"
        ) from None
