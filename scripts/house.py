"""How much of the library a reader has to follow: `python scripts/house.py`.

Prints the size of src/diver (files, lines, lines of code, rooms, floors, functions) and, by profiling them, the files
and functions that one training step, one `diver eval` and one call of `diver.advantages` pass through. A room is what
stands directly in src/diver; a floor is a step on the longest chain of rooms that import each other, imports in strings
("diver.x.y:name") included. Grading runs in other processes, which are not profiled.

Ends with status 1 if a number is more than 5 % above its budget in house.toml. A change that needs more raises the
budget there, and says why.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import inspect
import io
import json
import re
import statistics
import sys
import tempfile
import threading
import tokenize
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]
SOURCE, STUDIES = ROOT / "src" / "diver", ROOT / "studies"
NEIGHBOURS = ("grading", "rollouts", "pages", "sweep")
TOLERANCE = 1.05
IMPORT_PATH = re.compile(r"diver(\.\w+)+(\.|:)\w+")  # not "diver.methods", a group of entry points
RECIPE = """
[run]
folder = "run"
[model]
path = "countdown"
threads = 1
[sample]
group_size = 8
max_tokens = 40
max_prompt_tokens = 24
[train]
steps = 2
batch_size = 4
mini_batch_size = 2
[evaluate]
problems = 0
"""


def code_lines(path: Path) -> int:
    """Lines that hold code: not blank, not a comment, not a docstring."""
    text = path.read_text(encoding="utf-8")
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        for statement in getattr(node, "body", []) if isinstance(node, documented) else []:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                docstrings |= set(range(statement.lineno, (statement.end_lineno or 0) + 1))
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imported_rooms(tree: ast.AST) -> set[str]:
    """The rooms that a file imports, by statements and by strings."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names += [f"diver.{a.name}" for a in node.names] if node.module == "diver" else [node.module]
        elif isinstance(node, ast.Import):
            names += [a.name for a in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and IMPORT_PATH.fullmatch(node.value):
            names.append(node.value.partition(":")[0])
    return {name.split(".")[1] for name in names if name.startswith("diver.")}


def floors(graph: dict[str, set[str]]) -> tuple[int, list[str]]:
    """The longest chain of rooms, and the rooms that import each other in a circle (which count as one floor each)."""
    depth: dict[str, int] = {}
    circles: list[str] = []

    def visit(room: str, above: tuple[str, ...]) -> int:
        if room in above:
            circles.append(" -> ".join([*above[above.index(room) :], room]))
            return 0
        if room not in depth:
            depth[room] = 1 + max((visit(other, (*above, room)) for other in graph[room]), default=0)
        return depth[room]

    return max(visit(room, ()) for room in graph), circles


def only_raises(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether each statement of a function raises, or is an `if` or a loop whose statements raise."""
    statements = function.body[1:] if ast.get_docstring(function) else function.body

    def raises(statement: ast.stmt) -> bool:
        if isinstance(statement, ast.If | ast.For):
            return all(map(raises, [*statement.body, *statement.orelse]))
        return isinstance(statement, ast.Raise)

    return bool(statements) and all(map(raises, statements))


def toml_rows(path: Path) -> int:
    """Lines of a TOML file that are neither blank nor a comment."""
    return sum(line.strip()[:1] not in ("", "#") for line in path.read_text(encoding="utf-8").splitlines())


def studies() -> Iterator[Path]:
    """The files of studies/, without the copies that building the distribution leaves in build/."""
    return (path for path in STUDIES.rglob("*.py") if path.relative_to(STUDIES).parts[0] != "build")


def size() -> dict[str, Any]:
    files = sorted(SOURCE.rglob("*.py"))
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}
    graph: dict[str, set[str]] = {room_of(path): set() for path in files if path != SOURCE / "__init__.py"}
    for path, tree in trees.items():
        if path != SOURCE / "__init__.py":
            graph[room_of(path)] |= (imported_rooms(tree) & graph.keys()) - {room_of(path)}
    functions = [
        n for t in trees.values() for n in ast.walk(t) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    private = Counter(f.name for f in functions if f.name.startswith("_") and not f.name.startswith("__"))
    names = [
        n.id if isinstance(n, ast.Name) else n.attr
        for t in trees.values()
        for n in ast.walk(t)
        if isinstance(n, ast.Name | ast.Attribute)
    ]
    used = Counter(names)
    deepest, circles = floors(graph)
    text = [line for path in files for line in path.read_text(encoding="utf-8").splitlines()]
    code_of = Counter[str]()
    for path in files:
        code_of[room_of(path)] += code_lines(path)
    code = code_of.total()
    raises = sum(isinstance(n, ast.Raise) for t in trees.values() for n in ast.walk(t))
    return {
        "files": len(files),
        "lines": len(text),
        "lines of code": code,
        "lines of code of the trainer": code - sum(code_of[room] for room in NEIGHBOURS),
        **{f"lines of code of {room}": code_of[room] for room in sorted(graph) if room != "__main__"},
        "rows of packaged TOML": sum(map(toml_rows, SOURCE.rglob("*.toml"))),
        "lines of studies": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in studies()),
        "raise per 1,000 lines of code": round(1000 * raises / code, 1),
        "lines that are only a comment per 1,000": round(1000 * sum(t.lstrip()[:1] == "#" for t in text) / code, 1),
        "functions that only raise": sum(map(only_raises, functions)),
        "lines longer than 120": sum(len(line) > 120 for line in text),
        "rooms": len(graph),
        "floors": deepest,
        "circles between rooms": circles,
        "functions": len(functions),
        "lines of a function, median": statistics.median((f.end_lineno or 0) - f.lineno + 1 for f in functions),
        "private functions used once": sum(used[name] == 1 for name in private),
    }


@contextlib.contextmanager
def profiled(inside: Callable[[], bool] = lambda: True) -> Iterator[dict[str, set[str]]]:
    """File -> the functions of the library that were entered in this process while `inside` was true."""
    entered: dict[str, set[str]] = {}

    def profile(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if (
            event == "call"
            and code.co_flags & inspect.CO_OPTIMIZED  # not a module or the body of a class, which run at import
            and inside()
            and code.co_filename.startswith(f"{SOURCE}/")
            and not code.co_name.startswith("<")
        ):
            entered.setdefault(str(Path(code.co_filename).relative_to(SOURCE)), set()).add(code.co_qualname)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield entered
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def command(*words: str) -> None:
    from diver import cli

    sys.argv = ["diver", *words]
    told, reason = io.StringIO(), ""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(told):
        try:
            cli.main()
        except SystemExit as end:
            reason = (told.getvalue().strip() or f"exit {end.code}") if end.code else ""
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
    if reason:
        fail(f"diver {' '.join(words)}: {reason.splitlines()[-1]}")


def fail(reason: str) -> NoReturn:
    sys.exit(f"house.py: {reason}")


def training_step() -> dict[str, set[str]]:
    """The second step of `diver train`: what is made once is made."""
    from diver.train.trainer import Trainer

    Path("tiny.toml").write_text(RECIPE)
    step, original = [0], Trainer._step

    def counted(self: Trainer, number: int, *args: Any) -> dict[str, float]:
        step[0] = number
        try:
            return original(self, number, *args)
        finally:
            step[0] = 0

    Trainer._step = counted  # type: ignore[method-assign]
    with profiled(lambda: step[0] == 2) as entered:
        command("train", "tiny.toml")
    Trainer._step = original  # type: ignore[method-assign]
    return entered


def evaluation() -> dict[str, set[str]]:
    """`diver eval`, from the command to its table."""
    with profiled() as entered:
        command(
            "eval",
            "--model",
            "countdown",
            "--benchmarks",
            "countdown",
            "--limit",
            "4",
            "--samples",
            "8",
            "--out",
            "out",
        )
    return entered


def advantages() -> dict[str, set[str]]:
    import diver

    texts = ["one two", "one three", "four", "one two"]
    given = {"answer_ends": [7, 9, 4, 7], "truncated": [False] * 4}
    with profiled() as entered:
        diver.advantages(texts, [1, 1, 0, 0], [0] * 4, "diver-mix", **given)
    return entered


PATHS = {"one training step": training_step, "diver eval": evaluation, "diver.advantages": advantages}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="also name the files and functions of each path")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    arguments = parser.parse_args()
    target = arguments.json.resolve() if arguments.json else None
    imported = importlib.util.find_spec("diver")
    origin = Path(imported.origin).resolve().parent if imported and imported.origin else None
    if origin != SOURCE:
        fail(f"diver is imported from {origin}, and this measures {SOURCE}: set PYTHONPATH={SOURCE.parent}")
    found = size()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, path in PATHS.items():
            if not (entered := path()):
                fail(f"{name} passes no function of {SOURCE}")
            found[f"{name}: files"] = len(entered)
            found[f"{name}: functions"] = sum(map(len, entered.values()))
            if arguments.list:
                found[f"{name}: passed"] = {file: sorted(functions) for file, functions in sorted(entered.items())}
    print(json.dumps(found, indent=1))
    if target:
        target.write_text(json.dumps(found, indent=1) + "\n")
    if above := over_budget(found, tomllib.loads((ROOT / "scripts" / "house.toml").read_text(encoding="utf-8"))):
        fail("; ".join(above))


def over_budget(found: Mapping[str, Any], budgets: Mapping[str, float]) -> list[str]:
    """The numbers that are more than 5 % above their budget, in words."""
    return [f"{name}: {found[name]}, budget {most}" for name, most in budgets.items() if found[name] > TOLERANCE * most]


if __name__ == "__main__":
    main()
