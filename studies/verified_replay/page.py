"""docs/results/verified-replay.md, from the records that exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from diver.core.files import write_text
from diver.core.statistics import Estimate
from diver.core.tables import markdown
from method_comparison.results import Record, Runs, difference, pass_at, rows
from verified_replay.study import BASELINE, MORE_ROLLOUTS, RECORDS, REPLAY, SELECTION, TESTBEDS, Planned, Study, score

KS = (1, 4, 16, 64)
TITLES = {"countdown": "Countdown", "maze": "Mazes"}
DECISION, QUESTIONS = 1 - 0.05 / 12, 1 - 0.05 / 10
"""The levels of the protocol: six settings on two testbeds; five differences at two values of k."""
SEEDS = 3  # the fewest by which a setting is judged
DASH = "–"
INTRODUCTION = (
    "# Replay of verified solutions\n\n"
    "Does [`verified-replay`](../methods.md#outcomes-only) gain over clip-higher at a tuned learning rate, with new "
    "problems and new\n"
    "seeds? The protocol, `studies/verified_replay/study.toml`, was committed before the first run. `python -m "
    "verified_replay` makes the\n"
    "runs and this page. The [comparison of methods](method-comparison.md) stays as it was.\n"
)


def write_page(study: Study) -> Path:
    """Write the page of the finished runs; runs without a record are counted."""
    planned = [(run, study.record(run)) for run in study.planned()]
    parts = [INTRODUCTION]
    if missing := sum(record is None for _, record in planned):
        chosen = all(study.choice(testbed).alpha is not None for testbed in TESTBEDS)
        more = "" if chosen else ", besides those whose learning rate is not chosen yet"
        parts.append(f"**Not finished**: {missing} of {len(planned)} runs have no record{more}.\n")
    parts += _tuning(study)
    found: dict[tuple[str, str, str], dict[int, Record]] = {}
    for run, record in planned:
        if record is not None and run.stage != "tuning":
            found.setdefault((run.stage, run.testbed, run.label), {})[run.job.seed] = record
    parts += _decision(study, found) + _questions(found) + _tables(study, found) + _cost(planned)
    page = study.out / f"{RECORDS}.md"
    write_text(page, "\n".join(parts))
    return page


def _tuning(study: Study) -> list[str]:
    parts = ["## Tuning\n"]
    for testbed in TESTBEDS:
        choice, table = study.choice(testbed), []
        for run in study.tuning(testbed):
            if (record := study.record(run)) is None:
                continue
            rate = run.job.changes["train"]["learning_rate"]
            alpha = run.job.changes["method"].get("replay", {}).get("alpha")
            values = [pass_at(record, SELECTION, k).mean() for k in (1, 64)]
            table.append(
                [
                    run.label,
                    f"{rate:g}",
                    DASH if alpha is None else f"{alpha:g}",
                    *(f"{100 * x:.1f}" for x in (*values, score(record))),
                ]
            )
        if table:
            chosen = "; ".join(f"{label} {rate:g}" for label, rate in choice.rates.items()) or "none yet"
            alpha_text = "" if choice.alpha is None else f"; alpha {choice.alpha:g}"
            parts += [
                f"{TITLES[testbed]}, selection problems, temperature 0.6, in per cent. Chosen: {chosen}{alpha_text}.\n"
            ]
            parts += [markdown(["", "learning rate", "alpha", "Pass@1", "Pass@64", "criterion"], table)]
    return parts if len(parts) > 1 else []


def gap(more: Runs, less: Runs, name: str, k: int, level: float = 0.95) -> Estimate:
    """`more` minus `less` at Pass@k, paired over their shared seeds and problems."""
    mine, theirs = (rows(of, name, lambda record, at: pass_at(record, at, k)) for of in (more, less))
    return difference(mine, theirs, level)


def _text(estimate: Estimate) -> str:
    return estimate.text(100, sign="+")


def _decision(study: Study, found: Mapping[tuple[str, str, str], Runs]) -> list[str]:
    """Which settings are above the tuned baseline at Pass@1 and Pass@64, by the level of the protocol."""
    table, above = [], {}
    for label in study.labels:
        if label == BASELINE:
            continue
        cells = [label]
        for testbed in TESTBEDS:
            runs, base = (found.get(("final", testbed, x), {}) for x in (label, BASELINE))
            gaps = [gap(runs, base, "held-out 0.6", k, DECISION) for k in (1, 64)]
            cells += [_text(g) for g in gaps]
            decided = runs.keys() == base.keys() and len(runs) >= SEEDS
            above[label, testbed] = all(g.low > 0 for g in gaps) if decided else None
        if any(cell != DASH for cell in cells[1:]):
            table.append(cells)
    if not table:
        return []
    header = ["", *(f"{TITLES[t]}, Pass@{k}" for t in TESTBEDS for k in (1, 64))]
    note = (
        "Difference from tuned clip-higher, held-out problems, temperature 0.6, in points; "
        f"intervals of {100 * DECISION:.1f} %.\n"
    )
    if None in above.values():
        sentence = "Not decided yet: a setting and the baseline need the same three or more seeds on both testbeds."
    elif winners := [label for label in study.labels if all(above.get((label, t)) for t in TESTBEDS)]:
        sentence = f"Above tuned clip-higher at Pass@1 and at Pass@64 on both testbeds: {', '.join(winners)}."
    else:
        sentence = (
            f"No setting is above tuned clip-higher at Pass@1 and at Pass@64 on both testbeds. {_best(study, found)}"
        )
    return ["## What to turn on\n", sentence + "\n", note, markdown(header, table)]


def _best(study: Study, found: Mapping[tuple[str, str, str], Runs]) -> str:
    """The setting with the highest Pass@k on held-out problems at temperature 0.6, for each testbed and k."""
    parts = []
    for testbed in TESTBEDS:
        for k in KS:
            levels = {
                label: _mean(found.get(("final", testbed, label), {}), "held-out 0.6", k) for label in study.labels
            }
            parts.append(f"{TITLES[testbed]}, Pass@{k}: {max(levels, key=lambda label: levels[label])}")
    return f"The highest means are: {'; '.join(parts)}."


def _questions(found: Mapping[tuple[str, str, str], Runs]) -> list[str]:
    replay = {t: found.get(("final", t, REPLAY), {}) for t in TESTBEDS}
    with_diver = {t: found.get(("final", t, "diver-mix, replay"), {}) for t in TESTBEDS}

    def control(label: str) -> Runs:
        return found.get(("controls", "maze", label), {})

    asked = [
        ("replay at equal gradient tokens, mazes", replay["maze"], control(MORE_ROLLOUTS), QUESTIONS),
        ("uniform weights over weights by frequency, mazes", replay["maze"], control("by frequency"), QUESTIONS),
        ("one response per solution over the latest responses, mazes", replay["maze"], control("latest"), QUESTIONS),
        *((f"DIVER on top of replay, {TITLES[t]}", with_diver[t], replay[t], QUESTIONS) for t in TESTBEDS),
        ("several responses per problem over one, mazes (95 %)", replay["maze"], control("one response"), 0.95),
    ]
    table = [
        [text, *(_text(gap(more, less, "held-out 0.6", k, level)) for k in (1, 64))]
        for text, more, less, level in asked
        if more.keys() & less.keys()
    ]
    if not table:
        return []
    note = f"Held-out problems, temperature 0.6, in points; intervals of {100 * QUESTIONS:.1f} %.\n"
    return ["## What each part adds\n", note, markdown(["", "Pass@1", "Pass@64"], table)]


def _tables(study: Study, found: Mapping[tuple[str, str, str], Runs]) -> list[str]:
    parts = []
    for stage, testbed in (("final", "countdown"), ("final", "maze"), ("controls", "maze"), ("large", "maze")):
        labels = [label for s, t, label in found if (s, t) == (stage, testbed)]
        base = found.get(("final" if stage == "controls" else stage, testbed, BASELINE), {})
        for problems in ("held-out", "trained"):
            for t in study.config["temperatures"]:
                name = f"{problems} {t:g}"
                table = []
                for label in dict.fromkeys([BASELINE, *labels]):
                    runs = base if label == BASELINE else found[stage, testbed, label]
                    if not rows(runs, name, lambda record, at: pass_at(record, at, 1)):
                        continue
                    levels = [f"{100 * _mean(runs, name, k):.1f}" for k in KS]
                    gaps = [] if label == BASELINE else [gap(runs, base, name, k) for k in KS]
                    table.append([label, str(len(runs)), *levels, *([_text(g) for g in gaps] or [DASH] * len(KS))])
                if table:
                    header = ["", "seeds", *(f"@{k}" for k in KS), *(f"difference @{k}" for k in KS)]
                    words = {"held-out": "held-out problems", "trained": "problems of the training"}[problems]
                    parts += [
                        (
                            f"{TITLES[testbed]}, {stage}, {words}, temperature {t:g}: Pass@k in per cent, "
                            "difference in points.\n"
                        )
                    ]
                    parts += [markdown(header, table)]
    return ["## All final runs\n", "Intervals of 95 % over seeds and problems.\n", *parts] if parts else []


def _mean(runs: Runs, name: str, k: int) -> float:
    return float(np.mean([row.mean() for row in rows(runs, name, lambda r, at: pass_at(r, at, k)).values()]))


def _cost(planned: Sequence[tuple[Planned, Record | None]]) -> list[str]:
    """Core-hours of the finished runs, by stage."""
    table: dict[str, list[float]] = {}
    for run, record in planned:
        if record is not None:
            seconds = record["cpu_seconds"]
            table.setdefault(run.folder, []).append(((seconds["train"] or 0.0) + seconds["evaluate"]) / 3600)
    if not table:
        return []
    cells = [[folder, str(len(hours)), f"{sum(hours):.1f}"] for folder, hours in table.items()]
    return [
        "## Cost\n",
        "A run that was resumed counts with its evaluation alone.\n",
        markdown(["stage", "runs", "core-hours"], cells),
    ]
