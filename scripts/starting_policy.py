"""Make a bundled policy: `python scripts/starting_policy.py NAME OUT`.

A word-level Llama of about 0.9 M parameters is taught responses to problems that are not held out. The example is never
the best response to its problem: for Countdown, random numbers and random true steps, and the target is whatever came
out. The policy so learns the form and what a step may be, and only a little of how to hit a target: that is what
reinforcement learning is then for. How long each is taught decides how much is left to learn, so some stop in the
middle of the schedule.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import text_game as textworld
from diver.core.seeds import is_held_out
from diver.recipe.data import HOUSES, LEVELS, MAZES
from diver.tasks import countdown, maze, maze_cells

Example = Callable[[random.Random], tuple[str, str]]


class Course(NamedTuple):
    """What a policy is taught: `words` beside the special ones, the regular expression of a word,
    and (prompt, response)."""

    words: Sequence[str]
    word: str
    example: Example
    steps: int
    batch: int
    until: int = 0
    """The step at which it stops; 0: the last."""
    positions: int = 96
    phrases: Mapping[str, str] = {}
    """Sentences of every prompt -> the word that stands for them."""


def derivation(levels: Sequence[str], rng: random.Random) -> tuple[str, str]:
    """A Countdown problem of one of the levels, and the derivation by which its target was found."""
    while True:
        numbers, steps = countdown.draw(LEVELS[rng.choice(levels)], rng)
        target = steps[-1].result
        if not is_held_out(countdown.key(numbers, target)):
            return countdown.question(numbers, target), countdown.response(steps)


COUNTDOWN_WORDS = [
    *("Use", "and", "to", "make", ",", ".", r"\(", r"\)", "=", r"\boxed{", "}"),
    *countdown.OPERATIONS,
    *map(str, range(countdown.LARGEST_RESULT + 1)),
]
COUNTDOWN_WORD = r"\\[a-z]+\{?|\\.|[A-Za-z]+|\d+|[^\s]"


def walk(levels: Sequence[str], rng: random.Random) -> tuple[str, str]:
    """A maze of one of the levels, and a random walk through it with its loops left out."""
    while True:
        level = MAZES[rng.choice(levels)]
        start, goal, cells = maze.draw(level, rng)
        key, problem = maze.problem(start, goal, cells, level.size, "")
        if not is_held_out(key):
            return problem.prompt, maze.response(maze.wander(start, goal, cells, rng))


CELLS = [maze.name_of((x, y)) for x in range(9) for y in range(9)]
MAZE_WORDS = ["Go", "from", "to", "Walls", ":", ".", r"\boxed{", "}", *CELLS]
MAZE_WORD = r"\\boxed\{|[a-z]\d|[A-Za-z]+|[^\s]"


def cell_by_cell(levels: Sequence[str], rng: random.Random) -> tuple[str, str]:
    """A maze of one of the levels, and a random walk as its trajectory: a direction, the end of the turn, what is seen
    then, and so on."""
    while True:
        level = MAZES[rng.choice(levels)]
        start, goal, cells = maze.draw(level, rng)
        way = maze.wander(start, goal, cells, rng)
        held_out = is_held_out(maze.problem(start, goal, cells, level.size, "")[0])
        if len(way) <= maze_cells.MazeCells.max_turns and not held_out:
            break
    moves = [maze_cells.DIRECTIONS[maze.neighbours(a).index(b)] for a, b in pairwise(way)]
    seen = [maze_cells.view(cell, cells) for cell in way[1:-1]]
    turns = [f"{move} <eos> {view}" for move, view in zip(moves, seen, strict=False)]
    return maze_cells.question(start, goal, cells), " ".join([*turns, moves[-1]])


MAZE_CELLS_WORDS = ["Goal", "At", "There", "is", "no", "way", ":", ".", *maze_cells.DIRECTIONS, *CELLS]


RUMMAGING = 12
"""Maximum number of turns of an example, fewer than the environment allows: a long one makes its batch slow."""


def rummage(levels: Sequence[str], rng: random.Random) -> tuple[str, str]:
    """A house of one of the levels, and the trajectory of who walks about, opens boxes and takes what is wanted."""
    environment = textworld.TextWorld()
    while True:
        key, problem = textworld.problem(textworld.draw(HOUSES[rng.choice(levels)], rng), "")
        if is_held_out(key):
            continue
        question, turns = environment.reset(problem), []
        for _ in range(RUMMAGING):
            step = environment.step(command := tempting([*environment.commands], problem.meta["wanted"], rng))
            if step.done:
                return question, " ".join([*turns, command])
            turns.append(f"{command} <eos> {step.observation}")


def tempting(commands: Sequence[str], wanted: Sequence[str], rng: random.Random) -> str:
    """A random command: to take what is wanted is likelier than to open a box, and that is likelier than to go."""
    words = [command.split() for command in commands]
    weights = [{"go": 1, "open": 2, "take": 3 * (thing in wanted)}.get(verb, 0) for verb, thing, *_ in words]
    return rng.choices(commands, weights)[0]


TEXTWORLD_WORDS = [
    *("Take", "and", "In", "with", "Exits", "Nothing", "happens", ":", ",", "."),
    *("go", "north", "south", "east", "west", "open", "closed", "close", "take", "from", "drop", "insert", "into"),
    *(*textworld.ROOMS, *textworld.BOXES, *textworld.THINGS),
]
SIZES = {"min_num_vertices": 8, "max_num_vertices": 12, "edge_probability": 0.4, "num_colors": 3}


def coloring(rng: random.Random) -> tuple[str, str]:
    """A graph of reasoning-gym, and a random one of its colourings: vertex by vertex,
    after those of its earlier neighbours.

    Written without the neighbours, colours were learned as if there were no edges.
    """
    from diver.tasks.reasoning_gym import dataset_of

    while True:
        entry = dataset_of("graph_color", SIZES, rng.getrandbits(31), 1)[0]
        if not is_held_out(entry["question"]):
            break
    puzzle = entry["metadata"]["puzzle"]
    colors = random_coloring(puzzle, {}, rng)
    steps = []
    for vertex in puzzle["vertices"]:
        earlier = sorted({u for edge in puzzle["edges"] if vertex in edge for u in edge if u < vertex})
        steps.append(" ".join(f"{u}={colors[u]}" for u in (*earlier, vertex)) + ";")
    return entry["question"], f"{' '.join(steps)} <answer> {json.dumps(colors)} </answer>"


def random_coloring(puzzle: Mapping[str, Any], colors: dict[int, int], rng: random.Random) -> dict[int, int]:
    """One that goes on from `colors`, vertex by vertex; empty if there is none."""
    vertex = len(colors)
    if vertex == len(puzzle["vertices"]):
        return colors
    taken = {colors.get(a if b == vertex else b) for a, b in puzzle["edges"] if vertex in (a, b)}
    free = [color for color in puzzle["color_options"] if color not in taken]
    tried = (random_coloring(puzzle, {**colors, vertex: color}, rng) for color in rng.sample(free, len(free)))
    return next(filter(None, tried), {})


GRAPH_WORDS = ["Color", "Answer", "Vertices:", "Edges:", "Possible", "colors:", *"[]{}", "<answer>", "</answer>"]
GRAPH_WORDS += [form.format(n) for n in range(13) for form in ("({},", "{}),", "{})", "{},", "{}", '"{}":')]
GRAPH_WORDS += [f"{n}={color}{end}" for n in range(12) for color in (1, 2, 3) for end in ("", ";")]
GRAPH_WORD = r'<[^>]*>|\d+=\d+;?|"\d+":|\(\d+,|\d+\),?|\d+,?|[A-Za-z]+:?|[^\s]'
GRAPH_PHRASES = {
    "Please provide a coloring for this graph such that every vertex is not connected to a vertex of the same color. "
    "The graph has these properties:": "Color",
    'Return your solution as a JSON map of vertices to colors. (For example: {"0": 1, "1": 2, "2": 3}.)': "Answer",
}
HARD = ["three", "four", "four-large", "five"]

COURSES = {
    "countdown": Course(COUNTDOWN_WORDS, COUNTDOWN_WORD, partial(derivation, ["three", "four"]), 2000, 128),
    "countdown-hard": Course(COUNTDOWN_WORDS, COUNTDOWN_WORD, partial(derivation, HARD), 1500, 64),
    "maze": Course(MAZE_WORDS, MAZE_WORD, partial(walk, ["seven", "nine", "nine-dense"]), 1000, 64, until=275),
    "maze-cells": Course(
        MAZE_CELLS_WORDS, MAZE_WORD, partial(cell_by_cell, ["five", "seven"]), 1000, 32, until=200, positions=256
    ),
    "textworld": Course(
        TEXTWORLD_WORDS, r"[A-Za-z]+|[^\s]", partial(rummage, [*HOUSES]), 1000, 16, until=200, positions=256
    ),
    "graph-coloring": Course(GRAPH_WORDS, GRAPH_WORD, coloring, 1000, 64, 325, 192, GRAPH_PHRASES),
}


def tokenizer(course: Course) -> PreTrainedTokenizerFast:
    """One token a word; decoding puts a space between any two."""
    words = ["<pad>", "<eos>", "<unk>", *course.words]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    if course.phrases:
        inner.normalizer = normalizers.Sequence([normalizers.Replace(*pair) for pair in course.phrases.items()])
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(course.word), "isolated")]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=course.positions,
        model_input_names=["input_ids", "attention_mask"],
    )


def example(course: Course, rng: random.Random, tok: PreTrainedTokenizerFast) -> tuple[list[int], int]:
    """Token ids of a problem with a response, and the length of the prompt."""
    question, response = course.example(rng)
    prompt = tok(question)["input_ids"]
    return prompt + tok(response)["input_ids"] + [tok.eos_token_id], len(prompt)


def batch(
    course: Course, rng: random.Random, tok: PreTrainedTokenizerFast, size: int
) -> tuple[torch.Tensor, torch.Tensor]:
    rows = [example(course, rng, tok) for _ in range(size)]
    width = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([r + [tok.pad_token_id] * (width - len(r)) for r, _ in rows])
    position = torch.arange(width)
    taught = torch.stack([(position >= p) & (position < len(r)) for r, p in rows])
    return ids, ids.masked_fill(~taught, -100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=COURSES)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, help="default: the course's")
    parser.add_argument("--until", type=int, help="stop at this step of the schedule; default: the course's")
    parser.add_argument("--batch", type=int, help="default: the course's")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save-every", type=int, default=0, help="also save OUT-NNNN every so many steps")
    args = parser.parse_args()
    course = COURSES[args.name]
    steps, size = args.steps or course.steps, args.batch or course.batch
    torch.manual_seed(args.seed)
    rng, tok = random.Random(args.seed), tokenizer(course)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tok),
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=course.positions,
            tie_word_embeddings=True,
            pad_token_id=tok.pad_token_id,
            bos_token_id=None,
            eos_token_id=tok.eos_token_id,
        )
    )
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters, {len(tok)} words")
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.98), weight_decay=0.01)

    def rate(step: int) -> float:
        return min(1, step / 100) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / steps)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    start = time.time()
    last = args.until or args.steps or course.until or steps
    for step in range(1, last + 1):
        ids, labels = batch(course, rng, tok, size)
        loss = model(input_ids=ids, attention_mask=ids != tok.pad_token_id, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            print(f"step {step}  loss {loss.item():.3f}  {time.time() - start:.0f} s", flush=True)
        if args.save_every and step % args.save_every == 0:
            save(model, tok, args.out.with_name(f"{args.out.name}-{step:04d}"))
    save(model, tok, args.out)


def save(model: LlamaForCausalLM, tok: PreTrainedTokenizerFast, folder: Path) -> None:
    model.save_pretrained(folder)
    tok.save_pretrained(folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"  # a name that transformers 4 knows, too
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


if __name__ == "__main__":
    main()
