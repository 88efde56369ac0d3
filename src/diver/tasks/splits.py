"""Training and evaluation problems."""

import random
from dataclasses import replace

from diver.core.seeds import stream_seed
from diver.core.types import Problem
from diver.recipe.data import Data, Source
from diver.recipe.sections import Evaluation
from diver.tasks.sources import load_problems, question_only
from diver.tasks.testbeds import generate, is_testbed


def load(data: Data, eval_source: Source | None, eval_count: int) -> tuple[list[Problem], list[Problem], list[str]]:
    """Training problems, `eval_count` held-out ones, and notes for the log.

    Without `eval_source`, a testbed generates its held-out problems. For other data they are a random part of the
    training data, which is then not trained on. This part is the same for every `run.seed`, so that seeds can be
    compared.
    """
    train, notes = _read(data, data, "data")
    if eval_source is None and is_testbed(data.path):
        eval_source = replace(data, limit=None)
    key = f"evaluate.problems = {eval_count}"
    if not eval_count:
        held_out: list[Problem] = []
    elif eval_source is None:
        train, held_out = _hold_out(train, eval_count)
        key += ", which is more than half" * (len(held_out) < eval_count)
    else:
        held_out, eval_notes = _read(eval_source, data, "evaluate.source", eval_count)
        notes += eval_notes
        if data.verifier != "auto" and (verifiers := {p.verifier for p in held_out} - {data.verifier}):
            notes.append(
                f"{eval_source.path}: graded by {', '.join(sorted(verifiers))}, and {data.path} by {data.verifier}; "
                "evaluate.source.verifier names another grader"
            )
    sizes = (
        f"{len(train):,} of {data.path} to train on, {len(held_out):,} of {(eval_source or data).path} to evaluate on"
    )
    notes.insert(0, f"problems: {sizes} ({key})")
    trained = set(map(_words, train))
    if overlap := sum(_words(problem) in trained for problem in held_out):
        notes.append(
            f"{overlap} of the {len(held_out)} problems to evaluate on are trained on, too: they are not held out"
        )
    if data.messages == "question":
        return [question_only(p) for p in train], [question_only(p) for p in held_out], notes
    return train, held_out, notes


def _read(source: Source, data: Data, key: str, eval_count: int = 0) -> tuple[list[Problem], list[str]]:
    """The problems of a source. A testbed gives its training problems, or `eval_count` held-out ones."""
    if is_testbed(source.path):
        return generate(source, data, eval_count or None, held_out=bool(eval_count), key=key), []
    loaded = load_problems(source, key)
    if not eval_count or len(loaded) <= eval_count:
        return list(loaded), loaded.notes
    note = f"{source.path}: the first {eval_count} of {len(loaded)} problems are evaluated on (evaluate.problems)"
    return list(loaded)[:eval_count], [*loaded.notes, note]


def _words(problem: Problem) -> str:
    """The prompt as words: other line breaks or spaces do not make it another problem."""
    prompt = problem.prompt
    messages = [("user", prompt)] if isinstance(prompt, str) else [(m.get("role"), m.get("content")) for m in prompt]
    return repr([(role, str(content).split()) for role, content in messages])


def _hold_out(problems: list[Problem], count: int) -> tuple[list[Problem], list[Problem]]:
    """The training problems, at least one, and `count` held-out ones; the default count takes at most half."""
    most = len(problems) // 2 if count == Evaluation.problems else len(problems) - 1
    # The seed is 0 and not run.seed, so that runs with different seeds have the same held-out problems.
    order = random.Random(stream_seed(0, "held out")).sample(range(len(problems)), len(problems))
    train, held_out = order[min(count, most) :], order[: min(count, most)]
    return [problems[i] for i in sorted(train)], [problems[i] for i in sorted(held_out)]
