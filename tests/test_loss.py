"""Values worked out by hand; SciPy beside them."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax
from scipy.stats import entropy as scipy_entropy

from diver.losses import (
    CispoLoss,
    ClipCovLoss,
    ClipLoss,
    DppoLoss,
    EntropyAdvantageLoss,
    GmpoLoss,
    GspoLoss,
    HighEntropyLoss,
    KlCovLoss,
    PolicyLoss,
    SapoLoss,
)
from diver.losses.base import Tokens, kl_to_reference, row_weights
from diver.losses.clip import clipped_surrogate
from diver.losses.covariance import covariance
from diver.sample.policy import entropy, token_logprobs

LOG2 = math.log(2)


def test_clipped_surrogate_by_hand():
    """rho = 2, 1, 1/2 under A = +1 and A = -1, clip 0.8 .. 1.28."""
    logprobs = torch.tensor([[LOG2, 0.0, -LOG2]] * 2, dtype=torch.float64)
    loss, is_clipped = clipped_surrogate(logprobs, torch.zeros_like(logprobs), torch.tensor([[1.0], [-1.0]]), 0.2, 0.28)
    # A = +1: min(2, 1.28), min(1, 1), min(.5, .8); A = -1: min(-2, -1.28), -1, min(-.5, -.8)
    assert torch.allclose(loss, -torch.tensor([[1.28, 1.0, 0.5], [-2.0, -1.0, -0.8]], dtype=torch.float64))
    assert is_clipped.tolist() == [[True, False, False], [False, False, True]]


@given(st.floats(-1, 1), st.floats(-3, 3).filter(lambda a: abs(a) > 1e-3))
def test_clipped_tokens_and_only_they_have_no_gradient(shift, advantage):
    logprob = torch.tensor([[shift]], dtype=torch.float64, requires_grad=True)
    loss, is_clipped = clipped_surrogate(logprob, torch.zeros(1, 1), torch.tensor([advantage]), 0.2, 0.28)
    loss.sum().backward()
    assert bool(is_clipped) == (float(logprob.grad) == 0.0)


def test_row_weights_by_hand():
    lengths = torch.tensor([1, 3, 4])
    assert row_weights(lengths, "token-mean").tolist() == [1 / 8] * 3
    assert row_weights(lengths, "sequence-mean").tolist() == [1 / 3, 1 / 9, 1 / 12]
    assert row_weights(lengths, "token-sum").tolist() == [1 / 3] * 3
    assert row_weights(torch.tensor([0, 2]), "sequence-mean").tolist() == [1 / 2, 1 / 4]
    assert row_weights(torch.tensor([0, 0]), "token-mean").tolist() == [1.0, 1.0]  # no tokens: nothing to weigh
    with pytest.raises(ValueError, match="choose token-mean, sequence-mean or token-sum"):
        row_weights(lengths, "mean")


def test_kl_by_hand():
    """reference twice as likely: 2 - log 2 - 1; equal: 0."""
    value = kl_to_reference(torch.tensor([0.0, -1.0]), torch.tensor([LOG2, -1.0]))
    assert torch.allclose(value, torch.tensor([1 - LOG2, 0.0]))
    assert (kl_to_reference(torch.randn(100), torch.randn(100)) >= 0).all()


def test_logprobs_and_entropy_at_a_temperature(monkeypatch):
    logits = np.random.default_rng(0).normal(size=(6, 5)) * 4
    tokens = torch.tensor([0, 1, 2, 3, 4, 0])
    expected = log_softmax(logits / 0.6, axis=-1)
    chosen = np.take_along_axis(expected, tokens.numpy()[:, None], -1)[:, 0]
    for elements in (5, 10, 30):  # chunks of one token, of two, and all at once
        monkeypatch.setattr("diver.sample.policy.CHUNK_ELEMENTS", elements)
        how = {"head": lambda hidden: hidden, "temperature": 0.6, "vocabulary": 5}
        logprobs, entropies = token_logprobs(torch.tensor(logits), tokens, **how, with_entropy=True)
        assert np.allclose(logprobs.numpy(), chosen, atol=1e-5)
        assert np.allclose(entropies.numpy(), scipy_entropy(np.exp(expected), axis=-1), atol=1e-5)
        assert not token_logprobs(torch.tensor(logits), tokens, **how)[1].any()
    assert entropy(torch.full((1, 8), -math.log(8))).item() == pytest.approx(math.log(8))


# --- tokens that are selected

LOGPROBS = torch.tensor([-0.5, -2.5, -1.5, -2.5, -0.5, -4.5]).double()
ADVANTAGE = torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0, -1.0]).double()


def test_covariance_by_hand():
    """Means -2 and 0."""
    assert covariance(LOGPROBS, ADVANTAGE).tolist() == [1.5, -0.5, 0.5, 0.5, -1.5, 2.5]


def selected(loss, uniform=(0.5,) * 6, old=LOGPROBS):
    entropies = torch.tensor([0.1, 0.9, 0.3, 0.9, 0.5, 0.2]).double()
    tokens = Tokens(LOGPROBS, old, ADVANTAGE, entropies, uniform=torch.tensor(uniform))
    return loss.select_tokens(tokens).nonzero()[:, 0].tolist()


def test_kl_cov_selects_the_highest_covariances():
    assert selected(KlCovLoss(fraction=0.34)) == [0, 5]
    assert selected(KlCovLoss(fraction=0.01)) == [5]  # at least one
    assert selected(KlCovLoss(fraction=0.5)) == [0, 2, 5]  # of 2 and 3 the earlier
    assert selected(KlCovLoss(fraction=1.0)) == [0, 1, 2, 3, 4, 5]


def test_clip_cov_selects_at_random_between_its_bounds():
    def clip_cov(fraction, low=0.0, high=2.0):
        return ClipCovLoss(clip_low=0.2, clip_high=0.28, fraction=fraction, low=low, high=high)

    assert selected(clip_cov(1.0)) == [0, 2, 3]  # 2.5 is above the upper bound
    assert selected(clip_cov(1.0, high=9.0)) == [0, 2, 3, 5]
    assert selected(clip_cov(0.01), (0.9, 0.0, 0.5, 0.4, 0.0, 0.0)) == [3]  # the smallest number of a candidate
    assert selected(clip_cov(0.34), (0.3, 0.0, 0.5, 0.4, 0.0, 0.0)) == [0, 3]
    assert selected(clip_cov(1.0, low=9.0, high=10.0)) == []
    risen = LOGPROBS - LOG2  # rho = 2: clipped with A > 0, not with A < 0
    assert selected(clip_cov(1.0), old=risen) == [3]


def test_the_tokens_of_highest_entropy_are_selected():
    assert selected(HighEntropyLoss(top_entropy_fraction=0.5)) == [1, 3, 4]
    assert selected(HighEntropyLoss(top_entropy_fraction=0.2)) == [1]  # 1.2 tokens, and of equal ones the earlier
    assert selected(HighEntropyLoss(top_entropy_fraction=0.01)) == [1]


def test_the_losses_by_hand():
    """rho = 2, 1, 1/2 under A = +1 and A = -1; the first column and the last are selected."""
    logprobs = torch.tensor([[LOG2, 0.0, -LOG2]] * 2, dtype=torch.float64)
    mark = torch.tensor([[True, False, True]] * 2)

    def of(loss):
        value, metrics = loss.forward(
            Tokens(logprobs, torch.zeros_like(logprobs), torch.tensor([[1.0], [-1.0]]), selected=mark)
        )
        return (-value).tolist(), metrics["clip_fraction"].tolist()

    clipped_ones = [[True, False, False], [False, False, True]]
    assert of(ClipLoss()) == ([[1.28, 1, 0.5], [-2, -1, -0.8]], clipped_ones)
    assert of(ClipCovLoss()) == ([[0, 1, 0], [0, -1, 0]], [[False] * 3] * 2)  # 0 .. 2
    wide = HighEntropyLoss(clip_low=1.0, clip_high=1.0)
    assert of(wide) == ([[2, 0, 0.5], [-2, 0, -0.5]], [[False] * 3] * 2)
    assert of(HighEntropyLoss())[1] == clipped_ones
    penalised, is_clipped = of(KlCovLoss(coef=3.0))
    assert np.allclose(penalised, [[2 - 3 * LOG2, 1, 0.5 - 3 * LOG2], [-2 - 3 * LOG2, -1, -0.5 - 3 * LOG2]])
    assert not any(map(any, is_clipped))  # no clip


def test_cispo_by_hand():
    """rho = 8, 1, 1/8 in bounds 1/2 and 3: the gradient of a token is -clip(rho) A, and none is 0."""
    logprobs = torch.tensor([[3 * LOG2, 0.0, -3 * LOG2]] * 2, dtype=torch.float64) - 1
    logprobs.requires_grad_()
    advantages = torch.tensor([[1.0], [-2.0]])
    loss, metrics = CispoLoss(clip_low=0.5, clip_high=2.0).forward(
        Tokens(logprobs, torch.full((2, 3), -1.0), advantages)
    )
    loss.sum().backward()
    assert torch.allclose(logprobs.grad, torch.tensor([[-3.0, -1, -0.5], [6, 2, 1]], dtype=torch.float64))
    assert torch.allclose(loss[0], -torch.tensor([3.0, 1, 0.5], dtype=torch.float64) * logprobs[0])
    assert metrics["clip_fraction"].tolist() == [[True, False, True]] * 2
    bound = torch.exp(
        CispoLoss().forward(Tokens(torch.tensor([[9.0]]), torch.tensor([[0.0]]), torch.ones(1, 1)))[0] / 9
    )
    assert torch.allclose(bound, torch.exp(torch.tensor([[-5.0]])))  # up to 5


def gspo(advantages, loss):
    """Two responses: rho = 2, 4, 1 of three tokens, so s = 2, and rho = 1/2 of one; what is padded must not count."""
    old = torch.tensor([[-3.0, -3, -3], [-1.0, 7.0, 7.0]], dtype=torch.float64)
    logprobs = old + LOG2 * torch.tensor([[1.0, 2, 0], [-1, 5, 5]], dtype=torch.float64)
    logprobs.requires_grad_()
    mask = torch.tensor([[True] * 3, [True, False, False]])
    value, metrics = loss.forward(Tokens(logprobs, old, torch.tensor(advantages).double(), mask=mask))
    value.masked_select(mask).sum().backward()
    return value.tolist(), logprobs.grad.tolist(), metrics["clip_fraction"].tolist()


def test_gspo_by_hand():
    """A = +1 with s = 2 and s = 1/2: the one is clipped, at 1 + clip_high;
    the other has the gradient -s A at its token."""
    value, gradient, is_clipped = gspo([[1.0], [1.0]], GspoLoss(clip_low=0.2, clip_high=0.5))
    assert np.allclose(value[0], -1.5) and value[1][0] == pytest.approx(-0.5)
    assert gradient == [[0, 0, 0], [pytest.approx(-0.5), 0, 0]] and is_clipped == [[True] * 3, [False] * 3]
    value, gradient, is_clipped = gspo([[-1.0], [-2.0]], GspoLoss(clip_low=0.2, clip_high=0.5))
    assert np.allclose(value[0], 2) and value[1][0] == pytest.approx(1.6)  # max(2 / 2, 2 * 0.8)
    assert np.allclose(gradient, [[2, 2, 2], [0, 0, 0]]) and is_clipped == [[False] * 3, [True] * 3]


def test_the_defaults_of_gspo():
    inside, outside = (math.log1p(x) for x in (3.5e-4, 4.5e-4))
    for shift, expected in ((inside, 1 + 3.5e-4), (outside, 1 + 4e-4), (-inside, 1 / (1 + 3.5e-4))):
        logprobs = torch.full((1, 5), -20.0) + torch.tensor([0, shift, 2 * shift, shift, shift])
        value, _ = GspoLoss().forward(
            Tokens(logprobs, torch.full((1, 5), -20.0), torch.ones(1, 1), mask=torch.ones(1, 5) > 0)
        )
        assert torch.allclose(value, torch.tensor(-expected), atol=2e-6, rtol=0)  # float32 at -20
    assert GspoLoss().aggregation == "sequence-mean"


def test_gspo_has_the_gradient_of_the_ratio_of_whole_responses():
    """-mean over the responses of min(s A, clip(s) A), written without the tokens' form."""
    random = torch.Generator().manual_seed(3)
    lengths = torch.tensor([4, 1, 6, 3])
    mask = torch.arange(6) < lengths[:, None]
    old = -3 * torch.rand(4, 6, generator=random, dtype=torch.float64)
    logprobs = (old + 0.2 * torch.randn(4, 6, generator=random, dtype=torch.float64)).requires_grad_()
    advantages = torch.tensor([1.0, -0.5, -1.0, 0.5]).double()
    loss = GspoLoss(clip_low=0.02, clip_high=0.03)
    value, _ = loss.forward(Tokens(logprobs, old, advantages[:, None], mask=mask))
    (ours,) = torch.autograd.grad((value * mask * row_weights(lengths, loss.aggregation)[:, None]).sum(), logprobs)
    s = torch.stack([(logprobs[i, :n] - old[i, :n]).mean().exp() for i, n in enumerate(lengths)])
    (expected,) = torch.autograd.grad(-(s * advantages).minimum(s.clamp(0.98, 1.03) * advantages).mean(), logprobs)
    assert torch.allclose(ours, expected, atol=1e-12) and ours.any() and not ours.any(1).all()  # some are clipped


