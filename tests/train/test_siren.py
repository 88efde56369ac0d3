"""SIREN: nucleus entropies, peaks and their coefficients by hand; the gradient of its term of a whole mini-batch."""

import json
import math
from pathlib import Path

import pytest
import torch
from diver_command import succeeds
from test_gradient import GROUPS, HIGH, LOW, MINI, Recorder, Tokenizer, relative_errors, rollout_batch, tiny_model

from diver.core.types import DiverError
from diver.losses import SirenLoss
from diver.losses.base import Tokens
from diver.methods import method_named
from diver.recipe.sections import Update
from diver.sample.policy import Policy, entropy
from diver.train.update import ANCHOR, update


def h(*weights):
    return -sum(w / sum(weights) * math.log(w / sum(weights)) for w in weights)


@pytest.mark.parametrize(
    ("top_p", "nucleus"),
    [(0.4, [0.5]), (0.6, [0.5, 0.3]), (0.79, [0.5, 0.3]), (0.81, [0.5, 0.3, 0.15]), (1.0, [0.5, 0.3, 0.15, 0.05])],
)
def test_the_entropy_of_a_nucleus_by_hand(top_p, nucleus):
    logits = torch.tensor([[0.15, 0.5, 0.05, 0.3]]).log().double().requires_grad_()
    value = entropy(torch.log_softmax(logits, -1), top_p)
    assert value.item() == pytest.approx(h(*nucleus))
    value.sum().backward()
    left_out = [i for i, p in enumerate([0.15, 0.5, 0.05, 0.3]) if p not in nucleus]
    assert all(abs(logits.grad[0, i].item()) < 1e-12 for i in left_out) and logits.grad.isfinite().all()
    assert len(nucleus) == 1 or logits.grad[0, 1] < 0  # the likeliest less likely: more entropy


def test_of_equally_likely_tokens_the_earlier_are_in_the_nucleus():
    assert entropy(torch.full((1, 4), -math.log(4)), 0.6).item() == pytest.approx(math.log(3))


def test_peaks_and_coefficients_by_hand():
    """The quantile of 0 .. 4 is 3.2, that of 2 and 6 is 5.2, and one token is not above itself: H = (4 + 6 + 0) / 3."""
    entropies = torch.tensor([0.0, 1, 2, 3, 4, 2, 6, 7])
    flat = Tokens(entropies, entropies, entropies, entropies, lengths=torch.tensor([5, 2, 1]))
    loss = SirenLoss(beta=0.5)
    assert loss.measure_anchor(flat) == pytest.approx(10 / 3)
    # 2 beta (H - anchor) / (peaks x responses) over the weight of a token: 3 / 3 over 1/8
    found = loss.select_tokens(flat._replace(anchor=1 / 3, weights=torch.full((8,), 1 / 8)))
    assert torch.allclose(found, torch.tensor([0.0, 0, 0, 0, 8, 0, 8, 0]), atol=1e-5)
    two = SirenLoss(quantile=0.5)  # above 2, above 4
    assert two.measure_anchor(flat) == pytest.approx((3.5 + 6) / 3)


def mean_of_peaks(model, groups):
    """H of these groups, response by response, and their clipped surrogate, a sum over tokens."""
    total, surrogate, tokens = 0.0, 0.0, 0
    rows = [(list(g.prompt_tokens), r) for g in groups for r in g.rollouts]
    for prompt, r in rows:
        logits = model(input_ids=torch.tensor([prompt + list(r.tokens)])).logits[0, len(prompt) - 1 : -1] / 0.8
        logp = torch.log_softmax(logits, -1)
        entropies = []
        for row in logp:
            kept, mass = [], 0.0
            for i in sorted(range(len(row)), key=lambda i: -row[i].item()):
                if mass < 0.8:
                    kept.append(i)
                mass += row[i].exp().item()
            q = row[kept].exp() / row[kept].exp().sum()
            entropies.append(-(q * q.log()).sum())
        at = 0.8 * (len(entropies) - 1)
        ordered = sorted(x.item() for x in entropies)
        low, high = ordered[math.floor(at)], ordered[math.ceil(at)]
        peaks = [x for x in entropies if x.item() > low + (at - math.floor(at)) * (high - low) + 1e-9]
        total = total + (sum(peaks) / len(peaks) if peaks else 0.0)
        ratio = (logp[torch.arange(r.length), torch.tensor(r.tokens)] - torch.tensor(r.logprobs)).exp()
        surrogate = surrogate + torch.minimum(ratio * r.advantage, ratio.clamp(1 - LOW, 1 + HIGH) * r.advantage).sum()
        tokens += r.length
    return total / len(rows), -surrogate / tokens


