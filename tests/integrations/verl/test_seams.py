"""The plugin against the real functions of stock verl, without a trainer."""

import asyncio
import dataclasses
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("verl.trainer.ppo", reason="in the environment of `make test-verl` only")

import ray
import torch
import verl
from omegaconf import OmegaConf
from transformers import GenerationConfig
from verl import DataProto
from verl.experimental.reward_loop.reward_manager import get_reward_manager_cls
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, get_policy_loss_fn
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.v1.trainer_base import get_trainer_cls
from verl.workers.config import FSDPActorConfig, FSDPOptimizerConfig, PolicyLossConfig

from diver.core.types import DiverError, Grade, Group, Problem, Rollout
from diver.grading import grade, with_keys
from diver.integrations.verl import batch, nodes, plugin
from diver.integrations.verl.config import ACTOR, overrides
from diver.integrations.verl.trainer import override_advantages
from diver.methods import method_named
from diver.methods.grpo import group_advantage
from diver.methods.pass_at_k import pass_at_k_advantage
from diver.recipe.data import Countdown
from diver.tasks import countdown
from diver.tasks.testbeds import policy_folder

GROUP, LENGTH = 8, 6
MORE = 5  # another end token of a model


def rows(rewards, uids):
    """A batch as verl's trainer hands it to an estimator; the reward is at the last token, row 1 is shorter."""
    mask = torch.ones(len(rewards), LENGTH)
    mask[1, 4:] = 0
    scores = torch.zeros_like(mask)
    scores[range(len(rewards)), mask.sum(-1).long() - 1] = torch.tensor(rewards)
    tensors = {"token_level_rewards": scores, "response_mask": mask, "responses": mask.long()}
    uids = {} if uids is None else {"uid": np.array(uids, dtype=object)}
    return DataProto.from_dict(tensors=tensors, non_tensors=uids)


def advantages(data, estimator, **algorithm):
    found = compute_advantage(data, adv_estimator=estimator, config=OmegaConf.create(algorithm)).batch
    assert found["advantages"].dtype == torch.float32 and torch.equal(found["advantages"], found["returns"])
    assert not found["advantages"][found["response_mask"] == 0].any()
    return found["advantages"][:, 0].double().numpy()


def test_verl_has_loaded_the_plugin():
    assert get_trainer_cls("diver").__module__ == "diver.integrations.verl.trainer"
    assert get_reward_manager_cls("diver").__module__ == "diver.integrations.verl.reward"
    assert "diver" in ADV_ESTIMATOR_REGISTRY


def test_verls_grpo_divides_by_the_samples_std_where_ours_takes_the_population(seed=0):
    r = np.random.default_rng(seed).normal(size=2 * GROUP).astype(np.float32)
    theirs = advantages(rows(r.tolist(), ["a", "b"] * GROUP), "grpo")  # groups lie mixed in the batch
    for group in (slice(None, None, 2), slice(1, None, 2)):
        np.testing.assert_allclose(theirs[group] * np.sqrt(GROUP / (GROUP - 1)), group_advantage(r[group]), rtol=1e-5)


def test_pass_at_k_training_is_not_verls_grpo_passk():
    r = [1.0, 1, 0, 0, 0, 0, 0, 0]
    theirs = advantages(rows(r, ["a"] * GROUP), "grpo_passk")
    assert (theirs != 0).sum() <= 1 < (pass_at_k_advantage(np.array(r), 4) > 0).sum()


def test_what_the_trainer_hands_over_is_what_verl_gets():
    given = [0.5, -0.25, 1e-9, 2.0]
    with override_advantages(given):
        np.testing.assert_allclose(advantages(rows([0.0] * 4, ["a"] * 4), "diver", diver="grpo"), given, rtol=1e-6)


def test_the_estimator_is_not_run_without_its_trainer():
    with pytest.raises(DiverError, match="algorithm.adv_estimator=diver needs trainer.v1.trainer_mode=diver"):
        advantages(rows([0.0, 1], ["a", "a"]), "diver", diver="grpo")


