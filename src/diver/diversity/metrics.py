"""Diversity of the responses of one group: strings (or token ids) in, one number per response out.

A `Metric` gives the G responses of a group float64 [G], greater where a response differs more. The paper
rewards `textual` and `equational`, and compares them with `hidden-state` and `embedding`. A custom metric whose
parameter is called `group` gets the `Group`, with problem, answer, outcomes, tokens and log-probs besides the texts.
"""

import dataclasses
import inspect
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, Literal, get_args

import numpy as np

from diver.core.formulas import EXTRACTORS, Extractor
from diver.core.settings import call_own, check_callable, choose, import_object, settings
from diver.core.types import DiverError, Group, Rollout
from diver.diversity.actions import action_diversity, action_edits, state_diversity
from diver.diversity.equational import equational_diversity
from diver.diversity.textual import Tokenize, distinct_n, order_weights, self_bleu_diversity, spaced, textual_diversity
from diver.diversity.vectors import Embedding, HiddenState, embedding_diversity, hidden_state_diversity

TextMetric = Callable[[Sequence[str]], np.ndarray]
Metric = TextMetric | Callable[[Group], np.ndarray]
Decode = Callable[[list[int]], str]
Until = Literal["answer", "end"]


@settings
class Diversity:
    """Settings of the diversity metrics. The defaults are the paper's, but for `until`."""

    until: Until = "answer"
    """The part of a response that is measured. With answer, it ends with the first place that states the graded answer:
    text after it raises the diversity reward and solves nothing. With end, as in the paper, all of it is measured."""
    horizon: int | None = None
    """Only the first n policy tokens of a response count. Default: all of them, which is best in the paper."""
    orders: int = 4
    """N of BLEU and Distinct-n: n-grams of length 1..N."""
    weights: tuple[float, ...] | None = None
    """Weight of each order. Default: 1/N."""
    symmetric: bool = False
    """Textual dissimilarity as the mean of BLEU in both directions."""
    tokenize: Tokenize = "whitespace"
    """Units of n-grams: words between white space, zh or char (sacrebleu's), or the policy's tokens."""
    extractor: Extractor = "nested"
    """Extraction of formulas: nested, or the paper's three regular expressions."""
    ignore_space: bool = False
    """Formulas that differ in white space only are equal."""
    embedding: Embedding = Embedding()
    """The encoder of the metric `embedding`."""
    hidden_state: HiddenState = HiddenState()
    """The language model of the metric `hidden-state`."""

    def __post_init__(self) -> None:
        if self.horizon is not None and self.horizon < 1:
            raise ValueError(f"horizon = {self.horizon}: give at least 1 token, or none at all for whole responses")
        order_weights(self.orders, self.weights)
        choose(self.until, get_args(Until), "until")
        choose(self.tokenize, get_args(Tokenize), "tokenize")
        choose(self.extractor, EXTRACTORS, "extractor")

    def texts(self, group: Group, decode: Decode | None = None) -> list[str]:
        """The part of each response that is measured, [G]. ValueError if a horizon lacks `decode` or the tokens."""
        texts = group.responses if self.until == "end" else [rollout.until_answer for rollout in group.rollouts]
        if (horizon := self.horizon) is None:
            return texts
        if decode is None:
            raise ValueError("a horizon counts policy tokens: give `decode` to cut the text, or tokenize='policy'")
        ends = [None if self.until == "end" else rollout.answer_end for rollout in group.rollouts]
        rows = zip(texts, ends, _token_ids(group, "end", decode), strict=True)
        return [text if len(ids) <= horizon else decode(list(ids[:horizon]))[:end] for text, end, ids in rows]


