"""Configurations that people use with TRL: each trains exactly as its method says, or is refused, or warns in what it
departs. `make test-trl`.

Advantages, loss and gradient of every optimizer step are computed again in `configurations.py`.
"""

import math
from functools import partial
from itertools import combinations

import pytest

pytest.importorskip("trl", reason="in the environment of `make test-trl` only")

import diver.integrations.trl.objective as objective

if objective.installed() < (1, 16):
    pytest.skip("the configurations of TRL 1.16", allow_module_level=True)

import numpy as np
import torch
from configurations import (
    TWO_PARTS,
    TWO_STEPS,
    G,
    by_std,
    check_steps,
    dense,
    even,
    grouped,
    mean_only,
    of_outcomes,
    save_policy,
    train,
)
from transformers import AutoModelForCausalLM
from trl import GRPOTrainer

import diver
from diver.core.types import DiverError
from diver.methods import method_named

named = method_named


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("policy")
    save_policy(made)
    return made


# Advantages of a generation by hand.


def by_mean(rewards):
    mean = grouped(rewards).mean(1, keepdims=True)
    return (mean_only(rewards).reshape(-1, G) / np.where(mean > 0, mean, 1)).ravel()


def pass_at_2(rewards):
    """A subset of two has the reward 1 if one of them is correct; a response the mean of its subsets' advantages."""
    advantages = []
    for group in grouped(rewards):
        subsets = {pair: float(max(group[list(pair)]) > 0.5) for pair in combinations(range(G), 2)}
        mean, spread = np.mean([*subsets.values()]), np.std([*subsets.values()])
        for i in range(G):
            own = [(value - mean) / (spread or 1) for pair, value in subsets.items() if i in pair]
            advantages.append(np.mean(own))
    return advantages


