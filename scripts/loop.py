"""The picture of the README: one group of four answers, its diversity and its advantages. Writes docs/loop.png.

Every number is computed by the package: outcomes by Countdown's grader, TD and advantages by `diver`.
"""

from pathlib import Path

import diver
from diver.core.figures import GREY, INK, drawing
from diver.core.types import Grade, Problem
from diver.grading import get_grader

NUMBERS, TARGET = (2, 3, 4), 20
ANSWERS = (
    (r"\( 2 + 3 = 5 \) \( 5 \times 4 = 20 \)", "2 + 3 = 5, then 5 × 4 = 20"),
    (r"\( 2 + 3 = 5 \) \( 5 \times 4 = 20 \)", "2 + 3 = 5, then 5 × 4 = 20"),
    (r"\( 4 \times 3 = 12 \) \( 12 + 2 = 14 \)", "4 × 3 = 12, then 12 + 2 = 14"),
    (r"\( 3 + 2 = 5 \) \( 4 \times 5 = 20 \)", "3 + 2 = 5, then 4 × 5 = 20"),
)
GREEN, RED, BLUE = "#1f8a5b", "#b3232f", "#2456c5"


def main() -> None:
    problem = Problem("p", "", str(TARGET), verifier="countdown", meta={"numbers": list(NUMBERS), "target": TARGET})
    grader = get_grader("countdown")
    texts = [f"{steps} \\boxed{{{TARGET}}}" for steps, _ in ANSWERS]
    outcomes = [float(grader.grade(text, problem) is Grade.CORRECT) for text in texts]
    diversity = diver.textual_diversity(texts)
    advantages = {m: diver.advantages(texts, outcomes, ["p"] * 4, method=m) for m in ("clip-higher", "diver-td")}
    with drawing(Path("docs/loop.png"), size=(9.6, 2.9)) as figure:
        axes = figure.add_subplot()
        axes.axis("off")
        axes.set_xlim(0, 100)
        axes.set_ylim(-0.6, 5.4)
        axes.text(
            0, 5.0, f"Use {NUMBERS[0]}, {NUMBERS[1]} and {NUMBERS[2]} to make {TARGET}.", color=INK, weight="bold"
        )
        heads = ((0, "1  sample a group"), (30, "2  verify"), (43, "3  measure diversity"))
        for x, head in (*heads, (68, "4  advantage: GRPO"), (88, "DIVER")):
            axes.text(x, 4.1, head, color=GREY, size=9)
        for i, (_, shown) in enumerate(ANSWERS):
            y = 3.2 - i
            axes.text(0, y, shown, color=INK, va="center")
            axes.text(30, y, "correct" if outcomes[i] else "wrong", color=GREEN if outcomes[i] else RED, va="center")
            axes.barh(y, 14 * diversity[i], left=43, height=0.42, color=BLUE, alpha=0.75)
            axes.text(43.7 + 14 * diversity[i], y, f"{diversity[i]:.2f}", color=INK, va="center", size=9)
            for x, values in ((74, advantages["clip-higher"]), (88, advantages["diver-td"])):
                colour = GREEN if values[i] > 0 else RED
                axes.text(x, y, f"{values[i]:+.2f}", color=colour, va="center", weight="bold")
    print([round(d, 3) for d in diversity], {m: a.round(3).tolist() for m, a in advantages.items()})


if __name__ == "__main__":
    main()
