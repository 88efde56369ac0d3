"""The rows, mini-batches and weights of replayed rollouts in verl (`diver.integrations.verl.replay`)."""

import dataclasses
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("verl.trainer.ppo", reason="in the environment of `make test-verl` only")

import torch
from omegaconf import OmegaConf
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.workers.config import ActorConfig, PolicyLossConfig

from diver.core.run_folder import RunFolder
from diver.core.turns import turns_of_tokens
from diver.core.types import DiverError, Group, Problem, Rollout
from diver.integrations.verl import replay, trainer
from diver.integrations.verl.config import AGGREGATIONS, POLICY_LOSSES
from diver.integrations.verl.replay import Kind, MiniBatches, add_rows, row_multiple, weights_by_key
from diver.losses import CispoLoss, ClipLoss, DppoLoss, GspoLoss, SapoLoss
from diver.losses.base import Tokens, row_weights
from diver.methods import method_named
from diver.train.alerts import AlertLog
from diver.train.checkpoint import read_state, write_state

S, R, P = Kind


def cut(plan, kinds):
    """The rows of each mini-batch, as verl cuts them: each rank its part, each part into mini-batches."""
    size = len(kinds) // plan.ranks
    ranks = [plan.order(kinds)[start : start + size] for start in range(0, len(kinds), size)]
    each = size // plan.count
    return [[row for rank in ranks for row in rank[i * each : (i + 1) * each]] for i in range(plan.count)]


def test_trajectories_are_refused(monkeypatch):
    monkeypatch.setattr(replay, "transfer_queue", SimpleNamespace(kv_batch_get=lambda **_: [{}]))
    batch = replay.KVBatchMeta(["a_0_0"], [{}], "train")
    trajectory = Rollout.of_turns(turns_of_tokens([4, 9, 5], [True, False, True]))
    group = Group(Problem("p", "", ""), (trajectory,), prompt_tokens=(1,))
    with pytest.raises(DiverError, match="problem 'p': verl replays responses of one turn; use --engine builtin"):
        add_rows(batch, [group])


def test_there_are_as_many_mini_batches_as_without_replay():
    assert MiniBatches.of(32, 13, 16, 4, 1) == MiniBatches(2, 24, 1)
    assert MiniBatches.of(33, 1, 16, 8, 2) == MiniBatches(3, 16, 2)
    assert MiniBatches.of(1, 40, 16, 8, 2) == MiniBatches(1, 48, 2)


