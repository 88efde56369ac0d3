"""Groups as a data frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from diver.types import Group

if TYPE_CHECKING:
    import pandas as pd


def frame(groups: Iterable[Group]) -> pd.DataFrame:
    """One row a response, in order; a column that no response has a value of is left out.

    by, step, source, problem, prompt, answer, sample, response, grade; outcome, reward (its total), advantage, entropy
    (nats), logprob (mean over the tokens), length (tokens), truncated; diversity/<metric>.
    """
    import pandas as pd

    table = pd.DataFrame(list(_rows(groups)))
    return table.drop(columns=[name for name in table if table[name].isna().all() or (table[name] == "").all()])


def _rows(groups: Iterable[Group]) -> Iterator[dict[str, Any]]:
    for group in groups:
        problem = group.problem
        about = {
            "by": problem.meta.get("by"),
            "step": problem.meta.get("step"),
            "source": problem.source,
            "problem": problem.id,
            "prompt": problem.prompt if isinstance(problem.prompt, str) else [dict(m) for m in problem.prompt],
            "answer": problem.answer,
        }
        for r in group.rollouts:
            yield {
                **about,
                "sample": r.index,
                "response": r.response,
                "grade": None if r.grade is None else str(r.grade),
                "outcome": None if r.reward is None else r.reward.outcome,
                "reward": None if r.reward is None else r.reward.total,
                "advantage": r.advantage,
                "entropy": r.entropy,
                "logprob": None if r.logprobs is None else float(r.logprobs.mean()),
                "length": r.known_length,
                "truncated": r.truncated,
                **{f"diversity/{name}": value for name, value in r.diversity.items()},
            }
