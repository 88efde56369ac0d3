"""Each adapter, on objects that have the documented fields of its engine and no others, against `diver.advantages`."""

import asyncio
import sys
from types import ModuleType, SimpleNamespace

import contracts as c
import numpy as np
import pytest

import diver
from diver.integrations import areal, nemo_rl, rllm, roll, skyrl, slime, tinker_cookbook, torchtitan_rl
from diver.integrations.engines import ENGINES, engines, refusals
from diver.integrations.seam import SEAMS
from diver.integrations.trl.objective import installed
from diver.methods import METHODS, method_named
from diver.types import DiverError, Progress

WITH_LOGPROBS = ["diver-mix", "cde", "xrpo"]  # texts; log-probs; log-probs, and a mean that is not 0


def expected(method, groups=c.GROUPS, progress=0.0):
    ids = [g for g in range(groups) for _ in c.TEXTS]
    columns = {"tokens": c.TOKENS * groups, "logprobs": c.LOGPROBS * groups}
    return diver.advantages(c.TEXTS * groups, c.OUTCOMES * groups, ids, method, progress, **columns).tolist()


def refused(told, *calls):
    for call in calls:
        with pytest.raises(DiverError) as error:
            call()
        assert told in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("name", WITH_LOGPROBS)
def test_slime(name):
    method = method_named(name, loss={"clip_low": 0.2, "clip_high": 0.28})
    process = slime.PostProcess(method)
    for step in (0, 1):
        outcomes, shaped = process(c.slime_args(), c.slime_samples(step * c.GROUPS))
        assert outcomes == c.OUTCOMES * 2 and shaped == expected(method, progress=Progress(step, 10))
    resumed = slime.PostProcess(method)  # the data source gives the groups of the eighth step
    assert resumed(c.slime_args(), c.slime_samples(7 * c.GROUPS))[1] == expected(method, progress=Progress(7, 10))
    shuffled = np.random.default_rng(0).permutation(8)
    samples = c.slime_samples()
    again = slime.PostProcess(method)(c.slime_args(), [samples[i] for i in shuffled])
    assert again[1] == pytest.approx(np.array(expected(method))[shuffled])


def test_slime_refuses():
    method = method_named("diver-mix")
    process = slime.PostProcess(method)
    for changes, told in (
        ({"normalize_advantages": True}, "set normalize_advantages=False (it is True)"),
        ({"advantage_estimator": "reinforce_plus_plus"}, "set advantage_estimator='grpo'"),
        ({"eps_clip_high": 0.2}, "slime is not configured for method 'diver-mix': set eps_clip_high=0.28 (it is 0.2)"),
        ({"calculate_per_token_loss": False}, "set calculate_per_token_loss=True"),
        ({"use_opd": True}, "set use_opd=False (it is True)"),
        (
            {"num_rollout": None},
            "num_rollout: slime tells a reward function nothing of --num-epoch; give --num-rollout",
        ),
    ):
        refused(told, lambda changes=changes: process(c.slime_args(**changes), c.slime_samples()))
    assert process(c.miles_args(), c.slime_samples())[1] == expected(method)
    split, unscored, alone = c.slime_samples(), c.slime_samples(), c.slime_samples()
    split[0].rollout_id = split[1].rollout_id = 5
    unscored[2].reward, alone[1].group_index = None, None
    refused("rollout 5: has several samples", lambda: process(c.slime_args(), split))
    refused("sample 2: has no reward", lambda: process(c.slime_args(), unscored))
    refused("sample 1: has no group_index", lambda: process(c.slime_args(), alone))
    refused("'clip-cov': the slime adapter does not support this loss", lambda: slime.PostProcess("clip-cov"))
    of_dicts = c.slime_samples()
    for sample in of_dicts:
        sample.reward = {"acc": sample.reward, "format": 1.0}
    assert slime.PostProcess(method)(c.slime_args(reward_key="acc"), of_dicts)[1] == expected(method)


def with_tools(column, answered):
    """Each response of the contract with two tokens or log-probs of a tool before its last."""
    return [[*row[:-1], answered, answered, row[-1]] for row in column]


