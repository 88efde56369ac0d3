"""From the nested rows of one project each to plain rows, which `layouts` then reads by the names of their columns."""

import html
import math
from collections.abc import Iterator, Mapping
from typing import Any

from diver.core.jsonl import number, table
from diver.core.types import DiverError
from diver.look.read.columns import NO_OUTCOMES, SESSION
from diver.look.read.values import content_text, identity, is_number, is_outcome

Row = Mapping[str, Any]
# Correct, incorrect, partial, no answer. Half for a partial one, as in inspect's mean, would be correct;
# its pass_at says it is not.
INSPECT_VALUES = {"C": 1.0, "I": 0.0, "P": 0.0, "N": 0.0}


def verl(where: str, row: Row) -> Iterator[Row]:
    """The group of a `uid` is what stands before the numbers of the rollout and of the output.

    A `uid` without them tells problems with equal inputs apart, as other ids do.
    """
    found = SESSION.fullmatch(str(row.get("uid")))
    yield {**row, "session": found and found[1]}


def slime(where: str, row: Row) -> Iterator[Row]:
    yield {**row, "truncated": row["status"] == "truncated"}


def skyrl(where: str, row: Row) -> Iterator[Row]:
    """A score is a number, or one of each token."""
    score = row["score"]
    total = math.fsum(map(number, score)) if isinstance(score, list) else score
    yield {**row, "score": total, "truncated": row["stop_reason"] == "length"}


def nemo_rl(where: str, row: Row) -> Iterator[Row]:
    """`content` is in training the prompt, then responses and observations by turns; in validation messages.

    Every value stands in a list of its own; padded log-probs and advantages are those of the tokens of the loss mask.
    """
    one = {key: value[0] if isinstance(value, list) and len(value) == 1 else value for key, value in row.items()}
    content = one["content"]
    if not isinstance(content, list) or not content:
        raise DiverError(f"{where}: content must be a list of texts or of messages, not {content!r:.60}")
    if all(isinstance(part, str) for part in content):
        prompt: Any = content[0]
        response: Any = "\n".join(content[1::2])
    else:
        first = next((i for i, m in enumerate(content) if m.get("role") == "assistant"), len(content))
        prompt, response = content[:first], content[first:] or ""
    mask = one.get("token_loss_mask") or []
    of_mask = {
        name: [value for value, kept in zip(one[name], mask, strict=False) if kept]
        for name in ("generation_logprobs", "advantages")
        if isinstance(one.get(name), list)
    }
    yield {
        "prompt": prompt,
        "response": response,
        "reward": one["rewards"],
        "logprobs": of_mask.get("generation_logprobs") or None,
        "advantage": next(iter(of_mask.get("advantages", ())), None),
        "length": sum(map(bool, mask)) or None,
    }


def prime_rl(where: str, row: Row) -> Iterator[Row]:
    """An episode of verifiers: a row for each trace of an agent that is trained."""
    about = {
        "group": table(row, "group").get("id"),
        "step": table(row, "run", "work").get("step"),
        "source": table(row, "env").get("name") or table(row, "env").get("id"),
        "answer": table(row, "task", "data").get("answer"),
    }
    for trace in row["traces"]:
        if table(trace, "agent").get("trainable", True) is False:
            continue
        nodes = [node for node in trace.get("nodes") or [] if isinstance(node.get("message"), Mapping)]
        sampled = [node for node in nodes if node.get("sampled")]
        first = next((i for i, node in enumerate(nodes) if node.get("sampled")), len(nodes))
        rewards = [r for r in (trace.get("rewards") or {}).values() if isinstance(r, Mapping)]
        ends = [call.get("finish_reason") for call in trace.get("calls") or [] if isinstance(call, Mapping)]
        yield {
            **about,
            "prompt": [_message(node["message"]) for node in nodes[:first]] or table(row, "task", "data").get("prompt"),
            "response": "\n".join(content_text(node["message"].get("content")) for node in sampled),
            "reward": math.fsum(r["score"] * r.get("weight", 1.0) for r in rewards) if rewards else None,
            "logprobs": [x for node in sampled for x in node.get("logprobs") or ()] or None,
            "advantage": next((x for node in sampled for x in node.get("advantages") or ()), None),
            "truncated": ends[-1:] == ["length"],
        }


