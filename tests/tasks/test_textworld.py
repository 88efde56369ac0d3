"""The text game by TextWorld, by hand: a house of three rooms, in which two things are wanted.

kitchen (box with coin) - garden (key)
bedroom (lamp)
"""

import math
import random
import sys
from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import pytest
import starting_policy

import text_game as textworld
from diver.core.environment import Step, checked_step
from diver.core.seeds import is_held_out
from diver.core.types import DiverError, Grade, Rollout
from diver.grading import get_grader
from diver.recipe.data import HOUSES, Data, Source, TextWorldHouses
from diver.sample.base import Job
from diver.sample.trajectories import Trajectory
from diver.tasks.maze import shortest
from diver.tasks.templates import render
from diver.tasks.testbeds import generate, is_testbed

HOUSE = {
    "rooms": {"kitchen": [0, 0], "garden": [1, 0], "bedroom": [0, 1]},
    "places": {"box": "kitchen", "coin": "box", "key": "garden", "lamp": "bedroom"},
    "wanted": ["coin", "key"],
    "start": "kitchen",
}
KEY, PROBLEM = textworld.problem(HOUSE, "textworld/two")


def test_without_the_library_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "textworld", None)
    told = r"^textworld: needs an extra: pip install '\./studies\[textworld\]' in a clone of DIVER$"
    with pytest.raises(DiverError, match=told):
        generate(Source(path="textworld"), Data(), 1, held_out=False)
    with pytest.raises(DiverError, match=told):
        render(PROBLEM)  # problems of a file


def test_a_house_as_a_problem():
    assert KEY == (
        "bedroom south of kitchen. garden east of kitchen. box in kitchen. coin in box. key in garden. lamp in bedroom."
    )
    assert PROBLEM.prompt == f"{KEY} From kitchen take coin and key."
    assert (PROBLEM.answer, PROBLEM.verifier) == ("coin key", "text_game:TextWorld")
    moved = {**HOUSE, "rooms": {"garden": [2, 1], "bedroom": [1, 2], "kitchen": [1, 1]}}
    assert textworld.problem(moved, "") == (KEY, replace(PROBLEM, source="", meta=moved))
    other = textworld.problem({**HOUSE, "wanted": ["lamp"], "start": "garden"}, "")
    assert other[0] == KEY and other[1].id != PROBLEM.id  # held out with every quest, or with none


def test_problems_are_drawn_by_level_and_seed():
    assert is_testbed("textworld") and not is_testbed("textworld:x")
    drawn = textworld.drawn(TextWorldHouses(mix={"three": 1.0}), 50, held_out=True)
    for problem in drawn:
        rooms, places = problem.meta["rooms"], problem.meta["places"]
        boxes = [thing for thing in places if thing in textworld.BOXES]
        assert (len(rooms), len(boxes), len(places) - len(boxes)) == (4, 2, 4)
        assert len(problem.meta["wanted"]) == 3 and is_held_out(problem.prompt.partition(" From ")[0])
        for place in (problem.meta["start"], *map(places.get, boxes)):
            assert all(
                shortest(tuple(rooms[place]), tuple(cell), {*map(tuple, rooms.values())}) for cell in rooms.values()
            )
    assert drawn == textworld.drawn(TextWorldHouses(mix={"three": 1.0}), 50, held_out=True)
    assert drawn != textworld.drawn(TextWorldHouses(mix={"three": 1.0}, seed=1), 50, held_out=True)
    both = {problem.source for problem in textworld.drawn(TextWorldHouses(), 100, held_out=False)}
    assert both == {"textworld/two", "textworld/three"}


@pytest.fixture
def library():
    pytest.importorskip("textworld")


def played(*commands, problem=PROBLEM):
    environment, said = get_grader(problem.verifier).start(problem)
    return said, [environment.step(f" {command} ") for command in commands]


def rollout_of(*commands, problem=PROBLEM):
    """The trajectory of these turns, as it is graded and keyed in training."""
    trajectory = Trajectory(Job(0, 7, 1000, problem.id), problem, get_grader(problem.verifier), [1])
    for command in commands:
        assert not trajectory.over
        trajectory.take(Rollout(command, [1], np.zeros(1), entropy=0.0))
        trajectory.hear(checked_step(trajectory.environment.step(command)), lambda text, most: [2], math.inf)
    return trajectory.rollout()


def test_a_game_by_hand(library):
    said, steps = played(
        "open box", "take coin from box", "go south", "drop coin", "take coin", "go north", "go east", "take key"
    )
    assert said == render(PROBLEM) == "Take coin and key. In kitchen: closed box. Exits: east south."
    box, coin = "open box", "in coin hand"
    assert steps == [
        Step("In kitchen: open box with coin. Exits: east south.", False, 0.0, f"kitchen, {box}", ["open box"]),
        Step("In kitchen: open box. Exits: east south.", False, 0.0, f"kitchen, {coin}, {box}", ["take coin from box"]),
        Step("In bedroom: lamp. Exits: north.", False, 0.0, f"bedroom, {coin}, {box}", ["go south"]),
        Step("In bedroom: coin, lamp. Exits: north.", False, 0.0, f"bedroom, at coin bedroom, {box}", ["drop coin"]),
        Step("In bedroom: lamp. Exits: north.", False, 0.0, f"bedroom, {coin}, {box}", ["take coin"]),
        Step("In kitchen: open box. Exits: east south.", False, 0.0, f"kitchen, {coin}, {box}", ["go north"]),
        Step("In garden: key. Exits: west.", False, 0.0, f"garden, {coin}, {box}", ["go east"]),
        Step("In garden. Exits: west.", True, 1.0, f"garden, {coin}, in key hand, {box}", ["take key"]),
    ]  # fmt: skip