def actor(method):
    """verl's actor settings as `overrides` gives them."""
    given = {k.removeprefix(f"{ACTOR}."): v for k, v in overrides(method).items() if k.startswith(ACTOR)}
    policy = {k.removeprefix("policy_loss."): given.pop(k) for k in list(given) if k.startswith("policy_loss.")}
    return FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=GROUP,
        ppo_mini_batch_size=8,
        ppo_micro_batch_size_per_gpu=8,
        policy_loss=PolicyLossConfig(**policy),
        optim=FSDPOptimizerConfig(lr=1e-6),
        **given,
    )


@pytest.mark.parametrize(("name", "moves"), [("grpo", False), ("clip-higher", True), ("diver-mix", True)])
def test_clip_higher_is_verls_own_with_our_bounds(name, moves):
    config = actor(method_named(name))
    new = torch.full((1, 1), float(np.log(1.25)), requires_grad=True)
    one = torch.ones(1, 1)
    loss, _ = get_policy_loss_fn(config.policy_loss.loss_mode)(0 * one, new, one, one, config.loss_agg_mode, config)
    loss.backward()
    assert bool(new.grad) is moves


@pytest.mark.parametrize("name", ["clip-cov", "kl-cov"])
def test_the_covariance_methods_are_verls_own_with_the_papers_settings(name):
    method = method_named(name)
    config = actor(method)
    torch.manual_seed(0)
    tokens = int(4 / method.loss.fraction)  # so that the fraction is four of them
    old = torch.full((1, tokens), -1.0)
    new = (old + 0.1 * torch.randn_like(old)).requires_grad_(True)
    advantage, mask = torch.where(torch.rand_like(old) > 0.5, 20.0, -20.0), torch.ones_like(old)
    loss_of = get_policy_loss_fn(config.policy_loss.loss_mode)
    loss_of(old, new, advantage, mask, config.loss_agg_mode, config)[0].backward()
    plain = -advantage * (new - old).exp().detach() / tokens  # the gradient of the surrogate without clip
    touched = ~torch.isclose(new.grad, plain, rtol=1e-4, atol=0)
    assert touched.sum() == 4


# ---- groups from a batch ---------------------------------------------------------------------------------------------


def stored(monkeypatch, keys, **changes):
    """What TransferQueue holds for these keys; `changes` replace columns, None takes one away."""
    data = {
        "uid": [key.rsplit("_", 2)[0] for key in keys],
        "responses": [torch.arange(i + 1) for i in range(len(keys))],
        "rm_scores": [torch.tensor([0.0] * i + [float(i % 2)]) for i in range(len(keys))],
        "extra_fields": [{"reward_extra_info": {"grade": "correct" if i % 2 else "wrong"}} for i in range(len(keys))],
        "extra_info": [{"id": "p"}] * len(keys),
        "prompts": [torch.tensor([7, 8])] * len(keys),
        "reward_model": [{"ground_truth": "15"}] * len(keys),
    } | changes
    monkeypatch.setattr(batch, "columns", lambda *_: {k: v for k, v in data.items() if v is not None})
    return batch.KVBatchMeta(partition_id="train", keys=list(keys), tags=[{} for _ in keys])


def read(meta, size, prompts=2):
    return batch.read_groups(meta, prompts, size, lambda ids: " ".join(map(str, ids)), lambda ids, prompt: len(ids) > 3)


def test_the_same_index_of_two_data_sets_is_two_problems(monkeypatch):
    keys = ["a_0_0", "b_0_0", "c_0_0"]
    given = {"extra_info": [{"index": 0}, {"index": 0}, {}], "data_source": ["gsm8k", "math", "math"]}
    found = read(stored(monkeypatch, keys, **given), 1, prompts=3)
    assert [group.problem.id for group in found.values()] == ["gsm8k/0", "math/0", "c"]


