"""The page of `diver browse` for rollouts: the page of a report, filled from the groups that were read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from diver.core.statistics import ABOUT_PAIRS
from diver.core.tables import Cell, Measure, Table
from diver.diversity import with_diversity
from diver.pages import page
from diver.pages.curves import SHOWN, Panel, drawn, thinned
from diver.pages.groups import Shown, browser_data, with_page_name
from diver.pages.source import MEASURED, Source
from diver.rollouts.problems import (
    RIGHT,
    WRONG,
    entropy,
    estimate_of,
    kind_of_pairs,
    name_of,
    owner,
    pair_columns,
    shared_ks,
)
from diver.train.alerts import NOISE, Alert, alerts, window

if TYPE_CHECKING:
    import pandas as pd

BY_OUTCOME = SHOWN["rollouts"]["policy/entropy"]["note"]
NOTE = (
    "Means over problems, of one with several groups their mean, with 95 % intervals. Pass@k is the unbiased estimate; "
    "written differently@k counts sets of formulas that correct responses write; TD (textual diversity) is 1 - "
    "pairwise BLEU. "
    f"{ABOUT_PAIRS} Of more than {MEASURED} groups these are measured of a random part. Groups of one response are of "
    "no kind."
)


NO_ALERTS = (
    "No alerts: groups without a correct response, truncation, and, where they are known, entropy and length stayed "
    "within their limits; diversity did not rise while the outcome fell, nor Pass@1 while Pass@k fell."
)


class Series(NamedTuple):
    """The responses of a path, or of one value of --by in it. `table` has one row per group, by step."""

    name: str
    source: Source
    by: str
    table: pd.DataFrame

    @property
    def metrics(self) -> pd.DataFrame:
        """float64, one row per step, one column per mean; empty if no step is known."""
        means = self.table.drop(columns="by").groupby("step").mean()
        return means.rename(index=int).dropna(axis=1, how="all")


def runs_of(sources: Sequence[Source]) -> list[Series]:
    """The runs of all sources, in the order of their first responses."""
    import pandas as pd

    runs = []
    for source in sources:
        tables = source.table.groupby("by", sort=False)
        for by, rows in tables:
            name = source.name if len(tables) == 1 else f"{source.name}: {by}" if len(sources) > 1 else by
            steps = pd.concat([step_rows for _, step_rows in rows.groupby("step", sort=False, dropna=False)])
            runs.append(Series(name, source, by, steps))
    return runs


def summary(runs: Sequence[Series]) -> Table:
    """One row per run."""
    tables = [run.table for run in runs]
    estimated = [
        *(Measure(f"pass@{k}", f"Pass@{k}", 100) for k in shared_ks(tables, "pass")),
        *(Measure(f"distinct@{k}", f"written differently@{k}") for k in shared_ks(tables, "distinct")),
        *(Measure(name, **entry) for name, entry in SHOWN["summary"].items()),
    ]
    columns: dict[Measure, Sequence[Cell]] = {
        Measure("groups"): [len(t) for t in tables],
        Measure("responses"): [int(t["responses"].sum()) for t in tables],
        **{measure: [estimate_of(t, measure.name) for t in tables] for measure in estimated},
    }
    if kind := kind_of_pairs([dict(t.items()) for t in tables]):
        problems = [t["problem"][t[kind].notna()].nunique() if kind in t else None for t in tables]
        columns |= pair_columns(kind, [estimate_of(t, kind) for t in tables], problems)
    return Table.of_columns("run", [run.name for run in runs], columns)


def is_upright(table: Table) -> bool:
    """Whether the summary has one column per run, which is easier to read for few runs."""
    return len(table.rows) <= 3


def render(sources: Sequence[Source], groups: int, threshold: float, version: str = "") -> str:
    """The page of the rollouts read so far; `groups` is the maximum number of groups that it shows."""
    runs = runs_of(sources)
    names = [run.name for run in runs]
    metrics = [run.metrics for run in runs]
    fired = [[*alerts(m), *filter(None, [_narrower(m)])] for m in metrics]
    browser = browser_data(_shown(runs, sources, groups, threshold), groups)
    total = sum(len(run.table) for run in runs)
    lines = "".join(f"<li>{page.text(note)}</li>" for note in remarks(sources))
    notes = f"<ul class=note>{lines}</ul>" if lines else ""
    stepped = any(len(m) > 1 for m in metrics)
    parts = (
        _head(runs, sources),
        page.alerts_section(fired, names, NO_ALERTS) if stepped else "",
        page.CURVES if stepped else "",
        _summary_section(runs),
        page.groups_section(browser, total, drawn="drawn at random from those read"),
        page.section("Files", page.facts({source.name: source.path for source in sources}) + notes),
    )
    data = {"runs": names, "curves": curves(runs, metrics, fired), "browser": browser, "version": version}
    return page.document(" · ".join(source.name for source in sources), parts, data)


def _head(runs: Sequence[Series], sources: Sequence[Source]) -> str:
    steps = sorted({int(step) for run in runs for step in run.table["step"].dropna()})
    outcomes = dict.fromkeys(name for source in sources for name in source.outcomes)
    facts = {
        "Read as": ", ".join(dict.fromkeys(name for source in sources for name in source.layouts)),
        "Outcome": ", ".join(outcomes),
        "Groups": f"{sum(len(run.table) for run in runs):,}",
        "Responses": f"{sum(run.table['responses'].sum() for run in runs):,}",
        "Steps": " to ".join(f"{step:,}" for step in dict.fromkeys(steps[:1] + steps[-1:])),
    }
    notes = "".join(f'<p class="note">{page.text(line)}</p>' for line in map(part_read, sources) if line)
    return page.header(
        "diver browse", page.text(" · ".join(source.name for source in sources)), page.facts(facts) + notes
    )


def part_read(source: Source) -> str:
    """Which part of a source was read; empty if everything was."""
    cut = any(not content.whole for content in source.contents.values())
    if not source.missing and not cut:
        return ""
    size, count = sum(file.size for file in source.files), len(source.files)
    total = f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
    files = "the file" if count == 1 else f"each of its {count:,} files"
    if source.missing:
        files = f"{len(source.contents):,} of its {count:,} files, evenly spaced over the steps"
    if not cut:
        return f"{source.name}, {total}: read so far are {files}. --all reads everything."
    return (
        f"{source.name}, {total}: read so far is the beginning of {files}; groups smaller than the largest of a "
        "beginning may be cut off there, and are left out. --all reads everything."
    )


def _summary_section(runs: Sequence[Series]) -> str:
    table = summary(runs)
    upright = is_upright(table)

    (_, *titles), *rows = table.upright() if upright else table.text()
    measures = [*map(page.text, [row[0] for row in rows] if upright else titles)]
    names = [f"{page.swatch(i) if len(runs) > 1 else ''}{page.text(run.name)}" for i, run in enumerate(runs)]
    header, firsts = (names, measures) if upright else (measures, names)
    body = [[first, *map(page.cell, cells)] for first, (_, *cells) in zip(firsts, rows, strict=True)]
    html = page.html_table(["", *header], body)
    return page.section("Summary", f"{html}<p class='note'>{page.text(NOTE)}</p>")


def remarks(sources: Sequence[Source]) -> list[str]:
    """Notes on the sources for the user, at most 20 lines and the number of further ones."""
    notes = [note for source in sources for note in source.notes]
    return [*notes[:20], *([f"and {len(notes) - 20:,} more"] if len(notes) > 20 else [])]


# ---- curves


def curves(
    runs: Sequence[Series], metrics: Sequence[pd.DataFrame], run_alerts: Sequence[Sequence[Alert]]
) -> dict[str, Any]:
    """The panels as the page draws them, see `diver.pages.curves`."""
    tables = [run.table for run in runs]
    distinct = shared_ks(tables, "distinct")
    panels = [
        *(Panel(f"pass@{k}", f"Pass@{k}", "of the rollouts", True) for k in shared_ks(tables, "pass")),
        *(Panel(f"distinct@{k}", f"Written differently@{k}", "correct, by their formulas") for k in distinct),
        *(Panel(metric, **entry) for metric, entry in SHOWN["rollouts"].items()),
    ]
    steps = max([1, *(int(m.index[-1]) for m in metrics if len(m))])
    return {"steps": steps, "panels": drawn(panels, lambda panel: _lines(panel, metrics), run_alerts), "more": []}


def _lines(panel: Panel, metrics: Sequence[pd.DataFrame]) -> list[dict[str, Any]]:
    """One line per run, or one line for its correct responses and one for its wrong ones."""
    lines = []
    for i, means in enumerate(metrics):
        series = [(f"{panel.id}:{RIGHT}", RIGHT), (f"{panel.id}:{WRONG}", WRONG)]
        if panel.note != BY_OUTCOME or not any(name in means for name, _ in series):
            series = [(panel.id, "")]
        for name, label in series:
            # Without truncation flags, the curve would be zeros, as if no response was truncated.
            if name in means and len(values := means[name].dropna()) and (name != "response/truncated" or values.any()):
                lines.append({"run": i, "of": label, "dashed": label == WRONG, **thinned(values.index, values=values)})
    return lines


def _narrower(metrics: pd.DataFrame) -> Alert | None:
    """Pass@1 rose and Pass@k of the largest k fell between the first and the last quarter, both beyond their noise."""
    names = sorted((n for n in metrics if n.startswith("pass@")), key=lambda n: int(n.partition("@")[2]))
    quarter = len(metrics) // 4
    if len(names) < 2 or quarter < max(3, window(len(metrics)) // 2):
        return None
    moves = []
    for name in (names[0], names[-1]):
        before, after = metrics[name].iloc[:quarter].dropna(), metrics[name].iloc[-quarter:].dropna()
        error = math.sqrt(before.var() / max(len(before), 1) + after.var() / max(len(after), 1))
        moves.append((after.mean() - before.mean(), error))
    (rise, noise), (fall, noise_of_fall) = moves
    if not (rise > NOISE * noise and fall < -NOISE * noise_of_fall):
        return None
    first, last = (name.replace("pass", "Pass") for name in (names[0], names[-1]))
    return Alert(
        f"{first} rises while {last} falls",
        f"From the first to the last quarter of the steps {first} of the rollouts rose by {100 * rise:.1f} points "
        f"and {last} fell by {-100 * fall:.1f}: given many samples, the policy solves fewer problems.",
        "Evaluate earlier checkpoints, or reward diversity.",
        names[-1],
    )


# ---- groups


def _shown(runs: Sequence[Series], sources: Sequence[Source], limit: int, threshold: float) -> list[Shown]:
    """At most `limit` groups, by step, with the values that cards of responses show."""
    index = {(id(run.source), run.by): i for i, run in enumerate(runs)}
    pairs = [(source, group) for source in sources for c in source.contents.values() for group, _ in c.sample.groups()]
    shown = []
    for source, group in (pairs[i] for i in page.evenly_spaced(len(pairs), limit)):
        copy = with_page_name(group, name_of(group.problem), threshold)
        copy = copy.with_each(entropy=[entropy(r) for r in group.rollouts])
        if len(group) > 1 and not group.rollouts[0].diversity:
            copy = with_diversity(copy, ["textual", "equational"])
        shown.append(Shown(copy, index[id(source), owner(group.problem, source.by)], group.problem.meta.get("step")))
    return shown