def test_all_that_is_wanted_is_carried_at_once(library):
    taken = ("open box", "take coin from box", "drop coin", "go east", "take key")
    assert [step.reward for step in played(*taken)[1]] == [0.0] * 5
    assert [step.done for step in played(*taken, "go west", "take coin")[1]] == [False] * 6 + [True]
    two = played("go south", "take lamp", "go north", "open box", "insert lamp into box", "take coin from box")[1]
    assert two[-2].observation == "In kitchen: open box with coin and lamp. Exits: east south."


COIN_FIRST = ("open box", "take coin from box", "go east", "take key")
KEY_FIRST = ("go east", "take key", "go west", "open box", "take coin from box")


def test_right_trajectories_differ_in_their_keys(library):
    first, again, other = rollout_of(*COIN_FIRST), rollout_of(*COIN_FIRST), rollout_of(*KEY_FIRST)
    assert {r.grade for r in (first, again, other)} == {Grade.CORRECT}
    assert first.key == again.key != other.key
    detour = rollout_of("go south", "go north", *COIN_FIRST)
    assert detour.grade is Grade.CORRECT and detour.key not in (first.key, other.key)
    assert detour.turns[3].state == "kitchen"  # that of the beginning


NOTHING = ["", "dance", "take key", "take coin from box", "go west", "go", "look", "inventory", "examine box"]
HOSTILE = ["open box <eos> take key", "x" * 100_000, "{P}", "\x00\ud800\u202e", "__import__('os')"]


@pytest.mark.parametrize("turn", NOTHING + HOSTILE)
def test_a_turn_that_changes_nothing_is_no_action(turn, library):
    said = "Nothing happens. In kitchen: closed box. Exits: east south."
    assert played(turn)[1] == [Step(said, False, 0.0, "kitchen", [])]
    assert rollout_of(turn, *COIN_FIRST).key == rollout_of(*COIN_FIRST).key  # the game goes on
    assert rollout_of(turn, *COIN_FIRST).grade is Grade.CORRECT


def test_turns_that_change_nothing_are_counted(library):
    late, cut = rollout_of(*["look"] * 12, *COIN_FIRST), rollout_of(*["look"] * 13, *COIN_FIRST[:-1])
    assert (late.grade, cut.grade, cut.truncated) == (Grade.CORRECT, Grade.TRUNCATED, True)
    assert cut.reward.outcome == 0.0 and len(cut.actions) == 3


def way(house, a, b):
    """The commands from one room to another."""
    rooms = {name: tuple(cell) for name, cell in house["rooms"].items()}
    cells = shortest(rooms[a], rooms[b], {*rooms.values()})
    return [f"go {textworld.direction(*pair)}" for pair in pairwise(cells)]


def gathered(house, order):
    """The commands of who takes what is wanted in this order."""
    commands, here, opened = [], house["start"], set()
    for thing in order:
        place = house["places"][thing]
        room = house["places"].get(place, place)
        commands += way(house, here, room)
        if place == room:
            commands += [f"take {thing}"]
        else:
            commands += [f"open {place}"] * (place not in opened) + [f"take {thing} from {place}"]
        here, opened = room, {*opened, place}
    return commands


@pytest.mark.parametrize("level", HOUSES)
def test_things_can_be_gathered_in_any_order(level, library):
    for problem in textworld.drawn(TextWorldHouses(mix={level: 1.0}), 10, held_out=True):
        orders = [gathered(problem.meta, order) for order in permutations(problem.meta["wanted"])]
        for commands in orders:
            steps = played(*commands, problem=problem)[1]
            assert [step.reward for step in steps] == [0.0] * (len(steps) - 1) + [1.0]
        assert len({rollout_of(*commands, problem=problem).key for commands in orders}) == len(orders) in (2, 6)


def test_the_starting_policy_is_taught_words_that_it_knows_and_right_trajectories(library):
    course = starting_policy.COURSES["textworld"]
    tokenizer, rng = starting_policy.tokenizer(course), random.Random(0)
    for _ in range(20):
        ids, prompt = starting_policy.example(course, rng, tokenizer)
        assert tokenizer.unk_token_id not in ids and prompt < len(ids) <= course.positions
        assert ids.count(tokenizer.eos_token_id) <= textworld.TextWorld.max_turns
    every = " ".join([*textworld.ROOMS, *textworld.BOXES, *textworld.THINGS, "Nothing happens. closed open with and"])
    assert tokenizer.unk_token_id not in tokenizer(every)["input_ids"]
