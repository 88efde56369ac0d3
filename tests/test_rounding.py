"""Rewards through float32: what differs by rounding alone is equal, in every method, and a threshold is reached by what
rounding puts just below it."""

import math

import numpy as np
import pytest
from by_hand import KNOWN

import diver
from diver.core.rounding import alike, reaches
from diver.core.types import Grade, Group, Problem, Progress, Reward, Rollout
from diver.methods import METHODS, method_named
from diver.methods.base import Selection
from diver.methods.evol_rl import novelty_rewards
from diver.methods.pass_at_k import pass_at_k_advantage
from diver.tasks.testbeds import policy_folder

SEVEN_TENTHS = float(np.float32(0.7))  # 0.699999988
NOISY = [0.70000005, 0.70000005, 0.70000005, 0.69999999, 0.7, SEVEN_TENTHS]
TEXTS = ["a b c d e f", "a b c d e g", "x y", "a b c d e f", r"so \( 3 + 4 = 7 \)", "x y z"]
# In these a group of equal rewards has a signal: a bonus is for each response, sets are worth more with more keys, or
# every correct response counts alike.
WITH_A_SIGNAL = {
    *("diver-td", "diver-ed", "diver-mix", "diver-annealed", "evol-rl", "dra-grpo", "rep-exp", "darling", "cde"),
    *("ds-grpo", "w-reinforce", "psr", "poly-epo"),
}


def outcomes_of(name, outcomes):
    """Outcomes of about 0.7, and lower ones; for a method with `std_floor`, which needs 0 and 1, about 1, and 0."""
    return [o / 0.7 if o > 0.6995 else 0.0 for o in outcomes] if name == "diver-annealed" else outcomes


def made(name, minilm, **settings):
    settings |= {"threshold": outcomes_of(name, [0.7])[0]}
    settings |= {"k": 2} if hasattr(method_named(name), "k") else {}
    hidden = {"model": str(policy_folder("countdown"))}
    diversity = {"embedding": {"model": minilm.model}, "hidden_state": hidden}
    return method_named(name, diversity=diversity, **settings).limited(100)


def group(outcomes):
    rollouts = [
        Rollout(
            text,
            tokens=list(text.encode()),
            logprobs=np.full(len(text), -0.01 - 0.1 * i, np.float32),
            key=text[:3],
            grade=Grade.CORRECT if outcome > 0.5 else Grade.WRONG,
            answer_end=len(text),
            index=i,
            reward=Reward(float(outcome)),
        )
        for i, (text, outcome) in enumerate(zip(TEXTS, outcomes, strict=True))
    ]
    return Group(Problem("p", "?", ""), tuple(rollouts), prompt="?", prompt_tokens=(1,))


