"""The number of steps of schedules in another trainer, which knows only the steps of the current run."""

import json
from pathlib import Path

from diver.core.files import write_text


def schedule_steps(folder: Path, step: int, steps: int, *, write: bool = True) -> int:
    """The number of rollout steps with which the run in `folder` began. An extended run keeps it, so that lambda does
    not rise again.

    `step` rollout steps are done of the `steps` that the trainer now makes, 0 or less if it does not know them yet.
    Such a number is never written, and a file that has one is replaced. Only a process with `write` writes the file.
    """
    file = folder / "schedule.json"
    if step and file.exists():
        begun = int(json.loads(file.read_text(encoding="utf-8"))["steps"])
        if begun > 0:
            return begun
    if write and steps > 0:
        write_text(file, json.dumps({"steps": steps}) + "\n")
    return steps
