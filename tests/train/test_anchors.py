"""DPH-RL and PBA: which responses of the starting policy are trained on, and with which gradient."""

import json

import numpy as np
import pytest
import torch
from diver_command import succeeds
from test_gradient import Recorder, Tokenizer, rollout_batch, tiny_model, token_logprobs

from diver.core.types import DiverError, Grade, Group, Problem, Progress, Reward, Rollout
from diver.integrations.engines import refusals
from diver.methods import check_needs, method_named
from diver.recipe.sections import Update
from diver.sample.policy import Policy
from diver.train.checkpoint import read_state, write_state
from diver.train.update import update

TEMPERATURE = 0.8


def group(name, outcomes):
    rollouts = (
        Rollout("", tokens=[i + 1, 9], logprobs=np.array([-0.5 - i, -0.25], np.float32), index=i, reward=Reward(r))
        for i, r in enumerate(map(float, outcomes))
    )
    return Group(Problem(name, "", ""), tuple(rollouts), prompt_tokens=(7, 8))


def state_of(method, *groups):
    state = {}
    for sampled in groups:
        method.update_start(sampled, state)
    return state


def anchors(method, state, problems=9):
    found = method.replayed(state, problems, Progress(3, 9))
    return {g.problem.id: [(r.tokens, r.logprobs.tolist()) for r in g.rollouts] for g in found}


START = [group("all", [1, 1]), group("first", [1, 0]), group("second", [0, 1]), group("none", [0, 0])]
"""By the number of their two responses of the starting policy that are correct."""


def test_one_correct_response_of_a_solved_problem_and_every_one_of_an_unsolved_problem(tmp_path):
    """DPH-RL keeps the first correct response where all, or half, are correct; PBA all responses where none is."""
    first, second = ([1, 9], [-0.5, -0.25]), ([2, 9], [-1.5, -0.25])
    expected = {
        ("dph-rl", 1.0): {"all": [first]},
        ("dph-rl", 0.5): {"all": [first], "first": [first], "second": [second]},
        ("dph-rl", 0.0): {"all": [first], "first": [first], "second": [second]},
        ("pba", 1 / 8): {"none": [first, second]},
    }
    for (name, solved), wanted in expected.items():
        method = method_named(name, solved=solved)
        state = state_of(method, *START)
        write_state(tmp_path, state)
        assert anchors(method, state) == anchors(method, read_state(tmp_path)) == wanted
    assert anchors(method_named("pba"), state_of(method_named("pba"), group("p", [0] * 7 + [1]))) == {}
    empty = Rollout("", tokens=[], logprobs=np.zeros(0, np.float32), reward=Reward(1.0))
    assert state_of(method, Group(Problem("p", "", ""), (empty,), prompt_tokens=(7,))) == {}


def test_problems_take_turns():
    method = method_named("dph-rl", solved=0.5)
    state = state_of(method, *START)
    turns = [[*anchors(method, state, problems=2)] for _ in range(3)]
    assert turns == [["all", "first"], ["second", "all"], ["first", "second"]]


@pytest.mark.parametrize(
    ("name", "trained"), [("dph-rl", ["first", "second", "none"]), ("pba", ["all", "first", "second"])]
)
def test_an_anchored_problem_has_no_reward_and_the_others_have_that_of_clip_higher(name, trained):
    method = method_named(name)
    state = state_of(method, *START)
    sampled = [group(problem, outcomes) for problem in ("all", "first", "second", "none") for outcomes in [[1, 0, 0]]]
    done, plain = (m.apply(sampled, 0.0, state=state) for m in (method, method_named("clip-higher")))
    assert [g.problem.id for g in done] == trained
    advantages = {g.problem.id: g.advantages.tolist() for g in plain}
    assert [g.advantages.tolist() for g in done] == [advantages[problem] for problem in trained]
    assert len(method.shaped(sampled, 0.0, state=state)) == 4
    single = [group("first", [1]), group("none", [0, 0]), group("first", [1, 1])]
    assert not any(a.any() for g in method.apply(single, 0.0, state=state) for a in [g.advantages])


def release(divergence, logprobs, start):
    """The loss of a token in the release, `kl_penalty` of low_var_kl with its clamps and `js_low_var`, where its ratio
    is that of the policy to the starting policy."""
    log_ratio = logprobs - start
    if divergence == "js":
        ratio = log_ratio.exp()
        return ratio * ratio.log() - (ratio + 1) * ((ratio + 1) / 2).log()
    bounded = log_ratio.clamp(-20, 20)
    return (bounded.exp() - bounded - 1).clamp(-10, 10)


@pytest.mark.parametrize("divergence", ["forward-kl", "js"])
def test_advantages_are_minus_the_slope_of_the_loss_of_the_release(divergence):
    """By autograd. From 2.6 on the first is above 10, where the release clamps it; log u = 2.5 is just below."""
    gaps = np.array([-25.0, -19.0, -2.0, -0.1, 0.0, 1e-4, 0.5, 2.5, 2.7, 6.0])
    start = np.linspace(-3.0, -1.0, len(gaps))
    logprobs = torch.tensor(start + gaps, requires_grad=True)
    (slope,) = torch.autograd.grad(release(divergence, logprobs, torch.tensor(start)).sum(), logprobs)
    method = method_named("dph-rl", divergence=divergence, coef=0.3)
    found, now = (
        Group(Problem("p", "", ""), (Rollout("", tokens=[*range(10)], logprobs=values, advantage=0.0),))
        for values in (start, start + gaps)
    )
    (done,) = method.reweighed([found], [now])
    np.testing.assert_allclose(done.rollouts[0].token_advantages, -0.3 * slope.numpy(), rtol=1e-9, atol=1e-12)
    assert done.rollouts[0].advantage == pytest.approx(-0.3 * float(slope.mean()))


