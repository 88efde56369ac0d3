"""Pages of another kind, from records made by hand."""

import re

from diver.core.types import Group, Problem, Rollout
from diver_paper.aggregate import Study
from diver_paper.custom_pages import equations, overhead
from diver_paper.experiments import EXPERIMENTS, INITIAL
from diver_paper.figures import draw
from diver_paper.pages import comparison, results, runs_note, seeds_note


def timed(diversity):
    return {
        "metrics": {
            "time/sample": [2.0, 2.0, 90.0], "time/verify": [1.0] * 3, "time/diversity": [diversity] * 3,
            "time/update": [4.0] * 3,
        }
    }  # fmt: skip


def test_overhead_by_hand(tmp_path):
    study = Study(EXPERIMENTS["overhead"], {INITIAL: {0: {"metrics": {}}}, "grpo": {0: timed(1.0), 1: timed(3.0)}})
    page = overhead(study, tmp_path)
    # medians over steps: 1 of 8 seconds, and 3 of 10
    assert "| grpo | 22.5 [20.0, 25.0] | 11.2 [10.0, 12.5] | 21.2 [12.5, 30.0] | 45.0 [40.0, 50.0] |" in page
    assert "4.5 %" in page and INITIAL not in page
    assert (tmp_path / "overhead-tiny.png").read_bytes().startswith(b"\x89PNG")


def test_a_page_of_a_study_that_is_not_finished_says_so(tmp_path):
    evaluations = {"9": {"samples": 4, "solutions": [[2], [], [4]]}}
    run = {"metrics": {"step": [1, 2], "policy/entropy": [0.2, 0.1]}, "evaluations": evaluations}
    first = {"metrics": {}, "evaluations": {"0": evaluations["9"]}}
    study = Study(EXPERIMENTS["horizon"], {INITIAL: {0: first}, "all": {0: run, 2: run}, "4": {0: run}}, 3)
    assert seeds_note(study) == "Not finished: 4: 1 seed, 7: no seeds, 14: no seeds, all: 2 seeds, of 3."
    page = comparison(study)
    assert "2 one seed, 6 not run" in page
    assert page.count("\n| before training − all") == page.count("\n| all ") == page.count("\n| 4 − all ") == 1
    assert "7 − all" not in page
    paper = "--method.diversity.until end --method.shaping.condition correct"
    assert f"--method.name diver-mix {paper} --run.seed 0` trains all, seed 0.\n" in runs_note(study)
    draw(study, tmp_path / "x.png")
    assert (tmp_path / "x.png").exists()


def test_extraction_counts_what_is_missed_and_what_is_invented(tmp_path, monkeypatch):
    monkeypatch.setattr("diver_paper.custom_pages.groups", lambda run: run)
    texts = (
        r"\( 2 + 3 = 5 \) \boxed{ 5 }",
        r"\( 2 + 3 = 5 \) \( 5 - 1 = 4 \) \boxed{ 4 }",
        r"no derivation \( 1 \)",
    )
    problem = Problem("p", "", "5", "", "countdown", {"numbers": [2, 3, 1], "target": 5})
    group = Group(problem, tuple(Rollout(response=text) for text in texts))
    study = Study(EXPERIMENTS["equation-extraction"], {"grpo": {0: [group]}})
    assert re.search(r"\| Countdown, nested +\| +2 \| +3 \| +0 \| +0 \| +0.00 \|", equations(study, tmp_path))
    # an extractor that finds one formula too many and another not at all has two errors, though the number is right
    monkeypatch.setattr("diver_paper.custom_pages.formulas", lambda text, how: {"2 + 3 = 5", "x"})
    assert re.search(r"\| Countdown, nested +\| +2 \| +3 \| +1 \| +2 \| +100.00 \|", equations(study, tmp_path))


def test_differences_are_from_the_baseline_at_the_same_setting():
    def run(right):
        return {"metrics": {}, "evaluations": {"9": {"samples": 4, "solutions": [[right], [right]]}}}

    names = EXPERIMENTS["robustness"].variants
    study = Study(EXPERIMENTS["robustness"], {v: {0: run(4 if "4" in v else 2), 1: run(2)} for v in names})
    table = results(study)
    assert re.search(r"\| clip-higher +\| +50.0 ± 0.0 \|", table) and not re.search(r"\| diver-mix +\|", table)
    assert re.search(r"\| diver-mix, G = 4 − clip-higher, G = 4 +\| +\+0.0 \[", table)
    assert re.search(r"\| clip-higher, G = 4 − clip-higher +\| +\+25.0 \[", table)
