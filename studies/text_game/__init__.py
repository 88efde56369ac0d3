"""A text game: gather things in a house, by TextWorld (arXiv 1806.11532; the extra `textworld` of the studies).

    question      Take coin and key. In kitchen: closed box, lamp. Exits: east south.
    policy        open box
    environment   In kitchen: open box with coin, lamp. Exits: east south.
    policy        take coin from box

A house has rooms, closed boxes and things. The policy sees the room in which it is, and what is in its open boxes. A
trajectory is correct if all wanted things are carried at once. Their order, the way and every detour are free.
TextWorld decides which commands are possible, what they change, and when the quest is complete. The words of the
environment are ours: TextWorld's own need a compiled game, and are too many for a small policy.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import permutations
from typing import Any

from diver.core.environment import Environment, Step
from diver.core.seeds import digest, distinct
from diver.core.types import DiverError, Problem
from diver.recipe.data import HOUSES, HouseLevel, TextWorldHouses

ROOMS = ("kitchen", "bedroom", "office", "garden", "attic", "cellar")
BOXES = ("box", "chest", "drawer")
THINGS = ("apple", "book", "coin", "key", "lamp", "ring")
BOARD = tuple((x, y) for x in range(3) for y in range(3))
"""Where a room may be: column and row, from 0."""


def check_engine() -> None:
    """Raises DiverError if TextWorld is not installed."""
    if find_spec("textworld") is None:
        raise DiverError("textworld: needs an extra: pip install './studies[textworld]' in a clone of DIVER")


def draw(level: HouseLevel, rng: random.Random) -> dict[str, Any]:
    """A house with a quest: the cell of each room, the place of each box and thing, what is wanted, and the start."""
    cells = [rng.choice(BOARD)]
    while len(cells) < level.rooms:
        cells.append(rng.choice([c for c in BOARD if c not in cells and any(direction(c, cell) for cell in cells)]))
    rooms = dict(zip(rng.sample(ROOMS, level.rooms), map(list, cells), strict=True))
    boxes = {box: rng.choice([*rooms]) for box in rng.sample(BOXES, level.boxes)}
    things = {thing: rng.choice([*rooms, *boxes]) for thing in rng.sample(THINGS, level.things)}
    wanted = sorted(rng.sample([*things], level.wanted))
    return {"rooms": rooms, "places": boxes | things, "wanted": wanted, "start": rng.choice([*rooms])}


def direction(a: Sequence[int], b: Sequence[int]) -> str:
    """The direction from one cell to another, empty if they have no side in common."""
    return {(1, 0): "east", (-1, 0): "west", (0, 1): "south", (0, -1): "north"}.get((b[0] - a[0], b[1] - a[1]), "")


def problem(house: dict[str, Any], source: str) -> tuple[str, Problem]:
    """The house as a problem, and its key: the house alone, so that no quest in a held-out house is trained on."""
    rooms = house["rooms"]
    ways = [(direction(rooms[a], rooms[b]), a, b) for a, b in permutations(sorted(rooms), 2)]
    plan = [f"{b} {way} of {a}." for way, a, b in ways if way in ("east", "south")]
    key = " ".join([*plan, *sorted(f"{thing} in {place}." for thing, place in house["places"].items())])
    text = f"{key} From {house['start']} take {' and '.join(house['wanted'])}."
    return key, Problem(
        id=f"textworld-{digest(text)}",
        prompt=text,  # the policy is not shown it: `TextWorld.reset` asks
        answer=" ".join(house["wanted"]),
        source=source,
        verifier=f"{TextWorld.__module__}:{TextWorld.__name__}",
        meta=house,
    )


def candidates(settings: TextWorldHouses, rng: random.Random) -> Iterator[tuple[str, Problem]]:
    """Random problems without end, each with its key."""
    mix = settings.mix or dict.fromkeys(HOUSES, 1.0)
    while True:
        name = rng.choices(list(mix), list(mix.values()))[0]
        yield problem(draw(HOUSES[name], rng), f"textworld/{name}")


def problems(settings: TextWorldHouses, count: int, *, held_out: bool) -> list[Problem]:
    """The first `count` problems of the stream, which can be played here."""
    check_engine()
    return drawn(settings, count, held_out=held_out)


def drawn(settings: TextWorldHouses, count: int, *, held_out: bool) -> list[Problem]:
    """The first `count` problems of the stream, each in another house."""
    rng = random.Random(f"textworld {settings.seed} {'held out' if held_out else 'train'}")
    return distinct(candidates(settings, rng), count, held_out=held_out, name="textworld")


def game(house: Mapping[str, Any]) -> tuple[Any, dict[str, str]]:
    """The house as a new game of TextWorld, and the names of its rooms, boxes and things by TextWorld's ids."""
    check_engine()
    from textworld import Game, GameMaker, GameOptions
    from textworld.generator.data import KnowledgeBase
    from textworld.generator.game import Event, GameProgression, Quest, World

    options = GameOptions()
    options.kb = KnowledgeBase.default()  # else its rules are parsed again for each game, which takes 0.2 seconds
    maker, rooms = GameMaker(options), house["rooms"]
    made = {room: maker.new_room(room) for room in rooms}
    for a, b in permutations(rooms, 2):
        if back := {"east": "west", "south": "north"}.get(way := direction(rooms[a], rooms[b])):
            maker.connect(made[a].exits[way], made[b].exits[back])
    for thing, place in house["places"].items():
        made[thing] = maker.new(type="c" if thing in BOXES else "o", name=thing)
        if thing in BOXES:
            made[thing].add_property("closed")
        made[place].add(made[thing])
    maker.set_player(made[house["start"]])
    carried = {maker.new_fact("in", made[thing], maker.inventory) for thing in house["wanted"]}
    quest_game = Game(World.from_facts(maker.facts), quests=[Quest(win_events=[Event(conditions=carried)])])
    names = {entity.id: name for name, entity in made.items()}
    return GameProgression(quest_game), {**names, maker.player.id: "you", maker.inventory.id: "hand"}


