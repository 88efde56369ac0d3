"""What a run needs besides weights, checked alike by `--dry-run` and by the start of a run.

`rehearse` passes a group of made-up responses through the method and a verifier, so that an error that would stop the
run later is raised before its first step.
"""

import datetime
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from diver.core.files import to_json
from diver.core.settings import Errors, call_own
from diver.core.types import DiverError, Grade, Group, Problem, Progress, Reward, Rollout, State
from diver.grading import EnvironmentGrader, get_grader, verify
from diver.grading.custom import Custom
from diver.methods import NEEDS, check_needs
from diver.recipe.recipe import Recipe
from diver.sample.hf import end_tokens
from diver.sample.policy import ADAPTERS, Configuration, find_device, load_configuration, positions
from diver.tasks.splits import load
from diver.tasks.templates import TEMPLATES, Prompted, check_used, prompted
from diver.train.checkpoint import without_arrays
from diver.train.loggers import check_loggers


class Prepared(NamedTuple):
    """The prompts to train and to evaluate on, the tokenizer that rendered them, and notes for the log."""

    train: Prompted
    eval_problems: Prompted
    tokenizer: Any
    notes: list[str]


def prepare(recipe: Recipe) -> Prepared:
    """The data of a run, rendered.

    The method's needs, the device, the loggers, the data with its verifiers, and the model folder with its tokenizer
    and context length are checked independently. Template and number of problems are checked after that.

    Raises:
        DiverError: names everything that would stop the run later, except weights and memory.
    """
    # transformers loads adapters with all weights frozen, and peft would replace them with new adapters.
    if (Path(recipe.model.path).expanduser() / ADAPTERS).exists():
        raise DiverError(
            f"model.path {recipe.model.path!r}: has LoRA adapters, and diver train trains whole models or new "
            "adapters; merge them first (peft: merge_and_unload, then save_pretrained)"
        )
    errors, held_out = Errors(), recipe.evaluate
    with errors.collected():
        check_needs(recipe.method, "the built-in trainer", NEEDS)
    with errors.collected():
        find_device(recipe.model)
    with errors.collected():
        check_loggers(recipe.log)
    with errors.collected():
        train, eval_problems, notes = load(recipe.data, held_out.source, held_out.problems)
        _check_batch(recipe, len(train), notes)
        _check_environments(recipe, [*train, *eval_problems])
    with errors.collected():
        policy = load_configuration(recipe.model)
        _check_policy(recipe, policy)
    errors.raise_found()
    prepared = Prepared(
        _prompted(recipe, train, policy.tokenizer, notes),
        _prompted(recipe, eval_problems, policy.tokenizer, notes),
        policy.tokenizer,
        notes,
    )
    for purpose, prompts in (("train on", prepared.train), ("evaluate on", prepared.eval_problems)):
        if not prompts.problems and (prompts is prepared.train or held_out.problems):
            raise DiverError(f"no problem is left to {purpose}. {' '.join(notes)}")
    _check_batch(recipe, len(prepared.train.problems), notes)
    data_problems = train if held_out.source else [*train, *eval_problems]
    verifiers = Counter(problem.verifier for problem in data_problems)
    if recipe.data.verifier == "auto" and len(verifiers) > 1:
        counts = ", ".join(f"{n} problems by {name}" for name, n in verifiers.most_common())
        notes.append(f"graded {counts}, as their answers ask for (data.verifier = 'auto')")
    notes += sorted({get_grader(name).note for name in verifiers} - {""})
    notes += [_replay_note(recipe, verifiers)] if recipe.method.replay.alpha else []
    for data in (prepared.train, prepared.eval_problems):
        check_used(recipe.model.chat_template_kwargs, data.template, data.problems, "model.chat_template_kwargs")
    notes += [note] if (note := _date_note(recipe, policy.tokenizer, prepared.train)) else []
    template, word = prepared.train.template, "a" if policy.tokenizer.chat_template else "no"
    reason = f": the model has {word} chat template (data.template = 'auto')" if recipe.data.template == "auto" else ""
    evaluated = prepared.eval_problems  # may have another grader
    differs = bool(evaluated.problems) and evaluated.template != template
    other = f", in evaluation {evaluated.template!r}" if differs else ""
    notes.append(f"prompts by template {template!r}{other}{reason}")
    return prepared


