"""How well the formula extractors of `diver.diversity.equational` read real rollouts, against a LaTeX tokenizer.

The judge is pylatexenc's walker. It reads LaTeX, and rollouts are prose: a per cent sign would be a comment and two
prices a formula, so both are escaped before the walker sees them. A `$` is taken for a price when a number or GSM8K's
`<<` follows it, unless a variable with an operator follows the number (`$2a + 4b$`); this was checked by reading the
rollouts. The column "as written" leaves prices alone, so there the walker itself is wrong about them.
Errors are formulas missed + invented, over the walker's distinct formulas of each response.

    python benchmarks/extraction.py
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pylatexenc.latexwalker import LatexMathNode, LatexNode, LatexWalker

from diver.core.formulas import EXTRACTORS, formulas

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("DIVER_DATA", ROOT / "../shared/data"))
FILES = ("rollouts_math_qwen_100x8", "rollouts_gsm8k_110x21models")
UNESCAPED = r"(?<!\\)((?:\\\\)*)"
PERCENT = re.compile(UNESCAPED + "%")
PRICE = re.compile(UNESCAPED + r"\$(?=\s?\.?\d|<<)(?!\d*[a-z]\s?[-+=])")


def walker_formulas(text: str, escape_prices: bool) -> set[str]:
    text = PERCENT.sub(r"\1\\%", text)
    if escape_prices:
        text = PRICE.sub(r"\1\\$", text)
    nodes, _, _ = LatexWalker(text, tolerant_parsing=True).get_latex_nodes()
    return {content(node) for node in math_nodes(nodes)} - {""}


def math_nodes(nodes: Sequence[LatexNode | None] | None) -> list[LatexMathNode]:
    """The outermost formulas: those inside a formula belong to it."""
    found = []
    for node in nodes or []:
        if isinstance(node, LatexMathNode):
            found.append(node)
        elif node is not None:
            found += math_nodes(getattr(node, "nodelist", None))
            arguments = getattr(node, "nodeargd", None)
            found += math_nodes(arguments.argnlist if arguments else None)
    return found


def content(node: LatexMathNode) -> str:
    opener, closer = node.delimiters
    return unescaped(node.latex_verbatim()[len(opener) : -len(closer)])


def unescaped(formula: str) -> str:
    return formula.replace("\\%", "%").replace("\\$", "$").strip()


def main() -> None:
    rows = []
    for name in FILES:
        with open(DATA / f"{name}.jsonl", encoding="utf-8") as lines:
            responses = [json.loads(line)["response"] for line in lines]
        for escape_prices in (False, True):
            count: Counter[Any] = Counter()
            for response in responses:
                true = walker_formulas(response, escape_prices)
                count["formulas"] += len(true)
                for extractor in EXTRACTORS:
                    ours = {unescaped(f) for f in formulas(response, extractor)} - {""}
                    count[extractor, "missed"] += len(true - ours)
                    count[extractor, "invented"] += len(ours - true)
            for extractor in EXTRACTORS:
                missed, invented = count[extractor, "missed"], count[extractor, "invented"]
                rows.append(
                    {
                        "rollouts": name,
                        "prices": "escaped" if escape_prices else "as written",
                        "extractor": extractor,
                        "responses": len(responses),
                        "formulas": count["formulas"],
                        "missed": missed,
                        "invented": invented,
                        "error": (missed + invented) / count["formulas"],
                    }
                )
    print(f"{'rollouts':30} {'prices':11} {'extractor':9} {'formulas':>8} {'missed':>7} {'invented':>8} {'error':>7}")
    for r in rows:
        print(
            f"{r['rollouts']:30} {r['prices']:11} {r['extractor']:9} {r['formulas']:8} "
            f"{r['missed']:7} {r['invented']:8} {r['error']:7.2%}"
        )
    out = ROOT / "benchmarks/results/extraction.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