def test_groups_are_whole_and_in_the_order_of_their_samples(monkeypatch):
    keys = ["b_1_0", "a_0_0", "b_0_0", "a_1_0"]
    found = read(stored(monkeypatch, keys), 2)
    assert list(found) == [("b_0_0", "b_1_0"), ("a_0_0", "a_1_0")]
    first, second = found[("a_0_0", "a_1_0")].rollouts
    assert (first.response, first.tokens, first.grade) == ("0 1", [0, 1], Grade.CORRECT)
    assert (second.response, second.length, second.reward.outcome) == ("0 1 2 3", 4, 1.0)
    assert (first.truncated, second.truncated) == (False, True)
    problem = found[("a_0_0", "a_1_0")].problem
    assert (problem.id, problem.prompt, problem.answer) == ("p", "7 8", "15")


def test_the_outcome_is_acc_and_the_rest_of_the_score_a_further_reward(monkeypatch):
    """As DAPO's reward manager has it: a score of 1 or -1 with a penalty of up to 1, and acc beside it."""
    keys, scores = [f"a_{i}_0" for i in range(4)], [1.0, 0.5, -1.0, -1.5]
    given = {
        "rm_scores": [torch.tensor([0.0] * i + [scores[i]]) for i in range(4)],
        "extra_fields": [{"reward_extra_info": {"acc": i < 2, "strict": float(i < 1)}} for i in range(4)],
    }
    meta = stored(monkeypatch, keys, **given)
    parts = {
        "acc": [(1.0, 0.0), (1.0, -0.5), (0.0, -1.0), (0.0, -1.5)],
        "strict": [(1.0, 0.0), (0.0, 0.5), (0.0, -1.0), (0.0, -1.5)],
        "score": [(1.0, 0.0), (0.5, 0.0), (-1.0, 0.0), (-1.5, 0.0)],  # none has it: the score as it is
    }
    for key, expected in parts.items():
        (group,) = batch.read_groups(meta, 1, 4, str, lambda ids, prompt: False, key).values()
        assert [(r.reward.outcome, r.reward.other) for r in group.rollouts] == expected
        assert group.rewards.tolist() == scores
    (by_default,) = read(meta, 4, prompts=1).values()
    assert by_default.outcomes.tolist() == [1, 1, 0, 0]
    (done,) = method_named("grpo").apply([by_default], 0.0)  # of the score, which is all of the reward
    np.testing.assert_allclose(done.advantages, group_advantage(np.array(scores)))


def test_a_score_that_float32_has_rounded_is_the_outcome_alone(monkeypatch):
    keys = [f"a_{i}_0" for i in range(2)]
    given = {
        "rm_scores": [torch.tensor([0.7]), torch.tensor([0.0, 0.699])],
        "extra_fields": [{"reward_extra_info": {"acc": 0.7}}] * 2,
    }
    (group,) = read(stored(monkeypatch, keys, **given), 2, prompts=1).values()
    assert group.rollouts[0].reward.other == 0.0
    assert group.rollouts[1].reward.other == pytest.approx(-0.001, abs=1e-6)


def test_an_unknown_solution_travels_as_an_empty_text(monkeypatch):
    info = [{"grade": "correct", "key": "5", "solution": "2 + 3"}, {"grade": "correct", "key": "5", "solution": ""}, {}]
    given = {"extra_fields": [{"reward_extra_info": row} for row in info]}
    (group,) = read(stored(monkeypatch, ["a_0_0", "a_1_0", "a_2_0"], **given), 3, prompts=1).values()
    assert [(r.key, r.solution) for r in group.rollouts] == [("5", "2 + 3"), ("5", None), (None, None)]
    assert group.prompt_tokens == (7, 8)


