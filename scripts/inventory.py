"""What a change of structure or of prose must not lose:
`python scripts/inventory.py BEFORE AFTER`, each a commit or a folder.

In src/diver and studies: the message of every `raise`, the arXiv numbers and the equations of the paper that docstrings
and comments name, and the units and reasons that follow "because", "since" or "so that" there; in tests: every text
that a test expects in a message. Prints what BEFORE has and AFTER has not, and exits with 1 where something is lost.
`--list TREE` prints an inventory.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
ARXIV = re.compile(r"\b\d{4}\.\d{5}\b")
EQUATION = re.compile(
    r"\b[Ee]qs?\. ?\(?\d+(?:(?: and |, )\d+)*|\b[Ss]ection \d+(?:\.\d+)*|\b[Aa]ppendix [A-Z](?:\.\d+)*"
)
REASON = re.compile(r"\b(?:because|since|so that)\b[^.;:]*", re.IGNORECASE)


class Item(NamedTuple):
    kind: str
    text: str


def python_files(tree: str) -> Iterator[tuple[str, str]]:
    """(path, text) of the Python files of a folder or of a commit."""
    tops = ("src", "studies", "tests")
    if (Path(tree) / "pyproject.toml").exists():
        for top in tops:
            for path in sorted((Path(tree) / top).rglob("*.py")):
                yield str(path.relative_to(tree)), path.read_text(encoding="utf-8")
        return
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", tree, *tops], capture_output=True)
    if packed.returncode:
        sys.exit(f"{tree}: is neither a checkout nor a commit of {ROOT}")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        for member in archive:
            if member.name.endswith(".py") and (file := archive.extractfile(member)):
                yield member.name, file.read().decode("utf-8")


def template(node: ast.expr) -> str:
    """The text of a string, {} in the place of what is filled in; "" where it is no string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)  # type: ignore[misc]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return template(node.left) + template(node.right)
    return ""


def prose(text: str, tree: ast.AST) -> str:
    """All comments, docstrings and texts below a field, white space collapsed."""
    parts = [
        t.string.lstrip("# ")
        for t in tokenize.generate_tokens(io.StringIO(text).readline)
        if t.type == tokenize.COMMENT
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            parts.append(node.value.value)
    return re.sub(r"\s+", " ", " ".join(parts))


def inventory(tree: str) -> Counter[Item]:
    found: Counter[Item] = Counter()
    for path, text in python_files(tree):
        parsed = ast.parse(text)
        if path.startswith("tests/"):
            for node in ast.walk(parsed):
                for keyword in node.keywords if isinstance(node, ast.Call) else ():
                    if keyword.arg == "match" and (expected := template(keyword.value)):
                        found[Item("expected by a test", expected)] += 1
            continue
        for node in ast.walk(parsed):
            call = node.exc if isinstance(node, ast.Raise) else None
            for argument in call.args if isinstance(call, ast.Call) else ():
                if message := template(argument):
                    found[Item("refusal", message)] += 1
        words = prose(text, parsed)
        for kind, pattern in (("source", ARXIV), ("equation", EQUATION), ("reason", REASON)):
            found.update(Item(kind, match[0].strip()) for match in pattern.finditer(words))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="+", metavar="TREE", help="BEFORE and AFTER: a commit, or a checkout's folder")
    parser.add_argument("--list", action="store_true", help="print the inventory of one tree")
    parser.add_argument("--kinds", nargs="+", default=["refusal", "source", "equation", "reason", "expected by a test"])
    arguments = parser.parse_args()
    if arguments.list:
        for item, count in sorted(inventory(arguments.trees[0]).items()):
            if item.kind in arguments.kinds:
                print(f"{item.kind}\t{count}\t{item.text}")
        return
    if len(arguments.trees) != 2:
        parser.error("two trees are compared")
    before, after = map(inventory, arguments.trees)
    lost = sorted(item for item in before if item not in after and item.kind in arguments.kinds)
    for item in lost:
        near = get_close_matches(item.text, [other.text for other in after if other.kind == item.kind], 1, 0.8)
        print(f"{item.kind}: {item.text!r}" + (f"\n    now perhaps: {near[0]!r}" if near else ""))
    totals = Counter(item.kind for item in before)
    print(
        "; ".join(f"{sum(i.kind == kind for i in lost)} of {totals[kind]} {kind}" for kind in arguments.kinds) + " lost"
    )
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
