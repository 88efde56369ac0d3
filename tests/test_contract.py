"""What a method may ask for and return (`diver.methods.base`): keys, a state, advantages per token, rows left out,
a length limit."""

import warnings
from collections import Counter

import numpy as np
import own_methods
import pytest

import diver
from diver.core.types import DiverError, Grade, Group, Problem, Reward, Rollout
from diver.diversity import METRICS
from diver.grading import verify, with_keys
from diver.integrations.trl import config
from diver.methods import method_named
from diver.methods.base import Overlong, Selection

COUNTED = "own_methods:Counted"


def group(outcomes, name="p", **columns):
    rollouts = tuple(Rollout(f"response {i}", reward=Reward(r)) for i, r in enumerate(outcomes))
    made = Group(Problem(name, "?", ""), rollouts)
    return made.with_each(**columns) if columns else made


# --- keys


def keys_of(problem, *responses):
    (done,) = with_keys(verify([Group(problem, tuple(Rollout(text) for text in responses))]))
    return [r.grade for r in done.rollouts], [r.key for r in done.rollouts]


def test_of_mathematics_the_key_is_the_answer():
    grades, keys = keys_of(
        Problem("p", "?", "1/2"),
        r"so \boxed{\frac{1}{2}}", r"hence \boxed{0.5}", r"\boxed{3}", r"or \boxed{ 3 }", r"\boxed{x}", "I do not know",
    )  # fmt: skip
    assert grades == [Grade.CORRECT, Grade.CORRECT, Grade.WRONG, Grade.WRONG, Grade.WRONG, Grade.NO_ANSWER]
    assert keys == ["1/2", "1/2", "3", "3", "x", ""]
    _, (key,) = keys_of(Problem("p", "?", "1"), rf"\boxed{{{'x' * 9999}}}")
    assert len(key) == 32


def test_of_countdown_the_key_is_the_solution_or_the_number_that_was_reached():
    problem = Problem("p", "?", "8", verifier="countdown", meta={"numbers": [3, 5], "target": 8})
    texts = [
        r"\( 3 + 5 = 8 \) \boxed{8}",
        r"\( 5 + 3 = 8 \) \boxed{8}",
        r"\( 5 - 3 = 2 \) \boxed{2}",
        r"\( 5 - 3 = 2 \)",
    ]
    grades, keys = keys_of(problem, *texts)
    assert grades == [Grade.CORRECT, Grade.CORRECT, Grade.WRONG, Grade.NO_ANSWER]
    assert keys == ["(3 + 5)", "(3 + 5)", "2", ""]


# --- errors of one's own


def test_an_error_in_a_method_of_ones_own_names_the_line_in_its_file(tmp_path, monkeypatch):
    """Also where a function of this package or of NumPy raises; an error of a method of this package is unchanged."""
    (tmp_path / "faulty.py").write_text(
        "import numpy as np\n"
        "from diver.methods import Grpo, settings\n\n\n"
        "@settings\n"
        "class Faulty(Grpo):\n"
        "    at: str = ''\n\n"
        "    def rewards(self, group, context):\n"
        "        lengths = [r.length for r in group.rollouts] if self.at == 'rewards' else []\n"
        "        return super().rewards(group, context)\n\n"
        "    def advantages(self, group, context):\n"
        "        none = np.stack([]) if self.at == 'advantages' else 0\n"
        "        return super().advantages(group, context)\n\n"
        "    def update_state(self, group, state):\n"
        "        {}[self.at or state.setdefault('', '')] if self.at == 'update_state' else 0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for at, line, kind in (
        ("rewards", 10, "ValueError"),
        ("advantages", 14, "ValueError"),
        ("update_state", 18, "KeyError"),
    ):
        with pytest.raises(DiverError) as error:
            diver.advantages(["a", "b"], [1, 0], ["p", "p"], method_named("faulty:Faulty", at=at))
        message = str(error.value)
        assert message.startswith(f"method 'faulty:Faulty', problem 'p': {kind}: "), message
        assert message.endswith(f" ({tmp_path / 'faulty.py'}:{line})") and "\n" not in message, message
        assert type(error.value.__cause__).__name__ == kind
    assert diver.advantages(["a", "b"], [1, 0], ["p", "p"], "faulty:Faulty").tolist() == [1, -1]
    with pytest.raises(DiverError, match="must be at least 0"):
        diver.advantages(["a", "b"], [1, -1], ["p", "p"], "max-rl")


# --- what is measured


