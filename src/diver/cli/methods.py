"""`diver methods`."""

import dataclasses
import inspect
import sys
from collections.abc import Sequence

from diver.core.settings import Positional, options
from diver.methods import Method
from diver.recipe.flags import parse
from diver.recipe.help import described, listed, rows, tables

COLUMN = 20  # width of the names of facts


@dataclasses.dataclass
class Methods:
    """List the methods, or show the formula, source, needs, options and engines of those named."""

    names: Positional[tuple[str, ...]] = ()
    """Methods to show. my_module:MyMethod is one of your own."""
    engine: str = ""
    """List only the methods that this engine runs: a name below the table, or of run.engine, where trl means
    DiverTrainer."""


def command(args: Sequence[str]) -> None:
    """List the methods, their measured gains and their engines; NAME shows one with all its options."""
    from diver.integrations.engines import LEGEND, MEASURED, catalogue
    from diver.methods import method_named

    arguments = parse(Methods, "diver methods", args)
    if arguments.names:
        print("\n\n".join(description(method_named(name)) for name in arguments.names))
    else:
        print(catalogue(arguments.engine), MEASURED, LEGEND, "", sep="\n")
        print("diver methods NAME shows formula, source, needs, defaults and engines.")


def description(method: Method) -> str:
    """The formula and the source of a method, what it needs, its options, and which engines run it or why not."""
    from diver.integrations.engines import ENGINES, agreement, loss_of, needs_of, refusals, source

    reasons = refusals(method)
    facts = {
        "source": f"arXiv {paper}" if (paper := source(method)) else "",
        "loss": loss_of(method),
        "needs": needs_of(method),
        "zero mean": "yes" if method.zero_mean else "no",
        "engines": ", ".join(name for name in ENGINES if name not in reasons),
        "compared with": agreement(method),
    }
    lines = [method.name, "", *docs(method), *rows(((k, v) for k, v in facts.items() if v), COLUMN), ""]
    if reasons:
        lines += ["not run by:", *rows(reasons.items(), COLUMN), ""]
    settings = [option for option in options(method, "method.") if option.key != "method.name"]
    return "\n".join([*lines, *listed(tables(settings))][:-1])


def docs(method: Method) -> list[str]:
    """The docstrings of the method's class and module and, unless its loss is `clip`, of those of the loss."""
    kinds = [type(method), type(method.loss)] if method.loss.name != "clip" else [type(method)]
    texts = [text for kind in kinds for text in (kind.__doc__, sys.modules[kind.__module__].__doc__)]
    return [line for text in dict.fromkeys(filter(None, texts)) for line in described(inspect.cleandoc(text))]