class TextWorld(Environment):
    """Pays 1 when all wanted things are carried. A turn that changes nothing is a turn, but no action."""

    max_turns = 16
    max_observation_tokens = 32

    def reset(self, problem: Problem) -> str:
        self.game, self.names = game(problem.meta)
        self.look()
        self.before = self.facts
        return f"Take {' and '.join(problem.meta['wanted'])}. {self.view()}"

    def step(self, text: str) -> Step:
        command = " ".join(text.split())
        if command not in self.commands:
            return Step(f"Nothing happens. {self.view()}", state=self.state(), actions=[])
        self.game.update(self.commands[command])
        self.look()
        done = self.game.completed
        return Step(self.view(), done, float(done), self.state(), [command])

    def look(self) -> None:
        """Read the facts of the game, such as ("in", "coin", "box"), and the commands that change something."""
        facts = self.game.state.facts
        self.facts = {(fact.name, *(self.names[name] for name in fact.names)) for fact in facts}
        self.places = {fact[1]: fact[2] for fact in self.facts if fact[0] in ("at", "in")}
        actions = [action for action in self.game.valid_actions if action.added]
        self.commands = {action.format_command(self.names): action for action in actions}

    def state(self) -> str:
        """The room, and the facts that were not true at the beginning."""
        changed = sorted(" ".join(fact) for fact in self.facts - self.before if "you" not in fact)
        return ", ".join([self.places["you"], *changed])

    def view(self) -> str:
        """The observation: the things in the room and in its open boxes, and the exits."""
        room = self.places["you"]
        seen = [self.seen(thing) for thing in self.within(room) if thing != "you"]
        exits = sorted(command.removeprefix("go ") for command in self.commands if command.startswith("go "))
        return f"In {room}{': ' * bool(seen)}{', '.join(seen)}. Exits: {' '.join(exits)}."

    def seen(self, thing: str) -> str:
        """A thing by its name; a box as `closed box`, `open box` or `open box with coin and key`."""
        if thing not in BOXES:
            return thing
        if ("closed", thing) in self.facts:
            return f"closed {thing}"
        return " with ".join(filter(None, [f"open {thing}", " and ".join(self.within(thing))]))

    def within(self, place: str) -> list[str]:
        return sorted(thing for thing, location in self.places.items() if location == place)
