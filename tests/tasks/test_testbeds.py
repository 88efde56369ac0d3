"""What holds for every testbed: its held-out problems, its verifier, its canonical solutions, its starting policies."""

import importlib.util

import pytest
from transformers import AutoTokenizer

from diver.core.settings import read
from diver.core.types import DiverError, Grade
from diver.grading import get_grader, grade
from diver.recipe.data import POLICIES, TESTBEDS, Data, Source
from diver.tasks.splits import load
from diver.tasks.testbeds import generate, policy_folder

ALL = {
    "countdown": [{}, {"mix": {"three": 0.1, "four": 0.3, "four-large": 0.3, "five": 0.3}}],
    "maze": [{"mix": {"five": 1.0}}, {"mix": {"seven": 0.9, "nine": 0.1}}],
    "textworld": [{"mix": {"two": 1.0}}, {}],
    "reasoning-gym:graph_color": [{"sizes": {"min_num_vertices": 6, "edge_probability": 0.4}}, {}],
}
"""Settings of every testbed."""


def needs(package):
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"{package} is not installed")


MARKS = {"textworld": [needs("textworld")], "reasoning-gym:graph_color": [pytest.mark.slow, needs("reasoning_gym")]}
EACH = [pytest.param(name, marks=MARKS.get(name, ())) for name in ALL]
POLICY_OF = {"countdown": "countdown", "maze": "maze", "reasoning-gym:graph_color": "graph-coloring"}
"""Testbeds with a bundled policy. They are those that grade a text; `maze-cells` is the policy of an environment."""
BUNDLED = [param for param in EACH if param.values[0] in POLICY_OF]

HOSTILE = [
    "",
    r"\boxed{",
    r"\boxed{}",
    "}" * 10_000,
    r"\boxed{" * 10_000,
    r"\( " * 100_000,
    r"\boxed{ " + "9" * 100_000 + " }",
    "<answer>" * 10_000,
    "\x00\ud800\u202e",
    r"\boxed{ __import__('os').system('false') }",
]


def drawn(name, section, count, held_out, seed=0):
    table = {name.partition(":")[0].replace("-", "_"): {**section, "seed": seed}}
    return generate(Source(path=name), read(Data, table, "data"), count, held_out=held_out)


def test_every_testbed_is_tested_here():
    assert [name.partition(":")[0] for name in ALL] == [*TESTBEDS]
    assert [*POLICY_OF.values(), "maze-cells"] == [*POLICIES]


def apart(name, train, held_out):
    """That no held-out problem is one to train on, by what identifies a problem and by its text."""
    kept = [p for section in ALL[name] for p in drawn(name, section, held_out // len(ALL[name]), True, seed=7)]
    for section in ALL[name]:
        to_train = [p for seed in range(2) for p in drawn(name, section, train // 2 // len(ALL[name]), False, seed)]
        for what in ("id", "prompt"):
            assert not {getattr(p, what) for p in to_train} & {getattr(p, what) for p in kept}


@pytest.mark.parametrize("name", EACH)
def test_no_held_out_problem_is_one_to_train_on(name):
    apart(name, 400, 100)


@pytest.mark.slow
@pytest.mark.parametrize("name", EACH)
def test_no_held_out_problem_is_among_a_hundred_thousand(name):
    """Of all testbeds together."""
    apart(name, 90_000 // len(ALL), 10_000 // len(ALL))


def test_the_keys_of_rows_are_not_ignored():
    few, all_held_out = Data(path="countdown", limit=3), load(Data(path="countdown"), None, 8)
    trained, kept, _ = load(few, None, 8)
    assert [p.id for p in trained] == [p.id for p in all_held_out[0]][:3] and kept == all_held_out[1]
    for given in ({"columns": {"prompt": "x"}}, {"split": "test"}, {"skip_invalid_rows": True}):
        told = rf"data\.{next(iter(given))}: is for problems that are read from rows; countdown generates"
        with pytest.raises(DiverError, match=told):
            load(Data(path="countdown", **given), None, 8)


@pytest.mark.parametrize("name", BUNDLED)
def test_hostile_responses_are_never_correct(name):
    (problem,) = drawn(name, ALL[name][0], 1, held_out=True)
    grades = grade([(text, problem) for text in HOSTILE])
    assert set(grades) <= {Grade.WRONG, Grade.NO_ANSWER}
    by = get_grader(problem.verifier)
    assert all(len(by.reached(text, problem)) < 100_001 for text in HOSTILE)


@pytest.mark.parametrize("name", BUNDLED)
def test_the_starting_policy_knows_every_word_of_its_problems(name):
    tokenizer = AutoTokenizer.from_pretrained(policy_folder(POLICY_OF[name]))
    for section in ALL[name]:
        for problem in drawn(name, section, 20, held_out=True):
            assert tokenizer.unk_token_id not in tokenizer(problem.prompt)["input_ids"]


@pytest.mark.parametrize("name", POLICIES)
def test_bundled_policies_are_small(name):
    size = sum(file.stat().st_size for file in policy_folder(name).iterdir())
    assert 1_000_000 < size < 4 * 2**20
