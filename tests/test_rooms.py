"""A room imports only rooms listed above it, so that the code can be read from top to bottom.

An import path in a string ("diver.x.y" or "diver.x.y:name") counts as an import if x is a room.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOMS = [
    "core", "grading", "diversity", "losses", "methods", "recipe", "tasks", "sample", "evaluate", "train",
    "integrations", "rollouts", "pages", "sweep", "cli", "__main__",
]  # fmt: skip
SOURCE = Path(__file__).parents[1] / "src" / "diver"
IMPORT_PATH = re.compile(r"diver(\.\w+)+(:\w+)?")
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