@pytest.mark.parametrize("budget", [1, 40, 10_000])
def test_the_gradient_is_that_of_the_whole_mini_batch(budget):
    loss, model = SirenLoss(clip_low=LOW, clip_high=HIGH, beta=0.7), tiny_model()
    recorder, groups, state = Recorder(model), rollout_batch(0.8), {}
    how = Update(mini_batch_size=MINI, micro_batch_tokens=budget, max_grad_norm=1e9)
    metrics = update(Policy(model, Tokenizer(), None), recorder, groups, loss, how, temperature=0.8, state=state)
    anchor = mean_of_peaks(model, groups)[0].item()  # of the whole batch
    assert state == {ANCHOR: pytest.approx(anchor, rel=1e-5)}
    expected, without = [], []
    for start in range(0, GROUPS, MINI):
        mean, surrogate = mean_of_peaks(model, groups[start : start + MINI])
        for total, into in ((surrogate + 0.7 * (mean - anchor) ** 2, expected), (surrogate, without)):
            model.zero_grad()
            total.backward(retain_graph=True)
            into.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert max(relative_errors(recorder.gradients, expected)) < 1e-4
    assert min(relative_errors(recorder.gradients, without)) > 1e-3  # the term matters in each
    assert 0.05 < metrics["policy/selected_frac"] < 0.25


def test_a_group_without_advantages_has_the_gradient_of_the_term():
    model = tiny_model()
    groups = [g.with_each(advantage=[0.0] * len(g)) for g in rollout_batch(0.8)]
    recorder, how = Recorder(model), Update(mini_batch_size=GROUPS, max_grad_norm=1e9)
    state = {ANCHOR: 0.25}
    update(Policy(model, Tokenizer(), None), recorder, groups, SirenLoss(), how, temperature=0.8, state=state)
    assert recorder.gradients[0].norm() > 0 and state == {ANCHOR: 0.25}
    (0.005 * (mean_of_peaks(model, groups)[0] - 0.25) ** 2).backward()
    # update() has left no gradient of its own
    expected = torch.cat([p.grad.flatten() for p in model.parameters()])
    assert float((recorder.gradients[0] - expected).norm() / expected.norm()) < 1e-4


@pytest.mark.slow
def test_the_anchor_is_in_the_checkpoint_and_a_resumed_run_is_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(
        "[data.countdown]\nproblems = 16\n[sample]\ngroup_size = 4\nmax_prompt_tokens = 24\nmax_tokens = 40\n"
        "[train]\nbatch_size = 4\nmini_batch_size = 2\nsave_steps = 1\nlearning_rate = 1e-3\n[evaluate]\nproblems = 0\n"
    )
    for folder, steps in (("one", "2"), ("two", "1"), ("two", "2")):
        succeeds("train", "tiny.toml", "--method", "siren", "--run.folder", folder, "--train.steps", steps)
    one, two = (
        [{k: v for k, v in json.loads(line).items() if not k.startswith("time/")} for line in text.splitlines()]
        for text in (Path(folder, "metrics.jsonl").read_text() for folder in ("one", "two"))
    )
    assert one == two and len(one) == 2 and one[1]["policy/selected_frac"] > 0
    saved = [json.loads(Path(f"one/checkpoints/step_{i:04d}/method.json").read_text()) for i in (1, 2)]
    assert saved[0] == saved[1] and saved[0][ANCHOR] > 0


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"top_p": 0}, ".top_p: must be above 0 and at most 1, not 0"),
        ({"quantile": 1}, ".quantile: must be at least 0 and below 1, not 1"),
        ({"beta": -1}, ".beta: must be at least 0, not -1"),
        ({"entropy_coef": 0.1}, ": entropy_coef must be 0"),
    ],
)
def test_bad_settings(bad, message):
    with pytest.raises(DiverError, match=f"method.loss{message}"):
        method_named("siren", loss=bad)