def gmpo(advantages):
    """Two responses, bounds of ln 2: log rho is 3, -3 and 1/2 times ln 2, and 1/2 ln 2 of one token beside padding."""
    old = torch.tensor([[-3.0, -3, -3], [-1.0, 7.0, 7.0]], dtype=torch.float64)
    logprobs = old + LOG2 * torch.tensor([[3.0, -3, 0.5], [0.5, 5, 5]], dtype=torch.float64)
    logprobs.requires_grad_()
    mask = torch.tensor([[True] * 3, [True, False, False]])
    loss = GmpoLoss(clip_low=LOG2, clip_high=LOG2)
    value, metrics = loss.forward(Tokens(logprobs, old, torch.tensor(advantages).double(), mask=mask))
    (value * mask * row_weights(mask.sum(1), loss.aggregation)[:, None]).sum().backward()
    return value[mask].tolist(), logprobs.grad.tolist(), metrics["clip_fraction"][mask].tolist()


def test_gmpo_by_hand():
    """A = +1: the exponents of 2 are 1 (clipped), -3 and 1/2, their mean -1/2. A = -2: 3, -1 (clipped) and 1/2,
    their mean 5/6. An unclipped token has -s A / (2 responses x 3 tokens)."""
    value, gradient, is_clipped = gmpo([[1.0], [1.0]])
    s, other = 2**-0.5, 2**0.5
    assert np.allclose(value, [-s] * 3 + [-other]) and is_clipped == [True, False, False, False]
    assert np.allclose(gradient, [[0, -s / 6, -s / 6], [-other / 2, 0, 0]])
    value, gradient, is_clipped = gmpo([[-2.0], [0.0]])
    s = 2 ** (5 / 6)
    assert np.allclose(value, [2 * s] * 3 + [0]) and is_clipped == [False, True, False, False]
    assert np.allclose(gradient, [[s / 3, 0, s / 3], [0, 0, 0]])
    assert (GmpoLoss().clip_low, GmpoLoss().clip_high, GmpoLoss().aggregation) == (0.4, 0.4, "sequence-mean")


