"""The gradient of replayed rollouts, written out response by response under autograd;
the published loss is that of remax-rl 0.1.1."""

import copy
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from test_gradient import HIGH, LOW, MINI, Recorder, Tokenizer, rollout_batch, tiny_model, token_logprobs

from diver.core.turns import POLICY, Turn
from diver.core.types import Grade, Group, Problem, Rollout
from diver.losses import ClipLoss
from diver.methods.replay import Replay, admitted
from diver.recipe.sections import Update
from diver.sample.policy import Policy
from diver.train.update import update

ALPHA, TEMPERATURE = 0.3, 0.8
SHARES = {"a": [1.0], "b": [1.0, 1.0], "c": [0.5, 1.0, 1.5], "d": [1.0, 1.0], "e": [1.0]}


def replayed_groups():
    """Five problems with one to three responses of 1 to 9 tokens; the advantages of a problem have the mean alpha."""
    rng = np.random.default_rng(11)
    groups = []
    for name, shares in SHARES.items():
        rollouts = [
            Rollout(
                "",
                tokens=(tokens := rng.integers(1, 23, rng.integers(1, 10)).tolist()),
                logprobs=np.zeros(len(tokens), np.float32),
                grade=Grade.CORRECT,
                age=i,
                advantage=ALPHA * share,
            )
            for i, share in enumerate(shares)
        ]
        prompt = tuple(rng.integers(1, 23, rng.integers(2, 6)).tolist())
        groups.append(Group(Problem(name, "", ""), tuple(rollouts), prompt_tokens=prompt))
    return groups


def replayed_trajectories():
    """Three problems with one to three trajectories of up to five turns, from the bank, each of whose advantages is
    alpha; and for every rollout in order its prompt, its tokens and the numbers of those that the policy wrote."""
    rng, sampled, written = np.random.default_rng(12), [], []
    for i in range(3):
        prompt = rng.integers(1, 23, rng.integers(2, 6)).tolist()
        rollouts = []
        for j in range(i + 1):
            lengths = rng.integers(1, 5, 2 * j + 1)  # the policy has every second turn, the first and the last
            tokens = rng.integers(0, 23, lengths.sum()).tolist()
            parts = [*pairwise([0, *np.cumsum(lengths).tolist()])]
            turns = [Turn("tool" if k % 2 else POLICY, tokens=tokens[a:b]) for k, (a, b) in enumerate(parts)]
            rollouts.append(Rollout.of_turns(turns, grade=Grade.CORRECT, solution=str(j)))
            written.append((prompt, tokens, [t for a, b in parts[::2] for t in range(a, b)]))
        sampled.append(Group(Problem(str(i), "", ""), tuple(rollouts), prompt_tokens=tuple(prompt)))
    replay, state = Replay(alpha=ALPHA), {}
    for group in sampled:
        replay.remember(group, state, 0)
    return replay.replayed(state, 3, 0), written


