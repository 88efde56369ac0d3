"""Stored responses as the model wrote them: without the prompt in front, and up to their end.

transformers' pipelines return the prompt and the response as one text (`generated_text`), other programs the chat with
its marks. The first responses of a file decide whether it has such texts, since a response may restate its question.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from diver.core.endings import until_end_mark, until_next_question
from diver.core.types import Problem
from diver.rollouts.columns import Part

AHEAD = 1000  # parts by which it is decided whether the responses of a file begin with their prompts
SHORTEST = 4  # characters of a prompt: an id or a letter may begin a response by chance
NAMED = 5  # rows that a note names
_MARK = r"<[|｜][^<>]{1,40}[|｜]>|<s>|<start_of_turn>|<end_of_turn>|\[/?INST\]"
_HEADER = re.compile(
    rf"\s*(?:{_MARK}|(?:system|user|human)\s*[:\n]).{{0,9999}}?(?:{_MARK}|user|human)?[\s:]*", re.IGNORECASE | re.DOTALL
)
_REPLY = re.compile(rf"(?:{_MARK}|\s|(?:assistant|model)(?=[:\n<]):?)*", re.IGNORECASE)


def cut(parts: Iterator[Part], path: Path, notes: list[str], keep_prompt: bool) -> Iterator[Part]:
    """The parts of a file with their responses cut; `notes` receive the numbers of these responses."""
    ahead = list(islice(parts, AHEAD))
    begins = [_after_prompt(r.response, part.group.problem) > 0 for part in ahead for r in part.group.rollouts]
    most = 2 * sum(begins) > len(begins)
    keep = keep_prompt or not most
    total, rows, ended = 0, [], 0
    for part in chain(ahead, parts):
        rollouts, problem = [], part.group.problem
        for rollout in part.group.rollouts:
            start = 0 if rollout.turns else _after_prompt(rollout.response, problem)
            text = rollout.response[start:]
            end = text if rollout.turns else until_next_question(until_end_mark(text), problem.question)
            rows += [rollout.place[1] if rollout.place else 0] if start else []
            total, ended = total + 1, ended + (end != text)
            shortened = rollout.response[: start * keep] + end
            rollouts.append(rollout if shortened == rollout.response else rollout.replace(response=shortened))
        yield part._replace(group=replace(part.group, rollouts=tuple(rollouts)))
    if rows and not (keep_prompt and most):
        row_list = ", ".join(map(str, rows[:NAMED])) + ", ..." * (len(rows) > NAMED)
        what = f" (rows {row_list}): not cut off" if keep else ": cut off (--keep-prompt)"
        notes.append(f"{path}: {len(rows):,} of {total:,} responses begin with their prompt{what}")
    if ended:
        note = "go on after an end mark of the model or with another question: they are read up to there"
        notes.append(f"{path}: {ended:,} of {total:,} responses {note}")


def _after_prompt(text: str, problem: Problem) -> int:
    """The index where the response begins after its prompt and a chat header; 0 if the text does not begin so."""
    question = problem.question.strip()
    start = text.find(question) if len(question) >= SHORTEST else -1
    end = start + len(question)
    if start < 0 or (question[-1].isalnum() and text[end : end + 1].isalnum()):
        return 0
    if not text[:start].strip():
        return end
    reply = _REPLY.match(text, end) if _HEADER.fullmatch(text, 0, start) else None
    return reply.end() if reply else 0
