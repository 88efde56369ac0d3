"""docs/results/verified-replay.md, from the records that exist."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from diver.core.files import write_text
from diver.core.tables import counted, markdown
from diver_paper.runs import Planned, Record
from method_comparison.results import UNTRAINED, pass_at
from verified_replay.answer import advice, answer
from verified_replay.results import HELD_OUT, KS, TITLES, Finished, gap, mean, points, times
from verified_replay.study import (
    BASELINE,
    RECORDS,
    REPLAY,
    TESTBEDS,
    TUNED_ALPHA,
    Study,
    score,
)

DASH = "–"
TITLE = "# Replay of verified solutions\n"
INTRODUCTION = f"""\
Does [`verified-replay`](../methods.md#outcomes-only) gain over clip-higher at a tuned learning rate, with new problems
and new seeds? The protocol, `studies/verified_replay/study.toml`, was committed before the first run.
`python -m verified_replay` makes this page from the records. The runs of SmolLM2 on GSM8K were cut to save hours: no
run here is of a language model of its size. The protocol also prints temperature 1 and the training problems.
`git show ff645ce4:docs/results/{RECORDS}.md` has these tables, and `records/{RECORDS}.jsonl.gz` the counts.
"""


def write_page(study: Study) -> Path:
    """Write the page of the finished runs; runs without a record are counted."""
    planned = [(run, study.record(run)) for run in study.planned()]
    page, finished = study.out / f"{RECORDS}.md", Finished(study)
    parts = [TITLE, *answer(finished), INTRODUCTION]
    if missing := sum(record is None for _, record in planned):
        chosen = all(study.choice(testbed).alpha is not None for testbed in TESTBEDS)
        note = "" if chosen else ", besides those whose learning rate is not chosen yet"
        parts.append(
            f"**Not finished**: {missing} of {len(planned)} runs have no record{note}. Where a setting has one seed, "
            "its intervals are over problems alone.\n"
        )
    parts += advice(finished, page.with_suffix(".png"))
    parts += _tables(finished) + _each(planned) + _tuning(study) + _cost(planned, finished)
    write_text(page, "\n".join(parts))
    return page


def _tuning(study: Study) -> list[str]:
    about = (
        "One run of full length for each learning rate. The criterion is the mean of Pass@1 and Pass@64 on selection "
        "problems at temperature 0.6, in per cent.\n"
    )
    parts = ["## Tuning\n", about]
    for testbed in TESTBEDS:
        choice, table, lowest = study.choice(testbed), dict[str, list[tuple[float, float]]](), dict[str, float]()
        for run in study.tuning(testbed):
            if (record := study.record(run)) is None:
                continue
            lowest[run.label] = min(run.rate, lowest.get(run.label, run.rate))
            alpha = f", alpha {run.alpha or TUNED_ALPHA:g}" if run.label == REPLAY else ""
            table.setdefault(run.label + alpha, []).append((run.rate, score(record)))
        if table:
            chosen = "; ".join(f"{label} {rate:g}" for label, rate in choice.rates.items()) or "none yet"
            alpha_text = "" if choice.alpha is None else f"; alpha {choice.alpha:g}"
            parts += [f"{TITLES[testbed]}. Chosen: {chosen}{alpha_text}.\n"]
            cells = {label: "; ".join(f"{r:g} {100 * s:.1f}" for r, s in sorted(runs)) for label, runs in table.items()}
            parts += [markdown(["", "each learning rate and its criterion"], list(map(list, cells.items())), text=2)]
            if ends := [label for label, rate in choice.rates.items() if rate <= lowest[label]]:
                parts += [
                    f"Chosen at the lowest rate that was run: {', '.join(ends)}. A lower rate was not tried and may be "
                    "better.\n"
                ]
            if choice.alpha == max(study.config["alphas"]):
                parts += [f"Alpha {choice.alpha:g} is the highest that was run. A higher one was not tried.\n"]
    return parts if len(parts) > 2 else []


def _tables(found: Finished) -> list[str]:
    """Pass@k of all runs besides the tuning, and the difference from tuned clip-higher."""
    parts = []
    for stage, testbed in (("final", "countdown"), ("final", "maze"), ("controls", "maze"), ("large", "maze")):
        base = found.runs(testbed, BASELINE, "final" if stage == "controls" else stage)
        if not (labels := found.labels_of(stage, testbed)):
            continue
        runs_by_label = {label: found.runs(testbed, label, stage) for label in labels if label != BASELINE}
        most_seeds_first = sorted(runs_by_label.items(), key=lambda item: -len(item[1]))
        # The controls have the problems of the final runs, whose table has the untrained policy.
        start = [] if stage == "controls" else [(UNTRAINED, found.untrained(testbed, base))]
        table = []
        for label, runs in [*start, (BASELINE, base), *most_seeds_first]:
            if not np.isnan(mean(runs, HELD_OUT, 1)):
                levels = [f"{100 * mean(runs, HELD_OUT, k):.1f}" for k in KS]
                gaps = [DASH if label == BASELINE else points(gap(runs, base, HELD_OUT, k)) for k in KS]
                table.append([label, DASH if label == UNTRAINED else str(len(runs)), *levels, *gaps])
        if table:
            header = ["", "seeds", *(f"@{k}" for k in KS), *(f"difference @{k}" for k in KS)]
            parts.append(f"{TITLES[testbed]}, {stage}, held-out problems, temperature 0.6:\n")
            parts.append(markdown(header, table))
    about = (
        "Pass@k in per cent; differences from clip-higher in points, with intervals of 95 % over problems and the "
        "seeds that both have. Settings with fewer seeds stand below the others and do not compare with them. After "
        "three seeds, another one counts when all settings of the testbed have it. The untrained policy was evaluated "
        "after the runs, once, and is paired with every seed.\n"
    )
    return ["## All final runs\n", about, *parts] if parts else []


def _each(planned: Sequence[tuple[Planned, Record | None]]) -> list[str]:
    """All runs besides the tuning: a row for each setting, with the values of its seeds in order."""
    settings: dict[tuple[str, str], dict[int, Record]] = {}
    for run, record in planned:
        if record is not None and run.stage not in ("tuning", UNTRAINED):
            settings.setdefault((f"{TITLES[run.testbed]}, {run.stage}", run.label), {})[run.seed] = record
    table = []
    for about, runs in settings.items():
        levels = [" ".join(f"{100 * pass_at(runs[s], HELD_OUT, k).mean():.1f}" for s in sorted(runs)) for k in (1, 64)]
        table.append([*about, seed_range(runs), *levels])
    if not table:
        return []
    return [
        "### Each run\n",
        "Held-out problems, temperature 0.6, in per cent, in the order of the seeds.\n",
        markdown(["", "setting", "seeds", "Pass@1", "Pass@64"], table, text=5),
    ]


def seed_range(seeds: Iterable[int]) -> str:
    """The seeds as text: the first and the last if they are consecutive, else all."""
    ordered = sorted(seeds)
    in_a_row = len(ordered) > 1 and ordered == [*range(ordered[0], ordered[-1] + 1)]
    return f"{ordered[0]} to {ordered[-1]}" if in_a_row else ", ".join(map(str, ordered))


def _cost(planned: Sequence[tuple[Planned, Record | None]], found: Finished) -> list[str]:
    """Core-hours of the finished runs, by stage."""
    finished = [(f"{run.testbed}-{run.stage}", record) for run, record in planned if record is not None]
    if not finished:
        return []
    return ["## Cost\n", *_price(found), core_hours(finished)]


def core_hours(finished: Iterable[tuple[str, Record]]) -> str:
    """The runs and core-hours of finished runs, by the folder of each."""
    table: dict[str, list[float]] = {}
    for folder, record in finished:
        seconds = record["cpu_seconds"]
        table.setdefault(folder, []).append(((seconds["train"] or 0.0) + seconds["evaluate"]) / 3600)
    lines = [f"- {folder}: {counted(len(hours), 'run')}, {sum(hours):.1f}" for folder, hours in table.items()]
    return "Core-hours, of a resumed run those of its evaluation alone:\n\n" + "\n".join(lines) + "\n"


def _price(found: Finished) -> list[str]:
    """The CPU time of each training, divided by that of clip-higher."""
    rows = []
    for label in found.labels:
        pairs = [(found.runs(testbed, label), found.runs(testbed, BASELINE)) for testbed in TESTBEDS]
        if label != BASELINE and any(runs and base for runs, base in pairs):
            rows.append([label, *(times(*pair) for pair in pairs)])
    about = (
        "CPU time of a training over that of clip-higher with the same seed, the lowest and the highest. Two machines "
        "made the runs:\na pair counts if one machine made both trainings and neither was resumed.\n"
    )
    return [about, markdown(["", *(TITLES[testbed] for testbed in TESTBEDS)], rows)] if rows else []
