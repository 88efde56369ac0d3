"""A group of made-up responses through a method and a verifier, so that an error that would stop the run later is
raised before its first step."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from diver.core.jsonl import to_json
from diver.core.settings import call_own
from diver.core.state import without_arrays
from diver.core.types import DiverError, Grade, Group, Problem, Progress, Reward, Rollout, State
from diver.recipe.recipe import Recipe
from diver.sample.policy import ADAPTERS
from diver.tasks.templates import Prompted
from diver.tasks.verify import verify
from diver.train.prepare import Prepared, prepare


def prepare_and_rehearse(recipe: Recipe) -> Prepared:
    """All that the built-in trainer checks before it loads weights; DiverError for what would stop the run later."""
    # Adapters are loaded with their weights frozen, and the built-in trainer trains all weights.
    if (Path(recipe.model.path).expanduser() / ADAPTERS).exists():
        raise DiverError(
            f"model.path {recipe.model.path!r}: has LoRA adapters, and diver train trains whole models; merge them "
            "first (peft: merge_and_unload, then save_pretrained), or train with --engine trl"
        )
    prepared = prepare(recipe)
    prepared.notes.extend(rehearse(recipe, prepared.train, prepared.tokenizer))
    return prepared


def rehearse(recipe: Recipe, train: Prompted, tokenizer: Any) -> list[str]:
    """Notes on a user's verifier. DiverError for any error of the method, such as a missing encoder."""
    problem = train.problems[0]
    prompt = train.ids[problem.id]
    decode = partial(tokenizer.decode, skip_special_tokens=True)
    rollouts = []
    for i in range(recipe.sample.group_size * recipe.method.selection.multiplier):  # every other one is correct
        tokens = [*prompt[: 1 + i % len(prompt)]]
        text, correct = decode(tokens), i % 2 == 0
        rollouts.append(
            Rollout(
                text,
                tokens=tokens,
                logprobs=np.full(len(tokens), -1.0, np.float32),
                index=i,
                grade=Grade.CORRECT if correct else Grade.WRONG,
                key=text,
                reward=Reward(float(correct)),
            )
        )
    group = Group(problem, tuple(rollouts), prompt=train.texts[0], prompt_tokens=tuple(prompt))

    method, state = recipe.method.limited(recipe.sample.max_tokens), State()
    given = [group], Progress(0, recipe.train.steps), decode, state
    if ":" in method.name:
        (shaped,) = call_own(f"method.name {method.name!r}", method.apply, *given) or (None,)
    else:
        (shaped,) = method.apply(*given) or (None,)
    if shaped and method.selection.outcomes != "all" and not method.overlong:
        parts = [r.token_advantages if r.token_advantages is not None else r.advantage for r in shaped.rollouts]
        # With other texts an advantage could differ from 0 where a reward goes beyond the outcome.
        if not any(map(np.any, parts)) and not any(shaped.rewards != shaped.outcomes):
            raise DiverError(
                f"method {method.name!r}: selection.outcomes = {method.selection.outcomes!r} leaves responses with "
                "equal rewards, whose advantages are all 0; psr trains on correct responses, nsr on wrong ones"
            )
    try:
        values, arrays = without_arrays(state)
        kept = json.loads(to_json(values)) == values and all(a.dtype == np.int32 and a.ndim == 1 for a in arrays)
    except (TypeError, ValueError):  # such as a set
        kept = False
    if not kept:
        raise DiverError(
            f"method {method.name!r}: its state changes when it is saved as JSON and read again. Use dicts with text "
            "as keys, lists, texts, numbers, None, and arrays of int32 [n] as values of dicts"
        )
    return _verifier_notes(recipe, problem) if ":" in problem.verifier else []


def _verifier_notes(recipe: Recipe, problem: Problem) -> list[str]:
    """A note if a user's verifier accepts the reference answer neither plain nor in a box.

    There is no note if the answer is blank, as in a task that is judged by its rules.
    """
    if not problem.answer.strip():
        return []
    responses = (problem.answer, rf"The answer is \boxed{{{problem.answer}}}.")
    (graded,) = verify([Group(problem, tuple(map(Rollout, responses)))], recipe.verify)
    grades = [rollout.grade for rollout in graded.rollouts]
    if Grade.CORRECT in grades:
        return []
    found = ", ".join(dict.fromkeys(str(grade) for grade in grades))
    return [
        f"verifier {problem.verifier}: gives the reference answer of problem {problem.id!r} itself, "
        f"{problem.answer[:60]!r}, plain and in a box, the grade {found}; it is called with the response and the "
        "Problem, whose answer is problem.answer"
    ]
