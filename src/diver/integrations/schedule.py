"""The steps over which schedules run in another trainer, which knows only how many steps it is to make now."""

import json
from pathlib import Path

from diver.io.files import write_text


def schedule_steps(folder: Path, step: int, steps: int, *, write: bool = True) -> int:
    """The rollout steps with which the run in `folder` began: one that is extended keeps them, so lambda never rises again.

    `step` rollout steps are done of the `steps` that the trainer now makes. Of several processes one may `write`.
    """
    file = folder / "schedule.json"
    if step and file.exists():
        return int(json.loads(file.read_text(encoding="utf-8"))["steps"])
    if write:
        write_text(file, json.dumps({"steps": steps}) + "\n")
    return steps