@pytest.mark.parametrize("progress", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("name", ["diver-td", "diver-ed", "diver-mix"])
def test_text_after_the_answer_earns_nothing(monkeypatch, name, progress):
    """Eight equal answers, `1 2 3`, four of them with a tail; our reward manager says that the answer ends
    after 5 characters."""
    keys = [f"a_{i}_0" for i in range(8)]
    responses = [torch.tensor([1, 2, 3, *([90 + i, 7 * i] if i > 3 else [])]) for i in range(8)]
    given = {
        "responses": responses,
        "rm_scores": [torch.tensor([0.0] * (len(ids) - 1) + [1.0]) for ids in responses],
        "extra_fields": [{"reward_extra_info": {"grade": "correct", "answer_end": 5}}] * 8,
    }
    (group,) = read(stored(monkeypatch, keys, **given), 8, prompts=1).values()
    assert {rollout.until_answer for rollout in group.rollouts} == {"1 2 3"}
    (shaped,) = method_named(name).apply([group], progress)
    assert shaped.advantages.tolist() == [0.0] * 8
    whole = method_named(name, diversity={"until": "end"}, shaping={"condition": "correct"})
    if name != "diver-ed":  # there is no formula in these texts
        assert (whole.apply([group], progress)[0].advantages[:4] < 0).all()


def test_what_a_tool_answered_is_no_part_of_a_rollout(monkeypatch):
    masks = [torch.tensor(mask) for mask in ([1], [1, 1], [1, 0, 1], [1, 0, 0, 1])]
    logprobs = [-torch.arange(1.0, i + 2) for i in range(4)]
    keys = ["a_0_0", "b_0_0", "a_1_0", "b_1_0"]
    found = read(stored(monkeypatch, keys, response_mask=masks, rollout_log_probs=logprobs), 2)
    first, second = (found[(f"{uid}_0_0", f"{uid}_1_0")].rollouts[1] for uid in "ab")
    assert (first.response, first.tokens, first.logprobs.tolist()) == ("0 2", [0, 2], [-1, -3])
    assert (second.response, second.length, second.truncated) == (
        "0 3",
        2,
        True,
    )  # at its limit of tokens with those of the tool
    scores = rows([0.0, 0.0], ["a"] * 2)
    scores.batch["response_mask"][0, 1:3] = 0
    with override_advantages([np.array([1.0, 2.0, 3.0, 4.0]), 5.0]):
        given = compute_advantage(scores, adv_estimator="diver", config=OmegaConf.create({"diver": "grpo"})).batch[
            "advantages"
        ]
    assert given.tolist() == [[1, 0, 0, 2, 3, 4], [5, 5, 5, 5, 0, 0]]
    scores.batch["response_mask"][1] = 0  # left out of the loss
    with override_advantages([0.0, np.array([1.0, 2.0, 3.0, 4.0])]):
        assert not advantages(scores, "diver", diver="grpo").any()


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (["a_0_0", "a_1_0", "b_0_0"], "prompt b: 1 rollouts where 2 belong"),
        (["a_0_0", "a_0_1", "b_0_0", "b_1_0"], "prompt a: a rollout has several outputs"),
        (["a_0_0", "a_1_0"], "1 prompts have rollouts where 2 were asked.*sync_refill_failed_groups=true"),
        ([], "0 prompts have rollouts where 2 were asked; verl's log says"),
    ],
)
def test_groups_that_are_not_whole_are_refused(monkeypatch, keys, told):
    with pytest.raises(DiverError, match=told):
        read(stored(monkeypatch, keys), 2)


# ---- grades ----------------------------------------------------------------------------------------------------------


def manager_of(method, tokenizer, folder):
    GenerationConfig(eos_token_id=[tokenizer.eos_token_id, MORE]).save_pretrained(folder)  # as models with two ends
    policy = {"model": {"path": str(folder)}, "rollout": {"response_length": 40}}  # by default data.max_response_length
    config = {"algorithm": {"diver": {"method": {"name": method}}}, "data": {"max_response_length": 1000}}
    config = OmegaConf.create({**config, "actor_rollout_ref": policy})
    return get_reward_manager_cls("diver")(config=config, tokenizer=tokenizer, compute_score=None)


