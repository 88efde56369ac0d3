"""Each adapter, on objects that have the documented fields of its engine and no others, against `diver.advantages`."""

import contracts as c
import numpy as np
import pytest

import diver
from diver.core.types import DiverError, Progress
from diver.integrations import skyrl, slime, tinker_cookbook
from diver.integrations.engines import ENGINES, refusals
from diver.integrations.seam import SEAMS
from diver.integrations.trl.objective import installed
from diver.losses import PolicyLoss
from diver.methods import METHODS, method_named

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


@pytest.mark.parametrize("engine", ["ms-swift", "slime", "SkyRL"])
def test_a_sum_over_tokens_is_refused_where_the_engine_has_none(engine):
    told = f"method.loss.aggregation = 'token-sum': {engine} has token-mean, sequence-mean"
    refused(told, lambda: SEAMS[engine].usable(method_named("diver-mix", loss={"aggregation": "token-sum"})))
    assert SEAMS[engine].usable(method_named("diver-mix", loss={"aggregation": "sequence-mean"}))


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


def ends_of(texts):
    """As a reward function of one's own may count them: up to the first full stop, if there is one."""
    return [None if "." not in text else text.index(".") + 1 for text in texts]


def test_the_columns_of_text_after_the_answer():
    """slime and SkyRL carry where an answer ends, and which responses were cut."""
    texts, cut = ["It is so 2.", "It is so 2. la lo", "It is so 2. la li lu", "It is so 3"], [False, False, False, True]
    known = {"answer_ends": ends_of(texts), "truncated": cut}
    wanted = diver.advantages(texts, c.OUTCOMES, [0] * 4, "diver-td", **known).tolist()
    assert (
        wanted
        != diver.advantages(
            texts, c.OUTCOMES, [0] * 4, method_named("diver-td", diversity={"until": "end"}), truncated=cut
        ).tolist()
    )
    samples = c.slime_samples()[:4]
    for sample, text, end, was_cut in zip(samples, texts, ends_of(texts), cut, strict=True):
        sample.response, sample.metadata = text, {"answer_end": end}
        sample.status = c.Status.TRUNCATED if was_cut else c.Status.COMPLETED
    assert slime.PostProcess("diver-td")(c.slime_args(), samples)[1] == wanted


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
            "num_rollout: slime does not pass --num-epoch to a reward function; give --num-rollout",
        ),
    ):
        refused(told, lambda changes=changes: process(c.slime_args(**changes), c.slime_samples()))
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
    refused("contain what a tool answered", lambda: slime.PostProcess("diver-mix")(c.slime_args(), samples))
    for sample in samples:  # left out of the loss, for whatever reason
        sample.loss_mask = [0] * sample.response_length
    slime.PostProcess("diver-mix")(c.slime_args(), samples)


def test_a_kl_term_that_is_never_added_is_refused():
    """slime has two switches for it, and another estimator by default."""
    method = method_named("grpo", loss={"kl_coef": 0.04})
    grpo = {"eps_clip_high": 0.2, "kl_loss_coef": 0.04}
    check = slime.PostProcess(method).check
    check(c.slime_args(**grpo, use_kl_loss=True, kl_loss_type="low_var_kl"))
    refused("use_kl_loss=True (it is False), kl_loss_type='k3' (it is 'k1')", lambda: check(c.slime_args(**grpo)))
    unbiased = c.slime_args(**grpo, use_kl_loss=True, kl_loss_type="k3", use_unbiased_kl=True)
    refused("set use_unbiased_kl=False (it is True)", lambda: check(unbiased))


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
    skyrl.check_config(method, c.skyrl_config())
    for changes, told in (
        ({"advantage_batch_normalize": True}, "set trainer.algorithm.advantage_batch_normalize=False (it is True)"),
        ({"advantage_estimator": "grpo"}, "set trainer.algorithm.advantage_estimator='diver' (it is 'grpo')"),
        ({"use_kl_loss": True}, "set trainer.algorithm.use_kl_loss=False"),
        ({"step_wise": True}, "set generator.step_wise_trajectories=False"),
    ):
        refused(told, lambda changes=changes: skyrl.check_config(method, c.skyrl_config(**changes)))
    assert skyrl.outcomes_of([1.0, [0.0, 0.5, 0.5]]) == [1.0, 1.0]


@pytest.mark.parametrize("name", ["diver-mix", "cde"])
def test_tinker_cookbook(name):
    given = tinker_cookbook.group_rewards(c.tinker_trajectories(), c.Tokenizer(), name, 0.25)
    totals = np.array([reward for reward, _ in given]) + c.OUTCOMES  # as TrajectoryGroup.get_total_rewards
    np.testing.assert_allclose(totals - totals.mean(), expected(name, 1, 0.25), atol=1e-12)
    assert [metrics["outcome"] for _, metrics in given] == c.OUTCOMES
    alone = tinker_cookbook.group_rewards(c.tinker_trajectories()[:1], c.Tokenizer(), name)
    assert alone == [(0.0, {"outcome": 1.0})]  # so that an evaluation has the outcome
    refused(
        "method 'xrpo': its advantages do not sum to 0 in a group, and tinker-cookbook subtracts their mean",
        lambda: tinker_cookbook.group_rewards(c.tinker_trajectories(), c.Tokenizer(), "xrpo"),
    )


def test_what_a_setting_needs_is_told_before_the_first_reward():
    horizon = method_named("diver-td", diversity={"horizon": 50})
    penalty = method_named("diver-td", overlong={"buffer": 0.2})
    with pytest.raises(DiverError, match="needs decode, which slime does not provide"):
        SEAMS["slime"].usable(horizon)
    with pytest.raises(DiverError, match="SkyRL does not say what the length limit is"):
        SEAMS["SkyRL"].usable(penalty)
    assert SEAMS["SkyRL"].usable(penalty.limited(100)).overlong.max_tokens == 100
    assert SEAMS["slime"].usable(penalty) and SEAMS["SkyRL"].usable(horizon)


@pytest.mark.parametrize("engine", SEAMS)
def test_the_table_tells_what_a_seam_carries(engine):
    """By what a method declares, and by the reason that a refusal gives."""
    if engine in ("TRL", "DiverTrainer") and (installed() or (2, 0)) < (1, 8):
        pytest.skip("the TRL installed here has no entropy_coef")
    seam = SEAMS[engine]
    for name in METHODS:
        method = method_named(name)
        fits = method.needs <= {*seam.carries} and (seam.drops or not method.selection.drops)
        fits = fits and (type(method.loss) in seam.losses or PolicyLoss in seam.losses)
        fits = fits and {t for t in ("kl_coef", "entropy_coef") if getattr(method.loss, t)} <= {*seam.terms}
        fits = fits and (method.zero_mean or not seam.subtracts_mean) and (seam.per_token or not method.per_token)
        assert (engine not in refusals(method)) == fits, name
        assert fits or engine in refusals(method)[engine]
        assert engine != "ms-swift" or name not in ("entropy-bonus", "evol-rl") or not fits
    assert engine in ENGINES
