"""No token of the environment is trained on, and none counts: in a length, an entropy, a diversity or an advantage."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from diver.core.turns import POLICY, Action, Turn
from diver.core.types import Group, Problem, Reward, Rollout
from diver.diversity import measure
from diver.losses import ClipLoss, GspoLoss, HighEntropyLoss
from diver.methods import method_named
from diver.recipe.sections import Update
from diver.sample.policy import Policy
from diver.train import update as module
from diver.train.batches import before_responses, collate, rows_of
from diver.train.update import accumulate, update

LOSSES = [ClipLoss(), GspoLoss(), HighEntropyLoss(), ClipLoss(kl_coef=0.1, entropy_coef=0.01)]
LOSS_IDS = ["clip", "gspo", "high-entropy", "kl"]
PROMPT = (3, 4, 5)


def model():
    torch.manual_seed(0)
    sizes = {"vocab_size": 23, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    config = LlamaConfig(**sizes, num_attention_heads=2, max_position_embeddings=64, initializer_range=0.3)
    return LlamaForCausalLM._from_config(config, attn_implementation="sdpa").double()


def policy_of(net):
    return Policy(net, SimpleNamespace(pad_token_id=0), None)


def trajectory(rng, said, outcome):
    """Three turns of the policy, the last of them without an answer; the environment says `said` tokens."""
    turns, logprobs = [], []
    for i, length in enumerate(rng.integers(1, 5, 3)):
        tokens = rng.integers(1, 23, length).tolist()
        logprobs += rng.uniform(-4, -2, length).tolist()
        text = " ".join(map(str, tokens))
        turns.append(Turn(POLICY, text, (Action("say", text[:2]),), tokens=tokens))
        if i < 2:
            told = said.integers(1, 23, said.integers(1, 6)).tolist()
            turns.append(Turn("environment", f"told {told}", state=f"s{i}", reward=0.5 * outcome, tokens=told))
    return Rollout.of_turns(turns, logprobs=np.array(logprobs), entropy=0.5, reward=Reward(outcome))


def groups_of(said, method="clip-higher", **settings):
    """Groups whose policy always writes the same; `said` is the seed of what the environment says."""
    rng, told = np.random.default_rng(0), np.random.default_rng(said)
    groups = [
        Group(
            Problem(str(i), "", ""),
            tuple(trajectory(rng, told, float(j % 3 == 0)) for j in range(4)),
            prompt_tokens=PROMPT,
        )
        for i in range(2)
    ]
    return method_named(method, **settings).apply(groups, 0.0)


def gradient_of_logits(groups, loss):
    """The gradient of the loss at the last hidden state, which only the logits of its position see, for each token of
    the one rollout: [S, d]."""
    net = model()
    (rollout,) = groups[0].rollouts
    seen = []
    net.model.norm.register_forward_hook(lambda *given: given[2].retain_grad() or seen.append(given[2]))
    kept = torch.ones(rollout.length, dtype=torch.bool)
    reference = policy_of(model()) if loss.kl_coef else None
    accumulate(policy_of(net), rows_of(groups, [1.0]), loss, 1.0, 1000, kept, reference)
    return seen[0].grad[0, len(PROMPT) - 1 : -1]


@pytest.mark.parametrize("loss", LOSSES, ids=LOSS_IDS)
@pytest.mark.parametrize("shared", [True, False])
def test_the_gradient_of_the_logits_is_exactly_0_where_the_environment_speaks(loss, shared, monkeypatch):
    if not shared:
        monkeypatch.setattr(module, "shares_prompts", lambda net: False)
    (group, _) = groups_of(1)
    rollout = group.rollouts[0]
    rollout = rollout.replace(logprobs=np.full(rollout.length, -0.01))  # a ratio below 1, which no clip cuts here
    assert rollout.advantage > 0
    gradient = gradient_of_logits([replace(group, rollouts=(rollout,))], loss).abs().sum(-1)
    _, mask = rollout.sequence
    assert 0 < mask.sum() < len(mask) == len(gradient)
    assert (gradient[~mask] == 0).all() and (gradient[mask] > 0).all()


def written_out(groups, temperature):
    """The gradient of GRPO's clipped loss, one trajectory at a time: token mean over what the policies wrote."""
    net = model()
    total = sum(r.length for g in groups for r in g.rollouts)
    for group in groups:
        for rollout in group.rollouts:
            ids, mask = rollout.sequence
            logits = net(input_ids=torch.tensor([[*group.prompt_tokens, *ids]])).logits[0, len(PROMPT) - 1 : -1]
            logp = torch.log_softmax(logits / temperature, -1)[torch.arange(len(ids)), torch.from_numpy(ids)][mask]
            ratio = (logp - torch.from_numpy(rollout.logprobs)).exp()
            a = torch.from_numpy(np.broadcast_to(rollout.token_advantages, rollout.length).copy())
            (-torch.minimum(ratio * a, ratio.clamp(0.8, 1.28) * a).sum() / total).backward()
    return torch.cat([p.grad.flatten() for p in net.parameters()])


