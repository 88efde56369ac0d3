"""Sentences of README, docs and docstrings that are hard to read.

`python scripts/prose.py [FILE ...]` lists sentences of more than 30 words, with more than one interval, or that begin
with "Of". Without files it reads README.md, CONTRIBUTING.md, CHANGELOG.md, docs/ and the docstrings of src/diver.
Tables, code, headings and rows of links do not count; a code span is one word. A table in a docstring has two spaces
between its columns. A docstring includes the help text of a setting.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
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


def main() -> None:
    files = [Path(name) for name in sys.argv[1:]] or [*pages(), *(ROOT / "src" / "diver").rglob("*.py")]
    found = [f"{file}: {fault}: {sentence}" for file in files for fault, sentence in faults(file)]
    print("\n".join(found))
    print(f"{len(found)} sentences")
    sys.exit(bool(found))


def pages() -> list[Path]:
    """Pages that people write; docs/history.md and the pages of results are records."""
    docs = [p for p in sorted((ROOT / "docs").rglob("*.md")) if p.parent.name != "results" and p.name != "history.md"]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *docs]


def faults(file: Path) -> Iterator[tuple[str, str]]:
    """(what is wrong, the sentence) of a page or of the docstrings of a module."""
    text = file.read_text(encoding="utf-8")
    for part in docstrings(text) if file.suffix == ".py" else [text]:
        for sentence in sentences(part):
            if len(words := sentence.split()) > LONGEST:
                yield f"{len(words)} words", sentence
            if len(INTERVAL.findall(sentence)) > 1:
                yield "more than one interval", sentence
            if words and words[0] == "Of":
                yield 'begins with "Of"', sentence


def docstrings(source: str) -> Iterator[str]:
    """Every string that is a statement: of a module, a class, a function or a setting."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def sentences(text: str) -> Iterator[str]:
    """The sentences of Markdown or of a docstring, without code, tables and headings."""
    plain = LINK.sub(r"\1", SPAN.sub("`code`", SKIPPED.sub("", text)))
    for sentence in END.split(plain):
        if sentence.strip():
            yield " ".join(sentence.split())


if __name__ == "__main__":
    main()