def test_sapo_by_hand():
    """tau (rho - 1) is -ln 2, 0 and ln 3, so its sigmoid p is 1/3, 1/2 and 3/4; f = 4 p / tau, f' = 4 p (1 - p)."""
    tau = torch.tensor([[1.0], [2.0]], dtype=torch.float64)  # of A = 1 and A = -2
    ratio = 1 + torch.tensor([[-LOG2, 0.0, math.log(3)]], dtype=torch.float64) / tau
    logprobs = (ratio.log() - 1).requires_grad_()
    tokens = Tokens(logprobs, torch.full((2, 3), -1.0), torch.tensor([[1.0], [-2.0]]))
    loss, metrics = SapoLoss(tau_negative=2.0).forward(tokens)
    loss.sum().backward()
    assert np.allclose(loss.detach(), [[-4 / 3, -2, -3], [4 / 3, 2, 3]]) and metrics == {}
    slope = torch.tensor([8 / 9, 1, 3 / 4]) * ratio.detach()  # at rho = 1 that of rho A
    assert torch.allclose(logprobs.grad, slope * torch.tensor([[-1.0], [2.0]]))
    assert (SapoLoss().tau_positive, SapoLoss().tau_negative, SapoLoss().aggregation) == (1, 1.05, "sequence-mean")


