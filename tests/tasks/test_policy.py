"""The bundled policy has something to learn and something to lose."""

import numpy as np
import pytest

from diver.core.statistics import pass_at_k
from diver.recipe.data import Countdown
from diver.recipe.sections import Model
from diver.sample.hf import HFGenerator, sample_groups
from diver.sample.policy import load_policy
from diver.tasks.countdown import problems, solution


@pytest.mark.slow
def test_base_pass_at_1_and_64_on_the_default_mix():
    policy = load_policy(Model())
    held = problems(Countdown(), 64, held_out=True)
    how = {"temperature": 1.0, "max_tokens": 40, "seed": 11}
    groups = sample_groups(HFGenerator(policy, max_num_seqs=1024), held, [p.prompt for p in held], 64, **how)
    correct = np.array(
        [
            sum(solution(text, g.problem.meta["numbers"], g.problem.meta["target"]) is not None for text in g.responses)
            for g in groups
        ]
    )
    assert 0.2 < pass_at_k(64, correct, 1).mean() < 0.5
    assert pass_at_k(64, correct, 64).mean() > 0.9
