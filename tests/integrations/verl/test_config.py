"""What the plugin reads and what it asks of verl: without verl."""

import dataclasses
import json
import re
import subprocess
import sys

import pytest
from own_methods import MaxRl

from diver.core.types import DiverError
from diver.grading.settings import Verification
from diver.integrations.verl.config import GROUP, check_config, overrides, read_plugin
from diver.methods import METHODS, method_named

ACTOR = "actor_rollout_ref.actor"


def test_a_name_a_table_and_json_say_the_same():
    named = read_plugin("diver-td")
    assert named.method == method_named("diver-td") and named.verify == Verification()
    assert read_plugin({"method": "diver-td"}) == named
    assert read_plugin({"method": {"name": "diver-td"}}) == named
    assert read_plugin({"method": json.dumps({"name": "diver-td"}), "verify": "{}"}) == named
    assert read_plugin({"method": "diver-td", "run": {"folder": "/runs/a"}}).run.folder == "/runs/a"


@pytest.mark.parametrize("name", METHODS)
def test_a_whole_method_survives_json(name):
    shaping = {"shaping": {"coef": 0.25, "schedule": {"kind": "linear"}}} if name.startswith("diver") else {}
    method = method_named(name, **shaping, diversity={"orders": 2}, loss={"kl_coef": 0.5})
    verify = Verification(timeout_s=1.5)
    plugin = read_plugin({k: json.dumps(dataclasses.asdict(v)) for k, v in (("method", method), ("verify", verify))})
    assert (plugin.method, plugin.verify) == (method, verify)


def test_a_method_of_ones_own():
    own = "own_methods:MaxRl"
    for value in (own, {"method": {"name": own}}, {"method": json.dumps({"name": own})}):
        assert read_plugin(value).method == MaxRl(name=own)
    assert read_plugin({"method": {"name": own, "divisor": "sample-std"}}).method == MaxRl(
        name=own, divisor="sample-std"
    )
    given = overrides(method_named("grpo"))
    check_config(method_named(own), given.get)
    with pytest.raises(DiverError) as error:
        check_config(method_named("own_methods:Likelihood"), given.get)
    assert str(error.value).endswith("add: actor_rollout_ref.rollout.calculate_log_probs=true")
    with pytest.raises(DiverError) as error:
        check_config(method_named("grpo", loss={"name": "own_methods:Loss"}), given.get)
    assert str(error.value).startswith("method.loss.name = 'own_methods:Loss': the verl adapter does not support")
    with pytest.raises(DiverError, match="algorithm.diver.method.name: 'nowhere:Mine' cannot be imported"):
        read_plugin("nowhere:Mine")
    with pytest.raises(DiverError, match="is not a subclass of Method decorated with @settings"):
        read_plugin("own_methods:Loss")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "algorithm.diver: must name a method, such as +algorithm.diver=diver-mix, or be a table, not"),
        ("diver-mx", "algorithm.diver.method.name: unknown choice 'diver-mx', did you mean 'diver-mix'"),
        ("{not json", "algorithm.diver.method: is neither a table nor JSON"),
        ({"verify": "2.5"}, "algorithm.diver.verify: is neither a table nor JSON"),
        (3, "algorithm.diver: must name a method, such as +algorithm.diver=diver-mix, or be a table, not 3"),
        ({"shaping": {}}, "algorithm.diver: unknown choice 'shaping'; choices: method, outcome, verify, run"),
        ({"method": {"shaping": {"coeff": 1}}}, "algorithm.diver.method.shaping.coeff: unknown key"),
        ({"verify": {"timeout_s": -1.0}}, "algorithm.diver.verify.timeout_s: must be above 0"),
    ],
)
def test_what_is_wrong_is_told_with_its_key(value, told):
    with pytest.raises(DiverError, match=re.escape(told)):
        read_plugin(value)


