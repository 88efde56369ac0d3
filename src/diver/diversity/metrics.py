"""How different are the responses of one group? Strings (or token ids) in, one number per response out.

A `Metric` gives the G responses of a group float64 [G], greater where a response differs more. `textual` and
`equational` are what the paper rewards, `hidden-state` and `embedding` what it checks them against. A metric of one's own
whose parameter is called `group` gets the whole `Group`: problem, answer, outcomes, tokens and log-probs besides texts.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, get_args

import numpy as np

from diver.diversity.equational import EXTRACTORS, Extractor, equational_diversity
from diver.diversity.ngrams import Tokenize, order_weights, spaced
from diver.diversity.textual import distinct_n, self_bleu_diversity, textual_diversity
from diver.diversity.vectors import Embedding, HiddenState, embedding_diversity, hidden_state_diversity
from diver.settings import call_own, choose, import_object, settings
from diver.types import DiverError, Group

TextMetric = Callable[[Sequence[str]], np.ndarray]
GroupMetric = Callable[[Group], np.ndarray]
Metric = TextMetric | GroupMetric


@settings
class Diversity:
    """Settings of the diversity metrics; the defaults are the paper's."""

    horizon: int | None = None
    """Only the first n policy tokens of a response count; None = all of them (best in the paper)."""
    orders: int = 4
    """N of BLEU and Distinct-n: n-grams of length 1..N."""
    weights: tuple[float, ...] | None = None
    """Weight of each order; None = 1/N."""
    symmetric: bool = False
    """Textual dissimilarity as the mean of BLEU in both directions."""
    tokenize: Tokenize = "whitespace"
    """What n-grams are made of: words between white space, zh or char (sacrebleu's), or the policy's tokens."""
    extractor: Extractor = "nested"
    """How formulas are found: nested, or the paper's three regular expressions."""
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
        choose(self.tokenize, get_args(Tokenize), "tokenize")
        choose(self.extractor, EXTRACTORS, "extractor")


PAPER = Diversity()
METRICS: dict[str, Callable[[Diversity], TextMetric]] = {
    "textual": lambda s: partial(textual_diversity, orders=s.orders, weights=s.weights, symmetric=s.symmetric),
    "equational": lambda s: partial(equational_diversity, extractor=s.extractor, ignore_space=s.ignore_space),
    "hidden-state": lambda s: partial(hidden_state_diversity, settings=s.hidden_state),
    "embedding": lambda s: partial(embedding_diversity, settings=s.embedding),
    "distinct-n": lambda s: partial(distinct_n, orders=s.orders, weights=s.weights),
    "self-bleu": lambda s: partial(self_bleu_diversity, orders=s.orders, weights=s.weights),
}
OF_NGRAMS = frozenset({"textual", "distinct-n", "self-bleu"})  # they count what `tokenize` says


def resolve(name: str, settings: Diversity = PAPER) -> Metric:
    """The metric of that name: one of `METRICS`, or "package.module:function". DiverError if there is none.

    DiverError, too, where a function cannot be called with one argument: the texts, or the `group`.
    """
    if name in METRICS:
        return METRICS[name](settings)
    if ":" not in name:
        choose(name, [*METRICS, "package.module:function"], "diversity metric")
    metric = import_object(name, "diversity metric")
    if not callable(metric):
        raise DiverError(f"diversity metric {name!r} is a {type(metric).__name__}, not a function of the responses")
    try:
        inspect.signature(metric).bind([])
    except TypeError as error:
        raise DiverError(f"diversity metric {name!r} must take (responses), or (group): {error}") from None
    except ValueError:  # see _takes_group
        pass
    return metric


def needs_of(name: str, settings: Diversity = PAPER) -> frozenset[str]:
    """What a metric must be given of the policy: the texts, and what a function declares, `my_metric.needs = {"logprobs"}`."""
    return frozenset({"responses", *getattr(resolve(name, settings), "needs", ())})


def measure(
    group: Group,
    names: Iterable[str],
    settings: Diversity = PAPER,
    decode: Callable[[list[int]], str] | None = None,
) -> dict[str, np.ndarray]:
    """Each metric of a group, {name: float64 [G]}.

    decode (policy tokens -> text) cuts a text at the horizon; a metric that works on tokens does not need it.
    ValueError: no `decode` or no policy tokens where they are needed. DiverError: see `resolve`, or a metric's result
    is not one finite number per response.
    """
    measured = {}
    for name in names:
        metric: Callable[[Any], Any] = resolve(name, settings)
        given: Any
        if name not in METRICS and _takes_group(metric):
            given = group
        elif name not in OF_NGRAMS:
            given = _texts(group, settings.horizon, decode)
        elif settings.tokenize == "policy":
            given = _token_ids(group, settings.horizon)
        else:
            given = [spaced(text, settings.tokenize) for text in _texts(group, settings.horizon, decode)]
        what = f"diversity metric {name!r}, problem {group.problem.id!r}"
        values = metric(given) if name in METRICS else call_own(what, metric, given)
        measured[name] = _checked(values, name, len(group))
    return measured


def _takes_group(metric: Callable[[Any], Any]) -> bool:
    try:
        return "group" in inspect.signature(metric).parameters
    except ValueError:  # some functions written in C have no signature
        return False


def with_diversity(
    group: Group, names: Iterable[str], settings: Diversity = PAPER, decode: Callable[[list[int]], str] | None = None
) -> Group:
    """The group, every rollout with these metrics in its `diversity` and no others. Arguments and errors: `measure`."""
    columns = measure(group, names, settings, decode)
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    return group.with_each(diversity=[dict(zip(columns, row, strict=True)) for row in rows])


def _token_ids(group: Group, horizon: int | None) -> list[Any]:
    for i, rollout in enumerate(group.rollouts):
        if rollout.tokens is None:
            raise ValueError(f"problem {group.problem.id!r}, rollout {i} has no policy tokens: give `tokens`")
    return [r.tokens[:horizon] for r in group.rollouts if r.tokens is not None]


def _texts(group: Group, horizon: int | None, decode: Callable[[list[int]], str] | None) -> list[str]:
    if horizon is None:
        return group.responses
    if decode is None:
        raise ValueError("a horizon counts policy tokens: give `decode` to cut the text there, or tokenize='policy'")
    rows = zip(group.rollouts, _token_ids(group, horizon), strict=True)
    return [r.response if r.length <= horizon else decode(list(ids)) for r, ids in rows]


def _checked(values: Any, name: str, size: int) -> np.ndarray:
    try:
        d = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        d = np.empty(0)
    if d.shape != (size,) or not np.isfinite(d).all():
        raise DiverError(f"diversity metric {name!r} must give {size} finite numbers, one per response: got {values!r}")
    return d
