"""The gradient of every mini-batch equals the paper's formula, written out token by token under autograd.

The reference below shares nothing with the engine but the model: one response at a time, no padding, no batches,
plain sums. What it must tell apart (sign, kind of std, normaliser, temperature) is tried as well.
"""

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from diver.core.types import Group, Problem, Reward, Rollout
from diver.losses import ClipLoss, DppoLoss, EntropyAdvantageLoss, GmpoLoss, GspoLoss
from diver.methods import method_named
from diver.recipe.sections import Model, Update
from diver.sample.hf import HFGenerator, sample_groups
from diver.sample.policy import Policy, load_policy
from diver.train.update import update

LOW, HIGH = 0.2, 0.28
GROUPS, G, MINI = 8, 4, 2  # four mini-batches of two whole groups


class Tokenizer:
    pad_token_id = 0


def tiny_model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=23,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=64,
            initializer_range=0.3,
        )
    ).double()


REWARDS = [[0, 1, 1.05, 0], [1, 1, 1, 1], [1.05, 0, 0, 1], [0, 0, 1.02, 0]]


def rewards_of(group: int) -> np.ndarray:
    """Mixed groups, and one of equal rewards, whose advantages are exactly zero."""
    return np.array(REWARDS[group % 4], dtype=float)


def group_advantages(rewards: np.ndarray, ddof: int = 0) -> np.ndarray:
    spread = rewards.std(ddof=ddof)
    return np.zeros_like(rewards) if np.ptp(rewards) == 0 else (rewards - rewards.mean()) / spread


def token_logprobs(model: LlamaForCausalLM, prompt: list[int], tokens: list[int], temperature: float) -> torch.Tensor:
    logits = model(input_ids=torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1]
    return torch.log_softmax(logits / temperature, -1)[torch.arange(len(tokens)), torch.tensor(tokens)]


@cache
def rollout_batch(temperature: float) -> list[Group]:
    """Groups of responses of 1 to 13 tokens; old log-probs are off by up to 0.6, so many tokens are clipped."""
    model, rng = tiny_model(), np.random.default_rng(7)
    groups = []
    for g in range(GROUPS):
        problem = Problem(str(g), "", "")
        prompt = rng.integers(1, 23, rng.integers(2, 6)).tolist()
        rollouts = []
        for i in range(G):
            tokens = rng.integers(1, 23, rng.integers(1, 14)).tolist()
            with torch.no_grad():
                old = token_logprobs(model, prompt, tokens, temperature).numpy()
            old = old + rng.uniform(-0.6, 0.6, len(tokens))
            rollouts.append(Rollout("", tokens, old, reward=Reward(float(rewards_of(g)[i]))))
        groups.append(Group(problem, tuple(rollouts), prompt_tokens=tuple(prompt)))
    return method_named("grpo").apply(groups, 0.0)


def written_out(
    model: LlamaForCausalLM,
    groups: list[Group],
    temperature: float,
    aggregation: str,
    *,
    sign: float = 1.0,
    ddof: int = 0,
    micro: int | None = None,
    clipped: dict[int, int] | None = None,
) -> torch.Tensor:
    """The gradient of -J over one mini-batch: sum_i w_i sum_t min(rho A, clip(rho, 1 - eps_l, 1 + eps_h) A)."""
    model.zero_grad()
    rows = [(g, i, r) for g in groups for i, r in enumerate(g.rollouts)]
    objective = torch.zeros((), dtype=torch.float64)
    for group, i, r in rows:
        advantage = group_advantages(rewards_of(int(group.problem.id)), ddof)[i]
        ratio = torch.exp(
            token_logprobs(model, list(group.prompt_tokens), list(r.tokens), temperature) - torch.tensor(r.logprobs)
        )
        bounded = torch.clamp(ratio, 1 - LOW, 1 + HIGH)
        total = torch.minimum(ratio * advantage, bounded * advantage).sum()
        if clipped is not None:
            clipped[1] += int(((ratio > 1 + HIGH).sum()) * (advantage > 0))
            clipped[-1] += int(((ratio < 1 - LOW).sum()) * (advantage < 0))
        counted = rows if micro is None else rows[:micro]  # the fault: a normaliser of a micro-batch
        weight = {
            "token-mean": 1 / sum(len(x.tokens) for _, _, x in counted),
            "sequence-mean": 1 / (len(counted) * len(r.tokens)),
            "token-sum": 1 / len(counted),
        }[aggregation]
        objective = objective + weight * total
    (-sign * objective).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