def test_what_a_tool_answered_is_no_part_of_a_response():
    masks = with_tools([[1] * len(ids) for ids in c.TOKENS], 0)
    output, uids = c.skyrl_output()
    output |= {"response_ids": with_tools(c.TOKENS, 9) * c.GROUPS, "loss_masks": masks * c.GROUPS}
    output["rollout_logprobs"] = with_tools(c.LOGPROBS, 0.0) * c.GROUPS
    for name in ("diver-mix", "cde"):
        method = method_named(name)
        found = skyrl.token_rewards(method, output, c.OUTCOMES * 2, uids, c.Tokenizer(), 0.0)
        for row, mask, a in zip(found, masks * 2, expected(method), strict=True):
            assert row == pytest.approx(a * np.array(mask))
    samples = c.slime_samples()
    for i, sample in enumerate(samples):
        ids, logprobs = ([*with_tools(x, other)[i % 4]] for x, other in ((c.TOKENS, 9), (c.LOGPROBS, 0.0)))
        sample.tokens, sample.rollout_log_probs, sample.loss_mask = [1, 2, *ids], logprobs, masks[i % 4]
        sample.response_length = len(ids)
    method = method_named("cde", loss={"clip_high": 0.2})
    assert slime.PostProcess(method)(c.slime_args(eps_clip_high=0.2), samples)[1] == pytest.approx(expected(method))
    refused("contains what a tool answered", lambda: slime.PostProcess("diver-mix")(c.slime_args(), samples))
    for sample in samples:  # left out of the loss, for whatever reason
        sample.loss_mask = [0] * sample.response_length
    slime.PostProcess("diver-mix")(c.slime_args(), samples)


def test_a_kl_term_that_is_never_added_is_refused():
    """Each of slime and ROLL has two switches for it; that of slime is another estimator by default."""
    method = method_named("grpo", loss={"kl_coef": 0.04})
    grpo = {"eps_clip_high": 0.2, "kl_loss_coef": 0.04}
    check = slime.PostProcess(method).check
    check(c.slime_args(**grpo, use_kl_loss=True, kl_loss_type="low_var_kl"))
    refused("use_kl_loss=True (it is False), kl_loss_type='k3' (it is 'k1')", lambda: check(c.slime_args(**grpo)))
    unbiased = c.slime_args(**grpo, use_kl_loss=True, kl_loss_type="k3", use_unbiased_kl=True)
    refused("set use_unbiased_kl=False (it is True)", lambda: check(unbiased))
    of_roll = {"pg_clip_high": 0.2, "use_kl_loss": True}
    roll.check(method, c.roll_config(**of_roll, kl_loss_coef=0.04))
    refused("set kl_loss_coef=0.04 (it is 0)", lambda: roll.check(method, c.roll_config(**of_roll)))


def test_slime_by_its_dotted_path(monkeypatch):
    monkeypatch.setenv("DIVER_METHOD", "diver-mix")
    slime._configured.cache_clear()
    assert slime.post_process(c.slime_args(), c.slime_samples())[1] == expected("diver-mix")
    slime._configured.cache_clear()


@pytest.mark.parametrize("name", [*WITH_LOGPROBS, "per token"])
def test_skyrl(name):
    output, uids = c.skyrl_output()
    own = {"name": "own_methods:Rising"} if name == "per token" else {"name": name}
    method = method_named(own["name"])
    rows = skyrl.token_rewards(method, output, c.OUTCOMES * c.GROUPS, uids, c.Tokenizer(), Progress(3, 10))
    assert [len(row) for row in rows] == [len(ids) for ids in c.TOKENS] * c.GROUPS
    if method.per_token:
        assert rows[3] == [1.0, 2.0, 3.0, 4.0] and rows[2] == [-1.0]
    else:
        assert [row[0] for row in rows] == [row[-1] for row in rows] == expected(name, progress=Progress(3, 10))


def test_skyrl_groups_that_took_the_place_of_others():
    """As handle_replace_sampling leaves the rows: the second group became a copy of the first, uids and all."""
    output, _ = c.skyrl_output()
    groups = skyrl.groups_of(["a"] * 8, 4)
    assert groups == [("a", 0)] * 4 + [("a", 1)] * 4
    rows = skyrl.token_rewards(method_named("diver-mix"), output, c.OUTCOMES * 2, groups, c.Tokenizer(), 0.0)
    assert [row[0] for row in rows] == expected("diver-mix")


