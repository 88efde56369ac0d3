"""The picture of the README: its group of four responses, their diversity and advantages. Writes docs/loop.png.

The group is that of the README's Python. Every number is computed by the package.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np

import diver
from diver.core.figures import GREY, INK, drawing
from diver.methods import method_named
from diver.methods.diver import Diver

ROOT = Path(__file__).resolve().parents[1]
GREEN, RED, BLUE = "#1f8a5b", "#b3232f", "#2456c5"


def main() -> None:
    names: dict[str, Any] = {}
    exec(re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)[0], names)
    texts, outcomes, ids = (names[name] for name in ("responses", "outcomes", "group_ids"))
    method = method_named("diver-mix")
    assert isinstance(method, Diver)
    clipped = [
        np.minimum(measured(texts), method.shaping.clip_max)
        for measured in (diver.textual_diversity, diver.equational_diversity)
    ]
    diversity = np.mean(clipped, axis=0)
    advantages = {m: diver.advantages(texts, outcomes, ids, m) for m in ("clip-higher", "diver-mix")}
    with drawing(ROOT / "docs" / "loop.png", size=(9.6, 2.6)) as figure:
        axes = figure.add_subplot()
        axes.axis("off")
        axes.set_xlim(0, 100)
        axes.set_ylim(-0.6, 4.4)
        heads = ((0, "1  sample a group"), (32, "2  verify"), (45, "3  diversity (TD and ED)"))
        for x, head in (*heads, (68, "4  advantage: clip-higher"), (88, "diver-mix")):
            axes.text(x, 4.1, head, color=GREY, size=9)
        for i, text in enumerate(texts):
            y = 3.2 - i
            shown = re.sub(r"\\boxed\{(\w+)\}", r"\1", text).replace("$", "").replace("*", "×")
            axes.text(0, y, shown, color=INK, va="center")
            axes.text(32, y, "correct" if outcomes[i] else "wrong", color=GREEN if outcomes[i] else RED, va="center")
            axes.barh(y, 14 * diversity[i], left=45, height=0.42, color=BLUE, alpha=0.75)
            axes.text(45.7 + 14 * diversity[i], y, f"{diversity[i]:.2f}", color=INK, va="center", size=9)
            for x, values in ((74, advantages["clip-higher"]), (88, advantages["diver-mix"])):
                colour = GREEN if values[i] > 0 else RED
                axes.text(x, y, f"{values[i]:+.2f}", color=colour, va="center", weight="bold")
    print(diversity.round(3).tolist(), {m: a.round(3).tolist() for m, a in advantages.items()})


if __name__ == "__main__":
    main()
