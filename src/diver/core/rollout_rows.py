"""The row of a rollout, as rollouts/step_NNNN.jsonl of a run has it: one writer, one reader.

step, group                where it is from: rollout step, index of its group in the step
problem, sample            problem id, index among the sampled responses
prompt, answer, response   the rendered prompt, the reference answer, what the policy wrote
grade                      what the verifier found
reward                     its named parts and their `total`
diversity, advantage       each metric by name; A
entropy                    of the policy that sampled, nats, mean over the tokens; null where the engine does not say
length, truncated          in policy tokens; whether it was cut off at sample.max_tokens
answer_end                 characters of the response up to the end of the graded answer; null where that is unknown
"""

import math
from collections.abc import Mapping
from typing import Any

from diver.core.jsonl import Rows, number, table
from diver.core.types import DiverError, Grade, Group, Problem, Reward, Rollout

REQUIRED = frozenset({"problem", "sample", "response", "grade", "reward"})


def rollout_row(step: int, index: int, group: Group, rollout: Rollout) -> dict[str, Any]:
    """One rollout of the step's group at `index` as a row; it must have its reward."""
    if rollout.reward is None:
        raise ValueError(f"problem {group.problem.id!r}: a rollout without a reward has no row")
    return {
        "step": step,
        "group": index,
        "problem": group.problem.id,
        "sample": rollout.index,
        "prompt": group.prompt,
        "answer": group.problem.answer,
        "response": rollout.response,
        "grade": rollout.grade,
        "reward": rollout.reward.row(),
        "diversity": rollout.diversity,
        "advantage": rollout.advantage,
        "entropy": rollout.entropy,
        "length": rollout.length,
        "truncated": rollout.truncated,
        "answer_end": rollout.answer_end,
    }


def groups_from_rows(rows: Rows) -> list[Group]:
    """Groups from rows with their places: consecutive rows of one step, group and problem whose sample index rises.

    Rows of older runs have no `group`. There, two adjacent groups of one problem are read as one where a selection left
    the first only samples before those of the second.

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
        of = row.get("group"), Problem(name, prompt, answer, meta=meta)
        if groups and groups[-1][0] == of and groups[-1][1][-1].index < rollout.index:
            groups[-1][1].append(rollout)
        else:
            groups.append((of, [rollout]))
    return [Group(problem, tuple(rollouts), str(problem.prompt)) for (_, problem), rollouts in groups]


def read_grade(value: Any, where: str) -> Grade | None:
    if value not in (None, *Grade):
        raise DiverError(f"{where}: unknown grade {value!r:.60}; choose from {', '.join(Grade)}")
    return None if value is None else Grade(value)


def _rollout(row: Mapping[str, Any], where: str) -> Rollout:
    if missing := REQUIRED - row.keys():
        raise DiverError(f"{where}: has no {', '.join(sorted(missing))}, so it is no rollout of `diver train`")
    if not isinstance(row["response"], str):
        raise DiverError(f"{where}: a response must be a text, not {row['response']!r:.60}")
    if not isinstance(row["sample"], int):
        raise DiverError(f"{where}: sample must be an index, not {row['sample']!r:.60}")
    reward, length = table(row, "reward"), number(row.get("length"))
    parts = {name: value for name in Reward._fields if not math.isnan(value := number(reward.get(name)))}
    if reward.get("outcome") is not None and "outcome" not in parts:
        raise DiverError(f"{where}: an outcome must be a finite number, not {reward['outcome']!r:.60}")
    return Rollout(
        row["response"],
        index=row["sample"],
        num_tokens=None if math.isnan(length) else int(length),
        truncated=row.get("truncated") is True,
        answer_end=row["answer_end"] if isinstance(row.get("answer_end"), int) else None,
        grade=read_grade(row["grade"], where),
        reward=Reward(**parts) if "outcome" in parts else None,
        diversity={name: number(value) for name, value in table(row, "diversity").items()},
        advantage=number(row.get("advantage")),
        entropy=number(row.get("entropy")),
    )
