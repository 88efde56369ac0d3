"""From run folders, or any groups, to something to look at: one HTML page, one table for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from diver.io.files import write_text
from diver.report import sections, summary
from diver.report.browser import GROUPS, Shown, browser_data, spread
from diver.report.curves import curves_data
from diver.report.page import document, facts, groups_section
from diver.report.reading import RunRecord, as_group
from diver.report.signs import signs
from diver.report.text import text
from diver.types import DiverError, Group

STEPS = 20  # of a run from which groups are shown


def write_report(*folders: Path, path: Path | None = None, groups: int = GROUPS) -> Path:
    """Write the page of one run, or of several side by side, and return its path; by default into the one run's folder.

    At most `groups` groups are shown, evenly spaced over the runs. The runs may still be going on, and a page that is
    there is replaced whole or not at all. DiverError where one of `folders` is no run folder.
    """
    runs = [RunRecord.read(Path(folder)) for folder in folders]
    if not runs or (len(runs) > 1 and path is None):
        raise ValueError("give one run folder, or several and the path of the page")
    if groups < 0:
        raise DiverError(f"groups must be at least 0, not {groups}")
    path = runs[0].folder / "report.html" if path is None else Path(path)
    write_text(path, render(runs, groups))
    return path


def render(runs: Sequence[RunRecord], groups: int = GROUPS) -> str:
    """The page of one or more runs."""
    names, found = sections.labels(runs), [signs(run) for run in runs]
    shown = [s for i, run in enumerate(runs) for s in _shown(run, i, groups // len(runs))]
    browser = browser_data(shown, groups)
    told = " · ".join(sections.model_and_method(runs[0])) if len(runs) == 1 else " · ".join(names)
    parts = (
        sections.head(runs, names),
        sections.comparison(runs, names),
        sections.look_at(found, names),
        sections.curves() if any(run.metrics or run.evaluations for run in runs) else "",
        groups_section(browser),
        sections.making(runs, names),
    )
    return document(told, parts, {"runs": names, "curves": curves_data(runs, found), "browser": browser})


def _shown(run: RunRecord, index: int, limit: int) -> list[Shown]:
    """At most `limit` groups of a run: of up to STEPS steps evenly spaced, as many of each, evenly spaced too."""
    recorded = list(run.rollout_files)
    steps = [recorded[i] for i in spread(len(recorded), min(STEPS, limit))]
    shown = []
    for step in steps:
        rows = run.groups(step)
        for i in spread(len(rows), limit // len(steps)):
            group, lengths = as_group(rows[i])
            shown.append(Shown(group, index, step, lengths))
    return shown


def write_browser(
    path: Path,
    groups: Sequence[Group],
    *,
    title: str,
    about: Mapping[str, object] | None = None,
    table: Sequence[Sequence[str]] = (),
    notes: Sequence[str] = (),
    matrices: Sequence[np.ndarray] | None = None,
    limit: int = GROUPS,
) -> Path:
    """Write a page with the group browser for groups of any origin, and return its path.

    title: the headline; about: label -> value under it; table: a header row and rows, shown as text; notes: sentences
    under the table. matrices: dissimilarities [G, G] of each group, None: textual ones. At most `limit` groups are shown,
    evenly spaced.
    """
    if matrices is not None and len(matrices) != len(groups):
        raise ValueError(f"{len(groups)} groups need as many matrices, got {len(matrices)}")
    index = spread(len(groups), limit)
    shown = [Shown(groups[i], matrix=None if matrices is None else np.asarray(matrices[i])) for i in index]
    browser = browser_data(shown, limit)
    parts = (
        f'<header><p class="eyebrow">diver measure</p>\n<h1>{text(title)}</h1>\n{facts(about or {})}</header>',
        _summary_section(table, notes),
        groups_section(browser, len(groups)),
    )
    write_text(Path(path), document(title, parts, {"runs": [""], "browser": browser}))
    return Path(path)


def _summary_section(table: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    if not table and not notes:
        return ""
    header, rows = (table[0], table[1:]) if table else ((), ())
    head = "".join(f"<th>{text(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    said = "".join(f'<p class="note">{text(note)}</p>' for note in notes)
    return (
        f'<section><h2>Summary</h2>\n<div class="scroll"><table class="fit"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        f"{said}</section>"
    )


def summary_table(run_folder: Path) -> str:
    """Base against trained as plain text of one screen, ending with where to look."""
    return summary.table_text(RunRecord.read(Path(run_folder)))


def headline(run_folder: Path) -> str:
    """The run in one line: its folder, and what its evaluations came to."""
    run = RunRecord.read(Path(run_folder))
    return f"{run.folder}: {sections.one_line(run)}"
