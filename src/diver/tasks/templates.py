"""Prompts: a question becomes the text that the policy continues, by a template of templates.toml, and its tokens."""

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from diver.core.endings import NEXT_QUESTION
from diver.core.files import packaged_table
from diver.core.progress import progress
from diver.core.settings import choose
from diver.core.types import DiverError, Problem
from diver.grading import get_grader, opens_thought

QUESTION = "{QUESTION}"
PART = 256  # prompts tokenised at a time; a million at once would take 20 GB
MANY = 10_000  # from here on, tokenising takes seconds


@dataclass(frozen=True)
class Template:
    """`user` holds {QUESTION} once; `assistant` is the beginning of every response, put into the prompt.

    As flat text (`chat` False): the parts that are not empty, each after its label, with empty lines between them. As
    roles (`chat` True): through the tokenizer's chat template, `assistant` after the generation prompt. With a text of
    `stop` a base model begins another question; a chat model has end marks.
    """

    user: str = QUESTION
    system: str = ""
    assistant: str = ""
    chat: bool = False
    user_label: str = ""
    assistant_label: str = ""
    stop: tuple[str, ...] = NEXT_QUESTION

    def stop_texts(self, prompt: Any) -> tuple[str, ...]:
        """The texts that end a response to the rendered prompt; none for a thought, which may contain such a line."""
        return () if self.chat or not isinstance(prompt, str) or opens_thought(prompt) else tuple(self.stop)


class ChatPrompt(str):
    """A prompt written by a chat template: all its special tokens are in the text."""


TEMPLATES = {name: Template(**fields) for name, fields in packaged_table("diver.tasks", "templates.toml").items()}
TEMPLATES["paper-chat"] = replace(TEMPLATES["paper"], chat=True, user_label="", assistant_label="")


def template_for(name: str, problems: Sequence[Problem], tokenizer: Any) -> str:
    """The name of a template: auto becomes `chat_template_for` if the model has a chat template, else plain."""
    if name != "auto":
        return name
    return chat_template_for(problems) if getattr(tokenizer, "chat_template", None) else "plain"


def chat_template_for(problems: Sequence[Problem]) -> str:
    """The template that asks a chat model for the answer format that the graders of the problems read."""
    templates = {get_grader(problem.verifier).template for problem in problems}
    return templates.pop() if len(templates) == 1 else "chat"


def render(problem: Problem, template: str = "plain", tokenizer: Any = None) -> str:
    """The prompt of a problem, as text.

    A prompt that already is chat messages goes through the tokenizer's chat template unchanged, without the system text
    and instructions of this template. What comes through a chat template already has its special tokens: encode it with
    `add_special_tokens=False`. DiverError: an unknown name, or no chat template if one is needed.
    """
    choose(template, TEMPLATES, "prompt template")
    layout, problem = TEMPLATES[template], get_grader(problem.verifier).posed(problem)
    if not isinstance(problem.prompt, str):
        return _through_chat(tokenizer, chat_messages(problem, layout), "", f"problem {problem.id!r}")
    if layout.chat:
        return _through_chat(tokenizer, chat_messages(problem, layout), layout.assistant, f"the template {template!r}")
    question = layout.user_label + layout.user.replace(QUESTION, problem.prompt)
    return "\n\n".join(filter(None, (layout.system, question, layout.assistant_label + layout.assistant)))


def chat_messages(problem: Problem, layout: Template) -> list[dict[str, str]]:
    """The messages that ask a problem: its prompt, if that is messages.

    Raises:
        DiverError: the messages end with a response.
    """
    if not isinstance(problem.prompt, str):
        if problem.prompt[-1]["role"] == "assistant":  # e.g. in supervised data; it may be the answer
            raise DiverError(
                f"problem {problem.id!r}: its last message is the assistant's; end a prompt with the user's"
            )
        return [dict(message) for message in problem.prompt]
    system = [{"role": "system", "content": layout.system}] if layout.system else []
    return [*system, {"role": "user", "content": layout.user.replace(QUESTION, problem.prompt)}]


def _through_chat(tokenizer: Any, messages: list[dict[str, str]], prefix: str, who: str) -> str:
    if tokenizer is None or not getattr(tokenizer, "chat_template", None):
        name = getattr(tokenizer, "name_or_path", "") or "no tokenizer was given"
        advice = "use a flat template such as 'plain' or 'paper', or an instruct model"
        raise DiverError(f"{who} needs a tokenizer with a chat template ({name}): {advice}")
    try:
        prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # templates are programs of their authors: some refuse a system message
        raise DiverError(f"{who}: the tokenizer's chat template refuses these messages: {error}") from error
    return ChatPrompt(prompt if prefix and prompt.rstrip().endswith(prefix) else prompt + prefix)