@pytest.mark.parametrize("budget", [1, 40, 1000])
def test_the_gradient_is_the_formula_over_what_the_policy_wrote(budget):
    """With an advantage for each token, so that one at the wrong place would tell."""
    groups = groups_of(1, "gigpo", loss={"clip_high": 0.28})
    net = model()
    before = torch.cat([p.detach().flatten().clone() for p in net.parameters()])
    config = Update(mini_batch_size=2, micro_batch_tokens=budget, max_grad_norm=1e9)
    update(policy_of(net), torch.optim.SGD(net.parameters(), lr=1.0), groups, ClipLoss(clip_high=0.28), config,
           temperature=0.7)  # fmt: skip
    change = torch.cat([p.detach().flatten() for p in net.parameters()]) - before
    expected = written_out(groups, 0.7)
    assert float(expected.norm()) > 0.1
    assert float((change + expected).norm() / expected.norm()) < 1e-5


def test_another_text_of_the_environment_changes_nothing_that_is_measured():
    method = {"extra_metrics": ["distinct-n", "self-bleu", "actions", "action-edits", "states"],
              "overlong": {"buffer": 0.5, "max_tokens": 12}}  # fmt: skip
    one, other = groups_of(1, **method), groups_of(2, **method)
    texts = [[turn.text for r in groups[0].rollouts for turn in r.turns] for groups in (one, other)]
    assert texts[0] != texts[1]
    for a, b in zip(one, other, strict=True):
        for left, right in zip(a.rollouts, b.rollouts, strict=True):
            assert len(left.sequence[0]) > left.length == right.length
            assert (left.response, left.diversity, left.reward) == (right.response, right.diversity, right.reward)
            assert left.advantage == right.advantage
        names = ["textual", "equational", "actions"]
        assert {n: v.tolist() for n, v in measure(a, names).items()} == {
            n: v.tolist() for n, v in measure(b, names).items()
        }
    run = method_named("clip-higher")
    assert run.metrics(one, 0.0) == run.metrics(other, 0.0)


def test_a_row_of_two_sides_by_hand():
    turns = [Turn(POLICY, "a", tokens=[7]), Turn("tool", "b", tokens=[8, 9]), Turn(POLICY, "c", tokens=[10, 11])]
    rollout = Rollout.of_turns(turns, logprobs=np.array([-1.0, -2.0, -3.0]), reward=Reward(1.0))
    rollout = rollout.replace(advantage=0.1, token_advantages=np.array([0.1, 0.2, 0.3], np.float32))
    plain = Rollout("d", [12], np.array([-4.0]), reward=Reward(0.0), advantage=-0.5)
    group = Group(Problem("p", "", ""), (rollout, plain), prompt_tokens=(1, 2))
    batch = collate(rows_of([group], [1.0, 2.0]), torch.device("cpu"))
    assert batch.ids.tolist() == [[1, 2, 7, 8, 9, 10, 11], [1, 2, 12, 0, 0, 0, 0]]
    assert batch.attention.tolist() == [[1] * 7, [1, 1, 1, 0, 0, 0, 0]]
    assert batch.mask.int().tolist() == [[1, 0, 0, 1, 1], [1, 0, 0, 0, 0]]
    assert batch.old_logprobs.tolist() == [[-1, 0, 0, -2, -3], [-4, 0, 0, 0, 0]]
    assert batch.token_index.tolist() == [[0, 0, 0, 1, 2], [3, 0, 0, 0, 0]]
    np.testing.assert_allclose(batch.advantages, [[0.1, 0, 0, 0.2, 0.3], [-0.5, 0, 0, 0, 0]])
    assert before_responses(model().float(), batch).shape == (4, 16)