def test_only_what_a_method_reads_is_measured(monkeypatch):
    """By the number of groups that each metric is called with: two groups, each once, whatever the number of reads."""
    calls = Counter()

    def counted(name, make):
        def measured(settings):
            metric = make(settings)
            return lambda texts: calls.update([name]) or metric(texts)

        return measured

    monkeypatch.setattr("diver.diversity.metrics.METRICS", {n: counted(n, make) for n, make in METRICS.items()})
    given = ["a b c", "a b d", "x", "y z"] * 2, [1, 0, 1, 0] * 2, [0] * 4 + [1] * 4
    for name, measured in {
        "grpo": {},
        "max-rl": {},
        "pass-at-k": {},
        "darling": {},
        "diver-td": {"textual": 2},
        "diver-ed": {"equational": 2},
        "diver-mix": {"textual": 2, "equational": 2},
        "own_methods:Textual": {"textual": 2},
    }.items():
        calls.clear()
        method = method_named(name, **({"k": 2} if name == "pass-at-k" else {}))
        rollouts = [Rollout(text, key=text, reward=Reward(r)) for text, r in zip(*given[:2], strict=True)]
        groups = [Group(Problem(str(i), "", ""), tuple(rollouts[4 * i : 4 * i + 4])) for i in range(2)]
        found = diver.advantages(*given, method, keys=given[0])
        assert calls == measured, name
        of_all = method.apply(groups, 0.0)  # as the engines, which log TD and ED for every method
        assert found.tolist() == [a for group in of_all for a in group.advantages], name
        assert {*of_all[0].rollouts[0].diversity} >= {"textual", "equational"}
        calls.clear()
        method.apply(groups, 0.0)
        assert calls == {"textual": 2, "equational": 2}, name


def test_what_is_not_measured_is_not_warned_of():
    unspaced = ["汉" * 200, "字" * 200]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        diver.advantages(unspaced, [1, 0], [0, 0], "grpo")
        with pytest.raises(UserWarning, match="textual diversity is near 1 for all"):
            diver.advantages(unspaced, [1, 0], [0, 0], "diver-td", answer_ends=[200, 200], truncated=[False] * 2)


# --- a state, and advantages per token


def test_state_and_advantages_per_token_by_hand():
    """Keys a, b, a: in the first step no answer was seen, in the second a twice and b once."""
    columns = {
        "tokens": [[1, 2, 3], [1], [1, 2]],
        "logprobs": [[-1.0] * 3, [-1.0], [-1.0] * 2],
        "keys": ["a", "b", "a"],
    }
    state = {}
    first, second = (
        diver.advantages(["x", "y", "z"], [1, 0, 1], ["p"] * 3, COUNTED, state=state, **columns) for _ in range(2)
    )
    assert [a.tolist() for a in first] == [[1, -1, 1], [1], [1, -1]]
    np.testing.assert_allclose(np.concatenate(second), [1 / 3, -1 / 3, 1 / 3, 1 / 2, 1 / 3, -1 / 3])
    assert state == {"p": {"a": 4, "b": 2}}
    with pytest.raises(
        DiverError, match="needs keys, state, which diver.advantages without `keys` and `state` does not"
    ):
        diver.advantages(["x"], [1], ["p"], COUNTED, tokens=[[1]], logprobs=[[0.0]])


def test_of_rows_in_any_order_each_has_its_advantages():
    columns = {
        "tokens": [[1], [1, 2], [1, 2, 3], [1]],
        "logprobs": [[-1.0] * n for n in (1, 2, 3, 1)],
        "keys": [*"abab"],
    }
    found = diver.advantages([*"wxyz"], [1, 0, 1, 0], [0, 1, 0, 1], COUNTED, state={}, **columns)
    assert [len(a) for a in found] == [1, 2, 3, 1]


def test_the_state_is_changed_after_all_groups_of_a_step():
    """Two groups of one problem in a step: neither sees the other."""
    method, state = method_named(COUNTED), {}
    one = group([1.0, 0.0], tokens=[[1], [1]], logprobs=[np.array([-1.0])] * 2, key=["a", "b"])
    done = method.apply([one, one], 0.0, state=state)
    assert [g.advantages.tolist() for g in done] == [[1, 1], [1, 1]] and state == {"p": {"a": 2, "b": 2}}
    (again,) = method.apply([one], 0.0, state=state)
    assert again.advantages.tolist() == pytest.approx([1 / 3, 1 / 3])
    assert again.rollouts[0].token_advantages.tolist() == pytest.approx([1 / 3])


def test_a_method_per_token_declares_it():
    assert own_methods.Counted().per_token and not method_named("diver-mix").per_token
    with pytest.raises(DiverError, match="needs logprobs, state, which TRL does not provide"):
        config(COUNTED)


# --- what is left out


def test_correct_or_wrong_rollouts_are_left_out():
    method = method_named("clip-higher", selection={"outcomes": "correct"})
    done = method.apply([group([1.0, 0.0, 1.0]), group([0.0, 0.0], "q")], 0.0)
    assert [g.problem.id for g in done] == ["p"] and done[0].responses == ["response 0", "response 2"]
    wrong = method_named("clip-higher", selection={"outcomes": "wrong"}).apply([group([1.0, 0.0, 1.0])], 0.0)
    assert wrong[0].responses == ["response 1"]


def test_groups_without_a_signal_are_left_out_by_their_outcomes():
    """Also where a diversity reward would give a group all correct a signal."""
    method = method_named("diver-mix", selection={"filter_groups": True})
    sampled = [group([1.0, 1.0], "solved"), group([0.0, 0.0], "none"), group([1.0, 0.0], "mixed")]
    assert [g.problem.id for g in method.apply(sampled, 0.0)] == ["mixed"]
    unsolved = [group([0.0, 0.0]), group([1.0, 1.0])]
    assert "reward/shaped" not in method.metrics(method.shaped(unsolved, 0.0), 0.0)
    metrics = method.metrics(method.shaped(sampled, 0.0), 0.0)
    assert (metrics["group/solve_all"], metrics["group/solve_none"], metrics["reward/outcome"]) == (1 / 3, 1 / 3, 0.5)
    assert metrics["advantage/solve_all_frac"] == 0