def test_skyrl_refuses():
    method = method_named("diver-mix")
    skyrl.check(method, c.skyrl_config())
    for changes, told in (
        ({"advantage_batch_normalize": True}, "set trainer.algorithm.advantage_batch_normalize=False (it is True)"),
        ({"advantage_estimator": "grpo"}, "set trainer.algorithm.advantage_estimator='diver' (it is 'grpo')"),
        ({"use_kl_loss": True}, "set trainer.algorithm.use_kl_loss=False"),
        ({"step_wise": True}, "set generator.step_wise_trajectories=False"),
    ):
        refused(told, lambda changes=changes: skyrl.check(method, c.skyrl_config(**changes)))
    assert skyrl.outcomes_of([1.0, [0.0, 0.5, 0.5]]) == [1.0, 1.0]


@pytest.mark.parametrize("name", WITH_LOGPROBS)
def test_rllm(name):
    estimator = rllm.Estimator(name, lambda: 0.5)
    given = [np.array(c.OUTCOMES)] * c.GROUPS
    advantages, returns = estimator(given, SimpleNamespace(), traj_groups=c.rllm_groups())
    assert advantages is returns and np.concatenate(advantages).tolist() == expected(name, progress=0.5)
    alone = SimpleNamespace(trajectories=c.rllm_groups()[0].trajectories[:1])  # the others were rejected
    assert estimator([np.array([1.0])], SimpleNamespace(), traj_groups=[alone])[0][0].tolist() == [0.0]
    refused("gave its estimator no traj_groups", lambda: estimator(given, SimpleNamespace()))


def test_rllm_steps_of_a_workflow_of_ones_own():
    """Such a Step has a ModelOutput and neither a response nor a thought; that of a trace has the thought apart."""
    given, estimator = [np.array(c.OUTCOMES)] * c.GROUPS, rllm.Estimator("diver-mix")
    groups = c.rllm_groups()  # which share their trajectories
    steps = [trajectory.steps[0] for trajectory in groups[0].trajectories]
    for step in steps:
        step.model_output, step.model_response = SimpleNamespace(content=step.model_response, reasoning=None), ""
    assert np.concatenate(estimator(given, None, traj_groups=groups)[0]).tolist() == expected("diver-mix")
    step.model_output.reasoning, step.model_output.tool_calls = "well", ["ToolCall(add)"]
    assert rllm.written(step) == "well\n" + c.TEXTS[3] + "\nToolCall(add)"
    step.thought, step.model_response = "hm", "2"
    assert rllm.written(step) == "hm\n2\nToolCall(add)"
    for step in steps:
        step.model_response, step.thought, step.model_output = "", "", None
    refused("all responses of a group are empty", lambda: estimator(given, None, traj_groups=groups))
    rllm.Estimator("max-rl")(given, None, traj_groups=groups)  # which reads none


@pytest.mark.parametrize("name", WITH_LOGPROBS)
def test_torchtitan_rl(name):
    of_correct = torchtitan_rl.GroupAdvantages(name, outcome="correct")
    assert of_correct(c.torchtitan_group()) == expected(name, groups=1)
    group = c.torchtitan_group()
    group.rollouts[0].reward = None
    refused("a response of a group has no reward", lambda: torchtitan_rl.GroupAdvantages(name)(group))
    refused("it has: correct, format", lambda: torchtitan_rl.GroupAdvantages(name, outcome="right")(group))
    assert of_correct(SimpleNamespace(rollouts=[])) == []  # generation failed
    cut = c.torchtitan_group()  # the third, by a rubric with truncation_reward=0.0
    cut.rollouts[2].reward, cut.rollouts[2].reward_breakdown = 0.0, {"truncated": 0.0}
    assert of_correct(cut) == expected(name, groups=1)


