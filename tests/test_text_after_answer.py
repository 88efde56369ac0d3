"""Text after the answer earns nothing: eight equal answers, four of them with a random tail, have no advantage."""

import random
import warnings

import numpy as np
import pytest

import diver
from diver.core.types import DiverError, Group, Problem, Rollout
from diver.diversity import Diversity, measure
from diver.grading import verify
from diver.methods import method_named
from diver.methods.diver import Shaping, is_rewarded

ANSWER = r"First \( 2 + 3 = 5 \) and so the answer is \boxed{5}"
PROBLEM = Problem("p", "What is 2 + 3?", "5")
METHODS = ("diver-td", "diver-ed", "diver-mix")


def tail(seed):
    """Random words and formulas, which raise TD and ED of a whole response."""
    rng = random.Random(seed)
    return " ".join(rng.choice([f"word{rng.random()}", rf"\( {rng.randint(1, 99)} = x \)"]) for _ in range(12))


TEXTS = [ANSWER] * 4 + [f"{ANSWER} {tail(i)}" for i in range(4)]


@pytest.mark.parametrize("progress", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("method", METHODS)
def test_eight_equal_answers_have_no_advantage(method, progress):
    shaped = diver.advantages(
        TEXTS, [1.0] * 8, ["p"] * 8, method, progress, answer_ends=[len(ANSWER)] * 8, truncated=[False] * 8
    )
    assert shaped.tolist() == [0.0] * 8


@pytest.mark.parametrize("progress", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("method", METHODS)
def test_the_paper_measures_the_whole_response_and_so_pays_for_the_tail(method, progress):
    """Every tail is different, so those with one have the greater diversity, whatever lambda is:
    A is near -1 and +1. At the end lambda times the diversity is within the rounding of float32, and A is 0."""
    paper = method_named(method, diversity={"until": "end"}, shaping={"condition": "correct"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shaped = diver.advantages(TEXTS, [1.0] * 8, ["p"] * 8, paper, progress)
        at_the_end = diver.advantages(TEXTS, [1.0] * 8, ["p"] * 8, paper, 0.999)
    assert (shaped[:4] < -0.9).all() and (shaped[4:] > 0.5).all()
    assert not at_the_end.any()


@pytest.mark.parametrize("method", METHODS)
def test_graded_groups_have_no_advantage_either(method):
    (group,) = verify([Group(PROBLEM, tuple(Rollout(text) for text in TEXTS))])
    (shaped,) = method_named(method).apply([group], 0.5)
    assert shaped.advantages.tolist() == [0.0] * 8


def test_a_truncated_response_is_not_rewarded_by_default():
    outcomes, cut = np.array([1.0, 1.0, 0.0, 0.0]), np.array([False, True, False, True])
    assert is_rewarded(outcomes, "correct-finished", 0.5, cut).tolist() == [True, False, False, False]
    assert is_rewarded(outcomes, "correct", 0.5, cut).tolist() == [True, True, False, False]
    assert is_rewarded(outcomes, "wrong", 0.5, cut).tolist() == [False, False, True, True]
    assert is_rewarded(outcomes, "correct-finished", 0.5).tolist() == [True, True, False, False]
    assert Shaping().condition == "correct-finished" and Diversity().until == "answer"


def test_the_first_two_of_four_correct_answers_were_cut():
    """Four correct answers that share no word have TD 1, clipped to 0.65: r' = 1, 1, 1.065, 1.065 at lambda 0.1.

    The mean is 1.0325 and the population's std 0.0325, so A = -1, -1, 1, 1.
    """
    texts = ["a b c d \\boxed{5}", "e f g h \\boxed5", "i j k l \\fbox{5}", "m n o p \\fbox5"]
    shaped = diver.advantages(
        texts,
        [1, 1, 1, 1],
        [0] * 4,
        "diver-td",
        answer_ends=[len(text) for text in texts],
        truncated=[True, True, False, False],
    )
    assert shaped == pytest.approx([-1, -1, 1, 1])


def test_a_note_says_what_is_not_given():
    with pytest.warns(UserWarning, match="without `answer_ends`.*without `truncated`"):
        diver.advantages(["a", "b"], [1, 0], [0, 0])
    with pytest.warns(UserWarning, match="without `truncated`") as noted:
        diver.advantages(["a", "b"], [1, 0], [0, 0], answer_ends=[1, 1])
    assert "answer_ends" not in str(noted[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        diver.advantages(["a", "b"], [1, 0], [0, 0], answer_ends=[1, None], truncated=[False, True])
        diver.advantages(["a", "b"], [1, 0], [0, 0], "clip-higher")  # rewards no text
        diver.advantages([r"a \boxed{1}", r"$\boxed{2}$."], [1, 0], [0, 0])  # end with their boxes
    for goes_on in (r"a \boxed{1}, b", r"\boxed{1} b \boxed{1}", "a"):
        with pytest.warns(UserWarning, match="without `answer_ends`"):
            diver.advantages([r"\boxed{1}", goes_on], [1, 0], [0, 0])


@pytest.mark.filterwarnings("ignore:method 'diver-mix'. without")
@pytest.mark.parametrize(
    "column, value, message",
    [
        ("answer_ends", 3, "row 1: an answer end is a number of characters from 0 to 2, or None, not 3"),
        ("answer_ends", -1, "row 1: an answer end"),
        ("answer_ends", True, "row 1: an answer end"),
        ("answer_ends", "2", "row 1: an answer end"),
        ("truncated", "no", "row 1: truncated is true or false, not 'no'"),
    ],
)
def test_a_wrong_column_names_its_row(column, value, message):
    with pytest.raises(ValueError, match=message):
        diver.advantages(["ab", "ab"], [1, 0], [0, 0], **{column: [0, value]})


# ---- every metric sees the response up to its answer -----------------------------------------------------------------


def of_two(first, second, **fields):
    """A group of two responses whose answers end after four characters."""
    rollouts = (Rollout(first, answer_end=4, **fields), Rollout(second, answer_end=4, **fields))
    return Group(PROBLEM, rollouts)


@pytest.mark.parametrize("name", ["textual", "equational", "distinct-n", "self-bleu"])
def test_a_metric_is_that_of_the_texts_up_to_their_answers(name):
    whole, cut = of_two("$a$ $x$ la", "$b$ $y$ lo"), of_two("$a$ ", "$b$ ")
    settings = Diversity()
    assert measure(whole, [name], settings)[name].tolist() == measure(cut, [name], settings)[name].tolist()


def test_policy_tokens_are_cut_at_the_answer():
    """One token a character: of `abcdX` and `abcdY` the first four are equal, so TD is 0; of all five it is not."""
    rollouts = (
        Rollout("abcdX", tokens=[1, 2, 3, 4, 5], answer_end=4),
        Rollout("abcdY", tokens=[1, 2, 3, 4, 6], answer_end=4),
    )
    group = Group(PROBLEM, rollouts)

    def decode(ids):
        return "".join(" abcdXY"[i] for i in ids)

    assert measure(group, ["textual"], Diversity(tokenize="policy"), decode)["textual"].tolist() == [0, 0]
    assert (measure(group, ["textual"], Diversity(tokenize="policy", until="end"))["textual"] > 0).all()
    with pytest.raises(ValueError, match="rollout 0: its answer ends before its text, so tokens need `decode`"):
        measure(group, ["textual"], Diversity(tokenize="policy"))
    # A horizon of three tokens is shorter than the answer, one of five longer.
    for horizon in (3, 5):
        assert measure(group, ["textual"], Diversity(horizon=horizon), decode)["textual"].tolist() == [0, 0]


def seen(group):
    """A metric of one's own that notes what it is given."""
    seen.groups.append(group)
    return np.zeros(len(group))


seen.groups = []


def test_a_metric_of_the_whole_group_sees_the_answers_alone():
    rollout = Rollout("abcdX", tokens=[1, 2, 3, 4, 5], logprobs=np.zeros(5, np.float32), answer_end=4)
    group = Group(PROBLEM, (rollout, Rollout("ab")))
    name = f"{__name__}:seen"
    measure(group, [name], Diversity(), lambda ids: "".join(" abcdX"[i] for i in ids))
    measure(group, [name], Diversity())
    measure(group, [name], Diversity(until="end"))
    cut, unknown, whole = (found.rollouts[0] for found in seen.groups)
    assert (cut.response, cut.tokens, len(cut.logprobs)) == ("abcd", [1, 2, 3, 4], 4)
    assert (unknown.response, unknown.tokens, unknown.logprobs) == ("abcd", None, None)
    assert whole == rollout


def test_an_unknown_choice_is_refused():
    with pytest.raises(DiverError, match="until.*answer"):
        method_named("diver-mix", diversity={"until": "box"})
