"""The pages in docs/results are what their records give, and their README agrees with them."""

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from diver.cli import main
from diver_paper.aggregate import AT_CEILING, CONTRADICTED, INCONCLUSIVE, SUPPORTED
from diver_paper.experiments import EXPERIMENTS
from diver_paper.plan import runs_of, study
from diver_paper.reproduce import write
from diver_paper.saved_responses import STORED

COUNTED = (SUPPORTED, CONTRADICTED, INCONCLUSIVE, AT_CEILING)
ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
PAGES = sorted(path.name.removesuffix("-tiny.md") for path in RESULTS.glob("*-tiny.md"))


def statuses(name):
    """Of the claims of a page: status -> how many; empty where it has none."""
    line = re.search(r"^\d+ claims: (.*)\.$", (RESULTS / f"{name}-tiny.md").read_text(), re.M)
    return Counter({status: int(n) for n, status in re.findall(r"(\d+) ([a-z ]+)", line[1])} if line else {})


def test_the_index_has_every_page_and_the_status_of_its_claims():
    assert "main" in PAGES and set(PAGES) <= EXPERIMENTS.keys()
    index = (RESULTS / "README.md").read_text()
    for name in PAGES:
        counts = statuses(name)
        assert {*counts} <= {*COUNTED}, name
        cells = [str(counts[status]) if counts else "–" for status in COUNTED]
        row = f"| [{name}]({name}-tiny.md) | {EXPERIMENTS[name].reproduces} | {' | '.join(cells)} |"
        assert row in index, row


def test_the_index_counts_all_claims():
    counts = sum(map(statuses, PAGES), Counter())
    text = f"{counts.total()} claims: " + ", ".join(f"{counts[status]} {status}" for status in COUNTED)
    assert text in " ".join((RESULTS / "README.md").read_text().split()), text
    advice = (
        f"{counts[SUPPORTED]} of the paper's {counts.total()} claims are supported, {counts[CONTRADICTED]} contradicted"
    )
    assert advice in " ".join((ROOT / "README.md").read_text().split())


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_its_records_give(name, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    experiment = EXPERIMENTS[name]
    monkeypatch.setattr("diver_paper.reproduce.draw", lambda *_: None)
    found = study(experiment, experiment.seeds, RESULTS)
    assert sum(map(len, found.runs.values())) == len([*runs_of(experiment, experiment.seeds)])
    if (RESULTS / STORED).exists():
        shutil.copy(RESULTS / STORED, tmp_path)
    write(found, tmp_path)
    assert (RESULTS / f"{name}-tiny.md").read_text() == (tmp_path / f"{name}-tiny.md").read_text()


def test_the_command_makes_a_page_of_finished_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    shutil.copytree(RESULTS / "records", tmp_path / "records")
    monkeypatch.setattr("sys.argv", ["diver", "reproduce", "overhead", "--out", str(tmp_path)])
    main()
    assert "Every variant has 5 seeds." in capsys.readouterr().out
    assert (tmp_path / "overhead-tiny.md").read_text() == (RESULTS / "overhead-tiny.md").read_text()


def test_differences_in_the_readmes_are_those_of_the_pages():
    """A difference with its interval, such as +3.2 [1.1, 5.3], stands in one of the pages."""
    readmes = (ROOT / "README.md").read_text() + (RESULTS / "README.md").read_text()
    differences = re.findall(r"[+-]\d+\.\d+ \[[+-]?\d+\.\d+, [+-]?\d+\.\d+\]", readmes)
    pages = "".join(page.read_text() for page in RESULTS.glob("*.md") if page.stem != "README")
    assert differences and [d for d in differences if d not in pages] == []
