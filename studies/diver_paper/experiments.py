"""The experiments (experiments.toml) and the paper's claims (claims.toml) as dataclasses."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, NamedTuple

Changes = Mapping[str, Mapping[str, Any]]
"""Nested tables over the regime (tiny.toml), or over a recipe of the paper."""
INITIAL = "before training"
"""The untrained policy, as a variant."""
KS = tuple(1 << i for i in range(11))


class Panel(NamedTuple):
    """A panel, a line for each variant. x: "step", or "k" (then `measure` is pass or distinct, at each of `ks`)."""

    title: str
    measure: str
    x: str = "step"
    ks: tuple[int, ...] = KS


class Claim(NamedTuple):
    """`more` has more of `measure` than `less`; claims.toml says what the others are."""

    text: str
    measure: str
    more: str
    less: str
    paper: str = ""
    beyond: tuple[str, str] | None = None
    within: float | None = None
    see: str = ""


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper; experiments.toml says what the fields are."""

    name: str
    title: str
    reproduces: str
    """The tables and figures, by the paper's numbers."""
    varied: str
    variants: Mapping[str, Changes]
    """Label -> changes, at tiny scale; empty where there is no tiny scale."""
    paper_variants: Mapping[str, Changes]
    seeds: int = 3
    baseline: str | Mapping[str, str] = "clip-higher"
    columns: tuple[str, ...] = ()
    panels: tuple[Panel, ...] = ()
    claims: tuple[Claim, ...] = ()
    recipes: tuple[str, ...] = ("qwen2.5-math-7b",)
    eval_options: tuple[str, ...] = ("--benchmarks aime24,aime25,amc,math500,minerva,olympiad,arc-c,gpqa,mmlu-pro",)
    records: str = "runs"
    """The prefix of the names of its records; experiments with the same prefix share runs."""
    temperatures: tuple[float, ...] = ()
    """Further temperatures at which the last checkpoint is evaluated, as the measures `... at T`; the claims are judged
    at the first."""
    public_models: bool = False
    then: str = ""
    at_tiny_scale: str = ""
    elsewhere: str = ""

    def baseline_of(self, variant: str) -> str | None:
        """The variant with which this one is compared; None for a baseline, or if it is compared with none."""
        if isinstance(self.baseline, str):
            return None if variant == self.baseline else self.baseline
        return self.baseline.get(variant)


def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads((files("diver_paper") / name).read_text(encoding="utf-8"))


def _variants(variants: list[str] | Mapping[str, Any]) -> dict[str, Changes]:
    """A list names methods; of a table, a string is the method of that name."""
    table = {name: name for name in variants} if isinstance(variants, list) else variants
    return {label: {"method": {"name": c}} if isinstance(c, str) else c for label, c in table.items()}


def _experiment(name: str, table: dict[str, Any]) -> Experiment:
    ks = tuple(table.pop("ks", KS))
    variants = _variants(table.pop("variants", []))
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    fields |= {
        "paper_variants": _variants(table["paper_variants"]) if "paper_variants" in table else variants,
        "panels": tuple(_panel(measure, ks) for measure in table.get("panels", ())),
        "claims": tuple(_claim(claim, table.get("temperatures")) for claim in _CLAIMS.get(name, ())),
    }
    return Experiment(name=name, variants=variants, **fields)


def _claim(claim: dict[str, Any], temperatures: list[float] | None) -> Claim:
    """A claim on samples is judged at the first of the experiment's own temperatures."""
    at = f" at {temperatures[0]:g}" if temperatures else ""
    return Claim(**{**claim, "measure": claim["measure"] + at})


def _panel(measure: str, ks: tuple[int, ...]) -> Panel:
    kind, against_k, _ = measure.partition("@k")
    return (
        Panel(_EXPERIMENTS["panels"][measure], kind, "k", ks)
        if against_k
        else Panel(_EXPERIMENTS["panels"][measure], measure)
    )


_EXPERIMENTS, _CLAIMS = _toml("experiments.toml"), _toml("claims.toml")
EXPERIMENTS: dict[str, Experiment] = {name: _experiment(name, e) for name, e in _EXPERIMENTS["experiments"].items()}
METHODS = tuple(EXPERIMENTS["main"].variants)
