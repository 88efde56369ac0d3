"""`python -m diver_paper.again RECORDS PREFIX`: make runs of a finished study again, by `diver.sweep`."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import tomli_w

from diver.core.files import write_text
from diver.core.settings import Positional, PositiveInt, import_object
from diver.core.types import DiverError
from diver.recipe.flags import parse
from diver.recipe.recipe import flatten
from diver.sweep import records
from diver.sweep.page import write_page
from diver.sweep.plan import Plan, Setting
from diver.sweep.run import sweep
from diver_paper.runs import Record, with_paper_values

SHARED = ("model", "data", "evaluate")
"""Sections of the recipe that the settings of a sweep have in common; the other sections are those of a setting."""


@dataclasses.dataclass
class Arguments:
    """Make the runs again whose records have names that begin with PREFIX, and compare them by the page of a sweep.

        python -m diver_paper.again docs/results/records/verified-replay.jsonl.gz maze-final/ --jobs 2

    The settings and seeds are those of the records. The policies are sampled as `diver sweep` does, without weights
    between. The same command resumes.
    """

    file: Positional[Path | None] = None
    """The records of a study."""
    prefix: Positional[str] = ""
    """How the names of the records begin, such as maze-final/; those of a folder in it are others."""
    set: tuple[str, ...] = ()
    """Other values of the recipe, for all runs: train.steps=20 evaluate.problems=64."""
    temperatures: tuple[float, ...] = (0.6, 1.0)
    """Sampling temperatures of the evaluation."""
    samples: PositiveInt = 64
    """Responses to each problem."""
    jobs: PositiveInt = 1
    """Runs in parallel, one thread each."""
    out: Path = Path("runs/again")
    """The folder of the runs, records.jsonl.gz and the page, sweep.html."""


def make_plan(arguments: Arguments) -> Plan:
    """The sweep of the records.

    Raises:
        DiverError: No run has such a name, or the runs share no model, data or trainer, so they do not compare.
    """
    if arguments.file is None:
        raise DiverError("name the records of a study: docs/results/records/verified-replay.jsonl.gz")
    matching = {
        name: record
        for name, record in records.read(arguments.file).items()
        if name.startswith(arguments.prefix) and "/" not in name.removeprefix(arguments.prefix) and record["metrics"]
    }
    if not matching:
        raise DiverError(f"{arguments.file}: has no trained run whose name begins with {arguments.prefix!r}")
    base = next(iter(matching.values()))
    for name, record in matching.items():
        if any(of_setup(record)[key] != value for key, value in of_setup(base).items()):
            raise DiverError(f"{name}: has another model, data or trainer than the first run, so they do not compare")
    settings: dict[str, Setting] = {}
    for name, record in matching.items():
        label = name.rpartition("/")[2].rpartition("_seed")[0]
        entry = settings.get(
            label, Setting(label, (*setting_flags(record), *(f"--{word}" for word in arguments.set)), ())
        )
        settings[label] = dataclasses.replace(entry, seeds=(*entry.seeds, record["seed"]))
    seeds = set.intersection(*(set(setting.seeds) for setting in settings.values()))
    trainer = base.get("trainer")
    recipe = arguments.out / "recipe.toml"
    write_text(recipe, tomli_w.dumps({key: table for key, table in base["recipe"].items() if key in SHARED}))
    return Plan(
        recipe=recipe,
        settings=tuple(settings.values()),
        seeds=tuple(sorted(seeds)) or settings[next(iter(settings))].seeds,
        baseline=min((x for x in settings if x.startswith("clip-higher")), key=len, default=next(iter(settings))),
        alphas=(1.0,),
        temperatures=arguments.temperatures,
        ks=tuple(k for k in (1, 4, 16, 64) if k <= arguments.samples),
        samples=arguments.samples,
        out=arguments.out,
        records=arguments.out / "records.jsonl.gz",
        trainer=import_object(trainer, "trainer") if trainer else None,
    )


def of_setup(record: Record) -> dict[str, object]:
    """The settings that all runs of a sweep share."""
    return {section: record["recipe"].get(section) for section in SHARED} | {"trainer": record.get("trainer")}


def setting_flags(record: Record) -> tuple[str, ...]:
    """The settings in which the runs of a sweep differ, as flags."""
    sections = {key: value for key, value in record["recipe"].items() if key not in (*SHARED, "run")}
    return tuple(f"--{key}={_text(value)}" for key, value in flatten(with_paper_values(sections)).items())


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def main() -> None:
    arguments = parse(Arguments, "python -m diver_paper.again", sys.argv[1:])
    plan = make_plan(arguments)
    try:
        sweep(plan, arguments.jobs)
    finally:
        print(write_page(plan))


if __name__ == "__main__":
    try:
        main()
    except DiverError as error:
        sys.exit(f"again: {error}")