def test_whoever_needs_every_advantage_refuses_a_selection():
    for selection in ({"outcomes": "correct"}, {"filter_groups": True}, {"keep": "most"}):
        method = method_named("clip-higher", selection=selection)
        with pytest.raises(DiverError, match="a selection drops responses"):
            diver.advantages(["a", "b"], [1, 0], [0, 0], method)
        with pytest.raises(DiverError, match="a selection drops rollouts, and TRL trains on every one"):
            config(method)
    with pytest.raises(ValueError, match="max_num_gen_batches must be at least 1, not 0"):
        Selection(max_num_gen_batches=0)


# --- the penalty for long responses


def test_the_overlong_penalty_by_hand():
    """L = 100, the last fifth: nothing up to 80, half at 90, all from 100 on."""
    given = Overlong(buffer=0.2, penalty=1.0, max_tokens=100)
    np.testing.assert_allclose(given.reward(np.array([1, 80, 81, 90, 100, 120])), [0, 0, -0.05, -0.5, -1, -1])
    assert Overlong(buffer=0.2, max_tokens=100).reward(np.array([100])).tolist() == [-0.5]
    assert not Overlong() and not Overlong(buffer=0.2, penalty=0.0) and Overlong(buffer=0.2)
    with pytest.raises(ValueError, match="overlong.max_tokens, the length limit, is 0"):
        Overlong(buffer=0.2).reward(np.array([1]))
    with pytest.raises(ValueError, match="buffer must be between 0 and 1"):
        Overlong(buffer=2.0)


def test_the_penalty_is_a_part_of_the_reward_and_not_of_the_outcome():
    method = method_named("dr-grpo", overlong={"buffer": 0.5, "penalty": 0.2}).limited(10)
    assert method_named("diver-mix", overlong={"buffer": 0.5}).needs == {"responses", "tokens"}
    assert method.needs == {"tokens"} and method_named("dr-grpo").limited(10) == method_named("dr-grpo")
    (done,) = method.apply([group([1.0, 1.0, 0.0], tokens=[[1] * 5, [1] * 10, [1] * 7])], 0.0)
    assert [r.reward for r in done.rollouts] == [
        Reward(1.0),
        Reward(1.0, 0, -0.2),
        Reward(0.0, 0, pytest.approx(-0.08)),
    ]
    assert done.outcomes.tolist() == [1, 1, 0]
    np.testing.assert_allclose(done.advantages, np.array([1, 0.8, -0.08]) - 1.72 / 3)


@pytest.mark.parametrize("name", ["pass-at-k", "pkpo", "w-reinforce", "psr"])
def test_a_penalty_that_would_have_no_effect_is_refused(name):
    assert method_named(name).outcomes_only
    with pytest.raises(DiverError, match=f"method.overlong: {name} has advantages of outcomes alone"):
        method_named(name, overlong={"buffer": 0.2})
    with pytest.raises(DiverError, match="divisor = 'mean' needs rewards of at least 0; the penalty of `overlong` is"):
        method_named("max-rl", overlong={"buffer": 0.2})


# --- what divides


@pytest.mark.parametrize(
    ("divisor", "expected"),  # r = 1, 0, 0.5: mean 1/2, variance 1/6, of the sample 1/4
    [("std", 0.5 * 6**0.5), ("sample-std", 1.0), ("mean", 1.0), ("none", 0.5)],
)
def test_what_divides_by_hand(divisor, expected):
    found = diver.advantages(["", "", ""], [1, 0, 0.5], [0] * 3, method_named("clip-higher", divisor=divisor))
    np.testing.assert_allclose(found, [expected, -expected, 0], atol=1e-12)


def test_a_diversity_reward_on_top_of_another_normalisation():
    """DIVER's reward over the mean (MaxRL) and without a divisor (leave-one-out but for G / (G - 1))."""
    texts, shaped = ["a b c d", "a b c d", "e f g h"], {}
    for divisor in ("std", "mean", "none"):
        method = method_named("diver-td", divisor=divisor)
        (done,) = method.apply([group([1.0, 0.0, 1.0], response=texts)], 0.0)
        shaped[divisor], r = done.advantages, done.rewards
    assert r[2] > r[0] > 1
    np.testing.assert_allclose(shaped["none"], r - r.mean())
    np.testing.assert_allclose(shaped["mean"], (r - r.mean()) / r.mean())
    with pytest.raises(DiverError, match="divisor = 'mean' needs rewards of at least 0; a length penalty is negative"):
        method_named("diver-td", divisor="mean", shaping={"condition": "all-length-penalty"})
    with pytest.raises(DiverError, match="std_floor is a floor of a standard deviation, but divisor is 'none'"):
        method_named("diver-annealed", divisor="none")