def test_by_hand():
    """u = 2: -(2 - 1) for the KL divergence, and -2 log(4 / 3) for Jensen-Shannon; u = 1 has none."""
    start, now = np.log([0.25, 0.5]), np.log([0.5, 0.5])
    groups = [Group(Problem("p", "", ""), (Rollout("", tokens=[1, 2], logprobs=lp),)) for lp in (start, now)]
    for divergence, expected in (("forward-kl", [-1, 0]), ("js", [-2 * np.log(4 / 3), 0])):
        (done,) = method_named("dph-rl", divergence=divergence, coef=1).reweighed(groups[:1], groups[1:])
        np.testing.assert_allclose(done.rollouts[0].token_advantages, expected, atol=1e-12)


@pytest.mark.parametrize("divergence", ["forward-kl", "js"])
def test_the_gradient_of_the_update_is_that_of_the_mean_divergence(divergence):
    """Sampled groups without a signal. The term is the mean over problems, responses and tokens, times coef."""
    sampled = [g.with_each(advantage=[0.0] * len(g)) for g in rollout_batch(TEMPERATURE)]
    again = [g.only([True, True, False, False]) for g in rollout_batch(TEMPERATURE)[:3]]
    method, model, plain = method_named("dph-rl", divergence=divergence, coef=0.3), tiny_model(), tiny_model()
    recorder = Recorder(model)
    how = Update(mini_batch_size=len(sampled), micro_batch_tokens=40, max_grad_norm=1e9)
    given = {"temperature": TEMPERATURE, "replayed": again, "reweighed": method.reweighed}
    update(Policy(model, Tokenizer(), None), recorder, sampled, method.loss, how, **given)
    loss = torch.zeros((), dtype=torch.float64)
    for g in again:
        for r in g.rollouts:
            scores = token_logprobs(plain, list(g.prompt_tokens), r.tokens, TEMPERATURE)
            loss = loss + 0.3 * release(divergence, scores, torch.tensor(r.logprobs)).mean() / 2 / len(again)
    loss.backward()
    expected = torch.cat([p.grad.flatten() for p in plain.parameters()])
    assert float((recorder.gradients[0] - expected).norm() / expected.norm()) < 1e-5


def test_what_is_refused():
    for name in ("dph-rl", "pba"):
        assert method_named(name).needs == {"start", "state", "replay"}
        refused = refusals(method_named(name))
        assert {"built-in", "DiverTrainer"}.isdisjoint(refused) and {"TRL", "verl", "diver.advantages"} <= {*refused}
        assert refused["verl"] == (
            f"method '{name}' samples all problems before training (start), which verl does not provide; the "
            "built-in trainer does"
        )
    with pytest.raises(DiverError, match="which TRL does not provide; the built-in trainer does"):
        check_needs(method_named("dph-rl"), "TRL", ("responses", "replay"))
    with pytest.raises(DiverError, match="replay.alpha: the responses of the starting policy are replayed, no others"):
        method_named("dph-rl", replay={"alpha": 0.1})
    with pytest.raises(DiverError, match="method.solved: must be between 0 and 1, not 2"):
        method_named("dph-rl", solved=2)


FLAGS = (
    "--method dph-rl --method.solved 0.5 --method.start_responses 4 --data.countdown.problems 12 --sample.group_size 4 "
    "--sample.max_tokens 40 --sample.max_prompt_tokens 24 --train.batch_size 4 --train.mini_batch_size 4 "
    "--train.save_steps 1 --train.learning_rate 3e-4 --evaluate.problems 0"
).split()


@pytest.mark.slow
def test_a_run_samples_the_start_once_and_continues_with_it(tmp_path):
    """Before the first update the policy is the start, so that no token has an advantage but by rounding."""
    (tmp_path / "tiny.toml").write_text("")
    rows = []
    for steps in (1, 3):
        succeeds("train", tmp_path / "tiny.toml", *FLAGS, "--train.steps", steps, "--run.folder", tmp_path / "run")
        state = read_state(tmp_path / "run" / "checkpoints" / f"step_000{steps}")["start"]
        rows.append({name: [*entry["responses"]] for name, entry in state.items()})
    assert rows[0] == {name: rows[1][name] for name in rows[0]} and 0 < len(rows[0]) < 12
    metrics = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").open()]
    assert metrics[0]["replay/grad_norm"] < 1e-5 < metrics[2]["replay/grad_norm"]
    sampled = [json.loads(line) for path in (tmp_path / "run" / "rollouts").iterdir() for line in path.open()]
    assert all(rollout["trained"] is (rollout["problem"] not in rows[0]) for rollout in sampled)
    assert {rollout["grade"] for rollout in sampled} >= {str(Grade.CORRECT)}
