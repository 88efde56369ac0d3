"""study.toml as the plan of a sweep: a setting is a method with an engine."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from diver.recipe.recipe import flatten
from diver.sweep.plan import Plan, Setting

RECORDS = Path("records/trl-countdown.jsonl.gz")


def load() -> dict[str, Any]:
    return tomllib.loads((files("trl_countdown") / "study.toml").read_text(encoding="utf-8"))


def plan(out: Path = Path("docs/results"), work: Path = Path("runs/trl-countdown")) -> Plan:
    """The sweep, its records in `out` and its runs in `work`."""
    study = load()
    settings = tuple(
        Setting(label_of(method, engine), flags(study, method, engine), tuple(study["seeds"]))
        for method in study["settings"]
        for engine in study["engines"]
    )
    return Plan(
        recipe=Path(str(files("fronts") / f"{study['recipe']}.toml")),
        settings=settings,
        seeds=tuple(study["seeds"]),
        baseline=settings[0].label,
        alphas=(1.0,),
        temperatures=(study["temperature"],),
        ks=tuple(study["k"]),
        samples=study["samples"],
        selection=study["selection"],
        out=work,
        records=out / RECORDS,
    )


def label_of(method: str, engine: str) -> str:
    return f"{method}, {engine}"


def flags(study: dict[str, Any], method: str, engine: str) -> tuple[str, ...]:
    changes = flatten(study["settings"][method])
    changes |= {"method.frame": "common", "train.steps": study["steps"], "run.engine": study["engines"][engine]}
    return tuple(f"--{key}={value}" for key, value in changes.items())