def test_dppo_by_hand():
    """pi from 0.5 to 0.6, 0.7 and 0.3, and from 0.001 to 0.1: only the steps of 0.2 in the direction of A are outside,
    not the ratio of 100, which as a weight is bounded by 50 here."""
    old = torch.tensor([[0.5, 0.5, 0.5, 0.001]] * 2, dtype=torch.float64).log()
    logprobs = torch.tensor([[0.6, 0.7, 0.3, 0.1]] * 2, dtype=torch.float64).log().requires_grad_()
    loss, metrics = DppoLoss(max_ratio=50.0).forward(Tokens(logprobs, old, torch.tensor([[1.0], [-2.0]])))
    loss.sum().backward()
    assert torch.allclose(logprobs.grad, torch.tensor([[-1.2, 0, -0.6, -50], [2.4, 2.8, 0, 100]]).double())
    assert metrics["clip_fraction"].tolist() == [[False, True, False, False], [False, False, True, False]]
    assert torch.allclose(loss, (logprobs.grad * logprobs).detach())
    assert DppoLoss().delta == 0.15 and DppoLoss(delta=0.25).forward(Tokens(logprobs, old, torch.ones(2, 1)))[0].all()


def test_the_entropy_advantage_by_hand():
    """alpha H = 0.2, 0.4, 2 with A = +1, -0.5 and 0: min(alpha H, |A| / 2) is at most 0.5, 0.25 and 0."""
    entropies = torch.tensor([[0.5, 1.0, 5.0]] * 3, requires_grad=True)
    logprobs = torch.zeros(3, 3, requires_grad=True)
    advantages = torch.tensor([[1.0], [-0.5], [0.0]])
    loss, _ = EntropyAdvantageLoss().forward(Tokens(logprobs, torch.zeros(3, 3), advantages, entropies))
    shaped = torch.tensor([[1.2, 1.4, 1.5], [-0.3, -0.25, -0.25], [0.0, 0.0, 0.0]])
    assert torch.allclose(loss, -shaped)  # rho is 1
    loss.sum().backward()
    assert torch.allclose(logprobs.grad, -shaped) and entropies.grad is None


def test_which_rows_may_have_a_gradient():
    some, none = torch.tensor([True, False]), torch.tensor([False, False])
    assert ClipLoss().has_gradient(-0.5) and not ClipLoss().has_gradient(0.0)
    assert ClipLoss(kl_coef=0.1).has_gradient(0.0) and ClipLoss(entropy_coef=0.1).has_gradient(0.0)
    assert not ClipCovLoss().has_gradient(0.0, some)
    assert KlCovLoss().has_gradient(0.0, some) and not KlCovLoss().has_gradient(0.0, none)


def test_a_loss_without_its_formula_says_so():
    with pytest.raises(TypeError, match="define forward"):
        PolicyLoss(name="mine").forward(Tokens(LOGPROBS, LOGPROBS, ADVANTAGE))