def between_turns(template: str, tokenizer: Any, ends: Iterable[int]) -> tuple[str, str]:
    """The text before and after an observation, from the end of the policy's turn to the beginning of its next turn.

    One of the tokens `ends` ended the policy's turn; it is not repeated.

    Raises:
        DiverError: the chat template does not render a reply and an observation in turn.
    """
    layout, reply, observation = TEMPLATES[template], "diver-reply-7c1f", "diver-observation-7c1f"
    if not layout.chat:
        before, after = layout.user_label, layout.assistant_label + layout.assistant
        return f"\n\n{before}", f"\n\n{after}" if after else ""
    turns = [("user", "QUESTION"), ("assistant", reply), ("user", observation)]
    messages = [{"role": role, "content": content} for role, content in turns]
    parts = _through_chat(tokenizer, messages, layout.assistant, f"the template {template!r}").split(reply)
    text = parts[-1]
    if [part.count(observation) for part in parts] != [0, 1]:
        raise DiverError(
            f"the template {template!r}: its chat template does not render messages in turn; choose 'plain'"
        )
    end_mark = next((mark for end in ends if text.startswith(mark := tokenizer.decode([end]))), "")
    before, _, after = text.removeprefix(end_mark).partition(observation)
    return before, after


def check_used(variables: Mapping[str, Any], template: str, problems: Sequence[Problem], where: str) -> None:
    """DiverError for variables of a chat template that no prompt uses."""
    if variables and not TEMPLATES[template].chat and all(isinstance(problem.prompt, str) for problem in problems):
        raise DiverError(
            f"{where}: the template {template!r} does not use the model's chat template; 'chat' and 'boxed' do"
        )


def with_chat_template_kwargs(tokenizer: Any, variables: Mapping[str, Any], where: str) -> Any:
    """The tokenizer, whose chat template gets these variables from now on.

    DiverError, whose message begins with `where`, for a variable that the template does not use.
    """
    templates = getattr(tokenizer, "chat_template", None) or ""
    text = "\n".join(templates.values()) if isinstance(templates, Mapping) else templates
    for name in variables:
        if not re.search(rf"\b{re.escape(name)}\b", text):
            reason = "has no such variable" if text else "is missing"
            raise DiverError(f"{where}.{name}: the chat template of {tokenizer.name_or_path!r} {reason}")
    if variables:
        tokenizer.apply_chat_template = functools.partial(tokenizer.apply_chat_template, **variables)
    return tokenizer


def encode(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Token ids of rendered prompts.

    A flat prompt without the begin token of the tokenizer gets it in front. A chat template writes its begin token into
    the text, or has none.
    """
    front = [i for i in tokenizer("")["input_ids"] if i == tokenizer.bos_token_id]
    rows: list[list[int]] = []
    starts = range(0, len(texts), PART)
    for start in progress(starts, "tokenise prompts", "part") if len(texts) > MANY else starts:
        # verbose: callers bound the length themselves, so the tokenizer need not warn of it.
        batch = tokenizer([*texts[start : start + PART]], add_special_tokens=False, verbose=False)["input_ids"]
        chats = (isinstance(text, ChatPrompt) for text in texts[start : start + PART])
        rows += [row if chat or row[:1] == front[:1] else front + row for row, chat in zip(batch, chats, strict=True)]
    return rows


class Prompted(NamedTuple):
    """Problems with their prompts as rendered by `template`, and token ids by problem id; `skipped` were too long."""

    problems: list[Problem]
    texts: list[str]
    ids: dict[str, list[int]]
    skipped: int
    template: str


def prompted(problems: Sequence[Problem], template: str, tokenizer: Any, longest: int) -> Prompted:
    """Render and tokenise the prompts; those of more than `longest` tokens are left out."""
    template = template_for(template, problems, tokenizer)
    texts = [render(p, template, tokenizer) for p in problems]
    ids = encode(tokenizer, texts)
    short = [i for i, row in enumerate(ids) if len(row) <= longest]
    return Prompted(
        [problems[i] for i in short],
        [texts[i] for i in short],
        {problems[i].id: ids[i] for i in short},
        len(problems) - len(short),
        template,
    )
