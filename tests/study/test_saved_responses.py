"""The responses that records keep, by metrics that need a model: measured once, stored, and shown with what is
missing."""

import json

import numpy as np
import pytest

from diver.core.settings import merge
from diver.core.types import DiverError
from diver.diversity import METRICS
from diver.tasks import countdown
from diver_paper import saved_responses
from diver_paper.aggregate import Study, level
from diver_paper.experiments import EXPERIMENTS, INITIAL
from diver_paper.plan import load_regime
from diver_paper.reproduce import Arguments, reproduce, write
from diver_paper.runs import given

REGIME = merge(load_regime(), {"data": {"countdown": {"problems": 8}}, "evaluate": {"problems": 3, "num_samples": 8}})
PROBLEMS = countdown.problems(countdown.Countdown(mix={"three": 0.9, "four": 0.1}), 3, held_out=True)


def record(variant, seed, right):
    """Of 8 responses to each of three problems so many are right; the others are as many different wrong ones."""
    changes = EXPERIMENTS["metric-validity"].variants.get(variant, {})
    answers = [rf"\( 1 + {i} = {1 + i} \) \boxed{{ {1 + i} }}" for i in range(8 - right)]
    responses = [solved(p)[:1] * right + answers for p in PROBLEMS]
    last = {
        "ids": [p.id for p in PROBLEMS],
        "responses": responses,
        "samples": 8,
        "solutions": [[right] * bool(right)] * 3,
    }
    metrics = {} if variant == INITIAL else {"step": [1]}
    return {"recipe": given(REGIME, changes, seed), "metrics": metrics, "evaluations": {"1": last}}


def solved(problem):
    """A right response, found by trying random derivations."""
    import random

    rng = random.Random(0)
    while True:
        steps = countdown.derive(list(problem.meta["numbers"]), rng)
        if steps[-1].result == problem.meta["target"]:
            return [countdown.response(steps)]


@pytest.fixture(scope="module")
def study():
    right = {INITIAL: 1, "clip-higher": 6, "clip-cov": 5, "kl-cov": 4, "pass-at-k": 3, "diver-mix": 2}
    runs = {v: {s: record(v, s, n + s) for s in range(2 if v != INITIAL else 1)} for v, n in right.items()}
    return Study(EXPERIMENTS["metric-validity"], runs)


@pytest.fixture
def lengths(monkeypatch):
    """In the place of a model: half the share of responses that are unlike the one asked about. Counts its groups."""
    asked = []

    def diversity(responses):
        asked.append(responses)
        return np.array([np.mean([a != b for b in responses]) / 2 for a in responses])

    monkeypatch.setitem(METRICS, "embedding", lambda settings: diversity)
    return asked


def test_kept_responses_are_judged_again(study):
    (first, *_) = saved_responses.groups(study.runs["diver-mix"][1])
    assert [r.grade.value for r in first.rollouts] == ["correct"] * 3 + ["wrong"] * 5


def test_models_measure_once_and_their_numbers_are_stored(study, tmp_path, lengths):
    saved_responses.measure_by_models(study, {"embedding": "letters=some/folder"}, tmp_path)
    stored = json.loads((tmp_path / saved_responses.STORED).read_text())
    assert (
        stored["embedding"]["model"] == "letters"
        and "some/folder" not in (tmp_path / saved_responses.STORED).read_text()
    )
    assert len(stored["embedding"]["runs"]) == 11 and len(lengths) == 33
    saved_responses.measure_by_models(study, {"embedding": "letters=elsewhere"}, tmp_path)
    assert len(lengths) == 33
    saved_responses.measure_by_models(study, {"embedding": "another"}, tmp_path)
    assert (
        len(lengths) == 66
        and saved_responses.read(tmp_path / saved_responses.STORED)["embedding"]["model"] == "another"
    )

    found = saved_responses.with_measures(study, tmp_path)
    # 6 equal and 2 others of 8: (6 x 2/8 + 2 x 7/8) / 8, halved
    assert level(found, "clip-higher", "saved/embedding").mean == pytest.approx(
        np.mean([(6 * 2 + 2 * 7) / 128, (7 + 7) / 128]), rel=1e-3
    )
    assert level(found, "clip-higher", "saved/pass@1").mean == pytest.approx(6.5 / 8)
    assert np.isnan(level(found, "clip-higher", "saved/hidden-state").mean)


def test_numbers_of_other_responses_are_not_taken(study, tmp_path, lengths):
    saved_responses.measure_by_models(study, {"embedding": "letters"}, tmp_path)
    other = Study(study.experiment, {"clip-higher": {0: record("clip-higher", 0, 1)}})
    assert "embedding" not in saved_responses.with_measures(other, tmp_path).runs["clip-higher"][0]["saved"]
    saved_responses.measure_by_models(other, {"embedding": "letters"}, tmp_path)
    assert "embedding" in saved_responses.with_measures(other, tmp_path).runs["clip-higher"][0]["saved"]


def test_the_page_tells_which_models_measured_and_what_is_missing(study, tmp_path, lengths):
    write(study, tmp_path)
    page = (tmp_path / "metric-validity-tiny.md").read_text()
    assert "Embedding: not measured by any model." in page and ", 6 not run." in page
    write(study, tmp_path, {"embedding": "letters=some/folder"})
    page = (tmp_path / "metric-validity-tiny.md").read_text()
    assert "Embedding: letters, 11 of 11 runs." in page and "TD ~ embedding" in page and "of 5 methods' means" in page
    assert "Hidden state: not measured by any model." in page and ", 3 not run." in page
    assert (tmp_path / "metric-validity-tiny.png").read_bytes().startswith(b"\x89PNG")


def test_models_are_of_metric_validity_only_and_a_broken_store_is_told(tmp_path):
    with pytest.raises(DiverError, match="for metric-validity, not for main"):
        reproduce(Arguments(name="main", embedding="x"))
    (tmp_path / saved_responses.STORED).write_text("{")
    with pytest.raises(DiverError, match="metric-validity-tiny.json: is not JSON"):
        saved_responses.read(tmp_path / saved_responses.STORED)
