"""Sentences of pages, docstrings, comments and messages that are hard to read.

`python scripts/prose.py [FILE ...]` lists sentences of more than 30 words, with more than one interval, or that begin
with "Of". Without files it reads README.md, CONTRIBUTING.md, CHANGELOG.md, docs/ and src/diver. Most pages of results
are generated: change the page.py of their study.

`python scripts/prose.py --draw SEED` draws twenty sentences: five each of pages, docstrings, comments and messages.
Read each as someone who does not know the project. Rewrite what has to be decoded, and read the rest of its file.

Tables, code, headings and rows of links do not count; a code span is one word. A table in a docstring has two spaces
between its columns. A docstring includes the help text of a setting.
"""

from __future__ import annotations

import ast
import io
import random
import re
import sys
import tokenize
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 30  # words
INTERVAL = re.compile(r"\[[-+−]?\d[\d.,]*(?:,| to) ?[-+−]?\d[\d.]*\]")
SKIPPED = re.compile(
    r"```.*?^\s*```|<!--.*?-->|^\s*\|.*?$|^\s*#.*?$|^\s*!\[.*?$"
    r"|^\[[^\]]*\]\([^)]*\) · .*?(?=^\s*$|\Z)"  # links in a row
    r"|^( *)\S(?:[^\n]*\S)? {2,}\S[^\n]*(?:\n\1 +\S[^\n]*)*",  # columns, and what goes on below in the second
    re.MULTILINE | re.DOTALL,
)
SPAN = re.compile(r"``.+?``|`[^`]*`|\$[^$]*\$")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
END = re.compile(
    r"\n\s*(?:[-*]|\d+\.)\s|\n\s*[\w`]+(?: \([^)]*\))?: |\n\s*\n"  # items, arguments, paragraphs
    r"|(?<=[.!?:;])[\"')*]*\s+(?=[A-Z`\"'(*\[])"
    r"|(?<=[^.].[.!?])(?<!i\.e\.)(?<!e\.g\.)[\"')*]*\s+(?=[a-z|])"  # begins with a symbol: "lambda is 0.1."
)


MESSAGE = {"print", "warn", "write", "note"}  # calls whose strings are messages, as those of `raise` are


def main() -> None:
    if sys.argv[1:2] == ["--draw"]:
        return print(*draw(int(sys.argv[2])), sep="\n")
    files = [Path(name) for name in sys.argv[1:]] or [*pages(), *records(), *(ROOT / "src" / "diver").rglob("*.py")]
    found = [f"{file}: {fault}: {sentence}" for file in files for fault, sentence in faults(file)]
    print("\n".join(found))
    print(f"{len(found)} sentences")
    sys.exit(bool(found))


def pages() -> list[Path]:
    """Pages for users; the history and the pages of results are `records`."""
    docs = [p for p in sorted((ROOT / "docs").rglob("*.md")) if p.parent.name != "results" and p.name != "history.md"]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *docs]


def records() -> list[Path]:
    """The history, and the pages of results."""
    return [ROOT / "docs" / "history.md", *sorted((ROOT / "docs" / "results").glob("*.md"))]


def faults(file: Path) -> Iterator[tuple[str, str]]:
    """(what is wrong, the sentence) of a page, or of the docstrings, comments and messages of a module."""
    text = file.read_text(encoding="utf-8")
    kinds = ("docstring", "comment", "message") if file.suffix == ".py" else ("page",)
    for part in (part for kind in kinds for part in PARTS[kind](text)):
        for sentence in sentences(part):
            if len(words := sentence.split()) > LONGEST:
                yield f"{len(words)} words", sentence
            if len(INTERVAL.findall(sentence)) > 1:
                yield "more than one interval", sentence
            if words[0] in ("Of", "of"):
                yield 'begins with "Of"', sentence


def docstrings(source: str) -> Iterator[str]:
    """Every string that is a statement: of a module, a class, a function or a setting."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def draw(seed: int, of_each: int = 5) -> Iterator[str]:
    """Lines `FILE: kind: sentence`, drawn at random."""
    chance = random.Random(seed)
    code = sorted((ROOT / "src" / "diver").rglob("*.py"))
    for kind, files in (("page", pages()), ("docstring", code), ("comment", code), ("message", code)):
        found = [
            f"{file.relative_to(ROOT)}: {kind}: {sentence}"
            for file in files
            for part in PARTS[kind](file.read_text(encoding="utf-8"))
            for sentence in sentences(part, with_code=True)
            if len(sentence.split()) > 3
        ]
        yield from chance.sample(found, of_each)


def comments(source: str) -> Iterator[str]:
    """Comments, without headings such as `# ---- over seeds`; lines of comments in a row are one."""
    lines: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("# ----"):
            lines.append(token.string.removeprefix("#").strip())
        elif token.type != tokenize.NL and lines:
            yield " ".join(lines)
            lines = []


def messages(source: str) -> Iterator[str]:
    """Strings of errors, warnings and what is printed; a value in an f-string is `code`."""
    for node in ast.walk(ast.parse(source)):
        name = ""
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in MESSAGE or name.endswith(("Error", "InvalidRow")):
            yield from (text for argument in node.args if (text := _text(argument)))


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "`value`" for part in node.values)
    return str(node.value) if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


PARTS: dict[str, Callable[[str], Iterable[str]]] = {
    "page": lambda text: [text],
    "docstring": docstrings,
    "comment": comments,
    "message": messages,
}


def sentences(text: str, with_code: bool = False) -> Iterator[str]:
    """The sentences of Markdown or of a docstring, without blocks of code, tables and headings.

    Unless `with_code`, a span of code is replaced by one word.
    """
    plain = SKIPPED.sub("", text)
    plain = LINK.sub(r"\1", plain if with_code else SPAN.sub("`code`", plain))
    for sentence in END.split(plain):
        if sentence.strip():
            yield " ".join(sentence.split())


if __name__ == "__main__":
    main()