class Recorder(torch.optim.SGD):
    """Keeps the gradient of every step, and does not move the parameters."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        super().__init__(model.parameters(), lr=0.0)
        self.gradients: list[torch.Tensor] = []

    def step(self, closure=None):
        self.gradients.append(torch.cat([p.grad.flatten() for g in self.param_groups for p in g["params"]]).clone())


def engine_gradients(temperature: float, aggregation: str, budget: int, skip: bool) -> list[torch.Tensor]:
    model = tiny_model()
    groups = rollout_batch(temperature)
    recorder = Recorder(model)
    update(
        Policy(model, Tokenizer(), None),
        recorder,
        groups,
        ClipLoss(clip_low=LOW, clip_high=HIGH, aggregation=aggregation),
        Update(mini_batch_size=MINI, micro_batch_tokens=budget, skip_zero_advantage=skip, max_grad_norm=1e9),
        temperature=temperature,
    )
    return recorder.gradients


@cache
def reference_gradients(temperature: float, aggregation: str, **faults) -> list[torch.Tensor]:
    model = tiny_model()
    groups = rollout_batch(temperature)
    used = faults.pop("divided_by", temperature)
    return [written_out(model, groups[i : i + MINI], used, aggregation, **faults) for i in range(0, GROUPS, MINI)]


def relative_errors(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> list[float]:
    assert len(ours) == len(theirs) == GROUPS // MINI
    return [float((a - b).norm() / b.norm()) for a, b in zip(ours, theirs, strict=True)]


SKIPPED = [(1, False), (10_000, True)]
OTHERS = [pytest.param(*case, marks=pytest.mark.slow) for case in [(1, True), (40, False), (40, True), (10_000, False)]]


@pytest.mark.parametrize(("budget", "skip"), [*SKIPPED, *OTHERS])
@pytest.mark.parametrize("aggregation", ["token-mean", "sequence-mean", "token-sum"])
@pytest.mark.parametrize("temperature", [0.6, 1.0])
def test_equals_the_written_out_formula(temperature, aggregation, budget, skip):
    ours = engine_gradients(temperature, aggregation, budget, skip)
    assert max(relative_errors(ours, reference_gradients(temperature, aggregation))) < 1e-5


def test_tokens_of_both_signs_are_clipped_in_every_mini_batch():
    model = tiny_model()
    groups = rollout_batch(1.0)
    for i in range(0, GROUPS, MINI):
        clipped = {1: 0, -1: 0}
        written_out(model, groups[i : i + MINI], 1.0, "token-mean", clipped=clipped)
        assert clipped[1] > 0 and clipped[-1] > 0


@pytest.mark.parametrize(
    "fault",
    [{"sign": -1.0}, {"ddof": 1}, {"micro": 3}, {"divided_by": 1.0}],
    ids=["sign flipped", "std of the sample", "normaliser of the micro-batch", "temperature left out"],
)
def test_each_fault_is_told_apart(fault):
    ours = engine_gradients(0.6, "token-mean", 40, True)
    assert min(relative_errors(ours, reference_gradients(0.6, "token-mean", **fault))) > 1e-3


def test_kl_and_entropy_reach_every_row():
    """beta KL(pi || ref) and -c H join the loss of every token, rows of zero advantage included."""
    beta, bonus, temperature = 0.3, 0.05, 0.8
    model, anchor = tiny_model(), tiny_model()
    with torch.no_grad():
        for p in anchor.parameters():
            p.add_(0.05 * torch.randn_like(p))
    groups = rollout_batch(temperature)
    loss = ClipLoss(clip_low=LOW, clip_high=HIGH, kl_coef=beta, entropy_coef=bonus)
    recorder = Recorder(model)
    policies = [Policy(m, Tokenizer(), None) for m in (model, anchor)]
    how = Update(mini_batch_size=MINI, micro_batch_tokens=40, max_grad_norm=1e9)
    metrics = update(
        policies[0],
        recorder,
        groups,
        loss,
        how,
        temperature=temperature,
        reference=policies[1],
    )
    assert metrics["policy/active_token_frac"] == 1.0
    expected, losses = [], []
    kls, to_sampler = [], []  # of every token
    for start in range(0, GROUPS, MINI):
        mini = groups[start : start + MINI]
        base = written_out(model, mini, temperature, "token-mean")
        model.zero_grad()
        extra = torch.zeros((), dtype=torch.float64)
        rows = [
            (list(g.prompt_tokens), list(r.tokens), torch.tensor(r.logprobs), r.advantage)
            for g in mini
            for r in g.rollouts
        ]
        surrogate = 0.0
        for prompt, tokens, old, advantage in rows:
            logits = model(input_ids=torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1] / temperature
            logp = torch.log_softmax(logits, -1)
            taken = logp[torch.arange(len(tokens)), torch.tensor(tokens)]
            gap = token_logprobs(anchor, prompt, tokens, temperature).detach() - taken
            kl, ratio = gap.exp() - gap - 1, torch.exp(taken - old)
            extra = extra + (beta * kl + bonus * (logp.exp() * logp).sum(-1)).sum()
            kls += kl.tolist()
            to_sampler += (ratio - 1 - (taken - old)).tolist()
            clipped = torch.clamp(ratio, 1 - LOW, 1 + HIGH) * advantage
            surrogate -= float(torch.minimum(ratio * advantage, clipped).sum().detach())
        tokens = sum(len(ids) for _, ids, _, _ in rows)
        (extra / tokens).backward()
        losses.append((surrogate + float(extra.detach())) / tokens)
        expected.append(base + torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert max(relative_errors(recorder.gradients, expected)) < 1e-5
    by_hand = {"policy/loss": losses, "policy/kl": kls, "policy/ppo_kl": to_sampler}
    assert {name: metrics[name] for name in by_hand} == pytest.approx(
        {name: np.mean(values) for name, values in by_hand.items()}, rel=1e-5
    )


class WithGivenLogprobs(GspoLoss):
    recomputes_logprobs = False


def of_responses(model, prompt, rollout, advantage):
    """GSPO's objective of one response, bounds 0.9 and 1.1; its mean over the responses is the objective."""
    taken = token_logprobs(model, prompt, list(rollout.tokens), 0.8)
    s = (taken - torch.tensor(rollout.logprobs)).mean().exp()
    return torch.minimum(s * advantage, s.clamp(0.9, 1.1) * advantage)


