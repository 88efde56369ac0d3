"""study.toml as dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from diver.core.settings import merge, read, settings
from diver_paper.runs import read_toml

BASELINE = "clip-higher"
CHOICE_SEED = 100  # seed of the runs by which learning rates are chosen


@dataclass(frozen=True)
class Testbed:
    """A task with its regime: a recipe, chosen on clip-higher alone."""

    name: str
    title: str
    recipe: Mapping[str, Any]
    choice_steps: int
    """Steps of the runs by which learning rates are chosen."""
    rates_of: str
    """The testbed of these runs: itself, or a similar one."""
    note: str = ""
    """For the page."""


@dataclass(frozen=True)
class Variant:
    """A method with settings, in the common frame."""

    label: str
    method: Mapping[str, Any]
    rate_of: str | None = None
    """The variant whose learning rate it has. If none, its rate is chosen."""
    rate_factor: float = 1.0
    baseline: bool = False
    """Free: it needs no new method, so a method must surpass it."""
    frame: str = "common"
    ablation_of: str | None = None
    """The variant from which it differs by one change. It is compared with that one, too, and has no curve."""

    def changes(self, rate: float) -> dict[str, Any]:
        """The changes to the testbed's recipe; `rate` is that of `rate_of`, or its own."""
        return {
            "method": {"frame": self.frame, **self.method},
            "train": {"learning_rate": float(f"{rate * self.rate_factor:.6g}")},
        }


@dataclass(frozen=True)
class Stage:
    """Variants on a testbed, each with these seeds."""

    name: str
    testbed: str
    variants: tuple[str, ...]
    seeds: tuple[int, ...]
    appendix: bool = False
    """Whether the stage is only a table, on which no sentence rests."""
    confirms: bool = False
    """Whether the stage tests the selection of earlier stages on new problems or seeds. Recommendations rest on it."""


@settings
class Evaluation:
    """What every trained policy is evaluated on."""

    temperatures: tuple[float, ...]
    problems: int
    samples: int
    large_problems: int
    large_samples: int
    """Samples of each of `large_problems`, at temperature 1."""
    checkpoint_temperatures: tuple[float, ...]
    """Temperatures at which the checkpoints of a baseline are sampled, each on `problems`."""
    checkpoint_problems: int
    """Problems on which the checkpoints of other variants are sampled, at temperature 1 alone."""
    shown_problems: int
    """Problems whose solutions at every checkpoint the record keeps."""


@dataclass(frozen=True)
class Plan:
    """The study."""

    rates: tuple[float, ...]
    evaluation: Evaluation
    testbeds: Mapping[str, Testbed]
    variants: Mapping[str, Variant]
    stages: Mapping[str, Stage] = field(default_factory=dict)

    def regime(self, testbed: str) -> dict[str, Any]:
        """The recipe of a testbed as given."""
        return dict(self.testbeds[testbed].recipe)


@cache
def load_plan() -> Plan:
    return make_plan(read_toml("method_comparison", "study.toml"))


def make_plan(table: Mapping[str, Any]) -> Plan:
    testbeds: dict[str, Testbed] = {}
    for name, bed in table["testbeds"].items():
        similar = testbeds.get(bed.get("like"))
        recipe = merge(similar.recipe if similar else table["recipe"], bed["recipe"])
        steps = similar.choice_steps if similar else bed["choice_steps"]
        testbeds[name] = Testbed(
            name, bed["title"], recipe, steps, similar.name if similar else name, bed.get("note", "")
        )
    stages = {
        name: Stage(name, **{**stage, "variants": tuple(stage["variants"]), "seeds": tuple(stage["seeds"])})
        for name, stage in table["stages"].items()
    }
    labels = [*table["variants"], *(label for stage in stages.values() for label in stage.variants)]
    return Plan(
        rates=tuple(table["learning_rates"]),
        evaluation=read(Evaluation, table["evaluation"], "evaluation"),
        testbeds=testbeds,
        variants={label: _variant(label, dict(table["variants"].get(label, {}))) for label in labels},
        stages=stages,
    )


def _variant(label: str, given: dict[str, Any]) -> Variant:
    """A variant with its fields and its method. Without a table, the method is the one named `label`."""
    method = given.pop("method", {})
    return Variant(label, {"name": label, **method}, **given)
