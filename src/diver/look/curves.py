"""The curves of one or more runs as data: one panel per metric, one line per run. The page draws them."""

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from diver.core.jsonl import number
from diver.look.page import evenly_spaced, short
from diver.look.run_record import RunRecord
from diver.train.alerts import Alert

POINTS = 2_000  # points of a line; a longer one is thinned evenly
SECONDS = "time"  # the panel of `RunRecord.step_seconds`


class Panel(NamedTuple):
    """The plot of one metric. A percent panel has the axis 0 to 1."""

    metric: str
    title: str
    note: str = ""
    percent: bool = False


PANELS = (
    Panel("reward/outcome", "Outcome reward", "mean over the training rollouts"),
    Panel("group/solve_all", "Groups all correct", "every response correct", True),
    Panel("group/solve_none", "Groups none correct", "no response correct", True),
    Panel("diversity/textual", "Textual diversity", "TD: 1 − pairwise BLEU"),
    Panel("diversity/equational", "Equational diversity", "ED: formulas no other response has"),
    Panel("policy/entropy", "Entropy", "of the policy, nats per token"),
    Panel("response/length_mean", "Response length", "mean, tokens"),
    Panel("response/truncated", "Truncated responses", "at sample.max_tokens", True),
    Panel("advantage/solve_all_frac", "|A| of groups all correct", "fraction of the sum of |A|", True),
    Panel("shaping/clipped", "Clipped diversity rewards", "fraction above clip_max (σ)", True),
    Panel("shaping/coef", "Shaping coefficient λ", "weight of the diversity reward"),
    Panel("policy/grad_norm", "Gradient norm", "before max_grad_norm"),
    Panel("policy/logprob_mismatch", "Log-prob mismatch", "sampler and trainer, mean nats per token"),
    Panel("replay/gradient_share", "Replayed share of the gradient", "of the sum of weight × |A|", True),
    Panel("replay/rollouts", "Replayed responses", "per step"),
    Panel("replay/age", "Age of replayed responses", "mean, steps"),
    Panel("replay/logprob", "Log-prob of replayed responses", "mean over tokens, before the update"),
    Panel("replay/bank_responses", "Responses in the replay bank"),
    Panel(SECONDS, "Seconds per step", "sampling, verification, diversity, update"),
)

MEANINGS = {
    f"{prefix}/{name}": meaning
    for prefix, metrics in tomllib.loads((files("diver.look") / "metrics.toml").read_text("utf-8")).items()
    for name, meaning in metrics.items()
}
"""The meaning of each logged metric, with its unit. In a name, * stands for any text."""


def meaning_of(metric: str) -> str:
    """The meaning of a logged metric; empty for one that a method of the user's logs."""
    return next((text for name, text in MEANINGS.items() if fnmatchcase(metric, name)), "")


def curves_data(runs: Sequence[RunRecord], alerts: Sequence[Sequence[Alert]]) -> dict[str, Any]:
    """{steps, panels, more}: a panel is {id, title, note, percent, lines, spans}, a line {run, steps, values, low,
    high}.

    `alerts` are those of each run, whose steps are marked in the curve that shows them. `more` are the panels of all
    metrics that are not among `PANELS`.
    """
    panels = [*_pass_at_k_panels(runs), *PANELS]
    known = {p.metric for p in panels}
    others = sorted({name for run in runs for name in run.metrics} - known)
    return {
        "steps": max([1, *(max(run.last_step, *run.evaluations, 0) for run in runs)]),
        "panels": [p for panel in panels if (p := _panel(panel, runs, alerts))["lines"]],
        "more": [p for name in others if (p := _panel(Panel(name, name, meaning_of(name)), runs, alerts))["lines"]],
    }


def curves_over_seeds(variants: Sequence[Sequence[RunRecord]]) -> list[dict[str, Any]]:
    """The panels of several runs of each variant: a line a variant, its mean over the steps that all its runs have.

    `low` and `high` are the lowest and the highest of its runs.
    """
    import pandas as pd

    panels = []
    for panel in (*_pass_at_k_panels([run for runs in variants for run in runs]), *PANELS):
        lines = []
        for i, runs in enumerate(variants):
            of_runs = [_line(run, panel.metric) for run in runs]
            series = [pd.Series(line["values"], line["steps"], dtype=float) for line in of_runs]
            known = pd.concat(series, axis=1, join="inner").dropna()
            if len(known):
                ends = {"values": known.mean(axis=1), "low": known.min(axis=1), "high": known.max(axis=1)}
                lines.append({"run": i, **thinned(known.index, **ends)})
        if lines:
            panels.append(panel_data(panel, lines, []))
    return panels


def _pass_at_k_panels(runs: Sequence[RunRecord]) -> list[Panel]:
    """Panels of the smallest and the largest k of Pass@k that every evaluation, or most of them, has."""
    counts = Counter(k for run in runs for evaluation in run.evaluations.values() for k in evaluation["k"])
    usual = sorted(k for k, n in counts.items() if n == max(counts.values()))
    ends = dict.fromkeys([usual[0], usual[-1]]) if usual else ()
    return [Panel(f"eval/pass@{k}", f"Held-out Pass@{k}", "bands: 95 % intervals", True) for k in ends]


def _panel(panel: Panel, runs: Sequence[RunRecord], alerts: Sequence[Sequence[Alert]]) -> dict[str, Any]:
    lines = [_line(run, panel.metric) for run in runs]
    return panel_data(panel, [{"run": i, **line} for i, line in enumerate(lines) if line["steps"]], alerts)


def panel_data(panel: Panel, lines: Sequence[Mapping[str, Any]], alerts: Sequence[Sequence[Alert]]) -> dict[str, Any]:
    """A panel as the page draws it, with the steps of the alerts of each run that it shows."""
    shown = [(i, alert) for i, of_run in enumerate(alerts) for alert in of_run if alert.metric == panel.metric]
    return {
        "id": panel.metric,
        "title": panel.title,
        "note": panel.note,
        "percent": panel.percent,
        "lines": lines,
        "spans": [[*span, i] for i, alert in shown for span in alert.spans],
    }


def _line(run: RunRecord, metric: str) -> dict[str, Any]:
    """A metric where it is known; held-out values come from eval/ with their intervals if they can."""
    key = metric.removeprefix("eval/")
    stored = {step: e["estimates"][key] for step, e in run.evaluations.items() if key in e["estimates"]}
    evaluated = {step: estimate for step, estimate in stored.items() if estimate["mean"] is not None}
    if metric != key and evaluated:
        ends = {end: [number(e[end]) for e in evaluated.values()] for end in ("mean", "low", "high")}
        return thinned(list(evaluated), values=ends["mean"], low=ends["low"], high=ends["high"])
    values = run.step_seconds() if metric == SECONDS else run.column(metric)
    return thinned(values.index, values=values)


def thinned(steps: Any, **columns: Any) -> dict[str, Any]:
    """A line of at most POINTS points."""
    index = evenly_spaced(len(steps), POINTS)
    lines = {name: list(map(short, np.asarray(column)[index].tolist())) for name, column in columns.items()}
    return {"steps": np.asarray(steps)[index].tolist(), **lines}