def of_clipped_tokens(model, prompt, rollout, advantage):
    """GMPO's objective of one response; log rho is at most 0.1 with A > 0, at least -0.1 with A < 0."""
    log_ratio = token_logprobs(model, prompt, list(rollout.tokens), 0.8) - torch.tensor(rollout.logprobs)
    return advantage * (log_ratio.clamp(max=0.1) if advantage > 0 else log_ratio.clamp(min=-0.1)).mean().exp()


def of_tokens_within_reach(model, prompt, rollout, advantage):
    """The sum over the tokens of rho A, of those whose probability has moved by at most 0.02 in the direction of A."""
    taken, old = token_logprobs(model, prompt, list(rollout.tokens), 0.8), torch.tensor(rollout.logprobs)
    moved = (taken.exp() - old.exp()).detach() * (1 if advantage > 0 else -1)
    return ((taken - old).exp() * advantage)[moved <= 0.02].sum()


def of_unsure_tokens(model, prompt, rollout, advantage):
    """The sum over the tokens, A + min(H / 5, |A| / 3) in place of A."""
    logits = model(input_ids=torch.tensor([prompt + list(rollout.tokens)])).logits[0, len(prompt) - 1 : -1] / 0.8
    logp = torch.log_softmax(logits, -1)
    shaped = advantage + torch.clamp(-(logp.exp() * logp).sum(-1).detach() / 5, max=abs(advantage) / 3)
    ratio = (logp[torch.arange(rollout.length), torch.tensor(rollout.tokens)] - torch.tensor(rollout.logprobs)).exp()
    return torch.minimum(ratio * shaped, ratio.clamp(1 - LOW, 1 + HIGH) * shaped).sum()


