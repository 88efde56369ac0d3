"""The bundled policy has something to learn and something to lose."""

import numpy as np
import pytest

from diver.config.data import Countdown
from diver.config.sections import Model
from diver.data.countdown import problems, solution
from diver.generate.hf import EmbeddedSampler
from diver.generate.policy import load_policy
from diver.stats import pass_at_k


@pytest.mark.slow
def test_base_pass_at_1_and_64_on_the_default_mix():
    policy = load_policy(Model())
    evaluated = problems(Countdown(), 128, held_out=True)
    how = {"temperature": 1.0, "max_tokens": 40, "rows": 1024, "seed": 11}
    drawn = EmbeddedSampler(policy.model, policy.tokenizer)([p.prompt for p in evaluated], 64, **how)
    correct = np.array(
        [
            sum(solution(r.response, p.meta["numbers"], p.meta["target"]) is not None for r in group)
            for p, group in zip(evaluated, drawn, strict=True)
        ]
    )
    assert 0.2 < pass_at_k(64, correct, 1).mean() < 0.5
    assert pass_at_k(64, correct, 64).mean() > 0.9