def test_the_papers_settings_in_verls_words():
    mix = overrides(method_named("diver-mix"))
    assert mix == {
        "trainer.v1.trainer_mode": "diver",
        "reward.reward_manager.name": "diver",
        "algorithm.adv_estimator": "diver",
        "algorithm.use_kl_in_reward": False,
        f"{ACTOR}.policy_loss.loss_mode": "vanilla",
        f"{ACTOR}.clip_ratio_low": 0.2,
        f"{ACTOR}.clip_ratio_high": 0.28,
        f"{ACTOR}.clip_ratio_c": 1e6,
        f"{ACTOR}.loss_agg_mode": "token-mean",
        f"{ACTOR}.entropy_coeff": 0.0,
        f"{ACTOR}.use_kl_loss": False,
    }
    assert overrides(method_named("grpo"))[f"{ACTOR}.clip_ratio_high"] == 0.2
    clip, kl = (
        {k.rpartition(".")[2]: v for k, v in overrides(method_named(name)).items() if "policy_loss" in k}
        for name in ("clip-cov", "kl-cov")
    )
    assert clip == {"loss_mode": "clip_cov", "clip_cov_ratio": 2e-4, "clip_cov_lb": 1.0, "clip_cov_ub": 5.0}
    assert kl == {"loss_mode": "kl_cov", "kl_cov_ratio": 2e-3, "ppo_kl_coef": 1.0}
    penalised = overrides(method_named("grpo", loss={"kl_coef": 0.001, "aggregation": "token-sum"}))
    assert penalised[f"{ACTOR}.kl_loss_type"] == "low_var_kl" and penalised[f"{ACTOR}.kl_loss_coef"] == 0.001
    assert penalised[f"{ACTOR}.loss_agg_mode"] == "seq-mean-token-sum"


def test_a_loss_that_verl_lacks_is_refused():
    with pytest.raises(
        DiverError,
        match="method.loss.name = 'high-entropy': the verl adapter does not support this loss",
    ):
        overrides(method_named("high-entropy"))


def test_a_verl_configured_for_another_method_is_refused():
    given = overrides(method_named("clip-higher"))
    check_config(method_named("diver-mix"), given.get)  # they differ in the reward only
    check_config(method_named("clip-higher"), {**given, f"{ACTOR}.entropy_coeff": 0}.get)
    with pytest.raises(DiverError, match=r"'diver-mix'; add: actor_rollout_ref\.actor\.clip_ratio_c=1000000\.0"):
        check_config(method_named("diver-mix"), {**given, f"{ACTOR}.clip_ratio_c": 3.0}.get)  # verl's default
    with pytest.raises(DiverError) as error:
        check_config(method_named("grpo"), given.get)
    assert str(error.value) == (f"verl is not configured for method 'grpo'; add: {ACTOR}.clip_ratio_high=0.2")
    check_config(method_named("clip-higher"), {**given, "reward.reward_manager.name": "dapo"}.get)
    with pytest.raises(DiverError, match="use_kl_in_reward=false"):
        check_config(method_named("clip-higher"), {**given, "algorithm.use_kl_in_reward": True}.get)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("actor_rollout_ref.actor.shuffle", "every mini-batch has its share of the replayed responses"),
        ("algorithm.rollout_correction.bypass_mode", "replayed responses have no log-probs of this step's sampler"),
        ("actor_rollout_ref.rollout.enable_rollout_routing_replay", "the bank does not keep the experts"),
        ("critic.enable", "a critic would learn from replayed responses"),
    ],
)
def test_what_replay_cannot_have_beside_it_is_told_in_a_line(key, reason):
    method = method_named("verified-replay")
    given = overrides(method)
    assert given["actor_rollout_ref.rollout.calculate_log_probs"] is True
    check_config(method, {**given, key: False}.get)
    with pytest.raises(DiverError) as error:
        check_config(method, {**given, key: True}.get)
    told = str(error.value)
    assert told.startswith(f"{key}=true with method.replay: {reason}") and told.endswith(f"; set {key}=false")
    assert "\n" not in told
    check_config(method_named("clip-higher"), {**overrides(method_named("clip-higher")), key: True}.get)