DEFAULT = Diversity()
METRICS: dict[str, Callable[[Diversity], Metric]] = {
    "textual": lambda s: partial(textual_diversity, orders=s.orders, weights=s.weights, symmetric=s.symmetric),
    "equational": lambda s: partial(equational_diversity, extractor=s.extractor, ignore_space=s.ignore_space),
    "hidden-state": lambda s: partial(hidden_state_diversity, settings=s.hidden_state),
    "embedding": lambda s: partial(embedding_diversity, settings=s.embedding),
    "distinct-n": lambda s: partial(distinct_n, orders=s.orders, weights=s.weights),
    "self-bleu": lambda s: partial(self_bleu_diversity, orders=s.orders, weights=s.weights),
    "actions": lambda s: partial(action_diversity, orders=s.orders, weights=s.weights, symmetric=s.symmetric),
    "action-edits": lambda s: action_edits,
    "states": lambda s: state_diversity,
}
TITLES = {
    "textual": "TD", "equational": "ED", "hidden-state": "hidden state", "embedding": "embedding",
    "distinct-n": "Distinct-n", "self-bleu": "1 - Self-BLEU",
    "actions": "actions: 1 - BLEU", "action-edits": "actions: edit distance", "states": "states of its own",
}  # fmt: skip
"""The metrics as tables and figures call them."""
RANGES = {name: (0.0, 2.0 if name in ("hidden-state", "embedding") else 1.0) for name in METRICS}
"""The range of each metric, which bounds its intervals."""
OF_NGRAMS = frozenset({"textual", "distinct-n", "self-bleu"})  # metrics of n-grams, whose units `tokenize` sets
OF_TURNS = frozenset({"actions", "action-edits", "states"})  # metrics that ignore `until` and `horizon`


def resolve(name: str, settings: Diversity = DEFAULT) -> Metric:
    """The metric of that name, as a function of the texts or of the group.

    Args:
        name: one of `METRICS`, or "package.module:function". Such a function takes one argument: a list of texts, or a
            `Group` if the argument is called `group`.
        settings: settings that the metrics of this package use.

    Raises:
        DiverError: there is no such metric, or the function cannot be called with one argument.
    """
    if name in METRICS:
        return METRICS[name](settings)
    if ":" not in name:
        choose(name, [*METRICS, "package.module:function"], "diversity metric")
    metric = import_object(name, "diversity metric")
    check_callable(metric, f"diversity metric {name!r}", [[]], "(responses), or (group)", " of the responses")
    return metric


def needs_of(name: str, settings: Diversity = DEFAULT) -> frozenset[str]:
    """The inputs that a metric needs from the policy: the texts, and those that a function declares, `my_metric.needs =
    {"logprobs"}`."""
    turns = {"turns"} if name in OF_TURNS else set[str]()
    return frozenset({"responses", *turns, *getattr(resolve(name, settings), "needs", ())})


def measure(
    group: Group, names: Iterable[str], settings: Diversity = DEFAULT, decode: Decode | None = None
) -> dict[str, np.ndarray]:
    """Every named metric of a group.

    Args:
        group: G rollouts of one problem.
        names: names of metrics, as in `resolve`.
        settings: what the metrics measure, such as the end of the text.
        decode: turns token ids into text. It is needed to cut a text at a horizon in tokens, and tokens at the end of
            the answer.

    Returns:
        {name: float64 [G]}.

    Raises:
        ValueError: `decode` or the policy's tokens are needed and missing.
        DiverError: as in `resolve`, or a metric does not return one finite number for each response.
    """
    measured = {}
    for name in names:
        metric: Callable[[Any], Any] = resolve(name, settings)
        inputs: Any
        if name in OF_TURNS:
            inputs = group
        elif name not in METRICS and _takes_group(metric):
            inputs = group if settings.until == "end" else _until_answer(group, decode)
            if (n := settings.horizon) is not None:
                cut = [[None if x is None else x[:n] for x in (r.tokens, r.logprobs)] for r in inputs.rollouts]
                tokens, logprobs = zip(*cut, strict=True)
                inputs = inputs.with_each(response=settings.texts(group, decode), tokens=tokens, logprobs=logprobs)
        elif name not in OF_NGRAMS:
            inputs = settings.texts(group, decode)
        elif settings.tokenize == "policy":
            inputs = [ids[: settings.horizon] for ids in _token_ids(group, settings.until, decode)]
        else:
            inputs = [spaced(text, settings.tokenize) for text in settings.texts(group, decode)]
        if name in METRICS:
            measured[name] = metric(inputs)
        else:
            values = call_own(f"diversity metric {name!r}, problem {group.problem.id!r}", metric, inputs)
            measured[name] = _checked(values, name, len(group))
    return measured


