"""`make check`: no test asserts on a clock, since how long something takes depends on the machine and
on what else runs.

A value flows from a clock if a clock returns it, or an expression, a variable or a function of the same file that uses
such a value. A clock may end a wait that hangs: a loop over a deadline is no assertion.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

CLOCKS = {
    *(f"time.{name}{unit}" for name in ("time", "perf_counter", "process_time", "monotonic", "thread_time")
      for unit in ("", "_ns")),
    *("os.times", "resource.getrusage", "timeit.timeit", "timeit.repeat", "timeit.default_timer"),
    *(f"datetime.{name}" for name in ("datetime.now", "datetime.utcnow", "datetime.today", "date.today")),
}  # fmt: skip
ATTRIBUTES = {"elapsed", "duration", "durations", "wall_s"}


class Module:
    """One file: what its names import, and which of its names hold values of a clock."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.imported: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self.imported |= {alias.asname or alias.name: alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                self.imported |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        self.functions = {node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        self.timers: set[str] = set()  # functions that return a value of a clock
        while found := {f.name for f in self.functions if f.name not in self.timers and self.returns_time(f)}:
            self.timers |= found

    def path(self, node: ast.expr) -> str:
        """ "time.monotonic" for what names it, however it was imported."""
        if isinstance(node, ast.Name):
            return self.imported.get(node.id, "")
        return f"{self.path(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""

    def is_time(self, node: ast.AST, names: set[str]) -> bool:
        for part in ast.walk(node):
            if isinstance(part, ast.Call):
                called = part.func
                if self.path(called) in CLOCKS or (isinstance(called, ast.Name) and called.id in self.timers):
                    return True
            elif (isinstance(part, ast.Name) and part.id in names) or (
                isinstance(part, ast.Attribute) and part.attr in ATTRIBUTES
            ):
                return True
        return False

    def names(self, function: ast.AST) -> set[str]:
        """The variables of a function that hold values of a clock."""
        names: set[str] = set()
        while True:
            before = len(names)
            for node in ast.walk(function):
                value = getattr(node, "value", None) or getattr(node, "iter", None)
                targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
                if isinstance(value, ast.expr) and self.is_time(value, names):
                    names |= {n.id for t in targets if t for n in ast.walk(t) if isinstance(n, ast.Name)}
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):  # times.append(time.time())
                    owner = node.func.value
                    if isinstance(owner, ast.Name) and any(self.is_time(a, names) for a in node.args):
                        names.add(owner.id)
            if len(names) == before:
                return names

    def returns_time(self, function: ast.AST) -> bool:
        """What it returns is of a clock, or it returns where a clock says so."""
        names = self.names(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Return | ast.Yield) and node.value and self.is_time(node.value, names):
                return True
            if isinstance(node, ast.If) and self.is_time(node.test, names):
                return any(isinstance(part, ast.Return) for part in ast.walk(node))
        return False

    def assertions(self) -> Iterator[int]:
        """The lines of the assertions on a clock."""
        for scope in (self.tree, *self.functions):
            names = self.names(scope) if scope is not self.tree else set()
            for node in ast.walk(scope):
                if isinstance(node, ast.Assert) and self.is_time(node.test, names):
                    yield node.lineno
                if isinstance(node, ast.If) and self.is_time(node.test, names):
                    fails = (
                        p for p in ast.walk(node) if isinstance(p, ast.Call) and self.path(p.func) == "pytest.fail"
                    )
                    yield from (p.lineno for p in fails)


def assertions(text: str) -> list[int]:
    return sorted({*Module(ast.parse(text)).assertions()})


def main(folders: list[str]) -> None:
    found = [
        f"{path}:{line}: a test asserts on a clock; count steps, or wait until something happens"
        for folder in folders
        for path in sorted(Path(folder).rglob("*.py"))
        for line in assertions(path.read_text())
    ]
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main(sys.argv[1:] or ["tests"])
