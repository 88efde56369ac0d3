import re
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest

from diver.core.types import DiverError, Group, Problem, Rollout
from diver.diversity import METRICS, Diversity, equational_diversity, measure, resolve, textual_diversity
from diver.diversity.metrics import RANGES, TITLES

WORDS = ["we", "have", "$x$", "and", "$y$", "so", "there", "it", "is"]


def decode(tokens):
    return " ".join(WORDS[t] for t in tokens)


def make_group(*tokens, with_tokens=True):
    rollouts = tuple(Rollout(decode(t), tokens=list(t) if with_tokens else None) for t in tokens)
    return Group(Problem("p1", "prompt", "42"), rollouts)


GROUP = make_group([0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 6, 7, 8], [0, 1, 2, 5, 7])


def characters(responses):
    """A metric to plug in."""
    return np.array([len(r) for r in responses])


def one_for_all(responses):
    return np.zeros(1)


def infinite(responses):
    return [np.inf] * len(responses)


def words_not_numbers(responses):
    return ["a"] * len(responses)


def test_both_metrics_of_the_paper():
    measured = measure(GROUP, list(METRICS)[:2])
    assert list(measured) == ["textual", "equational"]
    assert (measured["textual"] == textual_diversity(GROUP.responses)).all()
    assert measured["equational"].tolist() == [0.5, 0, 0]  # $y$ of the first is its own


def test_every_metric_has_a_title_a_range_and_a_row_of_the_page():
    page = (Path(__file__).parents[2] / "docs" / "measure.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[\w`, -]+`) \| .* \| 0 to \d \|$", page, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([\w-]+)`", row)]
    assert sorted(named) == sorted(METRICS) == sorted(TITLES) == sorted(RANGES)


def test_settings_reach_the_metrics():
    s = Diversity(orders=2, weights=(0.2, 0.8), symmetric=True, extractor="paper", ignore_space=True)
    measured = measure(GROUP, ["textual", "equational"], s)
    expected = textual_diversity(GROUP.responses, orders=2, weights=(0.2, 0.8), symmetric=True)
    assert (measured["textual"] == expected).all() and (expected != textual_diversity(GROUP.responses)).all()
    spaced = Group(GROUP.problem, (Rollout("$x y$ $$a$$"), Rollout("$xy$")))
    assert measure(spaced, ["equational"], s)["equational"].tolist() == [0.5, 0]  # paper: {xy, ""}
    assert measure(spaced, ["equational"])["equational"].tolist() == [1, 1]


def test_horizon_cuts_at_policy_tokens():
    cut = ["we have $x$ and", "we have $x$ and", "we have $x$ so"]
    measured = measure(GROUP, ["textual", "equational"], Diversity(horizon=4), decode)
    assert (measured["textual"] == textual_diversity(cut)).all()
    assert (measured["equational"] == equational_diversity(cut)).all()
    assert measured["equational"].tolist() == [0, 0, 0]


def test_a_response_within_the_horizon_is_taken_as_it_is():
    group = Group(GROUP.problem, (Rollout("a  b", tokens=[0, 1]), Rollout("we have $x$", tokens=[0, 1, 2])))
    seen = []

    def spy(tokens):
        seen.append(tokens)
        return decode(tokens)

    lengths = measure(group, [f"{__name__}:characters"], Diversity(horizon=2), spy)[f"{__name__}:characters"]
    assert lengths.tolist() == [4, 7] and seen == [[0, 1]]


def lengths(group):
    """A metric of a group: how much it is given of each response."""
    return [len(r.response.split()) + 10 * len(r.tokens) + 100 * len(r.logprobs) for r in group.rollouts]


def test_a_metric_of_the_group_sees_what_is_within_the_horizon():
    rollouts = tuple(r.replace(logprobs=np.zeros(len(r.tokens))) for r in GROUP.rollouts)
    whole, name = Group(GROUP.problem, rollouts), f"{__name__}:lengths"
    assert measure(whole, [name])[name].tolist() == [666, 777, 555]
    assert measure(whole, [name], Diversity(horizon=5), decode)[name].tolist() == [555, 555, 555]
    ended = whole.with_each(answer_end=[len(decode(r.tokens[:2])) for r in rollouts])
    assert measure(ended, [name], Diversity(horizon=5), decode)[name].tolist() == [222, 222, 222]


def test_policy_tokens_need_no_decode():
    ids = [r.tokens for r in GROUP.rollouts]
    s = Diversity(tokenize="policy")
    assert (measure(GROUP, ["textual"], s)["textual"] == textual_diversity(ids)).all()
    s = Diversity(tokenize="policy", horizon=3)
    assert measure(GROUP, ["textual"], s)["textual"].tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="give `decode`"):
        measure(GROUP, ["equational"], s)  # formulas are text


def test_missing_decode_or_tokens():
    with pytest.raises(ValueError, match="give `decode`"):
        measure(GROUP, ["textual"], Diversity(horizon=4))
    bare = make_group([0, 1], [0, 2], with_tokens=False)
    for s in (Diversity(horizon=4), Diversity(tokenize="policy")):
        with pytest.raises(ValueError, match="'p1', rollout 0 has no policy tokens"):
            measure(bare, ["textual"], s, decode)


def test_a_plugged_metric():
    name = f"{__name__}:characters"
    assert resolve(name) is characters
    measured = measure(GROUP, ["textual", name])
    assert measured[name].dtype == np.float64
    assert measured[name].tolist() == [len(r) for r in GROUP.responses]


@pytest.mark.parametrize(
    "name", ["textul", "", "no_such_package:metric", "math:no_such", "a..b:c", ":x", "math:pi", "math.sqrt"]
)
def test_no_such_metric(name):
    with pytest.raises(DiverError, match=r"textual, equational|cannot be imported|not a function") as error:
        measure(GROUP, [name])
    assert "\n" not in str(error.value) and repr(name) in str(error.value)


@pytest.mark.parametrize("function", ["one_for_all", "infinite", "words_not_numbers"])
def test_a_metric_must_give_a_finite_number_per_response(function):
    with pytest.raises(DiverError, match=r"must give 3 finite numbers, one per response"):
        measure(GROUP, [f"{__name__}:{function}"])


@pytest.mark.parametrize(
    "bad, message",
    [
        ({"horizon": 0}, "horizon = 0"),
        ({"orders": 0}, "orders = 0"),
        ({"weights": (1.0,)}, "4 orders need 4 weights"),
        ({"tokenize": "letters"}, "tokenize: unknown choice 'letters'; choices: whitespace, zh, char, policy"),
        ({"extractor": "regex"}, "extractor: unknown choice 'regex'; choices: nested, paper"),
    ],
)
def test_bad_settings(bad, message):
    with pytest.raises((ValueError, DiverError), match=message):
        Diversity(**bad)


def test_settings_are_frozen():
    with pytest.raises(FrozenInstanceError):
        Diversity().orders = 2  # type: ignore[misc]


def test_import_is_light():
    code = "import sys, diver.diversity; print([m for m in ('torch', 'pandas', 'scipy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
