"""The study of text after the answer: its runs, its protocol, and its page."""

from protocol import ROOT, check_descent

from diver.core.statistics import interval
from diver_paper.runs import study_recipe
from text_after_answer.page import CONTROL, growth, late, write_page
from text_after_answer.study import BASELINE, STAGE_C, UNREPAIRED, Study

RESULTS = ROOT / "docs" / "results"
PROTOCOL = "studies/text_after_answer/study.toml"
STUDY = Study(RESULTS)


def settings(label):
    method = study_recipe(next(run.recipe for run in STUDY.planned() if run.label == label)).method
    return method.diversity.until, method.shaping.condition


def test_a_variant_changes_what_its_name_says():
    assert {label: settings(label) for label in STUDY.config["variants"]} == {
        "up to the answer": ("answer", "correct"),
        "finished": ("end", "correct-finished"),
        "both": ("answer", "correct-finished"),
        "all": ("end", "all"),
        "wrong": ("end", "wrong"),
        "all, length penalty": ("end", "all-length-penalty"),
    }


def test_the_runs_of_stage_c_have_the_papers_settings_and_are_all_there():
    found = STUDY.results()
    for label in STAGE_C:
        assert sorted(found[label]) == STUDY.config["seeds"]
    method = study_recipe(found[UNREPAIRED][0]["recipe"]).method
    assert (method.diversity.until, method.shaping.condition) == ("end", "correct")


def run_with_lengths(lengths):
    return {"metrics": {"response/length_mean": lengths}}


def test_growth_by_hand():
    """60 points; the last 15 have the mean 30 and 20, so responses are longer by a half in both seeds."""
    longer = {0: run_with_lengths([20.0] * 45 + [30.0] * 15), 1: run_with_lengths([1.0] * 45 + [60.0] * 15)}
    base = {0: run_with_lengths([20.0] * 60), 1: run_with_lengths([40.0] * 60)}
    assert late(longer, "response/length_mean") == {0: 30.0, 1: 60.0}
    assert growth(longer, base) == interval([0.5, 0.5])
    assert growth({}, base) is None


def test_without_a_repair_responses_grow():
    """The positive control, from stage c's records."""
    found = STUDY.results()
    control = growth(found[UNREPAIRED], found[BASELINE])
    assert control is not None and control.mean > CONTROL


def test_the_page_is_what_the_records_give(tmp_path):
    (tmp_path / "records").symlink_to(RESULTS / "records")
    assert write_page(Study(tmp_path)).read_text() == (RESULTS / "text-after-answer.md").read_text()


def test_the_protocol_was_committed_before_the_runs():
    found = STUDY.results()
    check_descent(PROTOCOL, [run for label in found if label not in STAGE_C for run in found[label].values()])
