"""Code that a change of prose or of names changed.

`python scripts/same_code.py OLD NEW` compares the syntax trees of every file in src and studies between two commits.
Docstrings and messages do not count. A message is the text of an f-string, or a string in `raise`, `print` or `warn`.
Nor do the names of local variables: two functions are equal if one name of the first stands for one name of the second.
The exit status is 0 if all trees are equal, and 1 with the lines that differ.
"""

from __future__ import annotations

import ast
import difflib
import subprocess
import sys
from collections.abc import Iterator

SAYS = {"print", "warn"}  # calls whose strings are messages
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
BINDING = (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)


def main() -> None:
    old, new = sys.argv[1:]
    lines = [line for path in changed(old, new) for line in differences(old, new, path)]
    print("\n".join([*lines, f"{sum(line[0] in '+-' for line in lines)} lines differ"]))
    sys.exit(bool(lines))


def changed(old: str, new: str) -> list[str]:
    return git("diff", "--name-only", "--no-renames", old, new, "--", "src/*.py", "studies/*.py").splitlines()


def differences(old: str, new: str, path: str) -> Iterator[str]:
    """The path, then the lines that differ, with - and +; nothing if the code is equal."""
    before, after = (code(source(commit, path)) for commit in (old, new))
    lines = [line for line in difflib.unified_diff(before, after, n=0, lineterm="") if not line.startswith("@@")]
    if lines:
        yield from [path, *lines[2:]]  # the first two name the files


def code(text: str) -> list[str]:
    """The lines of a file as Python writes its syntax tree, without docstrings, messages and names of locals."""
    tree = WithoutProse().visit(ast.parse(text))
    for scope in scopes(tree):
        number_locals(scope)
    return ast.unparse(tree).splitlines()


def scopes(tree: ast.AST) -> Iterator[ast.AST]:
    """The outermost functions and comprehensions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (*FUNCTIONS, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            yield node
        else:
            yield from scopes(node)


def number_locals(scope: ast.AST) -> None:
    """Name local variables by the order of their first use. Parameters keep their names: a caller may give them."""
    nodes = [node for node in ast.walk(scope) if node is not scope]
    functions = [node for node in (scope, *nodes) if isinstance(node, FUNCTIONS)]
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    stored |= {node.name for node in nodes if isinstance(node, (*BINDING, *FUNCTIONS[:2])) and node.name}
    stored |= {a.arg for f in functions if isinstance(f, ast.Lambda) for a in f.args.args}
    kept = {node.arg for f in functions if not isinstance(f, ast.Lambda) for node in ast.walk(f.args) if is_arg(node)}
    kept |= {name for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    numbers: dict[str, str] = {}
    for node in nodes:
        field = "id" if isinstance(node, ast.Name) else "arg" if is_arg(node) else "name"
        name = getattr(node, field, None)
        if name in stored - kept and not isinstance(node, ast.alias):
            setattr(node, field, numbers.setdefault(name, f"local_{len(numbers)}"))


def is_arg(node: ast.AST) -> bool:
    return isinstance(node, ast.arg)


def source(commit: str, path: str) -> str:
    """The text of a file at a commit; empty where the commit has no such file."""
    return git("show", f"{commit}:{path}") if git("ls-tree", "--name-only", commit, "--", path) else ""


class WithoutProse(ast.NodeTransformer):
    """Empties docstrings and messages."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return silent(node) if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return silent(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        return silent(node) if name in SAYS else self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """Only the values of an f-string remain; a string in one of them is no message."""
        node.values = [self.visit(part) for part in node.values if not isinstance(part, ast.Constant)]
        return node


def silent(tree: ast.AST) -> ast.AST:
    """The same tree with empty strings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            node.values = [part for part in node.values if not isinstance(part, ast.Constant)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return tree


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
