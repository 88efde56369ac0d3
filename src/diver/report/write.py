"""From run folders, or any groups, to one HTML page and one table for the terminal."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from diver.io.files import write_text
from diver.io.jsonl import table as table_at
from diver.report import sections
from diver.report.browser import GROUPS, Shown, browser_data
from diver.report.curves import curves_data
from diver.report.page import document, facts, groups_section, html_table
from diver.report.run_record import RunRecord
from diver.report.summary import model_and_method, run_alerts
from diver.report.text import evenly_spaced, text
from diver.types import DiverError, Group

STEPS = 20  # of a run from which groups are shown


def write_report(*folders: Path, path: Path | None = None, groups: int = GROUPS) -> Path:
    """Write the page of one run, or of several side by side, and return its path; by default into the one run's folder.

    At most `groups` groups are shown, evenly spaced over the runs. The runs may still be training, and an existing
    page is replaced whole or not at all. DiverError where one of `folders` is no run folder.
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
    names, of_runs = sections.labels(runs), [run_alerts(run) for run in runs]
    shown = [s for i, run in enumerate(runs) for s in _shown(run, i, groups // len(runs))]
    browser = browser_data(shown, groups)
    title = " · ".join(model_and_method(runs[0]) if len(runs) == 1 else names)
    parts = (
        sections.head(runs, names),
        sections.comparison(runs, names),
        sections.alerts_section(of_runs, names),
        sections.CURVES if any(len(run.metrics) or run.evaluations for run in runs) else "",
        groups_section(browser),
        sections.provenance(runs, names),
    )
    return document(title, parts, {"runs": names, "curves": curves_data(runs, of_runs), "browser": browser})


def _shown(run: RunRecord, index: int, limit: int) -> list[Shown]:
    """At most `limit` groups of a run: of up to STEPS steps evenly spaced, as many of each, evenly spaced too."""
    recorded = list(run.rollout_files)
    steps = [recorded[i] for i in evenly_spaced(len(recorded), min(STEPS, limit))]
    tokenize = str(table_at(run.config, "recipe", "method", "diversity").get("tokenize", ""))
    shown = []
    for step in steps:
        groups = run.groups(step)
        shown += [Shown(groups[i], index, step, tokenize) for i in evenly_spaced(len(groups), limit // len(steps))]
    return shown


def write_browser(
    path: Path,
    groups: Sequence[Group],
    *,
    title: str,
    about: Mapping[str, object] | None = None,
    table: Sequence[Sequence[str]] = (),
    note: str = "",
    limit: int = GROUPS,
    tokenize: str = "whitespace",
) -> Path:
    """Write a page with the group browser for groups of any origin, and return its path.

    title: the headline; about: label -> value under it; table: a header row and rows, shown as text, with a note below.
    At most `limit` groups are shown, evenly spaced. tokenize: `diversity.tokenize`, for the matrix.
    """
    index = evenly_spaced(len(groups), limit)
    browser = browser_data([Shown(groups[i], tokenize=tokenize) for i in index], limit)
    summary = ""
    if table:
        header, *rows = [[text(cell) for cell in row] for row in table]
        below = f'<p class="note">{text(note)}</p>'
        summary = f"<section><h2>Summary</h2>\n{html_table(header, rows, 'fit')}{below}</section>"
    head = f'<header><p class="eyebrow">diver measure</p>\n<h1>{text(title)}</h1>\n{facts(about or {})}</header>'
    parts = (head, summary, groups_section(browser, len(groups)))
    write_text(Path(path), document(title, parts, {"runs": [""], "browser": browser}))
    return Path(path)
