"""The training of each variant: its metrics and the cost of a step, and the choice of its learning rate, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from diver.core.tables import markdown
from diver.pages.run_record import STAGES
from diver_paper.runs import Record, Runs
from method_comparison.plan import BASELINE
from method_comparison.rates import choice_visits, outcome
from method_comparison.results import Results
from method_comparison.tails import mark

NONE = "–"
TRAINING = {
    "entropy": "policy/entropy",
    "all correct": "group/solve_all",
    "none correct": "group/solve_none",
    "signal, all correct": "signal/all_correct",
    "signal, mixed": "signal/mixed",
    "mean abs(A)": "advantage/abs_mean",
    "gradient norm": "policy/grad_norm",
    "KL a step": "policy/ppo_kl",
    "tokens": "response/length_mean",
    "truncated": "response/truncated",
}


def training_table(results: Results) -> str:
    rows = []
    for label, runs in results.runs.items():
        values = [last_quarter(runs, metric) for metric in TRAINING.values()]
        seconds = step_seconds([*runs.values(), *results.tried.get(label, {}).values()])
        cost = NONE if np.isnan(seconds) else f"{seconds:.2f}"
        rate = f"{results.rates[label] * results.plan.variants[label].rate_factor:g}"
        rows.append(
            [
                label + mark(results, label) + results.unfinished(label),
                rate,
                *(NONE if np.isnan(v) else f"{v:.3g}" for v in values),
                cost,
            ]
        )
    note = (
        "The seconds of a step are the lowest over all runs of a method, those that chose its learning rate included: "
        "machines differed, and had other work.\n"
    )
    return markdown(["last quarter of the steps", "learning rate", *TRAINING, "s a step"], rows) + "\n" + note


def rates_table(results: Results) -> str:
    own = {x: results.rates[x] for x, found in results.tried.items() if found and not results.plan.variants[x].rate_of}
    rows = [
        [
            label,
            *(
                f"{100 * outcome(found[rate]).mean():.1f}" + " *" * (rate == results.rates[label])
                for rate in sorted(found)
            ),
        ]
        for label, found in results.tried.items()
        if label in own
    ]
    hours = sum(sum(v or 0 for v in r["cpu_seconds"].values()) for runs in results.runs.values() for r in runs.values())
    note = (
        "Choice of the learning rate: mean outcome (per cent) over the last quarter of the "
        f"{results.plan.testbeds[results.part.testbed].choice_steps} steps of a run on other problems; * marks the one "
        f"that was taken: the best, or that of {BASELINE} where the best is not better by more than a standard "
        f"error.{_at_an_end(results.plan.rates, own)}"
    )
    if (visits := choice_visits(results.plan, results.part.testbed)) > 1:
        note += (
            f" Such a run trains on each of its problems about {visits:.0f} times. In its last quarter it "
            "has therefore seen each problem before, so a rise of the outcome is not one on new problems."
        )
    table = markdown(["", *(f"{rate:g}" for rate in sorted(results.plan.rates))], rows)
    resumed = sum(r["cpu_seconds"]["train"] is None for runs in results.runs.values() for r in runs.values())
    without = f" {resumed} of them were resumed and are counted without their training." if resumed else ""
    return (
        f"{note}\n\n{table}\nCore-hours of the finished runs, without those that chose a learning rate: "
        f"{hours / 3600:.1f}.{without}\n"
    )


def _at_an_end(rates: Sequence[float], own: Mapping[str, float]) -> str:
    """Which variants have the lowest or the highest of the rates, beyond which none was tried."""
    ends = {"lowest": min(rates), "highest": max(rates)}
    found = {end: ", ".join(label for label, rate in own.items() if rate == at) for end, at in ends.items()}
    return "".join(
        f" The {end} rate was taken for {labels}; none beyond it was tried." for end, labels in found.items() if labels
    )


def last_quarter(runs: Runs, metric: str) -> float:
    """The mean of a training metric over the last quarter of its curve, and over seeds."""
    columns = [record["metrics"].get(metric, []) for record in runs.values()]
    tails = [[v for v in c[-max(1, len(c) // 4) :] if v is not None] for c in columns]
    return float(np.mean([np.mean(tail) for tail in tails if tail])) if any(tails) else np.nan


def step_seconds(records: Iterable[Record]) -> float:
    """The seconds of a step: the median over a run, and of the runs the least, since other work of a machine
    only adds to them."""
    found = [[record["metrics"].get(f"time/{stage}", []) for stage in STAGES] for record in records]
    sums = [[sum(parts) for parts in zip(*columns, strict=True) if None not in parts] for columns in found]
    return min((float(np.median(seconds)) for seconds in sums if seconds), default=np.nan)
