"""EVOL-RL, DRA-GRPO and RepExp: the formulas by hand, from given vectors, and each once with a real model."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import diver
from diver.core.types import DiverError, Grade, Group, Problem, Progress, Reward, Rollout
from diver.diversity.vectors import cosines, hidden_states
from diver.methods import method_named
from diver.methods.evol_rl import novelty_rewards
from diver.methods.rep_exp import elliptical_bonus, sparse_projection
from diver.tasks.testbeds import policy_folder

SKY = ["The sky is blue.", "The colour of the sky is blue.", "Three dogs ran through the old town."]
STEPS = ["( 3 + 4 = 7 )", "( 3 + 4 = 7 ) ( 7 * 2 = 14 )", "( 9 - 4 = 5 ) ( 5 * 2 = 10 )", "( 3 * 4 = 12 )"]


def shaped(method, outcomes, responses, grades=(), prompt="", progress=0.0, ends=()):
    """The rewards of a group."""
    grades = grades or [Grade.CORRECT if r else Grade.WRONG for r in outcomes]
    rows = zip(responses, outcomes, grades, ends or [None] * len(outcomes), strict=True)
    rollouts = tuple(Rollout(text, grade=g, reward=Reward(float(r)), answer_end=end) for text, r, g, end in rows)
    (done,) = method.apply([Group(Problem("p", "?", ""), rollouts, prompt)], progress)
    assert done.outcomes.tolist() == [float(r) for r in outcomes]
    assert abs(done.advantages.sum()) < 1e-9
    return done.rewards


# --- EVOL-RL


def test_novelty_by_hand():
    # means within the correct: (0.8 + 0.2) / 2, (0.8 + 0.4) / 2, (0.2 + 0.4) / 2; largest of all: 0.8, 0.8, 0.6
    # novelty 1 - (0.5 + 0.8) / 2 = 0.35, 0.3, 0.55: scaled 0.2, 0, 1; the wrong one is alone
    cosine = [[1, 0.8, 0.2, -0.5], [0.8, 1, 0.4, 0.1], [0.2, 0.4, 1, 0.6], [-0.5, 0.1, 0.6, 1]]
    found = novelty_rewards(np.array(cosine), np.array([True, True, True, False]))
    np.testing.assert_allclose(found, [0.6, 0.5, 1.0, -0.5])


def test_novelty_of_one_alone_and_of_wrong_ones():
    # the correct one is alone: 1. Of the wrong the means are 0.15, 0.25 and 0.4, the largest of all 0.9, 0.5 and 0.5,
    # so 1 - (0.15 + 0.9) / 2 = 0.475, 1 - (0.25 + 0.5) / 2 = 0.625, 1 - (0.4 + 0.5) / 2 = 0.55
    cosine = [[1, 0.9, 0.2, 0.4], [0.9, 1, -0.7, 0.3], [0.2, -0.7, 1, 0.5], [0.4, 0.3, 0.5, 1]]
    found = novelty_rewards(np.array(cosine), np.array([True, False, False, False]))
    np.testing.assert_allclose(found, [1.0, -1.0, -0.5, -0.75])


@pytest.mark.parametrize(("correct", "expected"), [(True, 0.75), (False, -0.75)])
def test_equal_responses_share_the_middle(correct, expected):
    cosine = np.ones((3, 3)) - 1e-9 * np.arange(9).reshape(3, 3)
    assert novelty_rewards(cosine, np.array([correct] * 3)).tolist() == [expected] * 3


def test_evol_rl_needs_to_know_what_has_an_answer():
    method = method_named("evol-rl")
    with pytest.raises(DiverError, match="needs grades, which diver.advantages does not"):
        diver.advantages(["x", "y"], [1, 0], ["p"] * 2, method)
    with pytest.raises(DiverError, match="problem 'p': every rollout needs a grade"):
        method.apply([Group(Problem("p", "", ""), (Rollout("x", reward=Reward(1.0)),) * 2)], 0.0)


def test_evol_rl_with_an_encoder(minilm):
    method = method_named("evol-rl", diversity={"embedding": {"model": minilm.model}})
    found = shaped(method, [1, 1, 1], SKY)
    assert found.max() == found[2] == 1 and found.min() == 0.5  # a solved group has a signal: the odd one out
    # the thought is not looked at; a response without an answer is left out of the comparison
    thought = [f"<think>{i} dogs</think>\n{text}" for i, text in enumerate(SKY)]
    grades = [Grade.CORRECT] * 3 + [Grade.NO_ANSWER, Grade.TRUNCATED]
    more = shaped(method, [1, 1, 1, 0, 0], [*thought, SKY[2], "dogs"], grades)
    np.testing.assert_allclose(more, [*found, -1, -1], atol=1e-6)
    alone = shaped(method, [1, 0, 0], SKY, [Grade.CORRECT, Grade.NO_ANSWER, Grade.NO_ANSWER])
    assert alone.tolist() == [-1] * 3
    unscored = shaped(method, [1, 0, 1], SKY, [Grade.CORRECT, Grade.TIMEOUT, Grade.CORRECT])
    assert unscored[1] == -0.5  # it has an answer, and is the only one that is not correct


# --- DRA-GRPO


def test_dra_grpo_by_hand(monkeypatch):
    # cosines with the others: of the first 0.6, 0 and 1, of the second 0.6, 0.8 and 0.6, of the third 0, 0.8 and 0
    vectors = np.array([[1.0, 0], [3, 4], [0, 2], [5, 0]])
    monkeypatch.setattr("diver.methods.dra_grpo.embeddings", lambda texts, settings: vectors)
    found = shaped(method_named("dra-grpo"), [1, 0, 1, 1], ["a", "b", "c", "d"])
    np.testing.assert_allclose(found, [1 / 2.6, 0, 1 / 1.8, 1 / 2.6], rtol=1e-6)


def test_dra_grpo_with_an_encoder(minilm):
    from sentence_transformers import SentenceTransformer, util

    method = method_named("dra-grpo", diversity={"embedding": {"model": minilm.model}})
    cosine = util.cos_sim(*[SentenceTransformer(minilm.model).encode(SKY)] * 2).numpy()
    assert cosine.min() < 0
    expected = np.array([1, 0, 1]) / cosine.clip(0).sum(1)
    np.testing.assert_allclose(shaped(method, [1, 0, 1], SKY), expected, atol=1e-5)


def test_dra_grpo_never_turns_a_reward_around(monkeypatch):
    # the first is opposite to the three others: its cosines sum to -2, and those above 0 to 1
    vectors = np.array([[-1.0, 0], [1, 0], [1, 0], [1, 0]])
    monkeypatch.setattr("diver.methods.dra_grpo.embeddings", lambda texts, settings: vectors)
    found = shaped(method_named("dra-grpo"), [1, 0, 1, 1], ["a", "b", "c", "d"])
    np.testing.assert_allclose(found, [1, 0, 1 / 3, 1 / 3], rtol=1e-5)
    with pytest.raises(DiverError, match="rollout 1 has the outcome -1; give one from 0"):
        shaped(method_named("dra-grpo"), [1, -1, -1, -1], ["a", "b", "c", "d"])


# --- RepExp


def test_the_elliptical_bonus_by_hand():
    # less their mean: (1, 0), (-1, 0), (0, 2), (0, -2), so lambda I + sum h h' = diag(lambda + 2, lambda + 8)
    features = np.add([[1.0, 0], [-1, 0], [0, 2], [0, -2]], [5.0, -7.0])
    np.testing.assert_allclose(elliptical_bonus(features, 2.0), [1 / 4, 1 / 4, 4 / 10, 4 / 10])
    np.testing.assert_allclose(elliptical_bonus(features, 0.01), [1 / 2.01, 1 / 2.01, 4 / 8.01, 4 / 8.01])
    assert elliptical_bonus(np.ones((3, 5)), 0.01).tolist() == [0] * 3


@given(st.integers(2, 7), st.integers(1, 9), st.integers(0, 99))
def test_the_bonus_is_that_of_the_inverse(size, dimensions, seed):
    h = np.random.default_rng(seed).normal(size=(size, dimensions))
    x = h - h.mean(0)
    inverse = np.linalg.inv(0.3 * np.eye(dimensions) + x.T @ x)
    np.testing.assert_allclose(elliptical_bonus(h, 0.3), [row @ inverse @ row for row in x], atol=1e-12)


def test_with_more_dimensions_than_responses_the_bonus_sees_repetitions_only():
    """1/n - 1/G of a response that is there n times, also of one that is nine times as far away."""
    h = np.random.default_rng(0).normal(size=(8, 32)) * [[1], [1], [1], [1], [1], [1], [1], [9]]
    np.testing.assert_allclose(elliptical_bonus(h, 0.01), 1 - 1 / 8, atol=1e-3)
    h[1] = h[0]
    h[3] = h[4] = h[2]
    expected = [1 / 2 - 1 / 8] * 2 + [1 / 3 - 1 / 8] * 3 + [1 - 1 / 8] * 3
    np.testing.assert_allclose(elliptical_bonus(h, 0.01), expected, atol=1e-3)


def test_the_projection_keeps_distances_in_the_mean():
    random = np.random.default_rng(1)
    drawn = np.array([sparse_projection(100, 25, random) for _ in range(200)])
    assert set(np.unique(drawn)) == {-math.sqrt(10 / 25), 0.0, math.sqrt(10 / 25)}
    assert np.mean(drawn != 0) == pytest.approx(0.1, abs=2e-3) and np.mean(drawn) == pytest.approx(0, abs=2e-3)
    v = random.normal(size=100)
    assert np.mean(((v @ drawn) ** 2).sum(1)) == pytest.approx(v @ v, rel=0.05)
    assert np.array_equal(sparse_projection(5, 5, random), np.eye(5))


def rep_exp(**changes):
    return method_named("rep-exp", diversity={"hidden_state": {"model": str(policy_folder())}}, **changes)


def test_rep_exp_with_a_language_model():
    """With as many dimensions as the model nothing is projected: the formula on its states."""
    wide = rep_exp(dimensions=10_000, beta=0.5, ridge=3.0)
    states = hidden_states(STEPS, wide.diversity.hidden_state, "3 4 7 = 14 :").astype(np.float64)
    x = states - states.mean(0)
    inverse = np.linalg.inv(3 * np.eye(x.shape[1]) + x.T @ x)
    bonus = 0.5 * np.array([row @ inverse @ row for row in x])
    found = shaped(wide, [0, 1, 0, 0], STEPS, prompt="3 4 7 = 14 :")
    np.testing.assert_allclose(found, np.array([0, 1, 0, 0]) + bonus, atol=1e-6)
    assert shaped(wide, [0] * 4, STEPS).tolist() == [0] * 4  # no correct response, no bonus


def test_the_projection_is_of_the_step():
    one, again, other, fraction = (
        shaped(rep_exp(dimensions=2), [1] * 4, STEPS, progress=p)
        for p in (Progress(3, 10), Progress(3, 20), Progress(4, 10), 0.3)
    )
    assert (
        one.tolist() == again.tolist() and len({tuple(x) for x in map(np.round, (one, other, fraction), [9] * 3)}) == 3
    )
    assert ((one > 1) & (one < 1.01)).all()


def test_cosines_by_hand():
    # right angles, opposites, and a response without a token, which is like another such only
    found = cosines([[1, 0], [0, 2], [-3, 0], [0, 0], [0, 0]])
    expected = [[1, 0, -1, 0, 0], [0, 1, 0, 0, 0], [-1, 0, 1, 0, 0], [0, 0, 0, 1, 1], [0, 0, 0, 1, 1]]
    assert found.tolist() == expected


@pytest.mark.parametrize("bad", [{"beta": -1}, {"ridge": 0}, {"dimensions": 0}])
def test_bad_settings_of_rep_exp(bad):
    with pytest.raises(Exception, match=f"method.{next(iter(bad))}: must be"):
        method_named("rep-exp", **bad)


@pytest.mark.parametrize("name", ["evol-rl", "dra-grpo", "rep-exp"])
def test_text_after_the_answer_is_not_embedded(minilm, name):
    given = {"embedding": {"model": minilm.model}, "hidden_state": {"model": str(policy_folder())}}
    until_answer, whole = (method_named(name, diversity={**given, "until": until}) for until in ("answer", "end"))
    tails = [f"{text} {tail}" for text, tail in zip(STEPS, ("", "( 9 * 9 = 81 )", "14 14 14", ": 5 : 5"), strict=True)]
    expected = shaped(until_answer, [1] * 4, STEPS)
    found = shaped(until_answer, [1] * 4, tails, ends=[len(text) for text in STEPS])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    assert np.abs(shaped(whole, [1] * 4, tails, ends=[len(text) for text in STEPS]) - expected).max() > 1e-6


@pytest.mark.parametrize("name", ["evol-rl", "dra-grpo", "rep-exp"])
def test_text_beyond_the_horizon_is_not_embedded(minilm, name):
    """A token is a word, so a horizon of five tokens leaves the first five words."""
    given = {"embedding": {"model": minilm.model}, "hidden_state": {"model": str(policy_folder())}}
    method, horizon = (method_named(name, diversity={**given, **cut}) for cut in ({}, {"horizon": 5}))
    texts = [*STEPS[:2], "( 9 - 4 = 5 )", "( 3 * 4 = 12 )"]
    words = [*dict.fromkeys(" ".join(texts).split())]
    rollouts = tuple(
        Rollout(text, tokens=[words.index(word) for word in text.split()], grade=Grade.CORRECT, reward=Reward(1.0))
        for text in texts
    )
    group = Group(Problem("p", "?", ""), rollouts)
    (done,) = horizon.apply([group], 0.0, lambda ids: " ".join(words[i] for i in ids))
    expected = shaped(method, [1] * 4, [" ".join(text.split()[:5]) for text in texts])
    np.testing.assert_allclose(done.rewards, expected, rtol=0, atol=1e-9)
    assert np.abs(shaped(method, [1] * 4, texts) - expected).max() > 1e-6