@pytest.mark.parametrize("budget", [1, 40, 10_000])
@pytest.mark.parametrize(
    ("loss", "objective"),
    [
        (WithGivenLogprobs(clip_low=0.1, clip_high=0.1), of_responses),
        (GmpoLoss(clip_low=0.1, clip_high=0.1), of_clipped_tokens),
        (DppoLoss(delta=0.02), of_tokens_within_reach),
        (EntropyAdvantageLoss(alpha=0.2, kappa=3.0), of_unsure_tokens),
    ],
    ids=["gspo", "gmpo", "dppo", "entropy-advantage"],
)
def test_the_losses_of_responses_and_of_entropies(loss, objective, budget):
    groups, recorder, expected = rollout_batch(0.8), Recorder(model := tiny_model()), []
    how = Update(mini_batch_size=MINI, micro_batch_tokens=budget, max_grad_norm=1e9)
    metrics = update(Policy(model, Tokenizer(), None), recorder, groups, loss, how, temperature=0.8)
    for start in range(0, GROUPS, MINI):
        model.zero_grad()
        rows = [(list(g.prompt_tokens), r) for g in groups[start : start + MINI] for r in g.rollouts]
        count = len(rows) if loss.aggregation == "sequence-mean" else sum(r.length for _, r in rows)
        (-sum(objective(model, prompt, r, r.advantage) for prompt, r in rows) / count).backward()
        expected.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert max(relative_errors(recorder.gradients, expected)) < 1e-5
    assert 0 < metrics["policy/clip_fraction"] < 1


class Growing(Recorder):
    """Each step makes the parameters larger by a tenth."""

    @torch.no_grad()
    def step(self, closure=None):
        super().step()
        for p in self.param_groups[0]["params"]:
            p.mul_(1.1)


@pytest.mark.parametrize("budget", [40, 10_000])
def test_the_ratio_of_gspo_is_to_the_trainer_before_the_first_update(budget):
    """The sampler's log-probs, which are off by up to 0.6 here, are only what `logprob_mismatch` is of."""
    groups, model, start = rollout_batch(0.8), tiny_model(), tiny_model()
    recorder, loss = Growing(model), GspoLoss(clip_low=0.01, clip_high=0.01)
    how = Update(mini_batch_size=MINI, micro_batch_tokens=budget, max_grad_norm=1e9)
    metrics = update(Policy(model, Tokenizer(), None), recorder, groups, loss, how, temperature=0.8)
    expected, apart, moved = [], [], tiny_model()
    for at in range(0, GROUPS, MINI):
        objective = torch.zeros((), dtype=torch.float64)
        rows = [(list(g.prompt_tokens), r) for g in groups[at : at + MINI] for r in g.rollouts]
        for prompt, r in rows:
            old = token_logprobs(start, prompt, list(r.tokens), 0.8).detach()
            s = (token_logprobs(moved, prompt, list(r.tokens), 0.8) - old).mean().exp()
            objective = objective + torch.minimum(s * r.advantage, s.clamp(0.99, 1.01) * r.advantage)
            if at == 0 and r.advantage:
                apart.append(np.abs(old.numpy() - r.logprobs))
        moved.zero_grad()
        (-objective / len(rows)).backward()
        expected.append(torch.cat([p.grad.flatten() for p in moved.parameters()]))
        for p in moved.parameters():
            p.data *= 1.1
    assert max(relative_errors(recorder.gradients, expected)) < 1e-5
    assert 0 < metrics["policy/clip_fraction"] < 0.75  # none in the first of four
    assert metrics["policy/logprob_mismatch"] == pytest.approx(np.concatenate(apart).mean(), rel=1e-5)