@pytest.mark.parametrize("name", ["diver-mix", "cde"])
def test_tinker_cookbook(name):
    given = tinker_cookbook.group_rewards(c.tinker_trajectories(), c.Tokenizer(), name, lambda: 0.25)
    totals = np.array([reward for reward, _ in given]) + c.OUTCOMES  # as TrajectoryGroup.get_total_rewards
    np.testing.assert_allclose(totals - totals.mean(), expected(name, 1, 0.25), atol=1e-12)
    assert [metrics["outcome"] for _, metrics in given] == c.OUTCOMES
    alone = tinker_cookbook.group_rewards(c.tinker_trajectories()[:1], c.Tokenizer(), name)
    assert alone == [(0.0, {"outcome": 1.0})]  # so that an evaluation has the outcome
    refused(
        "method 'xrpo': its advantages do not sum to 0 in a group, and tinker-cookbook subtracts their mean",
        lambda: tinker_cookbook.group_rewards(c.tinker_trajectories(), c.Tokenizer(), "xrpo"),
    )


def test_nemo_rl(monkeypatch):
    torch = pytest.importorskip("torch")
    grpo = ModuleType("nemo_rl.algorithms.grpo")
    for name in ("nemo_rl", "nemo_rl.algorithms"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, grpo.__name__, grpo)
    sys.modules["nemo_rl.algorithms"].grpo = grpo
    sys.modules["nemo_rl"].algorithms = sys.modules["nemo_rl.algorithms"]
    refused("has no _create_advantage_estimator", nemo_rl.install)
    grpo._create_advantage_estimator = None
    nemo_rl.install("diver-mix", lambda: 0.5)
    estimator = grpo._create_advantage_estimator(c.nemo_config())
    prompts = torch.tensor([[3, 4, 0]] * 4 + [[5, 6, 7]] * 4)
    mask = torch.ones(8, 5)
    batch = {"message_log": c.nemo_message_log()}
    given = estimator.compute_advantage(
        prompt_ids=prompts, rewards=torch.tensor(c.OUTCOMES * 2), mask=mask, repeated_batch=batch, logprobs_policy=None
    )
    assert given.shape == mask.shape
    np.testing.assert_allclose(given[:, 4].tolist(), expected("diver-mix", progress=0.5), atol=1e-6)
    for changes, told in (
        ({"advantage_clip_high": 2.0}, "set grpo.advantage_clip_high=None (it is 2.0)"),
        ({"ratio_clip_max": 0.2}, "set loss_fn.ratio_clip_max=0.28 (it is 0.2)"),
        ({"disable_ppo_ratio": True}, "set loss_fn.disable_ppo_ratio=False (it is True)"),
        ({"malformed_thinking_advantage": -5.0}, "set grpo.malformed_thinking_advantage=None (it is -5.0)"),
        ({"positive_example_nll_weight": 0.1}, "set loss_fn.positive_example_nll_weight=0.0 (it is 0.1)"),
        ({"data_plane": {"enabled": True}}, "set data_plane.enabled=False (it is True)"),
    ):
        refused(told, lambda changes=changes: grpo._create_advantage_estimator(c.nemo_config(**changes)))


class Episodes:
    """An AReaL workflow that gives one response after another, as RLVRWorkflow does: tensors of one row."""

    def __init__(self, torch, outcomes=c.OUTCOMES):
        self.torch, self.rows = torch, iter(zip(c.TOKENS, c.LOGPROBS, outcomes, strict=True))

    async def arun_episode(self, engine, data):
        ids, logprobs, outcome = next(self.rows)
        if outcome is None:
            return None
        tensor = self.torch.tensor
        return {
            "input_ids": tensor([[1, 2, *ids]]),
            "loss_mask": tensor([[0, 0, *[1] * len(ids)]]),
            "logprobs": tensor([[0.0, 0.0, *logprobs]]),
            "rewards": tensor([outcome]),
        }


@pytest.mark.parametrize("name", WITH_LOGPROBS)
def test_areal(name, monkeypatch):
    torch = pytest.importorskip("torch")
    for module in ("areal", "areal.utils", "areal.utils.data"):
        monkeypatch.setitem(sys.modules, module, ModuleType(module))
    sys.modules["areal.utils.data"].concat_padded_tensors = lambda rows: torch.cat([row["rewards"] for row in rows])
    workflow = areal.GroupWorkflow(Episodes(torch), 4, c.Tokenizer(), name, lambda: 0.5)
    rewards = asyncio.run(workflow.arun_episode(None, {}))
    np.testing.assert_allclose(rewards.tolist(), expected(name, 1, 0.5), atol=1e-6)
    partial = areal.GroupWorkflow(Episodes(torch, [1.0, None, 0.0, 1.0]), 4, c.Tokenizer(), name)
    assert asyncio.run(partial.arun_episode(None, {})) is None


