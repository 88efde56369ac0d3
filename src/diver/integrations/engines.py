"""Which engines can run a method, from the method's declarations; no engine is imported."""

import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from textwrap import fill, shorten
from typing import Any

from diver.core.extras import added
from diver.core.tables import markdown
from diver.core.types import DiverError
from diver.integrations.api import advantages
from diver.integrations.seam import SEAMS
from diver.integrations.trl.objective import SEAM, TRAINER, config
from diver.integrations.verl.config import overrides
from diver.methods import METHODS, NEEDS, Method, check_needs, method_named
from diver.methods.registry import ADDED

ENGINES: dict[str, Callable[[Method], Any]] = {
    "built-in": lambda method: check_needs(method, "the built-in trainer", NEEDS),
    "TRL": config,
    "DiverTrainer": partial(config, seam=TRAINER),
    "verl": overrides,
    **{name: seam.usable for name, seam in SEAMS.items() if seam not in (SEAM, TRAINER)},
    # the caller computes the loss
    "diver.advantages": lambda method: advantages(
        [], [], [], method, tokens=[], logprobs=[], keys=[], answer_ends=[], truncated=[], state={}, decode=str
    ),
}


def refusals(method: Method) -> dict[str, str]:
    """The engines that cannot run `method`, each with its one-line error."""
    reasons = {}
    for name, prepare in ENGINES.items():
        try:
            prepare(method)
        except DiverError as error:
            reasons[name] = str(error)
    return reasons


MARKS = dict(zip(ENGINES, "BTDVMSKCA", strict=True))
LEGEND = fill(", ".join(f"{mark} {name}" for name, mark in MARKS.items()), 100)
APART = "Of installed packages. Those of the studies have a constant for which no source could be read:"
WIDEST = 56  # characters of what a method rewards, so that a row has at most 100


def catalogue() -> str:
    """A Markdown table of all methods; those that installed packages add stand apart, below."""
    others = added(ADDED)
    own, apart = ([method_named(n) for n in METHODS if (n in others) == kind] for kind in (False, True))
    return f"{table(own)}\n{APART}\n\n{table(apart)}" if apart else table(own)


def table(methods: Sequence[Method]) -> str:
    """A row for each method: its name, what it rewards, and the marks of the engines that run it."""
    rows = [[method.name, shorten(rewarded(method), WIDEST, placeholder=" ..."), marks(method)] for method in methods]
    return markdown(("method", "rewarded", "engines"), rows, text=3)


def marks(method: Method) -> str:
    """The mark of each engine that runs it, a dot for one that does not."""
    reasons = refusals(method)
    return " ".join("." if name in reasons else mark for name, mark in MARKS.items())


def loss_of(method: Method) -> str:
    """The name of its loss, with the bounds of the clip where it has two."""
    bounds = [getattr(method.loss, name, None) for name in ("clip_low", "clip_high")]
    return method.loss.name if None in bounds else f"{method.loss.name} {bounds[0]:g} / {bounds[1]:g}"


def rewarded(method: Method) -> str:
    """The first sentence of its class, on one line; "" if it has no docstring."""
    sentence = re.match(r"(.+?)\.(?=\s|$)", " ".join((type(method).__doc__ or "").split()))
    return sentence[1] if sentence else ""


def source(method: Method) -> str:
    """The arXiv number in the first line of its class, or else of its module, and "ours" where the class says so.

    A method with the name of its loss has the source of the loss.
    """
    kind = type(method.loss if method.name == method.loss.name else method)
    ours = ", ours" * ("Ours" in (kind.__doc__ or "").partition("\n")[0])
    for doc in (kind.__doc__, sys.modules[kind.__module__].__doc__):
        if found := re.search(r"\barXiv (\d{4}\.\d{5})\b", (doc or "").partition("\n")[0]):
            return found[1] + ours
    return ""


def needs_of(method: Method) -> str:
    """What it needs besides the outcomes, in the order of `NEEDS`."""
    return ", ".join(need for need in NEEDS if need in method.needs) or "outcomes"