@pytest.fixture(scope="module")
def manager(tokenizer, tmp_path_factory):
    return manager_of("diver-mix", tokenizer, tmp_path_factory.mktemp("policy"))


@pytest.fixture(scope="module")
def tokenizer():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(policy_folder())


def sample(problem, ids):
    """One response as verl's agent loop hands it to a reward manager."""
    prompt, mask = torch.tensor([[3, 4, 5]]), torch.ones(1, 3 + len(ids), dtype=torch.long)
    tensors = {"prompts": prompt, "responses": torch.tensor([ids]), "attention_mask": mask}
    info = {"index": 0, "id": problem.id, "verifier": problem.verifier, **problem.meta}
    columns = {
        "raw_prompt": [{"role": "user", "content": problem.prompt}],
        "data_source": problem.source,
        "reward_model": {"style": "rule", "ground_truth": problem.answer},
        "extra_info": info,
    }
    return DataProto.from_dict(tensors=tensors, non_tensors={k: np.array([v]) for k, v in columns.items()})


def test_the_reward_is_our_verdict_for_many_that_arrive_at_once(manager, tokenizer):
    problems = countdown.problems(Countdown(), 6, held_out=False)
    texts = [rf"\( 1 + 1 = 2 \) \boxed{{ {p.answer} }}" for p in problems[:3]] + ["no box at all"] * 3
    numbers, steps = [2, 3], [countdown.Step(2, "+", 3, 5)]
    problems.append(Problem("easy", "Use 2 and 3 to make 5.", "5", "", "countdown", {"numbers": numbers, "target": 5}))
    texts.append(countdown.response(steps))
    ids = [tokenizer(text)["input_ids"] for text in texts]
    decoded = [tokenizer.decode(row, skip_special_tokens=True) for row in ids]

    async def judge():
        return await asyncio.gather(*(manager.run_single(sample(p, row)) for p, row in zip(problems, ids, strict=True)))

    found = asyncio.run(judge())
    expected = grade(list(zip(decoded, problems, strict=True)))
    assert [f["reward_extra_info"]["grade"] for f in found] == list(expected)
    assert [f["reward_score"] for f in found] == [0.0] * 6 + [1.0]
    assert {"correct", "wrong", "no_answer"} == set(expected)


def test_a_caller_that_is_gone_leaves_the_others_their_grades(manager, tokenizer):
    (problem,) = countdown.problems(Countdown(), 1, held_out=False)
    ids = tokenizer("+ + +")["input_ids"]

    async def judge():
        gone, stays = (asyncio.create_task(manager.run_single(sample(problem, ids))) for _ in range(2))
        await asyncio.sleep(0)  # both are waiting now
        gone.cancel()
        return await asyncio.wait_for(stays, 60)

    assert asyncio.run(judge())["reward_extra_info"]["grade"] == "no_answer"


def test_a_response_at_the_limit_without_an_answer_is_truncated(manager, tokenizer):
    (problem,) = countdown.problems(Countdown(), 1, held_out=False)
    ids = tokenizer("+ " * 40)["input_ids"]
    assert len(ids) == 40
    found = asyncio.run(manager.run_single(sample(problem, ids)))
    assert found["reward_extra_info"]["grade"] == "truncated"
    for end in (tokenizer.eos_token_id, MORE):
        ended = asyncio.run(manager.run_single(sample(problem, [*ids[:-1], end])))
        assert ended["reward_extra_info"]["grade"] == "no_answer"


@pytest.mark.parametrize(
    ("context", "expected"), [(13, "truncated"), (14, "truncated"), (15, "no_answer"), (None, "no_answer")]
)
def test_a_response_at_the_end_of_the_context_is_truncated(tokenizer, tmp_path, context, expected):
    """Three tokens of the prompt and ten of the response fill a context of 13, of which a server may keep one free."""
    found = manager_of("diver-mix", tokenizer, tmp_path)
    found.config.actor_rollout_ref.rollout.max_model_len = context
    (problem,) = countdown.problems(Countdown(), 1, held_out=False)
    ids = tokenizer("+ " * 10)["input_ids"]
    assert len(ids) == 10
    assert asyncio.run(found.run_single(sample(problem, ids)))["reward_extra_info"]["grade"] == expected
    ended = asyncio.run(found.run_single(sample(problem, [*ids[:-1], tokenizer.eos_token_id])))
    assert ended["reward_extra_info"]["grade"] == "no_answer"