@pytest.mark.parametrize("seed", range(40))
def test_every_mini_batch_has_its_share_and_sampled_rows(seed):
    rng = np.random.default_rng(seed)
    ranks, n = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    size = ranks * n * int(rng.integers(1, 4))
    sampled, replayed = int(rng.integers(1, 6 * size)), int(rng.integers(1, 200))
    plan = MiniBatches.of(sampled, replayed, size, np.lcm(n, ranks).item(), ranks)
    assert plan.count == -(-sampled // size) and plan.rows % n == plan.rows % ranks == 0
    padding = plan.count * plan.rows - sampled - replayed
    assert padding >= 0
    kinds = [S] * sampled + [R] * replayed + [P] * padding
    kinds = [kinds[i] for i in rng.permutation(len(kinds))]  # as verl balances the ranks
    order = plan.order(kinds)
    of_rank = len(kinds) // ranks
    assert sorted(order) == [*range(len(kinds))]
    assert [i // of_rank for i in order] == [i // of_rank for i in range(len(kinds))]  # every row on its rank
    for rows in cut(plan, kinds):
        assert len(rows) == plan.rows
        found = [kinds[row] for row in rows]
        assert found.count(S) >= 1
        for kind in (S, R):
            assert abs(found.count(kind) - kinds.count(kind) / plan.count) <= 2 * ranks


def test_groups_stay_together_where_there_is_one_rank():
    plan = MiniBatches.of(8, 4, 4, 2, 1)
    first, second = cut(plan, [S] * 8 + [R] * 4)
    assert (first, second) == ([0, 1, 2, 3, 8, 10], [4, 5, 6, 7, 9, 11])


def test_weights_by_hand():
    """Two mini-batches of three rows: two sampled, one replayed; one sampled, one replayed, one padding."""
    plan, kinds, lengths = MiniBatches(2, 3, 1), [S, S, R, S, R, P], [2, 6, 4, 5, 3, 0]
    share = {2: 1 / 8, 4: 1 / 6}  # two groups of one rollout: 1 / (2 * 4) and 1 / (2 * 3)
    wanted, verls = plan.weights(kinds, lengths, share, "token-mean")
    np.testing.assert_allclose(wanted, [1 / 8, 1 / 8, 1 / 4, 1 / 5, 1 / 3, 0])
    np.testing.assert_allclose(verls, [1 / 12] * 3 + [1 / 8] * 3)
    wanted, verls = plan.weights(kinds, lengths, share, "token-sum")
    np.testing.assert_allclose(wanted, [1 / 2, 1 / 2, 1 / 4, 1, 1 / 3, 0])
    np.testing.assert_allclose(verls, [1 / 3] * 6)
    wanted, verls = plan.weights(kinds, lengths, share, "sequence-mean")
    np.testing.assert_allclose(wanted, [1 / 4, 1 / 12, 1 / 4, 1 / 5, 1 / 3, 0])
    np.testing.assert_allclose(verls, [1 / 6, 1 / 18, 1 / 12, 1 / 15, 1 / 9, 1 / 3])


def test_ranks_cut_their_own_part():
    plan, kinds = MiniBatches(2, 4, 2), [S, R, S, R, S, P, S, R]
    wanted, _ = plan.weights(kinds, [1, 1, 2, 1, 3, 0, 4, 1], {1: 0.25, 3: 0.5, 7: 0.125}, "token-mean")
    np.testing.assert_allclose(wanted, [1 / 4, 1 / 2, 1 / 6, 1, 1 / 4, 0, 1 / 6, 1 / 4])  # rows 0, 4 and rows 2, 6


def test_fewer_problems_than_mini_batches_weigh_as_in_the_built_in_trainer():
    """One problem with one response of two tokens, four mini-batches: there one of them has the term,
    with the weight 1 / 2."""
    plan = MiniBatches.of(4, 1, 1, 2, 1, problems=1)
    assert plan.count == 4
    kinds = [S, R, S, P, S, P, S, P]
    wanted, _ = plan.weights(kinds, [1, 2, 1, 0, 1, 0, 1, 0], {1: 0.5}, "token-mean")
    np.testing.assert_allclose(wanted, [1, 0.5, 1, 0, 1, 0, 1, 0])


@pytest.mark.parametrize(
    ("loss", "aggregation"),
    [
        *product([ClipLoss(name="clip"), CispoLoss(name="cispo"), GspoLoss(name="gspo"), DppoLoss()], AGGREGATIONS),
        (SapoLoss(), "sequence-mean"),
    ],
    ids=lambda x: getattr(x, "name", x),
)
def test_the_loss_of_verl_is_that_of_both_terms(loss, aggregation):
    """With ratios that the loss clips, also in replayed rows, as in later mini-batches: value and gradient."""
    loss = dataclasses.replace(loss, aggregation=aggregation)
    random = torch.Generator().manual_seed(3)
    kinds, lengths = [S] * 6 + [R] * 3 + [P] * 3, [9, 4, 7, 12, 1, 5, 6, 11, 3, 0, 0, 0]
    mask = (torch.arange(12) < torch.tensor(lengths)[:, None]).double()
    logprobs = (-2 * torch.rand(12, 12, generator=random, dtype=torch.float64)).requires_grad_()
    old = logprobs.detach() + 1.6 * torch.rand(12, 12, generator=random, dtype=torch.float64) - 0.8
    advantages = torch.tensor([1.0, -1.0, 0.5, -0.5, 2.0, 0.0, 0.1, 0.2, 0.1, 0.0, 0.0, 0.0], dtype=torch.float64)
    groups = {6: 1 / (2 * 2 * 6), 7: 1 / (2 * 2 * 11), 8: 1 / (2 * 3)}  # a problem with two solutions, one with one
    wanted, verls = MiniBatches(1, 12, 1).weights(kinds, lengths, groups, aggregation)

    values, _ = loss.forward(Tokens(logprobs, old, advantages[:, None], mask=mask.bool()))
    sampled = (values * mask)[:6].sum(1) @ row_weights(torch.tensor(lengths[:6]), aggregation)
    ours = sampled + sum(weight * (values * mask)[row].sum() for row, weight in groups.items())
    (expected,) = torch.autograd.grad(ours, logprobs)
    ratio = (logprobs.detach() - old).exp()[6:9][mask[6:9] == 1]
    assert (ratio > 1.3).any() and (ratio < 0.8).any()

    mode, options = POLICY_LOSSES[type(loss)]
    config = ActorConfig(
        strategy="fsdp2", rollout_n=1, ppo_mini_batch_size=12, ppo_micro_batch_size_per_gpu=12,
        policy_loss=PolicyLossConfig(loss_mode=mode),
        **{"clip_ratio_c": 1e6} | {key: getattr(loss, name) for key, name in options.items()},
    )  # fmt: skip
    config.global_batch_info.update(dp_size=1, batch_num_tokens=int(mask.sum()), global_batch_size=12)
    scaled = (advantages * torch.from_numpy(wanted / verls))[:, None].expand_as(mask)
    found, _ = get_policy_loss_fn(mode)(old, logprobs, scaled, mask, AGGREGATIONS[aggregation], config)
    assert float(found.detach()) == pytest.approx(float(ours.detach()), rel=1e-6)
    torch.testing.assert_close(torch.autograd.grad(found, logprobs)[0], expected, rtol=1e-6, atol=1e-9)


def configuration(**actor):
    actor = {"ppo_mini_batch_size": 8, "use_dynamic_bsz": True, "ppo_micro_batch_size_per_gpu": None, **actor}
    rollout = {"n": 4, "log_prob_micro_batch_size_per_gpu": 3}
    return OmegaConf.create({"actor_rollout_ref": {"actor": actor, "rollout": rollout}})


def test_verls_size_of_a_mini_batch_is_as_it_was_afterwards():
    config = configuration()
    with pytest.raises(KeyError), MiniBatches(2, 48, 1).configured(config):
        assert config.actor_rollout_ref.actor.ppo_mini_batch_size == 12
        raise KeyError
    assert config.actor_rollout_ref.actor.ppo_mini_batch_size == 8


def test_rows_that_verl_can_cut():
    assert row_multiple(configuration(), 6) == 12
    assert row_multiple(configuration(use_dynamic_bsz=False, ppo_micro_batch_size_per_gpu=2), 2) == 12


def test_rows_have_the_columns_of_sampled_ones(monkeypatch):
    source = {
        "uid": "a",
        "prompts": torch.tensor([7, 8, 9]),
        "responses": torch.tensor([1, 2]),
        "input_ids": torch.tensor([7, 8, 9, 1, 2]),
        "position_ids": torch.arange(5).expand(3, 5),  # as of a model with positions in several dimensions
        "response_mask": torch.tensor([1, 1]),
        "loss_mask": torch.tensor([1, 1]),
        "rm_scores": torch.tensor([0.0, 1.0]),
        "rollout_log_probs": torch.tensor([-1.0, -2.0]),
        "num_turns": 2,
        "raw_prompt": [{"role": "user", "content": "7 8 9"}],
    }
    stored = {}
    queue = SimpleNamespace(kv_batch_get=lambda **_: [source], kv_batch_put=lambda **given: stored.update(given))
    monkeypatch.setattr(replay, "transfer_queue", queue)
    batch = replay.KVBatchMeta(["a_0_0"], [{"seq_len": 5, "min_global_steps": 3}], "train")
    rollouts = [Rollout("", tokens=[4, 5, 6]), Rollout("", tokens=[5])]
    groups = [
        Group(Problem("p", "", ""), tuple(rollouts), prompt_tokens=(1, 2)),
        Group(Problem("q", "", ""), (Rollout("", tokens=[9, 9]),), prompt_tokens=(3,)),
    ]
    longer, found = add_rows(batch, groups)
    assert [*found.values()] == groups and longer.keys == ["a_0_0", *(key for keys in found for key in keys)]
    assert weights_by_key(found) == dict(zip(longer.keys[1:], [1 / 12, 1 / 4, 1 / 4], strict=True))
    assert longer.tags == [batch.tags[0], *stored["tags"]]
    tag = {"min_global_steps": 3, "is_padding": True}
    lengths = [(tag["prompt_len"], tag["response_len"], tag["seq_len"]) for tag in stored["tags"]]
    assert lengths == [(2, 3, 5), (2, 1, 3), (1, 2, 3)] and all(tag.items() <= row.items() for row in stored["tags"])
    fields = stored["fields"]
    assert set(fields.keys()) == set(source) and stored["keys"] == longer.keys[1:]
    assert [row.tolist() for row in fields["input_ids"].unbind()] == [[1, 2, 4, 5, 6], [1, 2, 5], [3, 9, 9]]
    assert [row.tolist() for row in fields["position_ids"].unbind()][1] == [[0, 1, 2]] * 3
    assert [row.tolist() for row in fields["loss_mask"].unbind()] == [[1, 1, 1], [1], [1, 1]]
    assert not any(row.any() for row in fields["rm_scores"].unbind())
    uids = list(fields["uid"])
    assert uids[0] == uids[1] != uids[2] and longer.keys[1] == f"{uids[0]}_0_0" and longer.keys[2] == f"{uids[0]}_1_0"


@pytest.mark.parametrize(
    ("images", "length", "refused"), [([{}, None], 2, False), ([{"pixels": 1}, {}], 2, True), ([{}, {}], 5, True)]
)
def test_images_and_tools_are_refused(monkeypatch, images, length, refused):
    """A response of `length` tokens of which the policy wrote two."""
    monkeypatch.setattr(trainer, "columns", lambda *_: {"multi_modal_inputs": images})
    run = object.__new__(trainer.DiverTrainer)
    run.method = method_named("verified-replay")
    batch = replay.KVBatchMeta(["a_0_0", "a_1_0"], [{"response_len": 2}, {"response_len": length}], "train")
    group = Group(Problem("p", "", ""), (Rollout("", tokens=[4, 5]), Rollout("", tokens=[6, 7])))
    told = "method 'verified-replay': verl replays no images or tools"
    with pytest.raises(DiverError, match=told) if refused else nullcontext():
        run._check_replayable(batch, {("a_0_0", "a_1_0"): group})


def test_entropy_and_mismatch_are_means_over_the_policys_tokens(monkeypatch):
    """Whatever the aggregation of the loss; the third token of the first response is a tool's, whose log-prob is 0."""
    data = {
        "response_mask": [[1, 1, 0], [1]],
        "entropy": [[1.0, 2.0, 50.0], [6.0]],
        "rollout_log_probs": [[-1.0, -1.0, 0.0], [-2.0]],
        "old_log_probs": [[-1.75, -1.0, -9.0], [-2.0]],
    }
    monkeypatch.setattr(trainer, "columns", lambda _, names: {name: [*map(torch.tensor, data[name])] for name in names})
    monkeypatch.setattr(trainer.PPOTrainerSync, "_compute_old_log_prob", lambda self, batch, metrics: batch)
    run, metrics = object.__new__(trainer.DiverTrainer), {}
    run._replayed, run.config = {}, OmegaConf.create({"actor_rollout_ref": {"actor": {"loss_agg_mode": "token-sum"}}})
    run._compute_old_log_prob(replay.KVBatchMeta(["a_0_0", "a_1_0"], [{}, {}], "train"), metrics)
    assert metrics == {"diver/policy/entropy": 3.0, "diver/policy/logprob_mismatch": 0.25}


def saved(home, steps):
    """Checkpoints with a state and an actor, but for step 2, whose actor verl has deleted."""
    for step in steps:
        folder = home / f"global_step_{step}"
        write_state(folder, {"replay": {"tokens": np.array([step], np.int32)}})
        if step != 2:
            (folder / "actor").mkdir()


def whole(home, steps):
    """Which of the steps have a state, and which an actor."""
    folders = [home / f"global_step_{step}" for step in steps]
    return [[step for step, f in zip(steps, folders, strict=True) if found(f)] for found in (read_state, has_actor)]


def has_actor(folder):
    return (folder / "actor").is_dir()


def test_the_state_of_a_checkpoint_goes_with_its_actor(tmp_path):
    """verl deletes the actor of step 2 alone; in step 9 it is still there, as after a resume."""
    steps = (2, 9, 10, 11)
    saved(tmp_path, steps)
    trainer.drop_old(tmp_path, 11, None, actors=True)
    assert whole(tmp_path, steps) == [[2, 9, 10, 11], [9, 10, 11]]
    trainer.drop_old(tmp_path, 11, 2, actors=False)
    assert whole(tmp_path, steps) == [[9, 10, 11], [9, 10, 11]]
    assert not [*(tmp_path / "global_step_2").iterdir()]


def test_checkpoints_of_before_a_resume_are_deleted_in_a_run_of_diver_train(tmp_path):
    """verl keeps two, and after a resume at step 9 it knows those alone that it has saved since. Step 30 is of a run
    that went on after step 9 before: it is neither deleted nor counted."""
    steps = (2, 9, 10, 11, 30)
    saved(tmp_path, steps)
    trainer.drop_old(tmp_path, 11, 2, actors=True)
    assert whole(tmp_path, steps) == [[10, 11, 30]] * 2


def test_the_state_is_that_of_the_checkpoint_from_which_verl_resumes():
    section = {"resume_mode": "auto", "resume_from_path": None, "default_local_dir": "runs/b"}
    assert trainer.resumed_from(OmegaConf.create(section), 4) == Path("runs/b/global_step_4")
    section |= {"resume_mode": "resume_path", "resume_from_path": "runs/a/global_step_4"}
    assert trainer.resumed_from(OmegaConf.create(section), 4) == Path("runs/a/global_step_4")


def test_the_row_of_a_step_is_written_before_its_checkpoint(monkeypatch, tmp_path):
    """verl saves the checkpoint and validates between its step and its metrics: a kill there lost the row."""

    def step(self, metrics, timing_raw):
        metrics |= {"diver/reward/outcome": 0.5, "actor/pg_loss": 0.25, "actor/kl_loss": 9.0}
        timing_raw["gen"] = 2.0
        return "batch"

    monkeypatch.setattr(trainer.PPOTrainerSync, "step", step)
    run = object.__new__(trainer.DiverTrainer)
    run.method, run.global_steps = method_named("grpo", loss={"aggregation": "token-sum"}), 3
    run.alerts = AlertLog([])
    with RunFolder(tmp_path / "run", {}, {}) as run.folder:
        assert run.step({}, {}) == "batch"
    (row,) = run.folder.rows("metrics.jsonl")
    assert row == {"step": 3, "reward/outcome": 0.5, "policy/loss": 0.25, "time/sample": 2.0}
