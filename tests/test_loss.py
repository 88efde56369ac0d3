"""Values worked out by hand; SciPy beside them."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax
from scipy.stats import entropy as scipy_entropy

from diver.losses.loss import (
    choose,
    clipped_surrogate,
    covariance,
    entropy,
    kl_to_reference,
    row_weights,
    surrogate,
    token_logprobs,
)
from diver.losses.objective import ClipCov, KlCov, Loss

LOG2 = math.log(2)


def test_clipped_surrogate_by_hand():
    """rho = 2, 1, 1/2 under A = +1 and A = -1, clip 0.8 .. 1.28."""
    logprobs = torch.tensor([[LOG2, 0.0, -LOG2]] * 2, dtype=torch.float64)
    loss, bound = clipped_surrogate(logprobs, torch.zeros_like(logprobs), torch.tensor([1.0, -1.0]), 0.2, 0.28)
    # A = +1: min(2, 1.28), min(1, 1), min(.5, .8); A = -1: min(-2, -1.28), -1, min(-.5, -.8)
    assert torch.allclose(loss, -torch.tensor([[1.28, 1.0, 0.5], [-2.0, -1.0, -0.8]], dtype=torch.float64))
    assert bound.tolist() == [[True, False, False], [False, False, True]]


@given(st.floats(-1, 1), st.floats(-3, 3).filter(lambda a: abs(a) > 1e-3))
def test_bound_tokens_and_only_they_have_no_gradient(shift, advantage):
    logprob = torch.tensor([[shift]], dtype=torch.float64, requires_grad=True)
    loss, bound = clipped_surrogate(logprob, torch.zeros(1, 1), torch.tensor([advantage]), 0.2, 0.28)
    loss.sum().backward()
    assert bool(bound) == (float(logprob.grad) == 0.0)


def test_row_weights_by_hand():
    lengths = torch.tensor([1, 3, 4])
    assert row_weights(lengths, "token-mean").tolist() == [1 / 8] * 3
    assert row_weights(lengths, "sequence-mean").tolist() == [1 / 3, 1 / 9, 1 / 12]
    assert row_weights(lengths, "token-sum").tolist() == [1 / 3] * 3
    assert row_weights(torch.tensor([0, 2]), "sequence-mean").tolist() == [1 / 2, 1 / 4]
    assert row_weights(torch.tensor([0, 0]), "token-mean").tolist() == [1.0, 1.0]  # no tokens: nothing to weigh
    with pytest.raises(ValueError, match="there are token-mean, sequence-mean, token-sum"):
        row_weights(lengths, "mean")


def test_kl_by_hand():
    """reference twice as likely: 2 - log 2 - 1; equal: 0."""
    value = kl_to_reference(torch.tensor([0.0, -1.0]), torch.tensor([LOG2, -1.0]))
    assert torch.allclose(value, torch.tensor([1 - LOG2, 0.0]))
    assert (kl_to_reference(torch.randn(100), torch.randn(100)) >= 0).all()


def test_logprobs_and_entropy_at_a_temperature():
    logits = np.random.default_rng(0).normal(size=(2, 3, 5)) * 4
    tokens = torch.tensor([[0, 1, 2], [3, 4, 0]])
    logprobs, scaled = token_logprobs(torch.tensor(logits), tokens, 0.6)
    expected = log_softmax(logits / 0.6, axis=-1)
    assert np.allclose(logprobs.numpy(), np.take_along_axis(expected, tokens.numpy()[..., None], -1)[..., 0], atol=1e-5)
    assert np.allclose(entropy(scaled).numpy(), scipy_entropy(np.exp(expected), axis=-1), atol=1e-5)
    uniform = entropy(torch.zeros(1, 1, 8))
    assert uniform.item() == pytest.approx(math.log(8))


# --- tokens that are singled out

LOGPROBS = torch.tensor([-0.5, -2.5, -1.5, -2.5, -0.5, -4.5]).double()
ADVANTAGE = torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0, -1.0]).double()


def test_covariance_by_hand():
    """Means -2 and 0."""
    assert covariance(LOGPROBS, ADVANTAGE).tolist() == [1.5, -0.5, 0.5, 0.5, -1.5, 2.5]


def chosen(loss, uniform=(0.5,) * 6, old=LOGPROBS):
    spread = torch.tensor([0.1, 0.9, 0.3, 0.9, 0.5, 0.2]).double()
    return choose(loss, LOGPROBS, spread, old, ADVANTAGE, torch.tensor(uniform)).nonzero()[:, 0].tolist()


def test_kl_cov_chooses_the_highest_covariances():
    assert chosen(Loss(surrogate="kl-cov", kl_cov=KlCov(share=0.34))) == [0, 5]
    assert chosen(Loss(surrogate="kl-cov", kl_cov=KlCov(share=0.01))) == [5]  # at least one
    assert chosen(Loss(surrogate="kl-cov", kl_cov=KlCov(share=0.5))) == [0, 2, 5]  # of 2 and 3 the earlier
    assert chosen(Loss(surrogate="kl-cov", kl_cov=KlCov(share=1.0))) == [0, 1, 2, 3, 4, 5]


def test_clip_cov_chooses_at_random_between_its_bounds():
    def clip_cov(share, low=0.0, high=2.0):
        return Loss(surrogate="clip-cov", clip_cov=ClipCov(share=share, low=low, high=high))

    assert chosen(clip_cov(1.0)) == [0, 2, 3]  # 2.5 is above the upper bound
    assert chosen(clip_cov(1.0, high=9.0)) == [0, 2, 3, 5]
    assert chosen(clip_cov(0.01), (0.9, 0.0, 0.5, 0.4, 0.0, 0.0)) == [3]  # the smallest number of a candidate
    assert chosen(clip_cov(0.34), (0.3, 0.0, 0.5, 0.4, 0.0, 0.0)) == [0, 3]
    assert chosen(clip_cov(1.0, low=9.0, high=10.0)) == []
    risen = LOGPROBS - LOG2  # rho = 2: bound with A > 0, not with A < 0
    assert chosen(clip_cov(1.0), old=risen) == [3]


def test_the_tokens_of_highest_entropy_are_chosen():
    assert chosen(Loss(entropy_share=0.5)) == [1, 3, 4]
    assert chosen(Loss(entropy_share=0.2)) == [1]  # 1.2 tokens, and of equal ones the earlier
    assert chosen(Loss(entropy_share=0.01)) == [1]


def test_the_surrogates_by_hand():
    """rho = 2, 1, 1/2 under A = +1 and A = -1; the first column and the last are chosen."""
    logprobs = torch.tensor([[LOG2, 0.0, -LOG2]] * 2, dtype=torch.float64)
    mark = torch.tensor([[True, False, True]] * 2)

    def of(loss):
        value, bound = surrogate(loss, logprobs, torch.zeros_like(logprobs), torch.tensor([1.0, -1.0]), mark)
        return (-value).tolist(), bound.tolist()

    bound_ones = [[True, False, False], [False, False, True]]
    assert of(Loss()) == ([[1.28, 1, 0.5], [-2, -1, -0.8]], bound_ones)
    wide = {"clip_low": 1.0, "clip_high": 1.0}  # 0 .. 2
    assert of(Loss(surrogate="clip-cov", **wide)) == ([[0, 1, 0], [0, -1, 0]], [[False] * 3] * 2)
    assert of(Loss(entropy_share=0.2, **wide)) == ([[2, 0, 0.5], [-2, 0, -0.5]], [[False] * 3] * 2)
    assert of(Loss(entropy_share=0.2))[1] == bound_ones
    pays, bound = of(Loss(surrogate="kl-cov", kl_cov=KlCov(coefficient=3.0)))
    assert np.allclose(pays, [[2 - 3 * LOG2, 1, 0.5 - 3 * LOG2], [-2 - 3 * LOG2, -1, -0.5 - 3 * LOG2]])
    assert not any(map(any, bound))  # no clip