def test_areal_refuses():
    areal.check("diver-mix", c.areal_actor(), 1)
    summed = method_named("diver-mix", loss={"aggregation": "token-sum"})
    refused("'token-sum': AReaL has token-mean", lambda: areal.check(summed, c.areal_actor(), 1))
    normed = c.areal_actor(adv_norm="batch", kl_ctl=0.1)
    refused("set adv_norm=None (it is 'batch'), kl_ctl=0.0 (it is 0.1)", lambda: areal.check("diver-mix", normed, 1))
    other = c.areal_actor(importance_sampling_level="sequence", c_clip=3.0)
    told = "set importance_sampling_level='token' (it is 'sequence'), c_clip=None (it is 3.0)"
    refused(told, lambda: areal.check("diver-mix", other, 1))
    sapo = c.areal_actor(use_sapo_loss=True)
    refused("set use_sapo_loss=False (it is True)", lambda: areal.check("diver-mix", sapo, 1))
    refused("group_size is 8", lambda: areal.check("diver-mix", c.areal_actor(), 8))


def test_roll():
    torch = pytest.importorskip("torch")
    responses = [
        SimpleNamespace(
            batch={
                "input_ids": torch.tensor([[1, 2, *ids, 0]]),
                "response_mask": torch.tensor([[0, 0, *[1] * len(ids), 0]]),
                "response_level_rewards": torch.tensor([outcome]),
            }
        )
        for ids, outcome in zip(c.TOKENS, c.OUTCOMES, strict=True)
    ]
    roll.shaped(responses, c.Tokenizer(), "diver-mix", lambda: 0.5)
    given = [float(response.batch["response_level_rewards"][0]) for response in responses]
    np.testing.assert_allclose(given, expected("diver-mix", 1, 0.5), atol=1e-6)
    roll.check("diver-mix", c.roll_config())
    refused(
        "set adv_estimator='reinforce' (it is 'grpo'), norm_std_type=None (it is 'group')",
        lambda: roll.check("diver-mix", c.roll_config(adv_estimator="grpo", norm_std_type="group")),
    )
    refused("set advantage_clip=None (it is 2.0)", lambda: roll.check("diver-mix", c.roll_config(advantage_clip=2.0)))
    by_sequence = c.roll_config(importance_sampling="seq")
    refused("set importance_sampling='token' (it is 'seq')", lambda: roll.check("diver-mix", by_sequence))


def test_what_a_setting_needs_is_told_before_the_first_reward():
    horizon = method_named("diver-td", diversity={"horizon": 50})
    penalty = method_named("diver-td", overlong={"buffer": 0.2})
    for engine in ("slime", "rLLM", "torchtitan-rl", "NeMo-RL"):
        with pytest.raises(DiverError, match=f"needs (decode|decode, tokens), which {engine} does not provide"):
            SEAMS[engine].usable(horizon)
    with pytest.raises(DiverError, match="rLLM does not say what the length limit is"):
        SEAMS["rLLM"].usable(penalty)
    assert SEAMS["rLLM"].usable(penalty.limited(100)).overlong.max_tokens == 100
    assert SEAMS["slime"].usable(penalty) and SEAMS["AReaL"].usable(horizon)


@pytest.mark.parametrize("engine", SEAMS)
def test_the_table_tells_what_a_seam_carries(engine):
    """By what a method declares, and by the reason that a refusal gives."""
    if engine == "TRL" and (installed() or (2, 0)) < (1, 8):
        pytest.skip("the TRL installed here has no entropy_coef")
    seam = SEAMS[engine]
    for name in METHODS:
        method = method_named(name)
        fits = method.needs <= {*seam.carries} and not method.selection.drops and type(method.loss) in seam.losses
        fits = fits and {t for t in ("kl_coef", "entropy_coef") if getattr(method.loss, t)} <= {*seam.terms}
        fits = fits and (method.zero_mean or not seam.subtracts_mean) and (seam.per_token or not method.per_token)
        assert (engine in engines(method)) == fits, name
        assert fits or engine in refusals(method)[engine]
        assert engine != "ms-swift" or name not in ("entropy-bonus", "evol-rl") or not fits
    assert engine in ENGINES
