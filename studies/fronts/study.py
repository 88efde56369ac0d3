"""study.toml as a plan of each testbed."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from diver.recipe.recipe import flatten
from diver.sweep.plan import Plan, Setting

TESTBEDS = {"countdown": "Countdown", "maze": "Mazes"}
RECORDS = Path("records/fronts.jsonl.gz")
LONGER = ", equal time"
STEPS = 600  # of a setting whose longer run ends with `LONGER`


def load() -> dict[str, Any]:
    return tomllib.loads((files("fronts") / "study.toml").read_text(encoding="utf-8"))


def plan(testbed: str, out: Path = Path("docs/results"), work: Path = Path("runs/fronts")) -> Plan:
    """The sweep of a testbed, its records in `out` and its runs in `work`."""
    study = load()
    common: dict[str, Any] = {key: tuple(study[key]) for key in ("alphas", "temperatures", "seeds")}
    return Plan(
        recipe=Path(str(files("fronts") / f"{testbed}.toml")),
        settings=tuple(settings(study, testbed)),
        baseline=study["baseline"],
        ks=tuple(study["k"]),
        samples=study["samples"],
        selection=study["selection"],
        out=work / testbed,
        records=out / RECORDS,
        prefix=f"{testbed}/",
        **common,
    )


def settings(study: Mapping[str, Any], testbed: str) -> list[Setting]:
    """The settings of a testbed, each longer run before the shorter one that it contains."""
    found = []
    for label, changes in study[testbed].items():
        table = {**changes, "method": {"frame": "common", **changes["method"]}}
        flags = tuple(f"--{key}={value}" for key, value in flatten(table).items())
        for name in (label, label.removesuffix(LONGER)) if label.endswith(LONGER) else (label,):
            more = study["more_seeds"] if name in study["more_seeds_of"] else []
            seeds = (*study["seeds"], *more)
            shorter = {} if name == label else {"run": label, "step": STEPS}
            found.append(Setting(name, flags, seeds, **shorter))
    return found