def inspect_ai(where: str, row: Row) -> Iterator[Row]:
    """A sample of a log: a row per choice. It `failed` where it has an error, or neither a choice nor a score.

    A score of several choices does not say whose it is.
    """
    scores = table(row, "scores")
    choices = table(row, "output").get("choices") or []
    known = scores if len(choices) < 2 else {}
    target = row["target"]
    about = {
        "model": row.get("model"),
        "task": row.get("task"),
        "id": row["id"],
        "prompt": row["input"],
        "answer": ", ".join(map(str, target)) if isinstance(target, list) else target,
        "options": row.get("choices"),
        "scores": {name: _inspect_value(table(score).get("value")) for name, score in known.items()},
        "score": _inspect_value(table(next(iter(known.values()), None)).get("value")) if len(known) == 1 else None,
        "failed": row.get("error") is not None or not (choices or scores),
    }
    for choice in choices or [{}]:
        yield {
            **about,
            "response": content_text(table(choice, "message").get("content")),
            "truncated": choice.get("stop_reason") in ("max_tokens", "model_length"),
        }


def _inspect_value(value: Any) -> Any:
    """An outcome; None for a score of words or of several parts."""
    value = INSPECT_VALUES.get(value, value) if isinstance(value, str) else value
    return value if is_outcome(value) else None


def lm_eval(where: str, row: Row) -> Iterator[Row]:
    """A document, with all its responses. Of several the metric scores one, and does not say which.

    Versions before 0.4.1 have the arguments as a list, and no names of the metrics.
    """
    arguments, resps = row["arguments"], row["resps"]
    if isinstance(arguments, list):
        request = arguments[0] if arguments and isinstance(arguments[0], list) else arguments
        prompt, settings = request if len(request) == 2 else (None, None)
    else:
        prompt, settings = (table(arguments, "gen_args_0").get(name) for name in ("arg_0", "arg_1"))
    if not isinstance(settings, Mapping):
        raise DiverError(f"{where}: a task of log-likelihoods has no responses; give samples of one that generates")
    if not isinstance(resps, list):
        raise DiverError(f"{where}: resps must be a list of lists of texts, not {resps!r:.60}")
    texts = [text for of_request in resps for text in (of_request if isinstance(of_request, list) else [of_request])]
    metrics = row.get("metrics") or [
        name for name, value in row.items() if name != "doc_id" and name not in NO_OUTCOMES and is_number(value)
    ]
    single = len(texts) == 1
    known = {name: row.get(name) if single else None for name in metrics}
    target, name = row.get("target"), identity(row.get("doc_id"))
    yield {
        **known,
        "filter": row.get("filter"),
        "group": identity(row.get("doc_hash")) or name,
        "id": None if name is None else f"doc-{name}",
        "prompt": prompt,
        "answer": "" if target is None else str(target),
        "response": texts,
        "score": row.get(metrics[0]) if single and len(metrics) == 1 else None,
    }


def logtree_attempts(root: Row) -> Iterator[dict[str, Any]]:
    """The attempts that `ProblemEnv` of tinker-cookbook logs: sections Prompt, Policy Response and Reward in order."""
    attempt: dict[str, Any] = {}
    for title, section in _sections(root):
        messages = next((table(n, "data").get("messages") for n in _nodes(section) if table(n, "data")), None)
        if title == "Prompt":
            attempt = {"prompt": messages}
        elif title == "Policy Response" and attempt:
            attempt["response"] = "\n".join(content_text(m.get("content")) for m in messages or ())
        elif title == "Reward" and "response" in attempt:
            cells = [html.unescape("".join(_texts(n))) for n in _nodes(section) if n.get("tag") == "td"]
            yield {**attempt, **dict(zip(cells[::2], cells[1::2], strict=False))}
            attempt = {}


def _sections(node: Any) -> Iterator[tuple[str, Row]]:
    for part in _nodes(node):
        if part.get("tag") == "section":
            inside = (n for n in part.get("children", ()) if isinstance(n, Mapping))
            heading = next((n for n in inside if str(n.get("tag", "")).startswith("h")), None)
            yield "".join(_texts(heading)), part


def _nodes(node: Any) -> Iterator[Row]:
    if isinstance(node, Mapping):
        yield node
        for child in node.get("children") or ():
            yield from _nodes(child)


def _texts(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, Mapping):
        for child in node.get("children") or ():
            yield from _texts(child)


def _message(message: Row) -> dict[str, str]:
    return {"role": str(message.get("role", "user")), "content": content_text(message.get("content"))}