def _replay_note(recipe: Recipe, verifiers: Iterable[str]) -> str:
    """A note on how the replay bank distinguishes solutions, and how much it can hold."""
    names_by_solution = defaultdict[str, list[str]](list)
    for grader in map(get_grader, sorted(verifiers)):
        solution = "its answer and the formulas written on the way to it"
        if isinstance(grader, EnvironmentGrader):
            solution = "the sequence of its actions"
        elif grader.exact_solutions:
            solution = "the verifier's canonical solution"
        names_by_solution[solution].append(grader.name)
    solutions = [f"{solution} ({', '.join(names)})" for solution, names in names_by_solution.items()]
    content = (
        "the latest correct responses"
        if recipe.method.replay.keep == "latest"
        else f"one response per solution, which is {' or '.join(sorted(solutions))}"
    )
    return (
        f"replay: the bank keeps {content}, at most {recipe.method.replay.capacity} per problem and "
        f"{recipe.method.replay.bank_gb:g} GB"
    )


def _prompted(recipe: Recipe, problems: Sequence[Problem], tokenizer: Any, notes: list[str]) -> Prompted:
    limit = recipe.sample.max_prompt_tokens
    result = prompted(problems, recipe.data.template, tokenizer, limit)
    if result.skipped:
        notes.append(
            f"{result.skipped} of {len(problems)} prompts are longer than sample.max_prompt_tokens ({limit}) and were "
            "skipped"
        )
    return result


def _date_note(recipe: Recipe, tokenizer: Any, prompts: Prompted) -> str:
    """A note on a chat template that writes today's date, as Llama 3.2's does: prompts would change during a run."""
    has_date = "strftime_now" in str(tokenizer.chat_template) and TEMPLATES[prompts.template].chat
    if not has_date or "date_string" in recipe.model.chat_template_kwargs:
        return ""
    today = datetime.date.today().strftime("%d %b %Y")
    return (
        "the chat template writes today's date into each prompt; to keep it: "
        f"--model.chat_template_kwargs date_string '{today}'"
    )


def _check_policy(recipe: Recipe, policy: Configuration) -> None:
    name, longest = recipe.model.path, recipe.sample.max_prompt_tokens + recipe.sample.max_tokens
    context = positions(policy.config)
    if context is not None and longest > context:
        full_context = getattr(policy.config.get_text_config(), "max_position_embeddings", None)
        beyond = "" if full_context == context else ", beyond which LongRoPE changes its factors for a whole batch"
        raise DiverError(
            f"sample: max_prompt_tokens + max_tokens = {longest} exceeds the {context} positions of {name!r}{beyond}; "
            "lower them, or start from a model with a longer context"
        )
    vocabulary = policy.config.get_text_config().vocab_size
    if unknown := [token for token in recipe.sample.stop_token_ids if token >= vocabulary]:
        raise DiverError(f"sample.stop_token_ids: {unknown[0]} is no token of {name!r}, which has {vocabulary}")
    if not end_tokens(policy, policy.tokenizer, recipe.sample.stop_token_ids):
        raise DiverError(f"model.path {name!r}: neither tokenizer nor model has an end token")
    try:
        policy.generation_config.validate(strict=True)
    except ValueError as error:
        advice = "transformers saves no checkpoint with its generation_config.json; correct or delete the file"
        raise DiverError(f"model.path {name!r}: {advice} ({' '.join(str(error).split())})") from None


