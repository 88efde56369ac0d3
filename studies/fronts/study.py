"""The protocols study.toml, recent_methods.toml and language_model.toml as a plan of each testbed."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from diver.recipe.recipe import flatten
from diver.sweep import records
from diver.sweep.plan import Plan, Setting
from diver.sweep.records import Record

TESTBEDS = {"countdown": "Countdown", "maze": "Mazes", "gsm8k": "SmolLM2-135M on GSM8K"}
RECORDS = {
    "study": Path("records/fronts.jsonl.gz"),
    "recent_methods": Path("records/recent-methods.jsonl.gz"),
    "language_model": Path("records/language-model.jsonl.gz"),
}
LONGER = ", equal time"
STEPS = 600  # steps of a setting that also has a longer run, whose label ends with `LONGER`


def load(name: str = "study") -> dict[str, Any]:
    return tomllib.loads((files("fronts") / f"{name}.toml").read_text(encoding="utf-8"))


def testbeds(name: str = "study") -> dict[str, str]:
    """The testbeds of a protocol with their titles."""
    protocol = load(name)
    return {testbed: title for testbed, title in TESTBEDS.items() if testbed in protocol}


def plan(testbed: str, out: Path = Path("docs/results"), work: Path = Path("runs/fronts"), name: str = "study") -> Plan:
    """The sweep of a testbed, its records in `out` and its runs in `work`."""
    fronts, study = load(), load() | load(name)
    common: dict[str, Any] = {key: tuple(study[key]) for key in ("alphas", "temperatures", "seeds")}
    base: list[Setting] = []
    if name == "recent_methods":  # its baseline is that of the fronts, whose runs are not made again
        changes: dict[str, Any] = {"run": "", "step": None, "seeds": common["seeds"]}
        base = [dataclasses.replace(s, **changes) for s in settings(fronts, testbed) if s.label == fronts["baseline"]]
    return Plan(
        recipe=Path(str(files("fronts") / f"{testbed}.toml")),
        settings=(*base, *settings(study, testbed)),
        baseline=study["baseline"],
        ks=tuple(study["k"]),
        samples=study["samples"],
        selection=study["selection"],
        out=work / testbed,
        records=out / RECORDS[name],
        prefix=f"{testbed}/",
        **common,
    )


def known(plan: Plan, out: Path) -> dict[str, Record]:
    """The records of a plan by name, and those of the fronts, with which `recent_methods` is compared.

    The latter without their CPU time, since other machines made them.
    """
    by_name, fronts = dict[str, Record](records.read(plan.records)), out / RECORDS["study"]
    if plan.records != out / RECORDS["recent_methods"]:
        return by_name
    return {name: {**record, "cpu_seconds": None} for name, record in records.read(fronts).items()} | by_name


def settings(study: Mapping[str, Any], testbed: str) -> list[Setting]:
    """The settings of a testbed, each longer run before the shorter one that it contains."""
    planned = []
    for label, changes in study[testbed].items():
        table = {**changes, "method": {"frame": "common", **changes["method"]}}
        flags = tuple(f"--{key}={value}" for key, value in flatten(table).items())
        for name in (label, label.removesuffix(LONGER)) if label.endswith(LONGER) else (label,):
            more_seeds = study["more_seeds"] if name in study["more_seeds_of"] else []
            seeds = (*study["seeds"], *more_seeds)
            shorter = {} if name == label else {"run": label, "step": STEPS}
            planned.append(Setting(name, flags, seeds, **shorter))
    return planned
