"""Stock verl with Ray on this machine's CPU trains the bundled policy on Countdown, end to end, with the plugin."""

import dataclasses
import json
import math
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import zscore

pytest.importorskip("verl.trainer.ppo", reason="in the environment of `make test-verl` only")

import on_cpu
import stock

from diver.core.types import Grade, Group, Problem, Progress, Reward, Rollout
from diver.grading import Verification, grade, with_keys
from diver.methods import method_named
from diver.recipe.data import Countdown
from diver.recipe.recipe import identity
from diver.tasks import countdown

MIX = {
    "name": "diver-mix",
    "selection": {"keep": "most", "filter_groups": True},
    "shaping": {"schedule": {"kind": "linear"}},
    "loss": {"name": "clip-cov"},
}
PROBLEMS = {problem.prompt: problem for problem in countdown.problems(Countdown(), 64, held_out=False)}


@pytest.fixture
def folder(tmp_path):
    stock.prepare(tmp_path)
    return tmp_path


def problem_of(row):
    """The dump has the prompt as the policy saw it, its words apart."""
    (found,) = (p for prompt, p in PROBLEMS.items() if prompt.replace(" ", "") == row["input"].replace(" ", ""))
    return found


def groups(rows):
    """The rows of a dump by the uid of their prompt."""
    found = {}
    for row in rows:
        found.setdefault(row["uid"].rsplit("_", 2)[0], []).append(row)
    return list(found.values())


def check_step(folder, step, method, steps, logged):
    """What verl dumped and logged of a step is what the pure functions give for the dumped texts."""
    rows = stock.dump(folder, step)
    assert len(rows) == stock.PROMPTS * stock.GROUP
    judged = grade([(row["output"], problem_of(row)) for row in rows])
    assert [row["grade"] for row in rows] == list(judged)
    assert [row["score"] for row in rows] == [float(v is Grade.CORRECT) for v in judged]
    found = [
        Group(Problem(str(i), "", ""), tuple(Rollout(row["output"], reward=Reward(row["score"])) for row in group))
        for i, group in enumerate(groups(rows))
    ]
    progress = Progress(step - 1, steps)
    by_diversity = {name: [row[f"diversity/{name}"] for row in rows] for name in ("textual", "equational")}
    if method.selection.keep == "all":  # with a selection, diversity is that within all the samples
        expected = method.apply(found, progress)
        for name, values in by_diversity.items():
            assert values == pytest.approx([r.diversity[name] for g in expected for r in g.rollouts], abs=1e-6)
        rewards = [float(r) for g in expected for r in g.rewards]
    else:
        sigma = method.shaping.clip_max
        rewarded = [(min(t, sigma) + min(e, sigma)) / 2 for t, e in zip(*by_diversity.values(), strict=True)]
        rewards = [
            row["score"] * (1 + method.shaping_coef(progress) * bonus)
            for row, bonus in zip(rows, rewarded, strict=True)
        ]
        expected = method_named("grpo").apply(
            [
                g.with_each(reward=[Reward(r) for r in rewards[i * len(g) : (i + 1) * len(g)]])
                for i, g in enumerate(found)
            ],
            progress,
        )
    assert [row["reward"] for row in rows] == pytest.approx(rewards, abs=1e-6)
    assert [row["advantage"] for row in rows] == pytest.approx([a for g in expected for a in g.advantages], abs=1e-6)
    assert logged["critic/score/mean"] == pytest.approx(sum(row["score"] for row in rows) / len(rows), abs=1e-6)
    assert logged["critic/rewards/mean"] == pytest.approx(sum(rewards) / len(rows), abs=1e-6)
    assert logged["critic/advantages/max"] == pytest.approx(max(row["advantage"] for row in rows), abs=1e-6)
    assert logged["diver/shaping/coef"] == method.shaping_coef(progress)
    assert math.isfinite(logged["actor/grad_norm"])
    return logged


def test_diver_mix_selects_and_resumes_after_a_kill(folder):
    """4 steps with 2G -> G selection, killed with -9 after the second checkpoint and started again for 5:
    lambda falls as begun. Dynamic sampling is verl's own, by the outcome: it replaces groups without a signal. The run
    folder has them, too, as not trained on."""
    method = method_named(**MIX)
    options = {"trainer.save_freq": 1, "trainer.resume_mode": "auto"}
    run = folder / "run"
    run.mkdir()
    settings = {"method": dataclasses.asdict(method), "verify": dataclasses.asdict(Verification())}
    (run / "config.json").write_text(json.dumps({"identity": identity(settings)}))
    setting = {"method": MIX, "run": {"folder": str(run)}}
    arguments = stock.command(folder, method, 4, setting=setting, **options)
    kept = stock.started(folder, arguments, 2)
    before = stock.metrics(folder)
    assert 1 in before and 4 not in before
    extended = stock.command(folder, method, 5, setting=setting, **options)
    said = stock.run(folder, extended, VERL_FILE_LOGGER_PATH=str(folder / "resumed.jsonl"))
    after = stock.metrics(folder, "resumed.jsonl")
    assert list(after) == list(range(kept + 1, 6)) and f"global_step_{kept}" in said
    logged = {**before, **after}
    for step in sorted({1, *after}):
        row = check_step(folder, step, method, 4, logged[step])
        assert row["diver/shaping/coef"] == pytest.approx(0.1 * (1 - (step - 1) / 4))
        without_signal = row.get("training/filter_groups/evicted_samples", 0)
        more = row.get("training/filter_groups/discarded_surplus_samples", 0)
        sampled = stock.PROMPTS + without_signal + more
        assert row["diver/group/solve_none"] + row["diver/group/solve_all"] == pytest.approx(without_signal / sampled)
        stored = [json.loads(line) for line in (run / "rollouts" / f"step_{step:04d}.jsonl").read_text().splitlines()]
        assert len(stored) == 2 * stock.GROUP * sampled
        assert row["diver/reward/outcome"] == pytest.approx(np.mean([r["reward"]["outcome"] for r in stored]))
        assert sum(r["trained"] for r in stored) == stock.GROUP * stock.PROMPTS
        left_out = [r for r in stored if r["group"] >= stock.PROMPTS]
        assert not any(r["trained"] for r in left_out)
    assert sum(row.get("training/filter_groups/evicted_samples", 0) for row in logged.values()) > 0
    for step in after:  # rewards/mean is of the rows that are trained on, reward/outcome of all samples
        assert after[step]["diver/reward/shaped"] == pytest.approx(after[step]["critic/rewards/mean"], abs=1e-6)
    assert any(row["diver/reward/outcome"] != row["critic/score/mean"] for row in logged.values())
    assert any(row["actor/grad_norm"] > 0 for row in after.values())


