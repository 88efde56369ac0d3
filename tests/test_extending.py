"""docs/extending.md: its files, in an empty folder, and its commands as they stand."""

import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from diver_command import succeeds
from scipy.stats import zscore

import diver
from diver.core.types import DiverError
from diver.integrations.trl import config
from diver.integrations.verl.config import overrides
from diver.methods import method_named

PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^\*\*`(.+?)`\*\*\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
COMMANDS = [
    line for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL) for line in block.splitlines()
]


def check_metric(folder, rows):
    assert all(0 < row["diversity/my_metric:first_step"] < 1 for row in rows[1:])


def check_surprise(folder, rows):
    """Measured as the docstring says, logged as a mean over rollouts, and not rewarded."""
    rollouts = rollouts_of(folder)
    assert all(
        {*row["diversity"]} == {"textual", "equational", "my_surprise:surprise", "distinct-n"} for row in rollouts
    )
    values = np.array([row["diversity"]["my_surprise:surprise"] for row in rollouts])
    assert ((values > 0) == [row["answer"] in row["response"] for row in rollouts]).all() and values.max() < 10
    assert [row["diversity/my_surprise:surprise"] for row in rows[1:]] == pytest.approx(values.reshape(2, 16).mean(1))
    assert not any(row["reward"]["diversity"] for row in rollouts)


def rollouts_of(folder):
    return [json.loads(line) for path in sorted((folder / "rollouts").glob("*.jsonl")) for line in path.open()]


def check_verifier(folder, rows):
    rollouts = rollouts_of(folder)
    assert len(rollouts) == 32 and {r["grade"] for r in rollouts if r"\div" in r["response"]} <= {"wrong", "no_answer"}
    assert "correct" in {r["grade"] for r in rollouts}


