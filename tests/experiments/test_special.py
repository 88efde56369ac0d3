"""Pages of another kind, from records made by hand."""

from diver.experiments.catalogue import EXPERIMENTS
from diver.experiments.claims import INITIAL
from diver.experiments.pictures import picture
from diver.experiments.reading import Study
from diver.experiments.special import overhead
from diver.experiments.tables import commands, comparison, rests_on


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
    assert "| grpo |    2.000 |     1.000 |     2.000 |  4.000 | 9.000 |        21.2 [12.5, 30.0] |" in page
    assert "4.5 %" in page and INITIAL not in page
    assert (tmp_path / "overhead-tiny.png").read_bytes().startswith(b"\x89PNG")


def test_a_page_of_a_study_that_is_not_finished_says_so(tmp_path):
    evaluations = {"9": {"samples": 4, "solutions": [[2], [], [4]]}}
    run = {"metrics": {"step": [1, 2], "policy/entropy": [0.2, 0.1]}, "evaluations": evaluations}
    first = {"metrics": {}, "evaluations": {"0": evaluations["9"]}}
    study = Study(EXPERIMENTS["horizon"], {INITIAL: {0: first}, "all": {0: run, 2: run}, "4": {0: run}})
    assert rests_on(study) == "Not finished: 4: 1 seed, 7: no seeds, 14: no seeds, all: 2 seeds; 3 are meant."
    page = comparison(study)
    assert "open, on one seed: 2, not run: 6" in page
    assert page.count("\n| before training") == 2  # not among the signals, which it has none of
    told = commands(study)
    assert "- before training: the bundled policy, only evaluated" in told
    assert "--method.name diver-mix --run.seed 0`; the same with --run.seed 2\n" in told
    assert "--method.diversity.horizon 4 --run.seed 0`\n" in told
    picture(study, tmp_path / "x.png")
    assert (tmp_path / "x.png").exists()
