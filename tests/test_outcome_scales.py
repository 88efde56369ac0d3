"""Rewards that are not 0 and 1: what each method makes of -1 and 1, of 0 and 10, and of 0 and 0.1, by its formula."""

import warnings

import numpy as np
import pytest
from by_hand import ELSEWHERE, KINDS, KNOWN, THRESHOLD, UNIT, kind_of

import diver
from diver.core.types import DiverError
from diver.methods import METHODS, check_outcomes, method_named

TEXTS, CORRECT = ["a b c", "a b d", "x y", "a b c"], np.array([1.0, 0, 0, 1])
SCALES = {"-1/1": (-1.0, 1.0), "0/10": (0.0, 10.0), "0/0.1": (0.0, 0.1)}


def test_what_the_methods_declare_is_the_kind_worked_out_by_hand():
    assert sum(map(len, KINDS.values())) == len(KNOWN) and {*METHODS} >= KNOWN
    for kind, names in KINDS.items():
        assert {name for name in KNOWN if kind_of(method_named(name)) == kind} == names
    assert {name for name in KNOWN if method_named(name).unit_outcomes} == UNIT | {"dapo"}
    counting = {name for name in KNOWN if method_named(name).counts_correct}
    assert counting == THRESHOLD | ELSEWHERE - {"dapo", "verified-replay"}


def advantages(method, outcomes):
    columns = {"tokens": [[1], [1, 2], [1, 2, 3], [1]], "keys": [*"abca"], "decode": str, "state": {}}
    columns |= {"answer_ends": [*map(len, TEXTS)], "truncated": [False] * 4}
    logprobs = [[-1.0] * n for n in (1, 2, 3, 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = diver.advantages(TEXTS, outcomes, [0] * 4, method, logprobs=logprobs, **columns)
    return np.concatenate(found) if isinstance(found, list) else found


def scaled(scale):
    wrong, right = SCALES[scale]
    return np.where(CORRECT == 1, right, wrong)


def small(name):
    return method_named(name, **({"k": 2} if hasattr(method_named(name), "k") else {}))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", sorted({*METHODS} - ELSEWHERE))
def test_a_scale_is_without_effect_or_refused(name, scale):
    method, wrong_is_0 = small(name), scale != "-1/1"
    kind = kind_of(method)
    if kind == "unit" and scale != "0/0.1":
        row, outcome = {"-1/1": (1, -1), "0/10": (0, 10)}[scale]
        with pytest.raises(
            DiverError, match=f"^row {row}: the outcome is {outcome}, and method .{name}. needs outcomes"
        ):
            advantages(method, scaled(scale))
    elif kind in ("unit", "threshold") and scale == "0/0.1":
        with pytest.raises(
            UserWarning,
            match=f"^method .{name}.: no outcome reaches method.threshold = 0.5, and the highest of 4 is 0.1",
        ):
            advantages(method, scaled(scale))
    elif kind == "no scale" and not wrong_is_0:
        with pytest.raises(DiverError, match="must be at least 0"):
            advantages(method, scaled(scale))
    else:
        factor = np.ptp(SCALES[scale]) if kind == "proportional" else 1.0
        np.testing.assert_allclose(advantages(method, scaled(scale)), factor * advantages(method, CORRECT), atol=1e-12)


def test_the_line_says_what_to_give():
    with pytest.raises(DiverError) as error:
        diver.advantages(["a", "b"], [0, 10], [0, 0])
    assert str(error.value) == (
        "row 1: the outcome is 10, and method 'diver-mix' needs outcomes from 0 (wrong) to 1 (correct). Divide rewards "
        "of 0 and 10 by 10; give (r + 1) / 2 for rewards of -1 and 1"
    )


@pytest.mark.parametrize("name", ["outcome-batch", "xrpo", "ds-grpo"])
def test_a_bonus_on_an_advantage_without_a_divisor_is_in_units_of_reward(name):
    with pytest.raises(DiverError, match="row 0: the outcome is 10, and method"):
        advantages(method_named(name, divisor="none"), scaled("0/10"))


def test_a_penalty_for_length_is_in_units_of_reward():
    with pytest.raises(DiverError, match="row 0: the outcome is 10, and method 'grpo' needs outcomes from 0"):
        advantages(method_named("grpo", overlong={"buffer": 0.5, "max_tokens": 4}), scaled("0/10"))


@pytest.mark.parametrize(
    "outcomes", [[0, 0.2, 0.4, 0.1], [0, 0, 0, 0], [0, 0.1, 0, 1], [0.5, 0.1, 0.1, 0.1], [0, 0.7, 1, 1]]
)
def test_partial_credit_and_groups_all_wrong_are_no_other_scale(outcomes):
    for name in ("diver-td", "f-grpo"):
        assert np.isfinite(advantages(method_named(name), outcomes)).all()


@pytest.mark.parametrize("name", ["diver-mix", "darling", "max-rl", "ucpo", "diver-annealed"])
def test_a_sum_that_is_rounded_is_1(name):
    """1.1 - 0.1, 0.7 + 0.2 + 0.1 and 0.3 - 0.1 - 0.2 as floats."""
    more, less, wrong = 1.1 - 0.1 + 2**-52, 0.7 + 0.2 + 0.1, 0.3 - 0.1 - 0.2
    assert more > 1 > less and wrong < 0
    found = advantages(method_named(name), [more, wrong, wrong, less])
    np.testing.assert_allclose(found, advantages(method_named(name), CORRECT), atol=1e-9)


def test_the_threshold_of_the_method_counts():
    """0.1 for a correct response, and a method that knows it: the fraction p = 1/2 of F-GRPO, over GRPO's 1 and -1."""
    found = advantages(method_named("f-grpo", threshold=0.1), scaled("0/0.1"))
    np.testing.assert_allclose(found, 0.5**0.5 * np.array([1, -1, -1, 1]))


def test_outcomes_that_are_not_finite_are_left_to_those_who_name_the_problem():
    check_outcomes(method_named("diver-mix"), [float("nan"), float("inf"), 1.0])
    with pytest.raises(ValueError, match="problem '0', rollout 1: the outcome is nan"):
        diver.advantages(["a", "b"], [1, float("nan")], [0, 0])