def _takes_group(metric: Callable[[Any], Any]) -> bool:
    try:
        return "group" in inspect.signature(metric).parameters
    except ValueError:  # some functions written in C have no signature
        return False


def with_diversity(
    group: Group,
    names: Iterable[str],
    settings: Diversity = DEFAULT,
    decode: Decode | None = None,
    *,
    when_read: bool = False,
) -> Group:
    """The group, where the `diversity` of every rollout has exactly these metrics. Arguments and errors: `measure`.

    With `when_read`, a metric is measured only when it is first read."""
    metrics = list(names)
    if when_read:
        column = cache(lambda name: measure(group, [name], settings, decode)[name].tolist())
        return group.with_each(diversity=[_WhenRead(metrics, column, i) for i in range(len(group))])
    measured = {name: values.tolist() for name, values in measure(group, metrics, settings, decode).items()}
    return group.with_each(diversity=[{name: measured[name][i] for name in metrics} for i in range(len(group))])


class _WhenRead(Mapping[str, float]):
    """The metrics of rollout `row`. `column` gives the values of a metric for the group."""

    def __init__(self, names: Collection[str], column: Callable[[str], list[float]], row: int) -> None:
        self.names, self.column, self.row = names, column, row

    def __getitem__(self, name: str) -> float:
        if name not in self.names:
            raise KeyError(name)
        return self.column(name)[self.row]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def _token_ids(group: Group, until: Until, decode: Decode | None) -> list[Sequence[int]]:
    """The policy tokens of each response that are measured, without the horizon."""
    for i, rollout in enumerate(group.rollouts):
        if rollout.tokens is None:
            raise ValueError(f"problem {group.problem.id!r}, rollout {i} has no policy tokens: give `tokens`")
        if until == "answer" and decode is None and _has_tail(rollout):
            raise ValueError(
                f"problem {group.problem.id!r}, rollout {i}: its answer ends before its text, so tokens need `decode` "
                "to be cut there; or set diversity.until to end"
            )
    measured = group if until == "end" else _until_answer(group, decode)
    return [rollout.tokens or () for rollout in measured.rollouts]


def _until_answer(group: Group, decode: Decode | None) -> Group:
    """The group with every response, its tokens and its log-probs up to the end of its answer.

    Without `decode`, a response that continues after its answer has no tokens and no log-probs, since it is unknown
    which of them belong to the answer.
    """

    def cut(rollout: Rollout) -> Rollout:
        if not _has_tail(rollout):
            return rollout
        tokens = logprobs = None
        if rollout.tokens is not None and decode is not None:
            # The fewest first tokens whose text holds the answer, by bisection: the text grows with the tokens.
            ids = list(rollout.tokens)
            count = bisect_left(range(len(ids)), rollout.answer_end or 0, key=lambda n: len(decode(ids[:n])))
            tokens, logprobs = rollout.tokens[:count], None if rollout.logprobs is None else rollout.logprobs[:count]
        return rollout.replace(response=rollout.until_answer, tokens=tokens, logprobs=logprobs, num_tokens=None)

    return dataclasses.replace(group, rollouts=tuple(map(cut, group.rollouts)))


def _has_tail(rollout: Rollout) -> bool:
    return rollout.answer_end is not None and rollout.answer_end < len(rollout.response)


def _checked(values: Any, name: str, size: int) -> np.ndarray:
    try:
        d = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        d = np.empty(0)
    if d.shape != (size,) or not np.isfinite(d).all():
        raise DiverError(f"diversity metric {name!r} must give {size} finite numbers, one per response: got {values!r}")
    return d