def keyed(rows):
    """(problem id, key) of each row of a dump."""
    rollouts = [(problem_of(row), Rollout(row["output"], grade=Grade(row["grade"]))) for row in rows]
    groups = with_keys([Group(problem, (rollout,)) for problem, rollout in rollouts])
    return [(group.problem.id, group.rollouts[0].key) for group in groups]


def test_keys_log_probs_state_and_advantages_per_token(tmp_path):
    """The same 8 problems in every step, killed with -9 after the second and started again: no count is lost."""
    stock.prepare(tmp_path, problems=stock.PROMPTS)
    own = {"name": "own_methods:Counted"}
    options = {"trainer.save_freq": 1, "trainer.resume_mode": "auto"}
    arguments = stock.command(tmp_path, method_named(**own), 4, setting={"method": own}, **options)
    kept = stock.started(tmp_path, arguments, 2)
    stock.run(tmp_path, arguments, VERL_FILE_LOGGER_PATH=str(tmp_path / "resumed.jsonl"))
    logged = stock.metrics(tmp_path) | stock.metrics(tmp_path, "resumed.jsonl")
    counts = {}
    for step in (1, 2, 3, 4):
        rows = stock.dump(tmp_path, step)
        answers = keyed(rows)
        highest = [1 / (1 + counts.get(problem, {}).get(key, 0)) for problem, key in answers]
        for row, a in zip(rows, highest, strict=True):  # the mean over T tokens: 0, or a / T
            assert row["advantage"] == 0 or 2 < a / row["advantage"] < stock.LIMIT + 1
        found = logged[step]["critic/advantages/max"], logged[step]["critic/advantages/min"]
        assert found == pytest.approx((max(highest), -max(highest)), rel=1e-6)
        for problem, key in answers:
            counts.setdefault(problem, {})[key] = counts.get(problem, {}).get(key, 0) + 1
        saved = json.loads((tmp_path / "checkpoints" / f"global_step_{step}" / "method.json").read_text())
        assert saved == counts, f"step {step}, resumed after {kept}"
    assert max(n for of_problem in counts.values() for n in of_problem.values()) > 1


def test_the_method_of_the_documentation(tmp_path):
    """docs/extending.md's, which needs log-probs and a state, from a file outside the package, over the loss of KL-Cov;
    the same 8 problems twice. It trains on correct responses, and verl pads the rows that are left out."""
    stock.prepare(tmp_path, problems=stock.PROMPTS)
    page = (Path(__file__).parents[3] / "docs" / "extending.md").read_text()
    (code,) = re.findall(r"^\*\*`my_method.py`\*\*\n\n```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "my_method.py").write_text(code)
    own = {"name": "my_method:Novelty", "coef": 0.5, "loss": {"name": "kl-cov"}, "selection": {"outcomes": "correct"}}
    sys.path.insert(0, str(tmp_path))
    try:
        arguments = stock.command(tmp_path, method_named(**own), 2, setting={"method": own}, **{"trainer.save_freq": 1})
    finally:
        sys.path.remove(str(tmp_path))
    where = os.pathsep.join([str(tmp_path), on_cpu.environment()["PYTHONPATH"]])
    stock.run(tmp_path, arguments, PYTHONPATH=where)
    assert sum(row["actor/grad_norm"] for row in stock.metrics(tmp_path).values()) > 0
    solved = {}
    for step in (1, 2):
        trained = [row for row in stock.dump(tmp_path, step) if row["advantage"] is not None]
        assert 0 < len(trained) < stock.PROMPTS * stock.GROUP and all(row["score"] == 1 for row in trained)
        for group in groups(trained):
            outcome, reward, advantage = (
                np.array([row[name] for row in group]) for name in ("score", "reward", "advantage")
            )
            assert ((reward >= 0.5 * outcome) & (reward <= outcome)).all() and (reward < outcome).sum() == outcome.sum()
            name = problem_of(group[0]).id
            expected = zscore(reward) if np.ptp(reward) > 1e-8 else np.zeros(len(group))
            np.testing.assert_allclose(advantage, expected / np.sqrt(1 + solved.get(name, 0)), atol=1e-5)
            solved[name] = solved.get(name, 0) + int(outcome.sum())
        saved = json.loads((tmp_path / "checkpoints" / f"global_step_{step}" / "method.json").read_text())
        assert saved == {**dict.fromkeys(saved, 0), **solved} and len(saved) == stock.PROMPTS
    assert sum(solved.values()) > 0
