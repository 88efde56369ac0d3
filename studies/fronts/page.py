"""docs/results/fronts.md, from the records that exist."""

from __future__ import annotations

from pathlib import Path

from diver.core.files import write_text
from diver.core.tables import markdown
from diver.sweep import records
from diver.sweep.choose import policies
from diver.sweep.page import Section, headline, sections
from fronts.controls import section as controls
from fronts.study import TESTBEDS, plan

INTRODUCTION = """\
# Fronts: what to turn on for each k

Every policy at its best weights between untrained (alpha 0) and trained (alpha 1), and at its best temperature, beside
the untrained policy. `studies/fronts/study.toml` is the protocol, which was committed before the first run.
`python -m fronts` makes the runs that have no record, and writes this page.
"""


def write_page(out: Path) -> Path:
    """Write fronts.md in `out`; returns its path."""
    parts = [INTRODUCTION]
    for testbed, title in TESTBEDS.items():
        of_testbed = plan(testbed, out)
        found = policies(of_testbed, records.read(of_testbed.records))
        planned = sum(len(setting.seeds) for setting in of_testbed.settings)
        made = sum(len(policy.runs) for label, policy in found.items() if label in load_labels(testbed))
        parts.append(f"## {title}\n\n{made} of {planned} runs are made. {headline(of_testbed, found)}.\n")
        parts += [*(_section(section) for section in sections(of_testbed, found)), controls(of_testbed, found)]
    write_text(out / "fronts.md", "\n".join(filter(None, parts)))
    return out / "fronts.md"


def load_labels(testbed: str) -> set[str]:
    """The settings of a testbed, the untrained policy aside."""
    return {setting.label for setting in plan(testbed).settings}


def _section(section: Section) -> str:
    if section.title == "Runs":  # a run's record has the arguments of `python -m fronts` as those of `diver`
        section = section._replace(text=f"{section.text.partition(', by ')[0]}, by `python -m fronts`.")
    return f"### {section.title}\n\n{section.text}\n\n{markdown(section.rows[0], section.rows[1:])}"
