"""The page of `diver measure`: its summary, and the browser of the measured groups."""

from pathlib import Path

from diver.core.files import write_text
from diver.pages import page
from diver.pages.groups import Shown, browser_data, with_page_name
from diver.rollouts import problems
from diver.rollouts.measure import NOTE, Measure, Measurement, table_of, usual_size


def write_measured(path: Path, config: Measure, measured: Measurement) -> Path:
    """Write the page of measured groups, evenly spaced where there are more than `config.groups`; returns its path."""
    shown: list[Shown] = []
    for name, groups in measured.groups.items():
        prefix, usual = f"{name}: " if len(measured.groups) > 1 else "", usual_size(groups)
        for group in groups:
            step = group.problem.meta.get("step")
            label = f"{prefix}{problems.name_of(group.problem)}" + (f", step {step}" if step is not None else "")
            label += f", ragged: {len(group)} responses, not {usual}" if len(group) != usual else ""
            group = with_page_name(group, label, config.threshold)
            shown.append(Shown(group, tokenize=config.diversity.tokenize, until=config.diversity.until))
    title = ", ".join(measured.groups)
    facts = {
        "groups": len(shown),
        "responses": sum(len(s.group) for s in shown),
        "metrics": ", ".join(map(problems.title, config.names)),
        "steps": config.steps,
    }
    browser = browser_data([shown[i] for i in page.evenly_spaced(len(shown), config.groups)], config.groups)
    table = page.text_table(table_of(measured.tables).upright())
    parts = (
        page.header("diver measure", page.text(title), page.facts(facts)),
        page.section("Summary", f'{table}<p class="note">{page.text(NOTE)}</p>'),
        page.groups_section(browser, len(shown)),
    )
    write_text(path, page.document(title, parts, {"runs": [""], "browser": browser}))
    return path
