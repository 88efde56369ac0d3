"""Which engines can run a method, by what it declares; no engine is imported."""

import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from diver.core.tables import markdown
from diver.core.types import DiverError
from diver.integrations.api import advantages
from diver.integrations.seam import SEAMS
from diver.integrations.trl.objective import config
from diver.integrations.verl.config import overrides
from diver.methods import NEEDS, Method, check_needs
from diver.methods.contrib import CONTRIB

ENGINES: dict[str, Callable[[Method], Any]] = {
    "built-in": lambda method: check_needs(method, "the built-in trainer", NEEDS),
    "TRL": config,
    "verl": overrides,
    **{name: seam.usable for name, seam in SEAMS.items() if name != "TRL"},
    # the loss is the caller's
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


HEADER = ("method", "rewarded", "source", "loss, clip", "needs", "zero mean", "engines")
ALL = f"all: {', '.join(ENGINES)}"
APART = "contrib, each with a constant for which no source could be read (diver.methods.contrib):"


def catalogue(methods: Sequence[Method], width: int | None = None) -> str:
    """A Markdown table of the methods, or with a `width` lines of a terminal; those of contrib stand apart, below."""
    show = table if width is None else partial(listed, width=width)
    contrib = [method for method in methods if method.name in CONTRIB]
    others = [method for method in methods if method.name not in CONTRIB]
    parts = [show(others)] if others else []
    parts += [f"{APART}\n\n{show(contrib)}"] if contrib else []
    return "\n".join(parts)


def row_of(method: Method) -> list[str]:
    """The columns of `HEADER`; of many engines those that are missing."""
    reasons, loss = refusals(method), method.loss.name
    carried = ", ".join(name for name in ENGINES if name not in reasons)
    if 2 * len(reasons) < len(ENGINES):
        carried = f"all but {', '.join(reasons)}" if reasons else "all"
    bounds = [getattr(method.loss, name, None) for name in ("clip_low", "clip_high")]
    if None not in bounds:
        loss += f" {bounds[0]:g} / {bounds[1]:g}"
    zero_mean = "yes" if method.zero_mean else "no"
    return [method.name, rewarded(method), source(method), loss, needs_of(method), zero_mean, carried]


def table(methods: Sequence[Method]) -> str:
    """A row for each method, as Markdown."""
    return markdown(HEADER, [*map(row_of, methods)], text=len(HEADER))


def listed(methods: Sequence[Method], width: int) -> str:
    """The same as lines of at most `width` characters, a paragraph for each method, beside its name."""
    indent = 2 + max(len(method.name) for method in methods)
    lines: list[str] = []
    for method in methods:
        name, reward, found, loss, needs, zero_mean, carried = row_of(method)
        first = f"{reward} ({found})" if found else reward
        second = f"{loss}; needs {needs}; {'zero mean' if zero_mean == 'yes' else 'no zero mean'}; engines: {carried}"
        for start, text in ((name, first), ("", second)):
            lines += textwrap.wrap(
                text,
                max(width, 2 * indent),
                initial_indent=start.ljust(indent),
                subsequent_indent=" " * indent,
                break_on_hyphens=False,
            )
    return "".join(f"{line}\n" for line in lines)


def rewarded(method: Method) -> str:
    """The first sentence of its class, on one line; "" where it has no docstring."""
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