def test_the_ratio_of_gspo_is_exactly_1_before_the_first_update_in_bfloat16():
    policy = load_policy(Model(precision="bfloat16", threads=1))
    texts = [r"Use 3, 5 and 7 to make 22.", r"Use 4 and 9 to make 36."]
    problems = [Problem(str(i), text, "") for i, text in enumerate(texts)]
    groups = sample_groups(HFGenerator(policy), problems, texts, 4, temperature=1.0, max_tokens=24, seed=0)
    groups = [group.with_each(advantage=[1.0, -1.0, 1.0, -1.0]) for group in groups]
    for budget in (64, 4096):
        optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.0)
        how = Update(mini_batch_size=2, micro_batch_tokens=budget)
        metrics = update(policy, optimizer, groups, GspoLoss(), how, temperature=1.0)
        assert metrics["policy/clip_fraction"] == metrics["policy/ppo_kl"] == 0
        assert metrics["policy/logprob_mismatch"] > 4e-4  # more than the bounds allow


def test_gradient_checkpointing_changes_nothing():
    model = tiny_model()
    groups = rollout_batch(1.0)
    gradients = []
    for checkpointing in (False, True):
        if checkpointing:
            enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
            enable({"use_reentrant": False})
        recorder = Recorder(model)
        how = Update(mini_batch_size=MINI, max_grad_norm=1e9)
        update(Policy(model, Tokenizer(), None), recorder, groups, ClipLoss(), how, temperature=1.0)
        gradients.append(recorder.gradients)
    assert max(relative_errors(*gradients)) < 1e-6


def test_mini_batch_of_zero_advantages_still_takes_its_step():
    """Momentum goes on: the parameters move although the gradient is zero."""
    model = tiny_model()
    groups = rollout_batch(1.0)
    policy, loss = Policy(model, Tokenizer(), None), ClipLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    how = Update(mini_batch_size=GROUPS)
    update(policy, optimizer, groups, loss, how, temperature=1.0)
    before = model.lm_head.weight.detach().clone()
    zeros = [g.with_each(advantage=[0.0] * G) for g in groups]
    metrics = update(policy, optimizer, zeros, loss, how, temperature=1.0)
    assert metrics["policy/active_token_frac"] == 0 and metrics["policy/grad_norm"] == 0
    assert metrics["policy/clip_fraction"] == 0  # logged in a step without a gradient, too
    assert not torch.equal(before, model.lm_head.weight)
    assert all(state["step"] == 2 for state in optimizer.state.values())


def test_groups_that_a_selection_left_are_spread_evenly_over_the_mini_batches():
    """7 groups with at most 3 in a step: two, two and three. A last step of one group would weigh it three times."""
    model, groups = tiny_model(), rollout_batch(1.0)[:7]
    recorder = Recorder(model)
    how = Update(mini_batch_size=3, max_grad_norm=1e9)
    loss = ClipLoss(clip_low=LOW, clip_high=HIGH)
    update(Policy(model, Tokenizer(), None), recorder, groups, loss, how, temperature=1.0)
    expected = [written_out(model, part, 1.0, "token-mean") for part in (groups[:2], groups[2:4], groups[4:])]
    assert len(recorder.gradients) == 3
    for found, by_hand in zip(recorder.gradients, expected, strict=True):
        assert float((found - by_hand).norm() / by_hand.norm()) < 1e-5


def test_a_pad_token_that_the_model_does_not_have_is_never_read():
    """A tokenizer may have been given a [PAD] behind the vocabulary of the model, here of 23 tokens."""
    model = tiny_model()
    model.set_attn_implementation("eager")  # so that rows are padded
    recorder, how = Recorder(model), Update(mini_batch_size=2, max_grad_norm=1e9)
    groups, policy = rollout_batch(1.0)[:2], Policy(model, SimpleNamespace(pad_token_id=23), None)
    update(policy, recorder, groups, ClipLoss(clip_low=LOW, clip_high=HIGH), how, temperature=1.0)
    by_hand = written_out(model, groups, 1.0, "token-mean")
    assert float((recorder.gradients[0] - by_hand).norm() / by_hand.norm()) < 1e-5