def check_environment(folder, rows):
    """Every trajectory ends with the first correct answer, or after three; a later one earns less."""
    rollouts = rollouts_of(folder)
    assert len(rollouts) == 32 and 1 < max(len(row["turns"]) // 2 for row in rollouts) <= 3
    for row in rollouts:
        rewards = [turn["reward"] for turn in row["turns"][1::2]]
        assert not any(rewards[:-1]) and row["reward"]["outcome"] == sum(rewards)
        if row["grade"] == "correct":
            assert rewards[-1] == [1.0, 0.8, 0.6][len(rewards) - 1] == pytest.approx(row["reward"]["outcome"])
    assert {"correct", "truncated"} == {row["grade"] for row in rollouts}


def check_benchmark(folder, rows):
    results = json.loads((folder / "results.json").read_text())["benchmarks"]["game-of-24"]
    assert results["problems"] > 30 and results["estimates"]["pass@4"]["mean"] > 0.5


def check_task(folder, rows):
    evaluated = json.loads(next((folder / "eval").glob("*.json")).read_text())
    ids = {row["id"] for row in evaluated["per_problem"]}
    assert len(ids) == 4 and all(re.fullmatch(r"\d+-\d+-\d+", name) for name in ids)


def check_method(folder, rows):
    """In the first step no problem has been solved: A is GRPO's of the reward.
    The state has the solved ones of both."""
    rollouts, mixed, solved = rollouts_of(folder), 0, {}
    assert len(rows) == 3 and len(rollouts) == 32
    for group in (rollouts[i : i + 4] for i in range(0, 32, 4)):
        assert len({row["problem"] for row in group}) == 1
        outcomes, total = (np.array([row["reward"][part] for row in group]) for part in ("outcome", "total"))
        n = solved.get(group[0]["problem"], 0)
        expected = zscore(total) if np.ptp(total) else np.zeros(4)
        np.testing.assert_allclose([row["advantage"] for row in group], expected / np.sqrt(1 + n), atol=1e-6)
        assert ((total[outcomes == 1] >= 0.5) & (total[outcomes == 1] < 1)).all() and not total[outcomes == 0].any()
        mixed += 0 < outcomes.sum() < 4
        solved[group[0]["problem"]] = n + int(outcomes.sum())
    assert mixed >= 2
    assert json.loads((folder / "checkpoints" / "step_0002" / "method.json").read_text()) == solved


def check_loss(folder, rows):
    loss = json.loads((folder / "config.json").read_text())["recipe"]["method"]["loss"]
    assert (loss["name"], loss["clip_high"]) == ("my_loss:Cispo", 0.5)
    # The weights are 1 where the policy is the one that sampled.
    assert all(row["policy/clip_fraction"] == 0 and row["policy/grad_norm"] > 0 for row in rows[1:])


CHECKS = {name.removeprefix("check_"): check for name, check in globals().items() if name.startswith("check_")}


def test_the_page_has_a_file_for_each():
    assert {command.partition("runs/")[2].split()[0] for command in COMMANDS} == set(CHECKS)
    assert all(name in FILES for name in ("tiny.toml", *(f"my_{what}.py" for what in CHECKS if what != "task")))
    assert all(command.startswith("diver ") for command in COMMANDS)


@pytest.mark.parametrize(
    "command",
    [pytest.param(c, marks=[pytest.mark.slow] * ("surprise" in c)) for c in COMMANDS],
    ids=lambda command: re.search(r"runs/(\w+)", command)[1],
)
def test_command(command, tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    try:
        succeeds(*shlex.split(command)[1:], cwd=tmp_path)
    finally:
        for name in FILES:  # the next command has files of its own
            sys.modules.pop(name.removesuffix(".py"), None)
    name = re.search(r"runs/(\w+)", command)[1]
    metrics = tmp_path / "runs" / name / "metrics.jsonl"
    rows = [json.loads(line) for line in metrics.open()] if metrics.exists() else []
    CHECKS[name](metrics.parent, rows)


@pytest.fixture
def modules(tmp_path, monkeypatch):
    for name in ("my_method", "my_loss"):
        (tmp_path / f"{name}.py").write_text(FILES[f"{name}.py"], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("my_method", "my_loss"):
        sys.modules.pop(name, None)


def test_the_method_by_hand(modules):
    """Of geometric means .2, .9, .1, .5: r' = 1 - .2/4, 0, 1 - .1/4, 0;
    in the next step two were solved, over sqrt 3."""
    given = [*"abcd"], [1, 0, 1, 0], ["p"] * 4
    logprobs = [np.log(p) for p in ([0.2], [0.9, 0.9], [0.2, 0.05], [0.5])]
    state = {}
    first, second = (
        diver.advantages(*given, method="my_method:Novelty", logprobs=logprobs, state=state) for _ in range(2)
    )
    np.testing.assert_allclose(first, zscore([0.95, 0, 0.975, 0]), rtol=1e-6)
    np.testing.assert_allclose(second, first / np.sqrt(3))
    assert state == {"p": 4}
    with pytest.raises(DiverError, match="method.coef: must be between 0 and 1, not 2"):
        method_named("my_method:Novelty", coef=2.0)


def test_the_loss_by_hand(modules):
    torch = pytest.importorskip("torch")
    from diver.losses.base import Tokens

    logprobs = torch.tensor([[-1.0, -2.0], [-1.0, -2.0]], requires_grad=True)
    ratio, advantages = torch.tensor([[0.5, 2.0], [0.5, 2.0]]), torch.tensor([[1.0], [-3.0]])
    loss, metrics = method_named("grpo", loss={"name": "my_loss:Cispo"}).loss.forward(
        Tokens(logprobs, logprobs.detach() - ratio.log(), advantages)
    )
    (gradient,) = torch.autograd.grad(loss.sum(), logprobs)
    torch.testing.assert_close(gradient, torch.tensor([[-0.5, -1.28], [1.5, 3.84]]))
    assert metrics["clip_fraction"].tolist() == [[False, True]] * 2


def test_the_messages_of_the_page(modules):
    told = re.findall(r"^\| `?(TRL|verl|diver\.advantages)`? \| (`{1,2})(method.+?)\2 \|$", PAGE, re.MULTILINE)
    assert len(told) == 4
    engines = {
        "TRL": config,
        "verl": overrides,
        "diver.advantages": lambda method: diver.advantages(["a", "b"], [0, 1], [0, 0], method),
    }
    loss = method_named("grpo", loss={"name": "my_loss:Cispo"})
    for engine, _, message in told:
        with pytest.raises(DiverError) as error:
            engines[engine](loss if "loss" in message else method_named("my_method:Novelty"))
        assert str(error.value) == message
