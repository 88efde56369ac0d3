import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diver.core.types import Grade, Problem
from diver.grading import get_grader
from diver.grading.choice import listed, prompt_with_options
from diver.tasks.benchmarks import random_baseline, shuffled

PLANT = "Which of these is a plant?\n\nA) salt\nB) moss\nC) slate"


def problem(prompt, answer, identity="p"):
    return Problem(identity, prompt, answer, verifier="choice")


def test_a_prompt_taken_apart():
    parts = listed("Which list?\nA) not this\nB) nor this\n\nWhich is it?\n(A) one\n(B) two\nlines\n\nSay why.")
    assert parts.before == "Which list?\nA) not this\nB) nor this\n\nWhich is it?\n"
    assert parts.options == {"A": "one", "B": "two\nlines"}
    assert (parts.after, parts.marks) == ("\n\nSay why.", ("(", ")"))


@pytest.mark.parametrize("prompt", ["What is 2+2?", "A) alone", "B) second\nC) third", "A)without\nB)space", ""])
def test_no_list_of_options(prompt):
    assert listed(prompt) is None and shuffled(problem(prompt, "A"), 0) is None


def test_options_that_begin_on_the_next_line():
    assert listed("Q\n\nA) \nfirst\nB) second\n").options == {"A": "first", "B": "second"}


def test_options_of_several_lines_stay_whole():
    prompt = prompt_with_options("Read this:\nA) no option\n\nWhich?\n", {"A": "x\n\ny ", "B": "\nz\n\nA) w"})
    assert prompt == "Read this:\nA) no option\n\nWhich?\n\nA) x y\nB) z A) w"
    assert listed(prompt).options == {"A": "x y", "B": "z A) w"}


def test_an_empty_last_option():
    assert listed("Q\n\nA) one\nB) \n\nRest.").options["A"] == "one"


def test_numbered_options_keep_their_numbers():
    moved = shuffled(problem("Q\n\n1) one\n2) two\n3) three\n4) four", "3"), 5)
    assert set(moved.meta["options"]) == set("1234")
    assert moved.meta["options"][moved.answer] == "three"


def test_the_answer_moves_along_and_the_mapping_is_recorded():
    moved = shuffled(problem(PLANT, "B"), seed=2)
    came_from = moved.meta["shuffle"]["from"]
    before = {"A": "salt", "B": "moss", "C": "slate"}
    assert moved.meta["shuffle"]["seed"] == 2 and came_from[moved.answer] == "B"
    assert moved.meta["options"] == {new: before[old] for new, old in came_from.items()}
    assert listed(moved.prompt).options == moved.meta["options"]
    assert moved.prompt.startswith("Which of these is a plant?\n\nA) ")
    assert get_grader("choice").grade(f"\\boxed{{{moved.answer}}}", moved) is Grade.CORRECT
    assert get_grader("choice").grade("The answer is moss.\n\\boxed{moss}", moved) is Grade.CORRECT
    json.dumps(moved.meta)


def test_the_order_depends_on_the_seed_and_the_problem_and_on_nothing_else():
    prompt = prompt_with_options("Q", dict(zip("ABCDEFGHIJ", "abcdefghij", strict=True)))
    orders = {(seed, name): shuffled(problem(prompt, "A", name), seed).prompt for seed in (0, 1) for name in "xy"}
    assert len(set(orders.values())) == 4
    assert shuffled(problem(prompt, "J", "x"), 0).prompt == orders[0, "x"]


def test_every_place_is_equally_likely_for_the_answer():
    places = [shuffled(problem(prompt_with_options("Q", dict(zip("ABCD", "wxyz", strict=True))), "A", str(i)), 0).answer
              for i in range(4000)]  # fmt: skip
    counts = [places.count(label) for label in "ABCD"]
    assert sum((n - 1000) ** 2 / 1000 for n in counts) < 16.27  # chi-square of 3 degrees at 0.001


def test_an_answer_that_is_no_label_is_left_alone():
    assert shuffled(problem(PLANT, "D"), 0) is None and shuffled(problem(PLANT, "moss"), 0) is None


def test_the_random_baseline_is_the_mean_of_one_over_the_number_of_options():
    two = Problem("t", "Q\n\nA) x\nB) y", "A")
    five = Problem("f", "Q", "A", meta={"options": list("vwxyz")})
    assert random_baseline([two, five]) == pytest.approx((1 / 2 + 1 / 5) / 2)
    assert random_baseline([two, Problem("n", "No list.", "A")]) == 1 / 2
    assert random_baseline([]) is None and random_baseline([Problem("n", "2+2?", "4")]) is None


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), min_size=1)
OPTION = TEXT.map(str.strip).filter(bool)


@given(st.lists(OPTION, min_size=2, max_size=10), st.integers(0, 2**32), st.data())
def test_shuffling_only_permutes(texts, seed, data):
    options = dict(zip("ABCDEFGHIJ", texts, strict=False))
    answer = data.draw(st.sampled_from(list(options)))
    moved = shuffled(problem(prompt_with_options("Which?", options), answer), seed)
    assert sorted(moved.meta["options"].values()) == sorted(texts)
    assert moved.meta["options"][moved.answer] == options[answer]
    assert sorted(moved.meta["shuffle"]["from"].values()) == sorted(options)
