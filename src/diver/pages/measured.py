"""The page of `diver measure`: its summary, and the browser of the measured groups."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from diver.core.files import write_text
from diver.core.types import Group
from diver.diversity import Until
from diver.pages import page
from diver.pages.groups import GROUPS, Shown, browser_data, with_page_name
from diver.rollouts import problems
from diver.rollouts.measure import NOTE, Measure, Measurement, table_of, usual_size


def write_measured(path: Path, config: Measure, measured: Measurement) -> Path:
    """Write the page of measured groups, and return its path."""
    shown: list[Group] = []
    for name, groups in measured.groups.items():
        prefix, usual = f"{name}: " if len(measured.groups) > 1 else "", usual_size(groups)
        shown += [with_page_name(group, prefix, config.threshold, usual) for group in groups]
    return write_browser(
        path,
        shown,
        title=", ".join(measured.groups),
        about={
            "groups": len(shown),
            "responses": sum(map(len, shown)),
            "metrics": ", ".join(map(problems.title, config.names)),
            "steps": config.steps,
        },
        table=table_of(measured.tables).upright(),
        note=NOTE,
        limit=config.groups,
        tokenize=config.diversity.tokenize,
        until=config.diversity.until,
    )


def write_browser(
    path: Path,
    groups: Sequence[Group],
    *,
    title: str,
    about: Mapping[str, object] = MappingProxyType({}),
    table: Sequence[Sequence[str]] = (),
    note: str = "",
    limit: int = GROUPS,
    tokenize: str = "whitespace",
    until: Until = "end",
) -> Path:
    """Write a page with the group browser for groups of any origin, and return its path.

    Args:
        title: the headline.
        about: label -> value, shown under the headline.
        table: a header row and rows, shown as text.
        note: a text below the table.
        limit: the maximum number of groups that are shown, evenly spaced.
        tokenize: that of `diversity`, for the matrix.
        until: that of `diversity`, for the matrix and the formulas.
    """
    index = page.evenly_spaced(len(groups), limit)
    browser = browser_data([Shown(groups[i], tokenize=tokenize, until=until) for i in index], limit)
    parts = (
        page.header("diver measure", page.text(title), page.facts(about)),
        page.section("Summary", f'{page.text_table(table)}<p class="note">{page.text(note)}</p>') if table else "",
        page.groups_section(browser, len(groups)),
    )
    write_text(Path(path), page.document(title, parts, {"runs": [""], "browser": browser}))
    return Path(path)
