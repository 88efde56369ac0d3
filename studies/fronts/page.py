"""docs/results/fronts.md, recent-methods.md and language-model.md, from the records that exist."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from diver.core.files import write_text
from diver.core.statistics import Estimate
from diver.core.tables import markdown
from diver.sweep.choose import SAME, Policy, gain_at, policies, verdict
from diver.sweep.page import DASH, FRONTS, Section, advised, sections
from diver.sweep.plan import UNTRAINED, Plan
from fronts.controls import section as controls
from fronts.picture import draw
from fronts.study import known, plan, testbeds

PICTURE = """\
![Pass@64 against Pass@1 on Countdown and in mazes, a line for each setting](fronts.png)

Each line joins the best policies of a setting on the selection problems: weights between untrained and trained at four
temperatures. A dot is the trained policy at temperature 0.6.
"""
RECENT = """\
Every policy at its best weights between untrained (alpha 0) and trained (alpha 1), and at its best temperature, beside
clip-higher of the [fronts](fronts.md) with the same seeds and problems. `studies/fronts/recent_methods.toml` is the
protocol, which was committed before the first run. `python -m fronts --study recent_methods` makes the runs that have
no record, and writes this page. CPU times are not compared with clip-higher, whose runs are of other machines.
"""
LANGUAGE_MODEL = """\
![Pass@32 against Pass@1, a line for each setting](language-model.png)

SmolLM2-135M-Instruct after a supervised warm-up, trained on the problems of GSM8K that it solves sometimes, for equal
time. Every policy at its best weights between untrained (alpha 0) and trained (alpha 1), and at its best temperature.
`studies/fronts/language_model.toml` is the protocol, which was committed before the first run.
`python -m fronts --study language_model` makes the runs that have no record, and writes this page.
"""
ABOVE = "significantly above both clip-higher and the untrained policy"
TOGETHER = """\
The same choice and the same rule over all settings of both protocols, decided after the runs. The intervals are
corrected for all of them.
"""
REPLAY, DRIFT = "max-rl, replay", "max-rl, replay of little drift"
UPDATES = (
    "Mean number a step. Clip-higher makes 4; groups that are left out make it fewer, and smaller mini-batches more.\n"
)
LIMIT = "On the held-out problems, in points, with intervals of 95 % over seeds and problems; descriptive.\n"
INTRODUCTION = """\
Every policy at its best weights between untrained (alpha 0) and trained (alpha 1), and at its best temperature, beside
the untrained policy. `studies/fronts/study.toml` is the protocol, which was committed before the first run.
`python -m fronts` makes the runs that have no record, and writes this page. The records have the counts of all weights
and temperatures. This prints Pass@1 of each on the selection problems:

