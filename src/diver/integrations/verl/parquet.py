"""The problems of a recipe in verl's parquet layout: prompts as the policy will see them, and what the grade needs."""

from collections.abc import Iterator
from typing import Any

from pyarrow import ArrowException

from diver.core.formats import write_parquet
from diver.core.types import DiverError
from diver.integrations.verl.launch import problems_of
from diver.recipe.recipe import Recipe
from diver.tasks.templates import Prompted
from diver.train.prepare import Prepared


def write_problems(recipe: Recipe, prepared: Prepared) -> list[str]:
    """Write train.parquet and val.parquet of the run, and return notes about them.

    Prompts are rendered by the recipe's template, and too long ones are left out, as in the built-in trainer. A run
    without evaluation has the first training problem in val.parquet: verl requires the file.
    """
    train, held_out, tokenizer, notes = prepared
    val = held_out if held_out.problems else train._replace(problems=train.problems[:1], texts=train.texts[:1])
    for path, split in zip(problems_of(recipe.folder).values(), (train, val), strict=True):
        rows = list(_rows(split, tokenizer))
        try:
            write_parquet(path, rows)
        except ArrowException as error:
            raise DiverError(f"{path}: the columns of the problems differ in type from row to row ({error})") from None
        notes.append(f"{path}: {len(rows)} problems")
    return notes


def _rows(problems: Prompted, tokenizer: Any) -> Iterator[dict[str, Any]]:
    for index, (problem, text) in enumerate(zip(problems.problems, problems.texts, strict=True)):
        ids = problems.ids[problem.id]
        if tokenizer(text, add_special_tokens=False)["input_ids"] != ids:  # verl puts no begin token in front
            text = tokenizer.bos_token + text
        yield {
            "data_source": problem.source,
            "prompt": [{"role": "user", "content": text}],
            "ability": problem.verifier,
            "reward_model": {"style": "rule", "ground_truth": problem.answer},
            "extra_info": {**problem.meta, "index": index, "id": problem.id, "verifier": problem.verifier},
        }
