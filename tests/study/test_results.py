"""The pages in docs/results are what their records give, and the README says what they say."""

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from diver_paper.catalogue import EXPERIMENTS
from diver_paper.kept import STORED
from diver_paper.reading import FAILS, HOLDS, NO_ROOM, UNSEEN, jobs, study
from diver_paper.reproduce import load_regime, write
from diver_paper.sweep import Places

COUNTED = (HOLDS, FAILS, UNSEEN, NO_ROOM)
ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
PAGES = sorted(path.name.removesuffix("-tiny.md") for path in RESULTS.glob("*-tiny.md"))


def became(name):
    """What became of the claims of a page: outcome -> how many; {} where it has none."""
    told = re.search(r"^Of \d+ claims: (.*)\.$", (RESULTS / f"{name}-tiny.md").read_text(), re.M)
    return {outcome: int(n) for outcome, n in re.findall(r"([a-z ]+): (\d+)", told[1])} if told else {}


def test_the_index_has_every_page_and_what_became_of_its_claims():
    assert "main" in PAGES and set(PAGES) <= EXPERIMENTS.keys()
    index = (RESULTS / "README.md").read_text()
    for name in PAGES:
        counts = Counter({k.strip(): n for k, n in became(name).items()})
        assert {*counts} <= {*COUNTED}, name
        cells = [str(counts[outcome]) if counts else "–" for outcome in COUNTED]
        row = f"| [{name}]({name}-tiny.md) | {EXPERIMENTS[name].answers} | {' | '.join(cells)} |"
        assert row in index, row


def test_the_readme_counts_all_claims():
    counts = sum((Counter({k.strip(): n for k, n in became(name).items()}) for name in PAGES), Counter())
    holds, fails, unseen, room = (counts[outcome] for outcome in COUNTED)
    told = f"all {counts.total()} claims: {holds} hold, {fails} do not, {unseen} cannot be seen at this scale, and for {room} it has no room"
    assert told in " ".join((ROOT / "README.md").read_text().split()), told


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_its_records_give(name, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    experiment, regime = EXPERIMENTS[name], load_regime()
    found = study(experiment, experiment.seeds, regime, Places(RESULTS / "runs", tmp_path))
    assert sum(map(len, found.runs.values())) == len(jobs(experiment, experiment.seeds))
    if (RESULTS / STORED).exists():
        shutil.copy(RESULTS / STORED, tmp_path)
    write(found, tmp_path)
    assert (RESULTS / f"{name}-tiny.md").read_text() == (tmp_path / f"{name}-tiny.md").read_text()


def test_differences_in_the_readme_are_those_of_the_pages():
    """A difference with its interval, such as +3.2 [+1.1, +5.3], stands in one of the pages."""
    section = (ROOT / "README.md").read_text().split("## The paper by name")[1].split("\n## ")[0]
    told = re.findall(r"[+-]\d+\.\d+ \[[+-]\d+\.\d+, [+-]\d+\.\d+\]", section)
    pages = "".join((RESULTS / f"{name}-tiny.md").read_text() for name in PAGES)
    assert told and [t for t in told if t not in pages] == []