def advantages(method, outcomes):
    """The advantage of each response, or of each token one after another; of one that is left out NaN."""
    found = [np.array([math.nan])] * len(outcomes)
    decode = lambda tokens: bytes(tokens).decode()  # noqa: E731
    for done in method.apply([group(outcomes)], Progress(1, 10), decode, {}):
        for rollout in done.rollouts:
            found[rollout.index] = np.atleast_1d(
                rollout.advantage if rollout.token_advantages is None else rollout.token_advantages
            )
    return np.concatenate(found)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_rewards_through_float32_have_the_advantages_of_float64(name, minilm):
    """Also at the threshold, of which float32 is below; also with a difference of 1e-3, which is no rounding."""
    method = made(name, minilm)
    mixed = [0.7, 0.2, 0.7, 0.1, 0.7, 0.3] if name != "ucpo" else [0.7, 0.2, 0.7, 0.2, 0.7, 0.2]
    for given in (mixed, [0.7, 0.7, 0.699, 0.7, 0.7, 0.7]):
        outcomes = outcomes_of(name, given)
        exact = advantages(method, outcomes)
        assert np.nanmax(np.abs(exact)) > 1e-4 or given is not mixed
        np.testing.assert_allclose(advantages(method, np.float32(outcomes)), exact, rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_rewards_that_differ_by_rounding_alone_are_equal_ones(name, minilm):
    method = made(name, minilm)
    constant = advantages(method, outcomes_of(name, [0.7] * 6))
    found = advantages(method, outcomes_of(name, NOISY))
    np.testing.assert_allclose(found, constant, rtol=2e-3)
    assert np.array_equal(found == 0, constant == 0)  # a row of exact zeros needs no forward pass
    if name in KNOWN:
        assert constant[~np.isnan(constant)].any() == (name in WITH_A_SIGNAL)


def test_the_example_of_four_rewards():
    assert diver.advantages(["a"] * 4, NOISY[:4], [0] * 4, "grpo").tolist() == [0, 0, 0, 0]
    # one part in a thousand is a reward: 0.7, 0.7, 0.7, 0.699 has the mean 0.69975 and the std 1e-3 sqrt(3) / 4
    found = diver.advantages(["a"] * 4, [0.7, 0.7, 0.7, 0.699], [0] * 4, "grpo")
    np.testing.assert_allclose(found, [1 / math.sqrt(3)] * 3 + [-math.sqrt(3)], rtol=1e-9)


@pytest.mark.parametrize("size", [1.0, 10.0, 1e3, 1e6, -1e3])
def test_the_tolerance_grows_with_the_rewards(size):
    same = size * np.array([1.0, 1.0 + 1e-7, 1.0 - 1e-7, 1.0])
    assert alike(same) and alike(np.float32(same).astype(float))
    assert not alike(size * np.array([1.0, 1.00001]))
    assert alike(same, 1e-6) and not alike(same, 1e-8)


def test_parts_that_cancel_leave_the_rounding_of_a_part():
    third = np.float32([0.1, 0.2, -0.3]).cumsum()[-1]  # 0.1 + 0.2 - 0.3 in float32
    left = np.array([0.0, third, np.float32(1) - np.float32(0.9) - np.float32(0.1), 0.0], np.float64)
    assert left.any() and alike(left)
    assert not alike(np.array([0.0, 1e-5]))
    assert diver.advantages(["a"] * 4, left, [0] * 4, "max-rl").tolist() == [0] * 4


@pytest.mark.parametrize(
    ("outcome", "threshold", "correct"),
    [
        (0.69999999, 0.7, True),
        (SEVEN_TENTHS, 0.7, True),
        (0.7, SEVEN_TENTHS, True),
        (7e5 - 0.03, 7e5, True),
        (0.6999, 0.7, False),
        (0.0, 1e-7, False),
        (-1.0, 0.5, False),
        (math.nan, 0.5, False),
    ],
)
def test_a_threshold_is_reached_up_to_rounding(outcome, threshold, correct):
    assert reaches([outcome, outcome], threshold).tolist() == [correct] * 2


def test_pass_at_k_counts_what_rounding_puts_below_the_threshold():
    # one correct of four, k = 2: 3 of 6 sets are worth 1, s = 1/2; a correct one has 1, a wrong one -1/3
    found = pass_at_k_advantage(np.array([0.69999999, 0, 0, 0.6999]), 2, 0.7)
    np.testing.assert_allclose(found, [1, -1 / 3, -1 / 3, -1 / 3])


def test_a_selection_knows_equal_outcomes():
    """Filtered groups are those without a signal, and `correct` ones keep what rounding puts below the threshold."""
    drop = Selection(filter_groups=True)
    assert not drop.select(group(NOISY), 0.7).any()
    assert drop.select(group([*NOISY[:5], 0.699]), 0.7).all()
    kept = Selection(outcomes="correct").select(group([*NOISY[:5], 0.699]), 0.7)
    assert kept.tolist() == [True] * 5 + [False]


def test_equal_novelties_are_equal_up_to_float32():
    cosine = np.ones((3, 3)) - 5e-8 * np.arange(9).reshape(3, 3)
    assert novelty_rewards(cosine, np.ones(3, bool)).tolist() == [0.75] * 3
    cosine[0, 1:] = cosine[1:, 0] = 0.99
    assert novelty_rewards(cosine, np.ones(3, bool)).max() == 1
