"""docs/results/verified-replay.md, from the records that exist."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from diver.core.files import write_text
from diver.core.tables import markdown
from diver_paper.runs import Planned, Record
from method_comparison.results import UNTRAINED, pass_at
from verified_replay.answer import answer
from verified_replay.results import HELD_OUT, KS, TITLES, Finished, gap, mean, points, times
from verified_replay.study import (
    BASELINE,
    RECORDS,
    REPLAY,
    SELECTION,
    TESTBEDS,
    TUNED_ALPHA,
    Study,
    score,
)

DASH = "–"
INTRODUCTION = """\
# Replay of verified solutions

Does [`verified-replay`](../methods.md#outcomes-only) gain over clip-higher at a tuned learning rate, with new problems
and new seeds? The protocol, `studies/verified_replay/study.toml`, was committed before the first run.
`python -m verified_replay` makes this page from the records. The [comparison of methods](method-comparison.md) stays as
it was. The runs of SmolLM2 on GSM8K were cut to save hours: no run here is of a language model of its size.
"""


def write_page(study: Study) -> Path:
    """Write the page of the finished runs; runs without a record are counted."""
    planned = [(run, study.record(run)) for run in study.planned()]
    parts = [INTRODUCTION]
    if missing := sum(record is None for _, record in planned):
        chosen = all(study.choice(testbed).alpha is not None for testbed in TESTBEDS)
        more = "" if chosen else ", besides those whose learning rate is not chosen yet"
        parts.append(
            f"**Not finished**: {missing} of {len(planned)} runs have no record{more}. Where a setting has one seed, "
            "its intervals are over problems alone.\n"
        )
    page, found = study.out / f"{RECORDS}.md", Finished(study)
    parts += answer(found, page.with_suffix(".png"))
    parts += _tables(found, study.config["temperatures"]) + _each(planned) + _tuning(study) + _cost(planned, found)
    write_text(page, "\n".join(parts))
    return page


def _tuning(study: Study) -> list[str]:
    parts = ["## Tuning\n"]
    for testbed in TESTBEDS:
        choice, table, lowest = study.choice(testbed), [], dict[str, float]()
        for run in study.tuning(testbed):
            if (record := study.record(run)) is None:
                continue
            lowest[run.label] = min(run.rate, lowest.get(run.label, run.rate))
            alpha = run.alpha or (TUNED_ALPHA if run.label == REPLAY else None)
            values = [pass_at(record, SELECTION, k).mean() for k in (1, 64)]
            table.append(
                [
                    run.label,
                    f"{run.rate:g}",
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
            if ends := [label for label, rate in choice.rates.items() if rate <= lowest[label]]:
                parts += [
                    f"Chosen at the lowest rate that was run: {', '.join(ends)}. A lower rate was not tried and may be "
                    "better.\n"
                ]
            if choice.alpha == max(study.config["alphas"]):
                parts += [f"Alpha {choice.alpha:g} is the highest that was run. A higher one was not tried.\n"]
    return parts if len(parts) > 1 else []


def _tables(found: Finished, temperatures: Sequence[float]) -> list[str]:
    """Pass@k of all runs that are not of the tuning, and the difference from tuned clip-higher."""
    parts = []
    for stage, testbed in (("final", "countdown"), ("final", "maze"), ("controls", "maze"), ("large", "maze")):
        base = found.runs(testbed, BASELINE, "final" if stage == "controls" else stage)
        untrained = found.untrained(testbed, base)
        if not (labels := found.labels_of(stage, testbed)):
            continue
        for problems, words in (("held-out", "held-out problems"), ("trained", "training problems")):
            for t in temperatures:
                name, table = f"{problems} {t:g}", []
                of_label = {label: found.runs(testbed, label, stage) for label in labels if label != BASELINE}
                most_seeds_first = sorted(of_label.items(), key=lambda item: -len(item[1]))
                for label, runs in [(UNTRAINED, untrained), (BASELINE, base), *most_seeds_first]:
                    # The stage "large" has training problems on which the untrained policy is not evaluated.
                    if np.isnan(mean(runs, name, 1)) or (label, stage, problems) == (UNTRAINED, "large", "trained"):
                        continue
                    levels = [f"{100 * mean(runs, name, k):.1f}" for k in KS]
                    gaps = [DASH if label == BASELINE else points(gap(runs, base, name, k)) for k in KS]
                    table.append([label, DASH if label == UNTRAINED else str(len(runs)), *levels, *gaps])
                if table:
                    header = ["", "seeds", *(f"@{k}" for k in KS), *(f"difference @{k}" for k in KS)]
                    parts.append(
                        f"{TITLES[testbed]}, {stage}, {words}, temperature {t:g}: Pass@k in per cent, "
                        "difference in points.\n"
                    )
                    parts.append(markdown(header, table))
    about = (
        "Intervals of 95 % over seeds and problems. A difference from clip-higher is over the seeds that both have, a "
        "level over all.\nThe interval of one seed is over problems alone, so it is narrower than one of several "
        "seeds. Settings with fewer seeds\nstand below the others and do not compare with them. After three seeds, "
        "another one counts when all\nsettings of the testbed have it. The "
        "untrained policy was evaluated after the runs, once, and is paired with every seed.\n"
    )
    return ["## All final runs\n", about, *parts] if parts else []


def _each(planned: Sequence[tuple[Planned, Record | None]]) -> list[str]:
    """A row for each run that is not of the tuning."""
    table = []
    for run, record in planned:
        if record is not None and run.stage != "tuning":
            passed = [f"{100 * pass_at(record, HELD_OUT, k).mean():.1f}" for k in (1, 64)]
            about = [run.stage, TITLES[run.testbed], run.label, str(run.seed)]
            table.append([*about, *passed, commits(record)])
    if not table:
        return []
    return [
        "### Each run\n",
        "Held-out problems, temperature 0.6, in per cent.\n",
        markdown(["stage", "testbed", "", "seed", "Pass@1", "Pass@64", "commit"], table, text=4),
    ]


def commits(record: Record) -> str:
    """The first digits of each commit that made the run."""
    return "..".join(commit[:8] for commit in record["commit"].split(".."))


def _cost(planned: Sequence[tuple[Planned, Record | None]], found: Finished) -> list[str]:
    """Core-hours of the finished runs, by stage."""
    finished = [(f"{run.testbed}-{run.stage}", record) for run, record in planned if record is not None]
    if not finished:
        return []
    return ["## Cost\n", *_price(found), core_hours(finished)]


def core_hours(finished: Iterable[tuple[str, Record]]) -> str:
    """A table of the core-hours of finished runs, by the folder of each."""
    table: dict[str, list[float]] = {}
    for folder, record in finished:
        seconds = record["cpu_seconds"]
        table.setdefault(folder, []).append(((seconds["train"] or 0.0) + seconds["evaluate"]) / 3600)
    cells = [[folder, str(len(hours)), f"{sum(hours):.1f}"] for folder, hours in table.items()]
    note = "A run that was resumed counts with its evaluation alone.\n"
    return f"{note}\n{markdown(['stage', 'runs', 'core-hours'], cells)}"


def _price(found: Finished) -> list[str]:
    """The CPU time of each training over that of clip-higher."""
    rows = []
    for label in found.labels:
        pairs = [(found.runs(testbed, label), found.runs(testbed, BASELINE)) for testbed in TESTBEDS]
        if label != BASELINE and any(more and less for more, less in pairs):
            rows.append([label, *(times(*pair) for pair in pairs)])
    about = (
        "CPU time of a training over that of clip-higher with the same seed, the lowest and the highest. Two machines "
        "made the runs:\na pair counts if one machine made both trainings and neither was resumed.\n"
    )
    return [about, markdown(["", *(TITLES[testbed] for testbed in TESTBEDS)], rows)] if rows else []