def dropped_in(method, generation, limit=6):
    """Of texts, by `diver.advantages`, whose own tests have values by hand; lambda does not move in these runs."""
    known = {"answer_ends": [None] * len(generation.ids), "tokens": generation.ids}
    known["truncated"] = [len(ids) >= limit and ids[-1] != 0 for ids in generation.ids]
    groups = np.repeat(np.arange(len(generation.ids) // G), G)
    return diver.advantages(generation.texts, generation.outcomes, groups, method.limited(limit), 0.0, **known)


def for_one_prompt(prompts, completion_ids, **_):
    first = prompts[0]
    return [r if p == first else None for p, r in zip(prompts, even(completion_ids), strict=True)]


def by_std_where_known(generation):
    rewards = grouped([math.nan if r is None else r for r in generation.outcomes])
    return np.nan_to_num(by_std(np.nan_to_num(rewards).ravel()) * ~np.isnan(rewards.ravel()))


def rare(completion_ids, **_):
    return [float(ids[0] % 4 == 3) for ids in completion_ids]


def short(completion_ids, **_):
    return [1 / len(ids) for ids in completion_ids]


def with_short(generation):
    return by_std(np.array(generation.outcomes) + 0.5 * np.array(short(generation.ids)))


def ten(**columns):
    return [10 * r - 5 for r in dense(**columns)]


class Logs(GRPOTrainer):
    """Overrides everything, and changes nothing."""

    def _compute_loss(self, model, inputs):
        self._metrics["train"]["mine"].append(1.0)
        return super()._compute_loss(model, inputs)

    def _calculate_rewards(self, *given):
        return super()._calculate_rewards(*given)

    def _generate_and_score_completions(self, inputs):
        return {**super()._generate_and_score_completions(inputs), "mine": None}


MEAN, SEQUENCE, SUM = ({"aggregation": kind} for kind in ("token-mean", "sequence-mean", "token-sum"))
TWO_GENERATIONS = {"steps_per_generation": 1, "gradient_accumulation_steps": 2}

EXACT = {
    # name: (method, formula of the advantages, what `train` is given)
    "grpo": (named("grpo"), of_outcomes(by_std), {}),
    "clip-higher": (named("clip-higher"), of_outcomes(by_std), {"num_iterations": 2, "max_steps": 4}),
    "clip-higher, two parts": (named("clip-higher"), of_outcomes(by_std), TWO_PARTS),
    "dr-grpo": (named("dr-grpo"), of_outcomes(mean_only), {}),
    "grpo, sum": (named("grpo", loss=SUM), of_outcomes(by_std), TWO_PARTS),
    "grpo, sum, two steps": (named("grpo", loss=SUM), of_outcomes(by_std), TWO_STEPS),
    "grpo, sequence": (named("grpo", loss=SEQUENCE), of_outcomes(by_std), TWO_PARTS),
    "grpo, sequence, two generations": (named("grpo", loss=SEQUENCE), of_outcomes(by_std), TWO_GENERATIONS),
    "grpo, two iterations": (named("grpo"), of_outcomes(by_std), {"num_iterations": 2, "max_steps": 4}),
    "grpo, dense": (named("grpo"), of_outcomes(by_std), {"outcome": dense}),
    "grpo, rewards from -5 to 5": (named("grpo"), of_outcomes(by_std), {"outcome": ten}),
    "grpo, two rewards": (named("grpo"), with_short, {"outcome": [even, short], "weights": [1.0, 0.5]}),
    "grpo, one prompt without outcome": (named("grpo"), by_std_where_known, {"outcome": for_one_prompt}),
    "grpo, temperature": (named("grpo"), of_outcomes(by_std), {"temperature": 0.7, **TWO_PARTS}),
    "grpo, top-k": (named("grpo"), of_outcomes(by_std), {"top_k": 5, "top_p": 0.9}),
    "grpo, checkpointing": (named("grpo"), of_outcomes(by_std), {"gradient_checkpointing": True}),
    "grpo, padded": (named("grpo"), of_outcomes(by_std), {"pad_to_multiple_of": 8}),
    "grpo, sequence, KL": (named("grpo", loss={**SEQUENCE, "kl_coef": 0.1}), of_outcomes(by_std), TWO_STEPS),
    "grpo, LoRA": (named("grpo"), of_outcomes(by_std), {"lora": True}),
    "grpo, entropy bonus": (named("grpo", loss={"entropy_coef": 0.01}), of_outcomes(by_std), {}),
    "grpo, other bounds": (
        named("grpo", loss={"clip_low": 0.01, "clip_high": 0.02}),
        of_outcomes(by_std),
        {"num_iterations": 3, "max_steps": 3},
    ),
    "gspo": (named("gspo"), of_outcomes(by_std), {"num_iterations": 2, "max_steps": 4}),
    "cispo": (named("cispo", loss={"clip_high": 0.02}), of_outcomes(by_std), {"num_iterations": 2, "max_steps": 4}),
    "sapo": (named("sapo"), of_outcomes(by_std), {"num_iterations": 2, "max_steps": 4}),
    "max-rl": (named("max-rl"), of_outcomes(by_mean), {}),
    "pass-at-k": (named("pass-at-k", k=2), of_outcomes(pass_at_2), {"outcome": rare, **TWO_PARTS}),
    "diver-td": (named("diver-td"), partial(dropped_in, named("diver-td")), {"max_steps": 1}),
    "diver-mix": (named("diver-mix"), partial(dropped_in, named("diver-mix")), {"max_steps": 1, **TWO_PARTS}),
    "rs-grpo": (named("rs-grpo"), partial(dropped_in, named("rs-grpo")), {}),
    "f-grpo": (named("f-grpo"), partial(dropped_in, named("f-grpo")), {}),
    "overlong": (
        named("grpo", overlong={"buffer": 0.5}),
        partial(dropped_in, named("grpo", overlong={"buffer": 0.5})),
        {},
    ),
    "overrides that change nothing": (named("grpo"), of_outcomes(by_std), {"cls": Logs}),
}


@pytest.mark.parametrize("name", EXACT)
def test_every_optimizer_step_is_that_of_the_method(folder, tmp_path, name):
    method, formula, given = EXACT[name]
    record, told = train(folder, tmp_path, method, **given)
    assert len(record.steps) == record.trainer.args.max_steps and not [t for t in told if "GRPOConfig." in t]
    clipped, signal = check_steps(folder, record, method, formula, lora=given.get("lora", False))
    assert signal and (clipped or record.trainer.args.num_iterations == 1)


SAID = {
    "two steps": (
        named("grpo"),
        TWO_STEPS,
        "steps_per_generation=2: TRL divides the loss of a step by the mean tokens",
    ),
    "two generations": (named("grpo"), TWO_GENERATIONS, "steps_per_generation=1: TRL divides the loss of a step by"),
}


@pytest.mark.parametrize("name", SAID)
def test_a_departure_is_told_and_is_no_other(folder, tmp_path, name):
    """Another divisor, which is computed here as the warning says; with that of the method the loss is another."""
    method, given, warned = SAID[name]
    record, told = train(folder, tmp_path, method, **given)
    assert [t for t in told if warned in t]
    if name == "two steps":
        check_steps(folder, record, method, of_outcomes(by_std), of_generation=True)
    with pytest.raises(AssertionError):
        check_steps(folder, record, method, of_outcomes(by_std))


@pytest.mark.parametrize("loss", [MEAN, SEQUENCE])
def test_the_entropy_bonus_of_micro_batches_is_told(folder, tmp_path, loss):
    method = named("grpo", loss={**loss, "entropy_coef": 0.01})
    record, told = train(folder, tmp_path, method, max_steps=1, **TWO_PARTS)
    assert [t for t in told if "entropy_coef: TRL takes the mean entropy of each micro-batch" in t]
    with pytest.raises(AssertionError):
        check_steps(folder, record, method, of_outcomes(by_std))


class OwnLoss(GRPOTrainer):
    def _compute_loss(self, model, inputs):
        return 1.5 * super()._compute_loss(model, inputs)


class OwnTerm(GRPOTrainer):
    def compute_loss(self, model, inputs, *rest, **options):
        lengths = inputs["completion_mask"].sum(1).float()
        return super().compute_loss(model, inputs, *rest, **options) + 0.1 * lengths.mean()


class OwnClip(GRPOTrainer):
    def _compute_loss(self, model, inputs):
        self.epsilon_high, before = 0.3, self.epsilon_high
        try:
            return super()._compute_loss(model, inputs)
        finally:
            self.epsilon_high = before


class OwnLogprobs(GRPOTrainer):
    def _get_per_token_logps_and_entropies(self, *given, **options):
        logps, *others = super()._get_per_token_logps_and_entropies(*given, **options)
        return logps * 0.9, *others


class OwnRewards(GRPOTrainer):
    def _calculate_rewards(self, *given):
        return super()._calculate_rewards(*given).clamp(min=0)


class OwnAdvantages(GRPOTrainer):
    def _generate_and_score_completions(self, inputs):
        scored = super()._generate_and_score_completions(inputs)
        return scored | {"advantages": scored["advantages"] / (scored["advantages"].std() + 1e-4)}


class Masks(GRPOTrainer):
    def _generate_and_score_completions(self, inputs):
        scored = super()._generate_and_score_completions(inputs)
        scored["completion_mask"][0] = 0
        return scored


class Cuts(GRPOTrainer):
    def _prepare_inputs(self, batch):
        inputs = super()._prepare_inputs(batch)
        return {name: value[1:] if value.ndim else value for name, value in inputs.items()}


class Repeats(GRPOTrainer):
    def _prepare_inputs(self, batch):
        inputs = super()._prepare_inputs(batch)
        last = len(inputs["advantages"]) - 1
        order = [*range(last), int(inputs["advantages"][:last].argmax())]
        return {name: value[order] if value.ndim else value for name, value in inputs.items()}


ROW = "trains on a row or an advantage that was not returned to it, or twice on one row; train with GRPOTrainer"
LOSS = r"has a loss of [-\d.]+ where method 'grpo' has [-\d.]+; train with GRPOTrainer itself"
SET = "TRL is not configured for method 'grpo': set "
KL = named("grpo", loss={"kl_coef": 0.1})

REFUSED = {
    # name: (method, what `train` is given, the error)
    "scale_rewards=group": ("grpo", {"scale_rewards": "group"}, f"{SET}scale_rewards='none'"),
    "scale_rewards=batch": ("grpo", {"scale_rewards": "batch"}, f"{SET}scale_rewards='none'"),
    "loss_type=bnpo": ("grpo", {"loss_type": "bnpo"}, f"{SET}loss_type='dapo'"),
    "loss_type=dr_grpo": ("grpo", {"loss_type": "dr_grpo"}, f"{SET}loss_type='dapo'"),
    "loss_type=vespo": ("grpo", {"loss_type": "vespo"}, f"{SET}loss_type='dapo'"),
    "epsilon_high": ("grpo", {"epsilon_high": 0.28}, f"{SET}epsilon_high=0.2"),
    "delta": ("grpo", {"delta": 2.0}, f"{SET}delta=None"),
    "importance_sampling_level": ("grpo", {"importance_sampling_level": "sequence"}, f"{SET}importance_sampling_level"),
    "mask_truncated_completions": ("grpo", {"mask_truncated_completions": True}, f"{SET}mask_truncated_completions"),
    "top_entropy_quantile": ("grpo", {"top_entropy_quantile": 0.2}, f"{SET}top_entropy_quantile=1.0"),
    "beta": ("grpo", {"beta": 0.04}, f"{SET}beta=0.0"),
    "bias-corrected KL": (KL, {"use_bias_correction_kl": True}, f"{SET}use_bias_correction_kl=False"),
    "another reference": (KL, {"sync_ref_model": True}, f"{SET}sync_ref_model=False"),
    "normalize_then_sum": ("grpo", {"multi_objective_aggregation": "normalize_then_sum"}, f"{SET}multi_objective"),
    "off-policy mask": ("grpo", {"off_policy_mask_threshold": 0.5}, f"{SET}off_policy_mask_threshold=None"),
    "a limit of generate": ("grpo", {"generation_kwargs": {"max_new_tokens": 3}}, "set max_completion_length instead"),
    "a second reward": ("grpo", {"reward_funcs": [short]}, r"reward functions short: TRL would add .*\[1\] = 0 before"),
    "a weight of the advantage": ("grpo", {"reward_weights": [2.0]}, ROW),
    "another clip of the trainer": ("grpo", {"changes": {"epsilon_low": 0.3}}, "the trainer has epsilon=0.3: correct"),
    "another loss of the trainer": ("grpo", {"changes": {"loss_type": "bnpo"}}, "the trainer has loss_type='bnpo'"),
    "subclass: loss": ("grpo", {"cls": OwnLoss}, f"OwnLoss {LOSS}"),
    "subclass: a term of the loss": ("grpo", {"cls": OwnTerm}, f"OwnTerm {LOSS}"),
    "subclass: clip": ("grpo", {"cls": OwnClip}, f"OwnClip {LOSS}"),
    "subclass: log-probs": ("grpo", {"cls": OwnLogprobs}, f"OwnLogprobs {LOSS}"),
    "subclass: rewards": ("grpo", {"cls": OwnRewards}, f"OwnRewards {ROW}"),
    "subclass: advantages": ("dr-grpo", {"cls": OwnAdvantages, "outcome": dense}, f"OwnAdvantages {ROW}"),
    "subclass: masks a row": ("grpo", {"cls": Masks}, f"Masks {ROW}"),
    "subclass: leaves a row out": ("grpo", {"cls": Cuts}, "Cuts trains on 7 rows at a time, and not on all"),
    "subclass: repeats a row": ("grpo", {"cls": Repeats}, f"Repeats {ROW}"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_another_training_is_refused_before_the_first_update(folder, tmp_path, name):
    method, given, error = REFUSED[name]
    method, before = named(method) if isinstance(method, str) else method, fresh_weights(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with pytest.raises(DiverError, match=error) as raised:
        train(folder, tmp_path, method, **{"model": model, **given})
    assert "\n" not in str(raised.value)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def fresh_weights(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).state_dict()


@pytest.mark.parametrize("method", ["high-entropy", "clip-cov", "psr", "dapo", "verified-replay", "unlikeliness"])
def test_a_method_that_a_reward_function_cannot_carry_is_refused(method):
    with pytest.raises(DiverError, match="choose another engine|another engine|TRL"):
        objective.config(method)


def test_the_reference_is_the_policy_with_which_the_run_begins(folder, tmp_path):
    """A model object is trained, and its reference is loaded from the path: it has to be that of the same weights."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    record, _ = train(folder, tmp_path, KL, model=model, max_steps=1)
    check_steps(folder, record, KL, of_outcomes(by_std))
    with torch.no_grad():
        model.lm_head.weight[:, 0] += 0.5
    with pytest.raises(DiverError, match="has another reference than its first policy: save the model, and give its"):
        train(folder, tmp_path, KL, model=model)


def test_a_comparison_leaves_no_trace(folder, tmp_path):
    """Metrics and random numbers are those of a run without it: the second update has no ratio beyond the clip."""
    record, _ = train(folder, tmp_path, named("grpo"), max_steps=2, logging_steps=1)
    first, second, _ = record.trainer.state.log_history
    assert first["clip_ratio/region_mean"] == second["clip_ratio/region_mean"] == 0
    other, _ = train(folder, tmp_path, named("grpo"), max_steps=2, cls=Uncompared)
    assert [g.ids for g in other.generations] == [g.ids for g in record.generations]


class Uncompared(GRPOTrainer):
    """A trainer whose losses the adapter does not compare."""


Uncompared.__name__ = "UnslothGRPOTrainer"
