"""The row of a rollout, as rollouts/step_NNNN.jsonl of a run has it: one writer, one reader.

step, problem, sample      where it is from: rollout step, problem id, index among the sampled responses
prompt, answer, response   the rendered prompt, the known answer, what the policy wrote
grade                      what the verifier found
reward                     its named parts and their `total`
diversity, advantage       each metric by name; A
length, truncated          in policy tokens; whether it was cut off at sample.max_tokens
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from diver.io.jsonl import Rows, number, table
from diver.types import DiverError, Grade, Group, Problem, Reward, Rollout

REQUIRED = frozenset({"problem", "sample", "response", "grade", "reward"})


def rollout_row(step: int, group: Group, rollout: Rollout) -> dict[str, Any]:
    """One rollout of a group as a row; it must have its reward."""
    if rollout.reward is None:
        raise ValueError(f"problem {group.problem.id!r}: a rollout without a reward has no row")
    return {
        "step": step,
        "problem": group.problem.id,
        "sample": rollout.index,
        "prompt": group.prompt,
        "answer": group.problem.answer,
        "response": rollout.response,
        "grade": rollout.grade,
        "reward": {**rollout.reward._asdict(), "total": rollout.reward.total},
        "diversity": rollout.diversity,
        "advantage": rollout.advantage,
        "length": rollout.length,
        "truncated": rollout.truncated,
    }


def groups_from_rows(rows: Rows, *, lenient: bool = False) -> list[Group]:
    """Groups from rows with their places: consecutive rows of one step and problem whose sample index rises.

    The step is `problem.meta["step"]`. The bare question is not in a row: `problem.prompt` is the rendered prompt, as
    `group.prompt` is. DiverError where a value is of the wrong kind; lenient: such a value is unknown.
    """
    groups: list[Group] = []
    rollouts: list[list[Rollout]] = []
    for where, row in rows:
        if not lenient:
            _check(row, where)
        problem = Problem(_text(row, "problem"), _text(row, "prompt"), _text(row, "answer"), meta=_step(row))
        same = bool(groups) and (problem.id, problem.meta) == (groups[-1].problem.id, groups[-1].problem.meta)
        previous = rollouts[-1][-1].index if same else -1
        index = row["sample"] if isinstance(row.get("sample"), int) else previous + 1
        rollout = _rollout(row, index)
        if same and index > previous:
            rollouts[-1].append(rollout)
        else:
            groups.append(Group(problem, (rollout,), prompt=_text(row, "prompt")))
            rollouts.append([rollout])
    return [Group(g.problem, tuple(r), g.prompt) for g, r in zip(groups, rollouts, strict=True)]


def _check(row: Mapping[str, Any], where: str) -> None:
    if missing := REQUIRED - row.keys():
        raise DiverError(f"{where}: has no {', '.join(sorted(missing))}, so it is no rollout of `diver train`")
    if not isinstance(row["response"], str):
        raise DiverError(f"{where}: a response must be a text, not {row['response']!r:.60}")
    read_grade(row["grade"], where)
    outcome = table(row, "reward").get("outcome")
    if outcome is not None and math.isnan(number(outcome)):
        raise DiverError(f"{where}: an outcome must be a finite number, not {outcome!r:.60}")


def read_grade(value: Any, where: str) -> Grade | None:
    if value not in (None, *Grade):
        raise DiverError(f"{where}: unknown grade {value!r:.60}; choose from {', '.join(Grade)}")
    return None if value is None else Grade(value)


def _rollout(row: Mapping[str, Any], index: int) -> Rollout:
    parts = {name: number(table(row, "reward").get(name)) for name in Reward._fields}
    grade, length = row.get("grade"), number(row.get("length"))
    known = {name: value for name, value in parts.items() if not math.isnan(value)}
    return Rollout(
        _text(row, "response"),
        index=index,
        num_tokens=None if math.isnan(length) else int(length),
        truncated=row.get("truncated") is True,
        grade=Grade(grade) if grade in tuple(Grade) else None,
        reward=Reward(**known) if "outcome" in known else None,
        diversity={name: number(value) for name, value in table(row, "diversity").items()},
        advantage=number(row.get("advantage")),
    )


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    return value if isinstance(value, str) else str(value) if isinstance(value, int | float) else ""


def _step(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"step": row["step"]} if isinstance(row.get("step"), int) else {}
