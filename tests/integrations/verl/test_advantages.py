"""Advantages beside verl's own estimators on the same outcomes, in groups whose rows are mixed (`make test-verl`).

verl 0.9.1 has GRPO with and without a standard deviation, and leave-one-out. DARLING's, CDE's and the unlikeliness
reward are put through the estimator that their sources use, so that what is compared is the normalisation, not the
reward. There is no function that can be installed and run here of outcome-based exploration, DARLING's classifier,
DS-GRPO, CDE, UCPO, XRPO, F-GRPO, GRPO-LEAD, MaxRL, RS-GRPO and W-REINFORCE (forks of verl, or no code); those are
worked out by hand. verl's penalty for long responses is inside a reward manager that needs a tokenizer and a batch:
TRL's function stands for it.
"""

import numpy as np
import pytest

import diver
from diver.core.types import Group, Problem, Reward, Rollout
from diver.methods import method_named

core_algos = pytest.importorskip("verl.trainer.ppo.core_algos")
from conformance_verl import advantages as verls  # noqa: E402

SIZE = 6
RANDOM = np.random.default_rng(3)
GROUPS = RANDOM.permutation(np.repeat([f"problem {i}" for i in range(20)], SIZE))
OUTCOMES = RANDOM.integers(0, 2, len(GROUPS)).astype(float)


def ours(method):
    return diver.advantages([""] * len(GROUPS), OUTCOMES, GROUPS, method)


def test_dr_grpo_is_verls_grpo_without_a_standard_deviation():
    theirs = verls(core_algos.compute_grpo_outcome_advantage, OUTCOMES, GROUPS, norm_adv_by_std_in_grpo=False)
    np.testing.assert_allclose(ours("dr-grpo"), theirs, atol=1e-12)


def test_leave_one_out_is_a_multiple_of_dr_grpo():
    theirs = verls(core_algos.compute_rloo_outcome_advantage, OUTCOMES, GROUPS)
    np.testing.assert_allclose(ours("dr-grpo") * SIZE / (SIZE - 1), theirs, atol=1e-12)


def test_grpo_is_verls_with_the_standard_deviation_of_the_sample():
    """verl adds 1e-6 to it."""
    method = method_named("grpo", divisor="sample-std")
    np.testing.assert_allclose(
        ours(method), verls(core_algos.compute_grpo_outcome_advantage, OUTCOMES, GROUPS), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("name", "settings", "options"),
    [
        ("darling", {}, {"norm_adv_by_std_in_grpo": False}),
        ("cde", {"divisor": "sample-std"}, {}),
        ("unlikeliness", {"divisor": "sample-std"}, {}),
    ],
)
def test_the_estimator_of_the_source_gives_the_same_of_the_shaped_reward(name, settings, options):
    rollouts = tuple(
        Rollout("", logprobs=np.full(5, -0.08 * i), key=key, reward=Reward(r))
        for i, (key, r) in enumerate(zip("aabcda", [1.0, 1.0, 1.0, 0.0, 0.0, 1.0], strict=True))
    )
    (done,) = method_named(name, **settings).apply([Group(Problem("p", "?", ""), rollouts)], 0.0)
    assert len(set(done.rewards)) > 2
    scale = 2 if name == "cde" else 1  # its outcomes are -1 and 1 in the source
    theirs = verls(core_algos.compute_grpo_outcome_advantage, scale * done.rewards, np.array(["p"] * 6), **options)
    np.testing.assert_allclose(done.advantages, theirs, rtol=1e-5)
