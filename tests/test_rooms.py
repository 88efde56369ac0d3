"""A room imports only rooms listed above it, so that the code can be read from top to bottom.

An import path in a string ("diver.x.y" or "diver.x.y:name") counts as an import if x is a room.
"""

import ast
import os
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOMS = [
    "core", "grading", "diversity", "losses", "methods", "recipe", "tasks", "sample", "evaluate", "train",
    "integrations", "rollouts", "pages", "sweep", "cli", "__main__",
]  # fmt: skip
SOURCE = Path(__file__).parents[1] / "src" / "diver"
IMPORT_PATH = re.compile(r"diver(\.\w+)+(\.|:)\w+")  # not "diver.methods", a group of entry points
FILES = sorted(p for p in SOURCE.rglob("*.py") if p != SOURCE / "__init__.py")


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{a.name}" if node.module == "diver" else node.module for a in node.names]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and IMPORT_PATH.fullmatch(node.value):
            names = [node.value] if re.split("[.:]", node.value)[1] in ROOMS else []
        rooms |= {re.split("[.:]", n)[1] for n in names if n and n.startswith("diver.")}
    return rooms


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_up_only(path):
    room = room_of(path)
    assert room in ROOMS, f"{room} is not in the list of rooms"
    above = ROOMS[: ROOMS.index(room) + 1]
    assert imported_rooms(path) <= set(above), f"{room} may import {above}"


def test_no_torch_and_no_pandas_before_they_are_used():
    modules = [
        "diver",
        "diver.methods",
        "diver.grading",
        "diver.core.statistics",
        "diver.tasks.sources",
        "diver.rollouts.measure",
        "diver.pages.browse",
    ]
    code = (
        "import importlib, sys\n"
        "for module in sys.argv[1:]:\n"
        "    importlib.import_module(module)\n"
        "    print(module, *sorted({'torch', 'pandas', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, *modules], capture_output=True, text=True)
    assert done.stdout.splitlines() == modules, done.stderr


def imported_files(path: Path) -> set[Path]:
    """The files that a file imports, at its top or inside a function; not those for the type checker alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    checked = [
        node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    skipped = {inner for node in checked for inner in ast.walk(node)}
    files = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node not in skipped:
            files |= {file_of(f"{node.module}.{alias.name}") or file_of(node.module) for alias in node.names}
        elif isinstance(node, ast.Import):
            files |= {file_of(alias.name) for alias in node.names}
    return files - {None}


def file_of(module: str) -> Path | None:
    place = SOURCE.parent.joinpath(*module.split("."))
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)


@pytest.mark.parametrize(
    "room", [room for room in ROOMS[:-1] if room != "cli"]
)  # cli.train and cli.engines call each other
def test_no_imports_inside_a_room_form_a_circle(room):
    files = [path for path in FILES if room_of(path) == room]
    TopologicalSorter({path: imported_files(path) & {*files} - {path} for path in files}).prepare()


ALONE = """
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("diver.") and name.split(".")[1] not in ("core", "grading"):
            raise ImportError(name + " is refused")

import sys
sys.meta_path.insert(0, Refuse())
"""
OWN = """
from diver.core.environment import Environment

def is_five(response, problem):
    return "5" in response

class Echo(Environment):
    def reset(self, problem):
        return problem.question

    def step(self, text):
        return text, True, 1.0
"""
GRADE = """
from diver.core.types import DiverError, Problem
from diver.grading import get_grader, grade

halves = Problem("p", "Half of one?", "1/2")
lettered = Problem("p", "Which? A) iron B) gold", "B")
for name in ("math", "gsm8k", "math-verify"):
    print(name, *grade([(r"\\boxed{\\frac{2}{4}}", halves), (r"\\boxed{0.6}", halves)], grader=name))
print("choice", *grade([("The answer is B.", lettered), ("The answer is A.", lettered)], grader="choice"))
print("custom", *grade([("5", halves), ("6", halves)], grader="own:is_five"))
print("environment", get_grader("own:Echo").start(halves)[1])
try:
    get_grader("maze")
except DiverError:
    print("maze needs tasks")
"""


def test_grading_needs_no_other_room_than_core(tmp_path):
    """Neither here nor in a worker: every interpreter that is started reads sitecustomize."""
    (tmp_path / "sitecustomize.py").write_text(ALONE, encoding="utf-8")
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(SOURCE.parent)])}
    done = subprocess.run([sys.executable, "-c", GRADE], capture_output=True, text=True, env=environment)
    assert done.stdout.splitlines() == [
        "math correct wrong",
        "gsm8k correct wrong",
        "math-verify correct wrong",
        "choice correct wrong",
        "custom correct wrong",
        "environment Half of one?",
        "maze needs tasks",
    ], done.stderr
