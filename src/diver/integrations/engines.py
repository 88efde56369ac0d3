"""Which engines can run a method, from the method's declarations; no engine is imported."""

import dataclasses
import json
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.resources import files
from textwrap import fill, shorten
from typing import Any

from diver.core.extras import added
from diver.core.files import packaged_table
from diver.core.settings import choose
from diver.core.tables import markdown
from diver.core.types import DiverError
from diver.integrations.api import advantages
from diver.integrations.seam import SEAMS
from diver.integrations.trl.objective import SEAM, TRAINER, config
from diver.integrations.verl.config import overrides
from diver.methods import METHODS, NEEDS, Method, check_needs, method_named
from diver.methods.grpo import Grpo
from diver.methods.registry import ADDED, DEFAULT

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
    """The engines that cannot run `method`, each with its first reason."""
    reasons = {}
    for name, prepare in ENGINES.items():
        try:
            prepare(method)
        except DiverError as error:
            reasons[name] = str(error.args[0])
    return reasons


MARKS = dict(zip(ENGINES, "BTDVMSKCA", strict=True))
LEGEND = fill(", ".join(f"{mark} {name}" for name, mark in MARKS.items()), 100)
APART = "Of installed packages. Those of the studies have a constant or formula for which no source could be read:"
MEASURED = (
    "Pass@1, Pass@64: points above clip-higher on Countdown, *: the 95 % interval excludes 0; time: CPU time of the\n"
    "training over that of clip-higher; three seeds (docs/results/method-comparison.md). (start): start here."
)
WIDEST = 36  # characters of what a method changes, so that a row has at most 120
LABELS = {"clip-higher": " (start)", DEFAULT: " (default)"}
OF_RUN = {"builtin": "built-in", "trl": "DiverTrainer"}
"""Values of run.engine that have another name in ENGINES."""


def catalogue(engine: str = "") -> str:
    """A Markdown table of all methods, or of those that an engine runs; those of installed packages have another table.

    Raises:
        DiverError: the engine is neither in ENGINES nor a value of run.engine.
    """
    names = {name.lower(): name for name in ENGINES} | OF_RUN
    if engine:
        choose(engine.lower(), names, "--engine")
    methods = [m for m in map(method_named, METHODS) if not engine or names[engine.lower()] not in refusals(m)]
    installed = added(ADDED)
    ours, apart = ([m for m in methods if (m.name in installed) == kind] for kind in (False, True))
    return f"{table(ours)}\n{APART}\n\n{table(apart)}" if apart else table(ours)


def table(methods: Sequence[Method]) -> str:
    """A row for each method: what it changes, in which part of a step, its measured gain, and its engines.

    An engine that runs it has its mark, and one that does not a dot.
    """
    measured = packaged_table("diver.methods", "measured.toml")
    rows = []
    for method in methods:
        entry = measured.get(method.name, {})
        gains = [f"{gain:+.1f}{'*' * (low > 0 or high < 0)}" for gain, low, high in entry.get("gains", ())] or ["", ""]
        time = f"{entry['time']:.2f}" if entry else ""
        name = method.name + LABELS.get(method.name, "")
        reasons = refusals(method)
        marks = "".join("." if engine in reasons else mark for engine, mark in MARKS.items())
        rows.append([name, change(method), parts(method), *gains, time, marks])
    return markdown(("method", "what it changes", "part", "Pass@1", "Pass@64", "time", "engines"), rows, text=3)


def parts(method: Method) -> str:
    """Which parts of a step differ from those of GRPO, from what the method declares."""
    kind, plain = type(method), Grpo()
    changed = {
        "reward": kind.rewards is not Method.rewards or method.overlong,
        "advantage": kind.advantages is not Grpo.advantages or getattr(method, "divisor", plain.divisor) != "std",
        "loss": method.loss.name != plain.loss.name,
        "data": "replay" in method.needs or method.selection.outcomes != "all",
        "sampling": dataclasses.replace(method.selection, outcomes="all").drops,
    }
    names = [name for name, differs in changed.items() if differs]
    return ", ".join(names) or ("loss" if method.loss != plain.loss else "none")


def loss_of(method: Method) -> str:
    """The name of its loss, with the bounds of the clip where it has two."""
    bounds = [getattr(method.loss, name, None) for name in ("clip_low", "clip_high")]
    return method.loss.name if None in bounds else f"{method.loss.name} {bounds[0]:g} / {bounds[1]:g}"


def change(method: Method) -> str:
    """The first sentence of the docstring of its class, or of its loss if that is the method; else empty."""
    doc = type(method.loss if type(method) is Grpo and method.name == method.loss.name else method).__doc__
    sentence = re.match(r"(.+?)\.(?=\s|$)", " ".join((doc or "").split()))
    return shorten(sentence[1], WIDEST, placeholder=" ...") if sentence else ""


def source(method: Method) -> str:
    """The arXiv number in the first line of its class, else of its module; with "ours" if the class says so.

    A method with the name of its loss has the source of the loss.
    """
    kind = type(method.loss if method.name == method.loss.name else method)
    ours = ", ours" * ("Ours" in (kind.__doc__ or "").partition("\n")[0])
    for doc in (kind.__doc__, sys.modules[kind.__module__].__doc__):
        if match := re.search(r"\barXiv (\d{4}\.\d{5})\b", (doc or "").partition("\n")[0]):
            return match[1] + ours
    return ""


def needs_of(method: Method) -> str:
    """What it needs besides the outcomes, in the order of `NEEDS`."""
    return ", ".join(need for need in NEEDS if need in method.needs) or "outcomes"


def agreement(method: Method) -> str:
    """Where the loss and the advantage of `method` equal those of other trainers, and where they differ.

    Equal means equal with at least one setting of that trainer. Empty if no release has the loss or the advantage.
    `scripts/conformance.py` measures it, and writes `conformance.json` and docs/conformance.md.
    """
    trainers = json.loads((files("diver.integrations") / "conformance.json").read_text(encoding="utf-8"))["trainers"]
    parts = []
    for name in dict.fromkeys((method.loss.name, method.name)):
        releases: dict[str, list[str]] = {"equal in": [], "differs in": []}
        for trainer, release in trainers.items():
            rows = [row["equal"] for row in release["rows"] if row["name"] == name]
            if rows:
                releases["equal in" if any(rows) else "differs in"].append(f"{trainer} {release['version']}")
        parts += [f"{name} {how} {', '.join(where)}" for how, where in releases.items() if where]
    return f"{'; '.join(parts)} (docs/conformance.md)" if parts else ""
