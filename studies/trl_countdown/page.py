"""docs/results/trl-countdown.md, from the records that exist."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diver.core.files import write_text
from diver.core.statistics import Estimate
from diver.core.tables import markdown
from diver.evaluate.comparison import Values, difference, level
from diver.evaluate.front import Pair
from diver.sweep import records
from diver.sweep.choose import BOUNDS, Policy, policies
from diver.sweep.plan import HELD_OUT, UNTRAINED
from trl_countdown.study import label_of, load, plan

TITLE = "# Countdown by TRL and by the built-in trainer"
INTRODUCTION = f"""\
{TITLE}

Do both engines end at the same Pass@k, each on its own rollouts? `studies/trl_countdown/study.toml` is the protocol,
which was committed before the first run. `python -m trl_countdown` makes the runs that have no record, and writes this
page.
"""


def write_page(out: Path) -> Path:
    """Write trl-countdown.md in `out`; returns its path."""
    study, sweep_plan = load(), plan(out)
    stored = records.read(sweep_plan.records)
    by_label = policies(sweep_plan, stored)
    parts = [INTRODUCTION]
    for method in study["settings"]:
        parts += [f"## {method}\n", answer(study, by_label, method), "", table(study, by_label, method), ""]
    parts += ["## Runs\n", runs(stored)]
    write_text(out / "trl-countdown.md", "\n".join(parts) + "\n")
    return out / "trl-countdown.md"


def gap(study: Mapping[str, Any], found: Mapping[str, Policy], more: str, less: str, k: int) -> Estimate:
    """`more` minus `less` on the held-out problems, in points."""
    estimate = difference(values(study, found, more, k), values(study, found, less, k), BOUNDS)
    return Estimate(*(100 * value for value in estimate))


def values(study: Mapping[str, Any], found: Mapping[str, Policy], label: str, k: int) -> Values:
    """Seed -> Pass@k of each held-out problem; empty without a run."""
    pair = Pair(0.0 if label == UNTRAINED else 1.0, study["temperature"])
    return found[label].values(HELD_OUT, pair, k) if label in found else {}


def answer(study: Mapping[str, Any], found: Mapping[str, Policy], method: str) -> str:
    """The conclusion for a method, by the rule of the protocol."""
    labels = [label_of(method, engine) for engine in study["engines"]]
    made = [len(found[label].runs) if label in found else 0 for label in labels]
    if min(made) < len(study["seeds"]):
        return f"**Not finished**: {sum(made)} of {2 * len(study['seeds'])} runs have a record."
    at_1, at_most = (gap(study, found, labels[1], labels[0], k) for k in (1, study["k"][-1]))
    half = (at_1.high - at_1.low) / 2
    if half > study["half_width"]:
        return (
            f"**Nothing is concluded**: the half-width at Pass@1 is {half:.1f} points, above {study['half_width']:g}."
        )
    agree = all(estimate.low <= 0 <= estimate.high for estimate in (at_1, at_most))
    return (
        f"**The engines {'agree' if agree else 'differ'}** by the rule of the protocol. TRL minus built-in is "
        f"{at_1.text(sign='+')} points at Pass@1, a half-width of {half:.1f}. It is {at_most.text(sign='+')} at "
        f"Pass@{study['k'][-1]}."
    )


def table(study: Mapping[str, Any], found: Mapping[str, Policy], method: str) -> str:
    """Pass@k of both engines and of the untrained policy, and their differences, over seeds and held-out problems."""
    built_in, trl = (label_of(method, engine) for engine in study["engines"])
    rows = []
    for label in (built_in, trl, UNTRAINED):
        rows.append([label, *(level(values(study, found, label, k), BOUNDS).text(100) for k in study["k"])])
    for name, more, less in (
        ("TRL minus built-in", trl, built_in),
        ("built-in minus untrained", built_in, UNTRAINED),
        ("TRL minus untrained", trl, UNTRAINED),
    ):
        rows.append([name, *(gap(study, found, more, less, k).text(sign="+") for k in study["k"])])
    return markdown(["", *(f"Pass@{k}" for k in study["k"])], rows)


def runs(known: Mapping[str, Mapping[str, Any]]) -> str:
    """A row for the run of each record: its last training rewards, its commit and its versions."""
    rows = [
        [
            name,
            str(record["steps"]),
            f"{record['metrics']['reward/outcome'][-1]:.3f}",
            record["commit"][:8],
            " ".join(f"{library} {record['versions'][library]}" for library in ("torch", "transformers", "trl")),
        ]
        for name, record in sorted(known.items())
        if record["setting"] != UNTRAINED
    ]
    return markdown(["run", "steps", "share of correct responses, last block of steps", "commit", "versions"], rows)
