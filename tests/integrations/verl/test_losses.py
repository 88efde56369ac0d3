"""Our losses beside verl's own functions on the same tensors, values and gradients (`make test-verl`).

Both sides are computed as for docs/conformance.md, here with more settings and on another batch. verl chooses tokens
within the tensor that it is given, so here the tensor is the whole mini-batch. Where the two differ it is said: verl's
Clip-Cov draws its tokens from the global stream, so all candidates are taken here; its plain loss has a third clip,
which is out of reach here.
"""

import dataclasses

import numpy as np
import pytest
import torch

core_algos = pytest.importorskip("verl.trainer.ppo.core_algos")
from conformance import Batch, our_loss, rows_of  # noqa: E402
from conformance_verl import loss_of  # noqa: E402

from diver.integrations.verl.config import AGGREGATIONS  # noqa: E402
from diver.losses import (  # noqa: E402
    CispoLoss,
    ClipCovLoss,
    ClipLoss,
    DppoLoss,
    GmpoLoss,
    GspoLoss,
    KlCovLoss,
    SapoLoss,
)
from diver.losses.base import (  # noqa: E402
    kl_to_reference,
    row_weights,
)
from diver.methods.grpo import group_advantage  # noqa: E402
from diver.sample.policy import entropy  # noqa: E402

ROWS, WIDTH = 12, 40


@pytest.fixture
def batch():
    """log-probs, old ones up to 0.7 away, advantages of both signs and zero, and a mask of ragged rows."""
    random = torch.Generator().manual_seed(5)
    logprobs = -3 * torch.rand(ROWS, WIDTH, generator=random, dtype=torch.float64)
    old = logprobs + 1.4 * torch.rand(ROWS, WIDTH, generator=random, dtype=torch.float64) - 0.7
    advantage = torch.tensor([1.5, -0.5, 0.0] * 4, dtype=torch.float64)
    lengths = torch.randint(1, WIDTH + 1, (ROWS,), generator=random)
    mask = torch.arange(WIDTH) < lengths[:, None]
    return Batch(logprobs, old, torch.zeros_like(logprobs), mask, advantage, np.zeros(ROWS), reference=old)


def ours(loss, batch):
    value, (gradient, _) = our_loss(loss, batch)
    return value, gradient


def verls(loss, batch):
    value, (gradient, _) = loss_of(loss, batch)
    return value, gradient


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize(
    "loss",
    [
        ClipLoss(),
        ClipCovLoss(clip_low=0.2, clip_high=0.28, fraction=1.0, low=0.3, high=1.2),
        ClipCovLoss(fraction=1.0),
        KlCovLoss(fraction=0.1, coef=0.7),
        KlCovLoss(),
        CispoLoss(clip_low=1.0, clip_high=0.2),
        CispoLoss(clip_low=0.1, clip_high=0.2),
        GspoLoss(clip_low=0.03, clip_high=0.05),
        GspoLoss(),
        DppoLoss(),
        DppoLoss(delta=0.05, max_ratio=1.5),
    ],
    ids=str,
)
def test_the_losses_are_verls(loss, aggregation, batch):
    loss = dataclasses.replace(loss, aggregation=aggregation)
    (value, gradient), (theirs, their_gradient) = ours(loss, batch), verls(loss, batch)
    assert value == pytest.approx(theirs, rel=1e-6)  # verl adds 1e-8 to the number of tokens
    assert torch.allclose(gradient, their_gradient, rtol=1e-6, atol=1e-12)
    clip = {name: getattr(loss, name) for name in ("clip_low", "clip_high") if hasattr(loss, name)}
    plain = ours(ClipLoss(**clip, aggregation=aggregation), batch)[1]
    assert type(loss) is ClipLoss or not torch.allclose(gradient, plain, rtol=1e-3)


@pytest.mark.parametrize(
    "loss",
    [SapoLoss(), SapoLoss(tau_positive=0.5, tau_negative=3.0), GmpoLoss(), GmpoLoss(clip_low=0.1, clip_high=0.3)],
    ids=str,
)
def test_the_losses_that_are_a_mean_over_responses_are_verls(loss, batch):
    (value, gradient), (theirs, their_gradient) = ours(loss, batch), verls(loss, batch)
    assert value == pytest.approx(theirs, rel=1e-6)
    torch.testing.assert_close(gradient, their_gradient, rtol=1e-6, atol=1e-12)
    other = dataclasses.replace(loss, aggregation="token-mean")
    assert not torch.allclose(ours(other, batch)[1], their_gradient, rtol=1e-3)


def test_geo_mean_of_two_micro_batches_is_twice_that_of_the_mini_batch(batch):
    """verl adds up the gradients of the micro-batches, so `diver` refuses GMPO there."""
    halves = [rows_of(batch, rows) for rows in (slice(0, ROWS // 2), slice(ROWS // 2, ROWS))]
    summed = torch.cat([verls(GmpoLoss(), half)[1] for half in halves])
    torch.testing.assert_close(summed, 2 * ours(GmpoLoss(), batch)[1], rtol=1e-6, atol=1e-12)


def test_clip_cov_leaves_out_as_many_tokens_as_verls(batch):
    batch = batch._replace(advantages=batch.advantages - 0.1)  # no zeros: what is left out is seen by its gradient
    loss = ClipCovLoss(clip_low=0.2, clip_high=0.28, fraction=0.03, low=0.3, high=1.2)
    free = ours(ClipLoss(), batch)[1] != 0
    both = (ours(loss, batch)[1], verls(loss, batch)[1])
    left_out = [int((free & (gradient == 0)).sum()) for gradient in both]
    assert left_out == [int(0.03 * batch.mask.sum())] * 2 and left_out[0] > 1


def test_the_entropy_bonus_is_verls(batch):
    mask = batch.mask
    logits = torch.randn(ROWS, WIDTH, 17, generator=torch.Generator().manual_seed(1))
    weight = row_weights(mask.sum(1), "token-mean")[:, None]
    assert float((entropy(logits.log_softmax(-1)) * mask * weight).sum()) == pytest.approx(
        float(core_algos.compute_entropy_loss(logits, mask)), rel=1e-5
    )


def test_the_kl_to_the_reference_is_verls(batch):
    logprobs, reference = batch.logprobs, batch.old_logprobs
    theirs = core_algos.kl_penalty(logprobs, reference, "low_var_kl")
    assert torch.allclose(kl_to_reference(logprobs, reference), theirs)


def test_the_advantage_is_verls_with_the_sample_std():
    """verl divides by the sample's standard deviation + 1e-6; `divisor = "sample-std"` is that,
    the paper's is the default."""
    rewards = np.array([1.0, 0.0, 1.065, 0.0, 0.0, 1.0, 1.025, 0.0])
    per_token = torch.tensor(rewards)[:, None]
    theirs, _ = core_algos.compute_grpo_outcome_advantage(
        per_token, torch.ones_like(per_token), np.array(["a"] * len(rewards), dtype=object)
    )
    np.testing.assert_allclose(group_advantage(rewards, divisor="sample-std"), theirs[:, 0].numpy(), rtol=1e-5)