def flat_gradient(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def published(model, groups, old=None):
    """The gradient of alpha * mean over problems, mean over solutions (weighted), of -score:
    the mean log-prob of a token.

    With the model `old`, the score is that of the clipped objective with the ratio to it.
    """
    model.zero_grad()
    loss = 0.0
    for group in groups:
        of_group = 0.0
        for rollout in group.rollouts:
            share = rollout.advantage / ALPHA
            scores = token_logprobs(model, list(group.prompt_tokens), rollout.tokens, TEMPERATURE)
            if old is not None:
                with torch.no_grad():
                    before = token_logprobs(old, list(group.prompt_tokens), rollout.tokens, TEMPERATURE)
                ratio = (scores - before).exp()
                scores = torch.minimum(ratio, ratio.clamp(1 - LOW, 1 + HIGH))
            of_group = of_group - share * scores.mean() / len(group)
        loss = loss + of_group / len(groups)
    (ALPHA * loss).backward()
    return flat_gradient(model)


def run(model, optimizer, sampled, replayed, mini, budget=40, aggregation="token-mean", max_drift=0.0, **terms):
    loss = ClipLoss(clip_low=LOW, clip_high=HIGH, aggregation=aggregation, **terms)
    how = Update(mini_batch_size=mini, micro_batch_tokens=budget, max_grad_norm=1e9)
    policy = Policy(model, Tokenizer(), None)
    reference = Policy(copy.deepcopy(model), Tokenizer(), None) if terms.get("kl_coef") else None
    beside = {"replayed": replayed, "reference": reference, "reweighed": partial(admitted, max_drift=max_drift)}
    return update(policy, optimizer, sampled, loss, how, temperature=TEMPERATURE, **beside)


def relative(ours, theirs):
    return float((ours - theirs).norm() / theirs.norm())


@pytest.mark.parametrize("budget", [1, 40, 10_000])
@pytest.mark.parametrize("aggregation", ["token-mean", "sequence-mean", "token-sum"])
def test_at_the_first_mini_batch_it_is_alpha_times_the_published_one(aggregation, budget):
    """Sampled groups without a signal: the whole gradient is that of the replayed responses."""
    sampled = [group.with_each(advantage=[0.0] * len(group)) for group in rollout_batch(TEMPERATURE)]
    model, replayed = tiny_model(), replayed_groups()
    recorder = Recorder(model)
    metrics = run(model, recorder, sampled, replayed, len(sampled), budget, aggregation)
    (ours,) = recorder.gradients
    expected = published(tiny_model(), replayed)
    assert relative(ours, expected) < 1e-5
    assert metrics["replay/gradient_share"] == 1.0
    assert metrics["replay/grad_norm"] == pytest.approx(float(expected.norm()), rel=1e-5)
    assert metrics["policy/grad_norm"] == pytest.approx(metrics["replay/grad_norm"], rel=1e-6)


def test_log_probs_are_those_of_the_engine_also_where_an_advantage_is_0():
    """A method of one's own gives tokens and advantages, one of which may be 0, and no log-probs."""
    sampled = [group.with_each(advantage=[0.0] * len(group)) for group in rollout_batch(TEMPERATURE)[:2]]
    replayed = [g.with_each(logprobs=[None] * len(g)) for g in replayed_groups()]
    replayed[1] = replayed[1].with_each(advantage=[0.0, -ALPHA])
    model = tiny_model()
    recorder = Recorder(model)
    metrics = run(model, recorder, sampled, replayed, len(sampled))
    assert relative(recorder.gradients[0], published(tiny_model(), replayed)) < 1e-5
    with torch.no_grad():
        rows = [(g.prompt_tokens, r.tokens) for g in replayed for r in g.rollouts]
        scores = [float(token_logprobs(tiny_model(), list(p), t, TEMPERATURE).mean()) for p, t in rows]
    assert metrics["replay/logprob"] == pytest.approx(np.mean(scores), rel=1e-5)


def test_a_response_that_has_drifted_has_no_gradient():
    """The first response of each problem was found by this policy, the others by one whose log-probs were .2 higher."""
    sampled = [group.with_each(advantage=[0.0] * len(group)) for group in rollout_batch(TEMPERATURE)]
    plain, replayed = tiny_model(), replayed_groups()
    with torch.no_grad():
        for g, old in enumerate(replayed):
            scores = [token_logprobs(plain, list(old.prompt_tokens), r.tokens, TEMPERATURE) for r in old.rollouts]
            replayed[g] = old.with_each(logprobs=[s.numpy() + 0.2 * (i > 0) for i, s in enumerate(scores)])
    model = tiny_model()
    recorder = Recorder(model)
    metrics = run(model, recorder, sampled, replayed, len(sampled), max_drift=0.01)
    means, left = (sum(f(g.advantages) for g in replayed) for f in (np.mean, lambda a: a[0] / len(a)))
    kept = [g.with_each(advantage=[means / left * g.advantages[0], *[0.0] * (len(g) - 1)]) for g in replayed]
    assert relative(recorder.gradients[0], published(tiny_model(), kept)) < 1e-5
    assert metrics["replay/admitted"] == len(replayed) / sum(map(len, replayed))


def test_replayed_groups_of_all_mini_batches_are_weighed_together():
    """Three replayed groups over two mini-batches: the first has the first and the third of them."""
    sampled, replayed, calls = rollout_batch(TEMPERATURE)[:2], replayed_groups()[:3], []

    def weigh(stored, now):
        calls.append([[g.advantages.tolist() for g in groups] for groups in (stored, now)])
        return [g.with_each(advantage=[0.0] * len(g)) for g in now[:2]] + [*now[2:]]

    model = tiny_model()
    how = Update(mini_batch_size=1, micro_batch_tokens=40, max_grad_norm=1e9)
    given = {"temperature": TEMPERATURE, "replayed": replayed, "reweighed": weigh}
    metrics = update(Policy(model, Tokenizer(), None), Recorder(model), sampled, ClipLoss(), how, **given)
    in_order = [replayed[i].advantages.tolist() for i in (0, 2, 1)]
    assert calls == [[in_order, in_order]] and metrics["policy/updates"] == 2
    assert metrics["replay/admitted"] == len(replayed[1]) / sum(map(len, replayed))


@pytest.mark.parametrize("budget", [1, 40, 10_000])
def test_of_a_trajectory_it_is_that_of_the_tokens_of_the_policy(budget):
    """With the environment's tokens as context. Means are over the policy's tokens, as are all metrics."""
    sampled = [group.with_each(advantage=[0.0] * len(group)) for group in rollout_batch(TEMPERATURE)]
    model, (replayed, written) = tiny_model(), replayed_trajectories()
    recorder = Recorder(model)
    metrics = run(model, recorder, sampled, replayed, len(sampled), budget)
    (ours,) = recorder.gradients
    plain = tiny_model()
    scores = [token_logprobs(plain, p, tokens, TEMPERATURE)[own].mean() for p, tokens, own in written]
    means = [scores[0], (scores[1] + scores[2]) / 2, (scores[3] + scores[4] + scores[5]) / 3]
    (-ALPHA * sum(means) / 3).backward()
    logprob = float(sum(scores).detach()) / 6
    assert relative(ours, flat_gradient(plain)) < 1e-5
    own = [len(places) for _, _, places in written]
    assert 0 < sum(own) < sum(len(tokens) for _, tokens, _ in written)
    assert (metrics["replay/problems"], metrics["replay/rollouts"], metrics["replay/tokens"]) == (3, 6, sum(own))
    assert metrics["replay/logprob"] == pytest.approx(logprob, rel=1e-5)


def test_it_is_added_to_the_gradient_of_the_sampled_groups_mini_batch_by_mini_batch():
    """Problem i is replayed in mini-batch i of four, and problem 5 in the first again."""
    sampled, replayed = rollout_batch(TEMPERATURE), replayed_groups()
    both = tiny_model()
    recorder = Recorder(both)
    metrics = run(both, recorder, sampled, replayed, MINI)
    plain = tiny_model()
    alone = Recorder(plain)
    without = run(plain, alone, sampled, None, MINI)
    assert len(recorder.gradients) == len(alone.gradients) == 4
    for i, (with_replay, fresh) in enumerate(zip(recorder.gradients, alone.gradients, strict=True)):
        assert relative(with_replay - fresh, published(tiny_model(), replayed[i::4])) < 1e-5
    own = {name: value for name, value in metrics.items() if not name.startswith("replay/")}
    assert own | {"policy/grad_norm": 0} == pytest.approx(without | {"policy/grad_norm": 0})
    lengths = [r.length for g in replayed for r in g.rollouts]
    assert (
        metrics["replay/problems"] == 5 and metrics["replay/rollouts"] == 9 and metrics["replay/tokens"] == sum(lengths)
    )
    assert metrics["replay/age"] == pytest.approx((0 + 0 + 1 + 0 + 1 + 2 + 0 + 1 + 0) / 9)
    with torch.no_grad():
        scores = [
            float(token_logprobs(tiny_model(), list(g.prompt_tokens), r.tokens, TEMPERATURE).mean())
            for g in replayed
            for r in g.rollouts
        ]
    assert metrics["replay/logprob"] == pytest.approx(np.mean(scores), rel=1e-5)
    # Each mini-batch has replayed problems, so its replayed coefficients sum to alpha;
    # those of a sampled token are A / all tokens.
    fresh = 0.0
    for at in range(0, len(sampled), MINI):
        rows = [r for g in sampled[at : at + MINI] for r in g.rollouts]
        fresh += sum(abs(r.advantage) * r.length for r in rows) / sum(r.length for r in rows)
    assert metrics["replay/gradient_share"] == pytest.approx(4 * ALPHA / (4 * ALPHA + fresh))


def test_terms_of_the_loss_are_of_sampled_rollouts_only():
    sampled, replayed = rollout_batch(TEMPERATURE), replayed_groups()
    gradients = []
    for given in (replayed, None):
        model = tiny_model()
        recorder = Recorder(model)
        run(model, recorder, sampled, given, len(sampled), kl_coef=0.3, entropy_coef=0.05)
        gradients += recorder.gradients
    assert relative(gradients[0] - gradients[1], published(tiny_model(), replayed)) < 1e-5


def test_after_the_first_mini_batch_the_ratio_is_to_the_policy_at_the_start_and_clipped():
    sampled = [group.with_each(advantage=[0.0] * len(group)) for group in rollout_batch(TEMPERATURE)[:2]]
    groups = replayed_groups()
    replayed = [groups[2], groups[2]]  # one problem in both mini-batches
    model = tiny_model()

    class Sgd(torch.optim.SGD):
        def step(self, closure=None):
            gradients.append(flat_gradient(model))
            super().step(closure)

    gradients = []
    run(model, Sgd(model.parameters(), lr=3.0), sampled, replayed, 1)
    start, moved = tiny_model(), tiny_model()
    first = published(moved, replayed[:1])
    with torch.no_grad():
        torch.nn.utils.vector_to_parameters(
            torch.nn.utils.parameters_to_vector(moved.parameters()) - 3.0 * first, moved.parameters()
        )
    assert relative(gradients[0], first) < 1e-5
    second = published(moved, replayed[1:], old=start)
    unclipped = published(moved, replayed[1:])
    assert relative(gradients[1], second) < 1e-4 and relative(second, unclipped) > 0.05