def _check_environments(recipe: Recipe, problems: Iterable[Problem]) -> None:
    graders = map(get_grader, sorted({problem.verifier for problem in problems}))
    environments = [grader.name for grader in graders if isinstance(grader, EnvironmentGrader)]
    if "turns" in recipe.method.needs and not environments:
        raise DiverError(
            f"method {recipe.method.name!r} needs turns, and {recipe.data.path!r} has responses of one turn; name an "
            "environment in data.verifier, or choose another method"
        )
    if environments and recipe.run.engine != "builtin":
        reason = f"--engine {recipe.run.engine} has responses of one turn; use builtin"
        raise DiverError(f"environment {environments[0]}: {reason}")


def _check_batch(recipe: Recipe, problems: int, notes: Sequence[str]) -> None:
    if recipe.train.batch_size > problems:
        raise DiverError(
            f"train.batch_size: {recipe.train.batch_size} problems in a step, but {recipe.data.path!r} has only "
            f"{problems} to train on; lower it, and train.mini_batch_size, which must divide it"
            + "".join(f"; {note}" for note in notes)
        )


def prepare_and_rehearse(recipe: Recipe) -> Prepared:
    """Check all that can be checked before weights are loaded; DiverError for what would stop the run later."""
    prepared = prepare(recipe)
    prepared.notes.extend(rehearse(recipe, prepared.train, prepared.tokenizer))
    return prepared


def rehearse(recipe: Recipe, train: Prompted, tokenizer: Any) -> list[str]:
    """Pass made-up responses through the method and a user's verifier.

    Returns:
        Notes on the verifier.

    Raises:
        DiverError: the method fails, such as for a missing encoder, or its state cannot be saved.
    """
    problem = train.problems[0]
    prompt = train.ids[problem.id]
    decode = partial(tokenizer.decode, skip_special_tokens=True)
    rollouts = []
    for i in range(recipe.sample.group_size * recipe.method.selection.multiplier):  # alternately correct and wrong
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
    arguments = [group], Progress(0, recipe.train.steps), decode, state
    (shaped,) = call_own(f"method.name {method.name!r}", method.apply, *arguments) or (None,)
    if shaped and method.selection.outcomes != "all" and not method.overlong:
        advantages = [r.token_advantages if r.token_advantages is not None else r.advantage for r in shaped.rollouts]
        # Where the reward differs from the outcome, real responses could have advantages other than 0.
        if not any(map(np.any, advantages)) and not any(shaped.rewards != shaped.outcomes):
            raise DiverError(
                f"method {method.name!r}: selection.outcomes = {method.selection.outcomes!r} leaves responses with "
                "equal rewards, whose advantages are all 0; psr trains on correct responses, nsr on wrong ones"
            )
    try:
        values, arrays = without_arrays(state)
        survives = json.loads(to_json(values)) == values and all(a.dtype == np.int32 and a.ndim == 1 for a in arrays)
    except (TypeError, ValueError):  # JSON cannot store it, e.g. a set
        survives = False
    if not survives:
        raise DiverError(
            f"method {method.name!r}: its state changes when it is saved as JSON and read again. Use dicts with text "
            "as keys, lists, texts, numbers, None, and arrays of int32 [n] as values of dicts"
        )
    return _verifier_notes(recipe, problem) if isinstance(get_grader(problem.verifier), Custom) else []


def _verifier_notes(recipe: Recipe, problem: Problem) -> list[str]:
    """A note if a user's verifier accepts the reference answer neither plain nor in a box.

    A blank answer has no note: such a task is judged by its rules.
    """
    if not problem.answer.strip():
        return []
    responses = (problem.answer, rf"The answer is \boxed{{{problem.answer}}}.")
    (graded,) = verify([Group(problem, tuple(map(Rollout, responses)))], recipe.verify)
    grades = [rollout.grade for rollout in graded.rollouts]
    if Grade.CORRECT in grades:
        return []
    names = ", ".join(dict.fromkeys(str(grade) for grade in grades))
    return [
        f"verifier {problem.verifier}: gives the reference answer of problem {problem.id!r} itself, "
        f"{problem.answer[:60]!r}, plain and in a box, the grade {names}; it is called with the response and the "
        "Problem, whose answer is problem.answer"
    ]
