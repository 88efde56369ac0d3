"""What a run needs besides weights, checked alike by `--dry-run` and by the start of a run."""

import datetime
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from diver.core.settings import Errors
from diver.core.types import DiverError, Problem
from diver.methods import NEEDS, check_needs
from diver.recipe.recipe import Recipe
from diver.sample.hf import end_tokens
from diver.sample.policy import Configuration, find_device, load_configuration, positions
from diver.tasks.splits import load
from diver.tasks.templates import TEMPLATES, Prompted, check_used, prompted
from diver.tasks.verify import get_grader
from diver.train.loggers import check_loggers


class Prepared(NamedTuple):
    """The prompts to train and to evaluate on, the tokenizer by which they were rendered, and notes for the log."""

    train: Prompted
    eval_problems: Prompted
    tokenizer: Any
    notes: list[str]


def prepare(recipe: Recipe) -> Prepared:
    """The data of a run, rendered.

    These are checked independently: what the method needs, device, loggers, data and verifiers, model folder and
    tokenizer, and context length. Template and number of problems are checked after that.

    Raises:
        DiverError: names all that would stop the run later, weights and memory excepted.
    """
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
    with errors.collected():
        policy = load_configuration(recipe.model)
        _check_context(recipe, policy)
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
    of_data = train if held_out.source else [*train, *eval_problems]
    verifiers = Counter(problem.verifier for problem in of_data)
    if recipe.data.verifier == "auto" and len(verifiers) > 1:
        each = ", ".join(f"{n} problems by {name}" for name, n in verifiers.most_common())
        notes.append(f"graded {each}, as their answers ask for (data.verifier = 'auto')")
    notes += sorted({get_grader(name).note for name in verifiers} - {""})
    notes += [_replay_note(recipe, verifiers)] if recipe.method.replay else []
    for part in (prepared.train, prepared.eval_problems):
        check_used(recipe.model.chat_template_kwargs, part.template, part.problems, "model.chat_template_kwargs")
    notes += [note] if (note := _date_note(recipe, policy.tokenizer, prepared.train)) else []
    template, chat = prepared.train.template, "a" if policy.tokenizer.chat_template else "no"
    reason = f": the model has {chat} chat template (data.template = 'auto')" if recipe.data.template == "auto" else ""
    evaluated = prepared.eval_problems
    other = bool(evaluated.problems) and evaluated.template != template  # what is evaluated may have another grader
    notes.append(
        f"prompts by template {template!r}{f', in evaluation {evaluated.template!r}' if other else ''}{reason}"
    )
    return prepared


def _replay_note(recipe: Recipe, verifiers: Iterable[str]) -> str:
    """How the replay bank recognises a solution, and the most it can hold."""
    exact = {name: get_grader(name).exact_solutions for name in verifiers}
    by = {True: "the verifier's canonical solution", False: "its answer and the formulas written on the way to it"}
    known = [f"{by[found]} ({', '.join(sorted(n for n in exact if exact[n] is found))})" for found in {*exact.values()}]
    what = (
        "the latest correct responses"
        if recipe.method.replay.keep == "latest"
        else f"one response per solution, which is {' or '.join(sorted(known))}"
    )
    return (
        f"replay: the bank keeps {what}, at most {recipe.method.replay.capacity} per problem and "
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
    """The note about a chat template that writes today's date, as that of Llama 3.2: prompts would change in a run."""
    written = "strftime_now" in str(tokenizer.chat_template) and TEMPLATES[prompts.template].chat
    if not written or "date_string" in recipe.model.chat_template_kwargs:
        return ""
    today = datetime.date.today().strftime("%d %b %Y")
    return (
        "the chat template writes today's date into each prompt; to keep it: "
        f"--model.chat_template_kwargs date_string '{today}'"
    )


def _check_context(recipe: Recipe, policy: Configuration) -> None:
    name, longest = recipe.model.path, recipe.sample.max_prompt_tokens + recipe.sample.max_tokens
    context = positions(policy.config)
    if context is not None and longest > context:
        whole = getattr(policy.config.get_text_config(), "max_position_embeddings", None)
        switch = "" if whole == context else ", beyond which LongRoPE changes its factors for a whole batch"
        raise DiverError(
            f"sample: max_prompt_tokens + max_tokens = {longest} exceeds the {context} positions of {name!r}{switch}; "
            "lower them, or start from a model with a longer context"
        )
    words = policy.config.get_text_config().vocab_size
    if unknown := [token for token in recipe.sample.stop_token_ids if token >= words]:
        raise DiverError(f"sample.stop_token_ids: {unknown[0]} is no token of {name!r}, which has {words}")
    if not end_tokens(policy, policy.tokenizer, recipe.sample.stop_token_ids):
        raise DiverError(f"model.path {name!r}: neither tokenizer nor model has an end token")


def _check_batch(recipe: Recipe, problems: int, notes: Sequence[str]) -> None:
    if recipe.train.batch_size > problems:
        raise DiverError(
            f"train.batch_size: {recipe.train.batch_size} problems in a step, but {recipe.data.path!r} has only "
            f"{problems} to train on; lower it, and train.mini_batch_size, which must divide it"
            + "".join(f"; {note}" for note in notes)
        )
