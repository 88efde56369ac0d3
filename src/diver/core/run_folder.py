"""The run folder: the files of a run, and how they survive a kill.

    config.json            the resolved recipe, versions, seed, commit, command, notes on the data
    metrics.jsonl          one row per step, appended
    metrics.replaced.jsonl rows of steps that were done again, since a run was killed after its last checkpoint
    rollouts/step_NNNN.jsonl, eval/step_NNNN.json, checkpoints/step_NNNN/, report.html

The row of a rollout in rollouts/step_NNNN.jsonl:

    step, group                rollout step, index of its group in the step
    problem, sample            problem id, index among the sampled responses
    prompt, answer, response   the rendered prompt, the reference answer, what the policy wrote
    grade                      the result of the verifier
    reward                     its named parts and their `total`
    diversity, advantage       each metric by name; A, null without an update
    trained                    whether the update of the step trains on it
    entropy                    of the policy that sampled, nats, mean over the tokens; null if it is unknown
    length, truncated          in policy tokens; whether it was cut off at sample.max_tokens
    answer_end                 characters up to the end of the graded answer; null if that is unknown
    turns                      of a trajectory: role, text, actions, state and reward of each

Every file but metrics.jsonl is complete or absent. When a killed run resumes, it drops what was written after its last
checkpoint, half a row included. After a loss of power, every checkpoint still has the rows and files of its steps.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diver.core.files import (
    JsonlLog,
    Rows,
    WorkFolder,
    lock,
    number,
    read_json,
    table,
    to_json,
    write_jsonl,
    write_text,
)
from diver.core.settings import choose, no_file
from diver.core.turns import turn_row, turns_from_rows
from diver.core.types import DiverError, Grade, Group, Problem, Reward, Rollout

if TYPE_CHECKING:
    import pandas as pd

# ---- the row of a rollout: one writer, one reader

WRITTEN = "response grade reward diversity advantage trained entropy length truncated answer_end".split()
"""The attributes of a rollout that its row has, in the order of the row."""
REQUIRED = frozenset({"problem", "sample", "response", "grade", "reward"})


def rollout_row(step: int, index: int, group: Group, rollout: Rollout) -> dict[str, Any]:
    """The row of a rollout in the group at `index` of the step. ValueError if the rollout has no reward."""
    if rollout.reward is None:
        raise ValueError(f"problem {group.problem.id!r}: a rollout without a reward has no row")
    return {
        "step": step,
        "group": index,
        "problem": group.problem.id,
        "sample": rollout.index,
        "prompt": group.prompt,
        "answer": group.problem.answer,
        **{name: getattr(rollout, name) for name in WRITTEN},
        "reward": rollout.reward.row(),
        **({"solution": rollout.solution} if rollout.solution is not None else {}),
        **({"turns": [*map(turn_row, rollout.turns)]} if rollout.turns else {}),
    }


def groups_from_rows(rows: Rows) -> list[Group]:
    """The groups of rows. Consecutive rows of one step, group and problem with a rising sample index are a group.

    Rows of older runs have no `group`. In them, two adjacent groups of one problem are read as one if all sample
    indices of the first are below those of the second, which a selection may cause.

    The step is `problem.meta["step"]`. A row does not have the bare question, so `problem.prompt` is the rendered
    prompt, as `group.prompt` is.

    Raises:
        DiverError: a column is missing or a value has the wrong type.
    """
    groups: list[tuple[tuple[Any, Problem], list[Rollout]]] = []
    for where, row in rows:
        rollout = _rollout(row, where)
        meta = {"step": row["step"]} if isinstance(row.get("step"), int) else {}
        name, prompt, answer = (str(row.get(key) or "") for key in ("problem", "prompt", "answer"))
        identity = row.get("group"), Problem(name, prompt, answer, meta=meta)
        if groups and groups[-1][0] == identity and groups[-1][1][-1].index < rollout.index:
            groups[-1][1].append(rollout)
        else:
            groups.append((identity, [rollout]))
    return [Group(problem, tuple(rollouts), str(problem.prompt)) for (_, problem), rollouts in groups]


def read_grade(value: Any, where: str) -> Grade | None:
    if value is None:
        return None
    choose(value, map(str, Grade), f"{where}: grade")
    return Grade(value)


def _rollout(row: Mapping[str, Any], where: str) -> Rollout:
    if missing := REQUIRED - row.keys():
        raise DiverError(f"{where}: has no {', '.join(sorted(missing))}, so it is no rollout of `diver train`")
    for name, kind, noun in (("response", str, "a text"), ("sample", int, "an index")):
        if not isinstance(row[name], kind):
            raise DiverError(f"{where}: {name} must be {noun}, not {row[name]!r:.60}")
    reward, length = table(row, "reward"), number(row.get("length"))
    parts = {name: value for name in Reward._fields if not math.isnan(value := number(reward.get(name)))}
    if reward.get("outcome") is not None and "outcome" not in parts:
        raise DiverError(f"{where}: an outcome must be a finite number, not {reward['outcome']!r:.60}")
    try:
        turns = turns_from_rows(row.get("turns", []))
    except ValueError as error:
        raise DiverError(f"{where}: {error}") from None
    return Rollout(
        row["response"],
        turns=turns,
        index=row["sample"],
        num_tokens=None if math.isnan(length) else int(length),
        truncated=row.get("truncated") is True,
        answer_end=row["answer_end"] if isinstance(row.get("answer_end"), int) else None,
        grade=read_grade(row["grade"], where),
        solution=row["solution"] if isinstance(row.get("solution"), str) else None,
        reward=Reward(**parts) if "outcome" in parts else None,
        diversity={name: number(value) for name, value in table(row, "diversity").items()},
        advantage=number(row.get("advantage")),
        trained=row["trained"] if isinstance(row.get("trained"), bool) else None,
        entropy=number(row.get("entropy")),
    )


def trained_counts(groups: Iterable[Group]) -> Counter[bool | None]:
    return Counter(rollout.trained for group in groups for rollout in group.rollouts)


def trained_note(counts: Counter[bool | None], path: Path) -> str:
    """A note on how many rollouts of a run were trained on; empty if all of them were.

    `counts` has the number of rollouts with each value of `trained`. Earlier versions wrote no such value, and only the
    rollouts that were trained on. A config.json at `path`, or above it, says whether the method left any out.
    """
    if counts[False]:
        return f"{counts[True]:,} of {counts.total():,} responses were trained on (column trained), and all are read"
    config = next((c for f in (path, *path.resolve().parents[:2]) if (c := f / "config.json").is_file()), None)
    selection = table(read_json(config), "recipe", "method", "selection") if config else {"keep": "unknown"}
    modes = {selection.get("keep", "all"), selection.get("outcomes", "all")}
    if not counts[None] or not (selection.get("filter_groups") or modes != {"all"}):
        return ""
    return f"{counts[None]:,} responses are of an earlier version, which wrote only those that were trained on"


# ---- the folder

REPLACED = "metrics.replaced.jsonl"


def set_aside(folder: Path) -> None:
    """Rename a folder, if it exists, to the first free FOLDER.N, and print that. DiverError if it is in use."""
    if folder.is_dir():
        with lock(folder):
            aside = next(p for n in count(1) if not (p := folder.with_name(f"{folder.name}.{n}")).exists())
            folder.rename(aside)
        print(f"{folder}: now {aside}")


def is_aside(folder: Path) -> bool:
    """Whether `set_aside` has renamed this folder: it is called FOLDER.N, and its config.json names a FOLDER."""
    config = folder / "config.json"
    if not folder.suffix[1:].isdigit() or not config.is_file():
        return False
    return Path(str(table(read_json(config), "recipe", "run").get("folder"))).name == folder.stem


def runs_in(folder: Path) -> list[Path]:
    """The run folders in a folder, such as those of `diver train --seeds`, without those that --restart set aside."""
    return sorted(p.parent for p in folder.glob("*/config.json") if not is_aside(p.parent))


def find_runs(path: Path) -> list[Path]:
    """The run folder `path`, or the run folders in it. DiverError if there is none."""
    folders = [path] if (path / "config.json").is_file() else runs_in(path)
    if not folders:
        reason = "is neither a run folder nor a folder of run folders"
        raise DiverError(f"{path}: {reason}" if path.exists() else no_file(path))
    return folders


def given_name(text: str) -> tuple[str, Path]:
    """The name and the path of NAME=PATH. The name is empty if `text` is only a path, which may contain =."""
    name, equals, path = text.partition("=")
    if not equals or Path(text).exists():
        return "", Path(text)
    if not name or not path:
        raise DiverError(f"{text!r}: give a path, or NAME=PATH")
    return name, Path(path)


def run_name(folder: Path) -> str:
    """The name of a run: the last part of its path, or PARENT/seed_N for a run of several seeds."""
    path = folder.resolve() if folder.name in ("", "..") else folder
    return f"{path.absolute().parent.name}/{path.name}" if re.fullmatch(r"seed_\d+", path.name) else path.name


class RunFolder(WorkFolder):
    """One run's folder. Its identity is the recipe without steps, paths and loggers."""

    def append(self, name: str, row: Mapping[str, Any]) -> None:
        with JsonlLog(self.path / name) as log:
            log.append(row)

    def rows(self, name: str) -> list[dict[str, Any]]:
        return list(JsonlLog(self.path / name).rows())

    def steps(self) -> list[int]:
        """The steps that have a row in metrics.jsonl."""
        return sorted({int(row["step"]) for row in self.rows("metrics.jsonl")})

    def check_rows(self, first: int, last: int) -> None:
        """Raises DiverError if metrics.jsonl lacks the row of a step from `first` to `last`, the last checkpoint."""
        if lost := sorted({*range(first, last + 1)} - {*self.steps()} if last else ()):
            raise DiverError(
                f"{self.path}/metrics.jsonl: has no row of step {lost[0]}, but there is a checkpoint of step {last}; "
                "restore the file, or begin anew with --restart"
            )

    def check_saved(self, step: int, save_steps: int = 0) -> None:
        """Check that the checkpoints of a run still exist.

        Args:
            step: the step of the last checkpoint, 0 without one.
            save_steps: the current value; it may have been larger when the run began.

        Raises:
            DiverError: `step` is 0, although finished steps were due to be saved.
        """
        done, before = max(self.steps(), default=0), table(self.config, "recipe", "train").get("save_steps", 0)
        if not step and done > max(save_steps, before):
            raise DiverError(
                f"{self.path}: {done} steps are done, but their checkpoints are gone, so they cannot be continued; "
                f"choose another {self.option}{self.anew}"
            )

    def keep_until(self, step: int) -> None:
        """Drop what was written after `step`, the last checkpoint. These steps are repeated with the same results.

        Their rows of metrics.jsonl are appended to metrics.replaced.jsonl, and one line on standard error says so.
        """
        rows = self.rows("metrics.jsonl")
        if note := self.done_again(step):
            with JsonlLog(self.path / REPLACED) as replaced:
                for row in rows:
                    if row["step"] > step:
                        replaced.append(row)
            print(note, file=sys.stderr)
        if (self.path / "metrics.jsonl").exists():
            write_jsonl(self.path / "metrics.jsonl", (row for row in rows if row["step"] <= step))
        for folder, suffix in (("rollouts", ".jsonl"), ("eval", ".json")):
            for later, path in by_step(self.path / folder, suffix).items():
                if later > step:
                    path.unlink()

    def done_again(self, step: int) -> str:
        """One line on the steps with a row after `step`, the last checkpoint; empty if there are none."""
        if not (later := [done for done in self.steps() if done > step]):
            return ""
        since = f"after step {step}, the last checkpoint" if step else "at step 1, since there is no checkpoint"
        steps = f"step {later[0]} is" if len(later) == 1 else f"steps {later[0]} to {later[-1]} are"
        return f"{self.path}: goes on {since}; {steps} done again, the rows so far are kept in {REPLACED}"

    def add_to_row(self, step: int, values: Mapping[str, Any]) -> None:
        """Add metrics to the row of a step."""
        rows = [{**row, **values} if row["step"] == step else row for row in self.rows("metrics.jsonl")]
        write_jsonl(self.path / "metrics.jsonl", rows)

    def write_rollouts(self, step: int, groups: Iterable[Group]) -> None:
        rows = (rollout_row(step, i, group, rollout) for i, group in enumerate(groups) for rollout in group.rollouts)
        write_jsonl(self.path / "rollouts" / f"step_{step:04d}.jsonl", rows)

    def write_evaluation(self, step: int, result: Mapping[str, Any]) -> None:
        write_text(self.path / "eval" / f"step_{step:04d}.json", to_json(result, indent=1))

    def evaluated(self, step: int, samples: int) -> bool:
        """Whether an evaluation after `step` with at least `samples` samples per problem is stored, also in its row."""
        path = self.path / "eval" / f"step_{step:04d}.json"
        metrics = {name for row in self.rows("metrics.jsonl") if row["step"] == step for name in row}
        return "eval/pass@1" in metrics and path.is_file() and int(read_json(path)["samples"]) >= samples

    def evaluation_log(self, step: int, kind: str) -> JsonlLog:
        """The log of the evaluation after `step`; `kind` is generations or grades."""
        return JsonlLog(self.path / "eval" / f"step_{step:04d}.{kind}.jsonl")

    @contextlib.contextmanager
    def new_checkpoint(self, step: int) -> Iterator[Path]:
        """A temporary folder to fill. It becomes checkpoints/step_NNNN if the block succeeds, else it is removed."""
        final = self.path / "checkpoints" / f"step_{step:04d}"
        aside = final.with_name(f".{final.name}.part")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        try:
            yield aside
            make_readable(aside)
            for file in (*aside.rglob("*"), aside):
                _sync(file)
            # If a checkpoint survives a loss of power, all files before it must survive, too. Here the names of files
            # are synced; their contents already are.
            for path in (self.path / "rollouts", self.path / "eval", self.path):
                _sync(path)
            shutil.rmtree(final, ignore_errors=True)
            os.replace(aside, final)
            _sync(final.parent)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def checkpoints(self) -> list[Path]:
        """Complete checkpoints, oldest first."""
        return list(by_step(self.path / "checkpoints").values())

    def saved_step(self) -> int:
        """The step of the newest complete checkpoint; 0 without one."""
        return max(by_step(self.path / "checkpoints"), default=0)

    def link_checkpoint(self, step: int, target: Path) -> None:
        """Make checkpoints/step_NNNN a link to the Hugging Face folder that another trainer wrote.

        Links to deleted folders are removed.
        """
        make_readable(target)
        link = self.path / "checkpoints" / f"step_{step:04d}"
        link.parent.mkdir(exist_ok=True)
        for old in link.parent.iterdir():
            if old == link or (old.is_symlink() and not old.exists()):
                old.unlink()
        link.symlink_to(os.path.relpath(target, link.parent.resolve()))

    def drop_checkpoints(self, keep: int) -> None:
        """Delete all but the newest `keep`, and partial checkpoints. A checkpoint is renamed first, so a kill leaves no
        partial one."""
        for path in self.checkpoints()[:-keep]:
            aside = path.with_name(f".{path.name}.part")
            shutil.rmtree(aside, ignore_errors=True)
            os.replace(path, aside)
        for aside in (self.path / "checkpoints").glob(".step_*.part"):
            shutil.rmtree(aside, ignore_errors=True)  # NFS keeps open files of other processes; the next call retries


def make_readable(folder: Path) -> None:
    """Give files the read permissions of their folder: safetensors makes weights readable by their owner only."""
    for file in folder.rglob("*"):
        with contextlib.suppress(PermissionError, FileNotFoundError):  # another user's file, or a deleted one
            if file.is_file():
                file.chmod(folder.stat().st_mode & 0o666)


def _sync(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk; nothing if it does not exist."""
    if path.exists():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def by_step(folder: Path, suffix: str = "") -> dict[int, Path]:
    """The files or folders `step_NNNN<suffix>` of a folder by step, in rising order; empty without the folder."""
    steps = {path: path.name[len("step_") :].removesuffix(suffix) for path in folder.glob(f"step_*{suffix}")}
    return dict(sorted((int(step), path) for path, step in steps.items() if step.isdigit()))


def metrics_table(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows of metrics.jsonl as float64, one row per step, one column per metric; NaN if a value is not a number."""
    import pandas as pd

    metrics = {int(row["step"]): {name: number(v) for name, v in row.items() if name != "step"} for row in rows}
    return pd.DataFrame(list(metrics.values()), index=list(metrics), dtype=float).sort_index()
