"""tinker-cookbook's own classes with the builder of its page, where it is installed."""

import asyncio
import inspect
import re
from pathlib import Path

import contracts as c
import numpy as np
import pytest
from test_contracts import expected

pytest.importorskip("tinker_cookbook", reason="tinker-cookbook is not installed")
types = pytest.importorskip("tinker_cookbook.rl.types", reason="what tinker-cookbook needs is not installed")

PAGE = (Path(__file__).parents[3] / "docs" / "engines" / "tinker-cookbook.md").read_text(encoding="utf-8")


def test_the_builder_of_the_page(monkeypatch):
    from tinker_cookbook import tokenizer_utils
    from tinker_cookbook.completers import TokensWithLogprobs

    monkeypatch.setattr(tokenizer_utils, "get_tokenizer", lambda name: c.Tokenizer())
    given = list(inspect.signature(types.EnvGroupBuilder.compute_group_rewards).parameters)
    assert given == ["self", "trajectory_group", "env_group"]
    namespace = {"__name__": __name__}
    exec(*re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE), namespace)
    builder = namespace["DiverGroupBuilder"](env_thunk=None, num_envs=4)
    trajectories = [
        types.Trajectory([types.Transition(None, TokensWithLogprobs(ids, logprobs), reward, True)], None)
        for ids, logprobs, reward in zip(c.TOKENS, c.LOGPROBS, c.OUTCOMES, strict=True)
    ]
    rewards, metrics = zip(*asyncio.run(builder.compute_group_rewards(trajectories, [])), strict=True)
    totals = np.array(types.TrajectoryGroup(trajectories, list(rewards), list(metrics)).get_total_rewards())
    np.testing.assert_allclose(totals - totals.mean(), expected("diver-mix", 1), atol=1e-9)