@pytest.mark.parametrize(
    ("name", "changes", "told"),
    [
        (
            "diver-mix",
            {"algorithm.filter_groups.enable": True},
            "algorithm.filter_groups.enable=true with method 'diver-mix': verl would leave out groups that the method "
            "trains on (method.selection.filter_groups); set algorithm.filter_groups.enable=false",
        ),
        (
            "clip-higher",
            {"distillation.enabled": True},
            "distillation.enabled=true with method 'clip-higher': the method's loss has no term of a teacher; set "
            "distillation.enabled=false",
        ),
        (
            "clip-higher",
            {"reward.custom_reward_function.path": "mine.py"},
            "reward.custom_reward_function.path=mine.py with reward.reward_manager.name=diver: only one of them would "
            "give the rewards, and another manager, such as naive, reads it; set "
            "reward.custom_reward_function.path=null",
        ),
        (
            "clip-higher",
            {"reward.reward_model.enable": True},
            "reward.reward_model.enable=true with reward.reward_manager.name=diver: only one of them would give the "
            "rewards, and another manager, such as naive, reads it; set reward.reward_model.enable=false",
        ),
        (
            "dr-grpo",
            {"data.train_batch_size": 8, f"{ACTOR}.ppo_mini_batch_size": 32},
            f"{ACTOR}.ppo_mini_batch_size=32: must be at most data.train_batch_size=8",
        ),
    ],
)
def test_what_verl_would_do_otherwise_than_the_method_is_told_in_a_line(name, changes, told):
    method = method_named(name, loss={"aggregation": "sequence-mean" if name == "dr-grpo" else "token-mean"})
    given = overrides(method)
    check_config(method, given.get)
    with pytest.raises(DiverError) as error:
        check_config(method, {**given, **changes}.get)
    assert str(error.value) == told


def test_what_verl_does_as_the_method_is_not_refused():
    dapo, higher = method_named("dapo"), method_named("clip-higher")
    assert dapo.selection.filter_groups
    check_config(dapo, overrides(dapo).get)
    naive = {"reward.reward_manager.name": "naive", "reward.custom_reward_function.path": "mine.py"}
    check_config(higher, {**overrides(higher), **naive}.get)
    sizes = {"data.train_batch_size": 8, f"{ACTOR}.ppo_mini_batch_size": 32}  # padding has no tokens
    check_config(higher, {**overrides(higher), **sizes}.get)


@pytest.mark.parametrize("term", ["kl_coef", "entropy_coef"])
def test_a_term_over_replayed_responses_is_refused(term):
    method = method_named("max-rl", replay={"alpha": 0.1}, loss={term: 0.25})
    with pytest.raises(
        DiverError, match=f"method.loss.{term} = 0.25: verl would take this term over replayed responses"
    ):
        overrides(method)
    assert overrides(method_named("max-rl", replay={"alpha": 0.1}))[f"{ACTOR}.loss_agg_mode"] == "token-mean"
    overrides(method_named("max-rl", loss={term: 0.25}))


def test_groups_too_small_for_pass_at_k_are_refused():
    given = overrides(method_named("pass-at-k"))
    check_config(method_named("pass-at-k"), {**given, GROUP: 5}.get)
    with pytest.raises(DiverError, match=r"method.k is 4 with actor_rollout_ref.rollout.n = 4: k must be below"):
        check_config(method_named("pass-at-k"), {**given, GROUP: 4}.get)


def test_verl_is_not_imported():
    code = (
        "import sys, diver.integrations.verl.config; "
        "print(sorted({'torch', 'verl', 'ray', 'omegaconf'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_a_group_of_one_is_refused_before_the_first_step():
    for name in ("grpo", "diver-mix", "w-reinforce"):
        given = overrides(method_named(name))
        with pytest.raises(
            DiverError, match=rf"^{re.escape(GROUP)}=1, verl's default: a response alone teaches nothing; set "
        ):
            check_config(method_named(name), (given | {GROUP: 1}).get)
        check_config(method_named(name), (given | {GROUP: 2}).get)


def test_the_outcome_of_a_reward_manager_is_named():
    assert read_plugin("grpo").outcome == "acc"
    assert read_plugin({"method": "grpo", "outcome": "score"}).outcome == "score"
    with pytest.raises(DiverError, match=r"^algorithm.diver.outcome: should be a valid string, not 3$"):
        read_plugin({"method": "grpo", "outcome": 3})