```sh
zcat docs/results/records/fronts.jsonl.gz | jq -c '[.name, (.fronts.selection | map_values(add / length / 64))]'
```
"""


def write_page(out: Path) -> Path:
    """Write fronts.md and its picture in `out`; returns the path of the page."""
    panels: dict[str, dict[str, Policy]] = {}
    answer, parts, texts = list[str](), list[str](), set[str]()
    for testbed, title in testbeds().items():
        testbed_plan = plan(testbed, out)
        by_label = policies(testbed_plan, known(testbed_plan, out))
        panels[title] = {label: policy for label, policy in by_label.items() if policy.best(1)}  # has all its seeds
        answer += _answer(testbed_plan, by_label, title)
        parts += [*_sections(testbed_plan, by_label, title, texts), controls(testbed_plan, by_label)]
    draw(out / "fronts.png", panels, (1, 64))
    head = ["# Fronts: what to turn on for each k\n", "\n".join(answer) + "\n", PICTURE, INTRODUCTION]
    write_text(out / "fronts.md", "\n".join(filter(None, [*head, *parts])))
    return out / "fronts.md"


def write_recent(out: Path) -> Path:
    """Write recent-methods.md in `out`; returns its path."""
    answer, parts, texts = list[str](), list[str](), set[str]()
    for testbed, title in testbeds("recent_methods").items():
        testbed_plan = plan(testbed, out, name="recent_methods")
        records = known(testbed_plan, out)
        by_label = policies(testbed_plan, records)
        answer += _answer(testbed_plan, by_label, title)
        parts += _sections(testbed_plan, by_label, title, texts)
        updates = [
            [label, *(_updates(policy.runs.get(seed)) for seed in testbed_plan.seeds)]
            for label, policy in by_label.items()
            if label not in (UNTRAINED, testbed_plan.baseline)
        ]
        if updates:
            header = ["", *(f"seed {seed}" for seed in testbed_plan.seeds)]
            parts.append(f"### Optimizer steps\n\n{UPDATES}\n{markdown(header, updates)}")
        both = _together(plan(testbed, out), testbed_plan)
        found = policies(both, records)
        if {DRIFT, REPLAY} <= found.keys():
            rows = [_drift(testbed_plan, found)]
            parts.append(f"### The limit of drift\n\n{LIMIT}\n{markdown(['', *_titles(testbed_plan)], rows)}")
        if verdict(both, found, 1):
            table = sections(both, found)[0].rows
            parts.append(f"### Together with the settings of the fronts\n\n{TOGETHER}\n{markdown(table[0], table[1:])}")
    head = ["# The methods of autumn 2026\n", "\n".join(answer) + "\n", RECENT]
    write_text(out / "recent-methods.md", "\n".join(filter(None, [*head, *parts])))
    return out / "recent-methods.md"


def write_language_model(out: Path) -> Path:
    """Write language-model.md and its picture in `out`; returns the path of the page."""
    answer, parts, texts, panels = list[str](), list[str](), set[str](), dict[str, dict[str, Policy]]()
    for testbed, title in testbeds("language_model").items():
        testbed_plan = plan(testbed, out, name="language_model")
        by_label = policies(testbed_plan, known(testbed_plan, out))
        panels[title] = {label: policy for label, policy in by_label.items() if policy.best(1)}
        answer += _answer(testbed_plan, by_label, title)
        parts += _sections(testbed_plan, by_label, title, texts)
    draw(out / "language-model.png", panels, (1, 32))
    head = ["# A language model: what to turn on for each k\n", "\n".join(answer) + "\n", LANGUAGE_MODEL]
    write_text(out / "language-model.md", "\n".join(filter(None, [*head, *parts])))
    return out / "language-model.md"


def _sections(plan: Plan, found: Mapping[str, Policy], title: str, texts: set[str]) -> Iterator[str]:
    """The tables of a testbed, each below its text, unless an earlier table has the same one (`texts`)."""
    yield f"## {title}\n"
    for section in sections(plan, found):
        if section.title != FRONTS:
            section = _runs(found) if section.title == "Runs" else section
            text = "" if section.text in texts else f"{section.text}\n\n"
            yield f"### {section.title}\n\n{text}{markdown(section.rows[0], section.rows[1:])}"
            texts.add(section.text)


def _together(fronts: Plan, recent: Plan) -> Plan:
    """The settings of both protocols on a testbed, whose baseline and problems are the same."""
    new = (setting for setting in recent.settings if setting.label != recent.baseline)
    return dataclasses.replace(fronts, settings=(*fronts.settings, *new))


def _titles(plan: Plan) -> list[str]:
    return [f"Pass@{k}" for k in plan.ks]


def _updates(run: Mapping[str, Any] | None) -> str:
    """Optimizer steps a step of a run, the mean of the blocks of its training curve."""
    return f"{np.mean(run['metrics']['policy/updates']):.2f}" if run else DASH


def _drift(plan: Plan, found: Mapping[str, Policy]) -> list[str]:
    """A row: the method with the limit of drift minus that without, each at its best pair for each k."""
    best = {k: (found[DRIFT].best(k), found[REPLAY].best(k)) for k in plan.ks}
    gaps = [
        _points(gain_at(found, DRIFT, REPLAY, (limited[0], unlimited[0]), k)) if limited and unlimited else DASH
        for k, (limited, unlimited) in best.items()
    ]
    return [f"{DRIFT} minus {REPLAY}", *gaps]


def _answer(plan: Plan, found: Mapping[str, Policy], title: str) -> Iterator[str]:
    """For which k weights and temperature leave a gain of a method, then the advice for each k and the difference that
    supports it; nothing before the baseline is finished."""
    verdicts = [best for k in plan.ks if (best := verdict(plan, found, k))]
    if verdicts:
        beyond = [f"k = {v.k}" for v in verdicts if v.advice == v.label]
        without = [f"k = {v.k}" for v in verdicts if v.advice != v.label]
        first = f"a setting is {ABOVE} at {', '.join(beyond)}." if beyond else f"no setting is {ABOVE}."
        rest = f" None is at {', '.join(without)}." if beyond and without else ""
        yield f"- {title}: at best weights and temperature, {first}{rest}"
    for best in verdicts:
        head, untrained = f"- {title}, k = {best.k}: {advised(plan, best)}", "the untrained policy"
        if best.advice == best.label:
            yield f"{head}; {_points(best.gain)} points from {plan.baseline}."
        elif best.advice != UNTRAINED:
            yield f"{head}; {_points(best.baseline_over_untrained)} points from {untrained}."
        elif best.over_untrained is SAME:
            yield f"{head}; the best setting is {untrained}."
        else:
            yield f"{head}; the best setting, {best.label}, has {_points(best.over_untrained)} points from {untrained}."
    planned = sum(len(setting.seeds) for setting in plan.settings)
    made = sum(len(policy.runs) for label, policy in found.items() if label != UNTRAINED)
    if made < planned:
        yield f"- **{title}, not finished**: {made} of {planned} runs."


def _points(estimate: Estimate) -> str:
    return estimate.text(100, sign="+")


def _runs(found: Mapping[str, Policy]) -> Section:
    """The runs of each setting, by seed."""
    rows = [["setting", "seeds", "steps", "CPU seconds", "commit"]]
    for label, policy in found.items():
        if label != UNTRAINED:
            runs = policy.runs.values()
            seconds = " ".join(f"{run['cpu_seconds']:.0f}" if run.get("cpu_seconds") else DASH for run in runs)
            commits = " ".join(dict.fromkeys(str(run.get("commit") or "")[:8] for run in runs))
            steps = " ".join(dict.fromkeys(str(run["steps"]) for run in runs))
            rows.append([label, " ".join(map(str, policy.runs)), steps, seconds, commits])
    return Section("Runs", "By `python -m fronts`; CPU seconds of each training in the order of the seeds.", rows)