def test_mathematics_is_judged_in_a_worker(manager, tokenizer, monkeypatch):
    monkeypatch.setattr(type(tokenizer), "decode", lambda self, ids, **_: r"so \boxed{\frac{2}{4}}")
    half = Problem("half", "What is a half?", "0.5", "", "math")
    found = asyncio.run(manager.run_single(sample(half, [5, 6])))
    info = {"acc": 1.0, "grade": "correct", "answer_end": len(r"so \boxed{\frac{2}{4}}")}
    assert found == {"reward_score": 1.0, "reward_extra_info": info}


def test_a_method_with_keys_is_given_solutions_where_the_verifier_knows_them(tokenizer, tmp_path):
    manager = manager_of("verified-replay", tokenizer, tmp_path)
    easy = Problem("easy", "Use 2 and 3 to make 5.", "5", "", "countdown", {"numbers": [2, 3], "target": 5})
    right = tokenizer(countdown.response([countdown.Step(2, "+", 3, 5)]))["input_ids"]
    infos = [
        asyncio.run(manager.run_single(sample(problem, ids)))["reward_extra_info"]
        for problem, ids in [(easy, right), (easy, tokenizer("no box at all")["input_ids"])]
    ]
    texts = [tokenizer.decode(right, skip_special_tokens=True), ""]
    rollouts = [Rollout(text, grade=Grade(info["grade"])) for text, info in zip(texts, infos, strict=True)]
    expected = with_keys([Group(easy, tuple(rollouts))])[0].rollouts
    assert [info["solution"] for info in infos] == [expected[0].solution, ""] and expected[0].solution
    assert [info["key"] for info in infos] == [r.key for r in expected]


def test_a_row_that_cannot_be_judged_is_told(manager):
    odd = Problem("odd", "?", "1", "here", "oracle")
    with pytest.raises(DiverError, match="problem 'odd': verifier: unknown choice 'oracle'; choices: math"):
        asyncio.run(manager.run_single(sample(odd, [1])))
    with pytest.raises(DiverError, match="row 0 of here: the answer must be text or a number"):
        asyncio.run(manager.run_single(sample(dataclasses.replace(odd, answer="", verifier="math"), [1])))


# ---- a plugin that is not at work ------------------------------------------------------------------------------------


def test_another_verl_is_refused(monkeypatch):
    monkeypatch.setattr(verl, "__version__", "0.8.0")
    with pytest.raises(DiverError, match=r"verl 0.8.0: this diver-rl works with verl (\d.*); pip install verl==\1$"):
        plugin.register()


def test_an_entry_point_that_fails_leaves_a_trainer_that_says_why():
    code = """
import sys
sys.modules["diver.integrations.verl.trainer"] = None  # importing it fails
import verl
from verl.trainer.ppo.v1 import get_trainer_cls
get_trainer_cls("diver")(config={})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "the plugin of diver-rl could not be loaded into verl: ModuleNotFoundError" in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(
        "diver.core.types.DiverError: the plugin of diver-rl could not be loaded into verl: import of"
    )


def test_a_node_without_the_plugin_is_named():
    env = {"VERL_USE_EXTERNAL_PLUGINS": "none"}
    ray.init(num_cpus=1, include_dashboard=False, object_store_memory=80_000_000, runtime_env={"env_vars": env})
    try:
        with pytest.raises(DiverError, match=r"node \S+: the plugin of diver-rl is not loaded there.*'trainer': ''"):
            nodes.check()
    finally:
        ray.shutdown()
