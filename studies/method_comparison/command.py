"""`diver reproduce methods`: the comparison, stage by stage, resumed where it was stopped."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from diver.cli.train import parse_seeds
from diver.core.settings import choose, merge
from diver.core.types import DiverError
from diver.recipe.recipe import make_recipe
from diver.recipe.run import own_code
from diver.train.parallel import run_all
from diver_paper.job import study_recipe
from diver_paper.records import Records
from diver_paper.sweep import Paths, waiting
from method_comparison.page import write_page
from method_comparison.plan import CHOICE_SEED, Plan, Stage, StudyJob, Variant, load_plan
from method_comparison.rates import choice_regime, choices, chosen, tried
from method_comparison.results import Part, Results

NO_STAGE = ("none",)
UNTRAINED = StudyJob({}, 0, trained=False)
SMOKE: Mapping[str, Any] = {
    "data": {"countdown": {"problems": 64}},
    "train": {"steps": 2, "batch_size": 4, "mini_batch_size": 2, "save_steps": 1},
}
SMOKE_EVALUATION: Mapping[str, Any] = {
    "temperatures": (1.0, 0.6, 0.0),
    "problems": 8,
    "samples": 16,
    "large_problems": 4,
    "large_samples": 80,
    "checkpoint_problems": 4,
}


@dataclasses.dataclass
class Arguments:
    """Compare exploration methods on testbeds that are not solved at the start: train, evaluate, write the page.

    Runs with a record in OUT/records/methods.jsonl.gz are not made again; the same command resumes a stopped study. The
    learning rate of each variant is chosen first, by runs of its own.
    """

    stage: tuple[str, ...] = ()
    """Which stages of study.toml; by default all, in order. None of them, `--stage none`, only writes the page."""
    seeds: tuple[str, ...] = ()
    """Other seeds than those of the stages, such as 0..4 or 0,3,7."""
    jobs: int = 1
    """Runs in parallel, one thread each."""
    add: tuple[str, ...] = ()
    """Your own method, my_package:MyMethod, in addition to those of each stage."""
    only: tuple[str, ...] = ()
    """Only these variants of the stages."""
    out: Path = Path("docs/results")
    """The folder of the page, and of the records, records/methods.jsonl.gz."""
    work: Path = Path("runs/methods")
    """Where runs are made; may be deleted when they are finished."""
    smoke: bool = False
    """Only test that it works: two steps on few problems, in a folder that is deleted unless a run fails; with --out,
    records and page are kept there."""

    @property
    def other_seeds(self) -> tuple[int, ...]:
        """--seeds as numbers, in the form of `diver train --seeds` or as several words."""
        return tuple(parse_seeds(",".join(self.seeds))) if self.seeds else ()

    def stages(self, plan: Plan) -> Iterable[str]:
        """Those that the runs, or with `--stage none` the finished ones, are of."""
        return plan.stages if self.stage in ((), NO_STAGE) else self.stage


def reproduce(arguments: Arguments, provenance: Mapping[str, Any]) -> None:
    """Do what the arguments say; `provenance` goes into every record."""
    if arguments.jobs < 1:
        raise DiverError("--jobs must be at least 1")
    plan = _with_added(load_plan(), arguments)
    stages = _chosen(plan, arguments)
    if not arguments.smoke:
        print(_run(arguments, plan, stages, provenance))
        return
    folder, kept = Path(tempfile.mkdtemp()), arguments.out != Arguments.out
    out = arguments.out if kept else folder
    page = _run(dataclasses.replace(arguments, out=out, work=folder / "work"), _smaller(plan), stages, provenance)
    shutil.rmtree(folder)  # only now: where a run fails, the error names its log
    print(page if kept else "methods: its runs, its page and its figures can be made; --out FOLDER keeps them")


def _smaller(plan: Plan) -> Plan:
    testbeds = {
        name: dataclasses.replace(bed, recipe=merge(bed.recipe, SMOKE), choice_steps=1)
        for name, bed in plan.testbeds.items()
    }
    evaluation = dataclasses.replace(plan.evaluation, **SMOKE_EVALUATION)
    return dataclasses.replace(plan, testbeds=testbeds, evaluation=evaluation, rates=plan.rates[:2])


def _with_added(plan: Plan, arguments: Arguments) -> Plan:
    added = {
        name: Variant(name, {"name": name}, own_code=own_code(make_recipe({"method": {"name": name}})))
        for name in arguments.add
    }
    return dataclasses.replace(plan, variants={**plan.variants, **added})


def _chosen(plan: Plan, arguments: Arguments) -> list[Stage]:
    """The stages to run, with the variants and seeds that the arguments leave or give them."""
    for name in arguments.only:
        choose(name, plan.variants, "variant")
    for name in arguments.stages(plan):
        choose(name, plan.stages, "stage")
    stages = []
    for name in () if arguments.stage == NO_STAGE else arguments.stages(plan):
        stage = plan.stages[name]
        labels = [label for label in (*stage.variants, *arguments.add) if label in (arguments.only or (label,))]
        stages.append(dataclasses.replace(stage, variants=tuple(labels), seeds=arguments.other_seeds or stage.seeds))
    return stages


def _run(arguments: Arguments, plan: Plan, stages: Iterable[Stage], provenance: Mapping[str, Any]) -> Path:
    """Make the runs, and the page of what is finished, of a stopped study, too; returns the page's path."""
    try:
        for stage in stages:
            run_stage(plan, stage, arguments, provenance)
    finally:
        results = read_results(plan, arguments)
        page = write_page(plan, results, arguments.out) if any(found.runs for found in results) else None
    if page is None:
        raise DiverError(
            f"{Records.of(arguments.out, 'methods').file}: no run of these stages, variants and seeds is finished, so "
            "there is no page"
        )
    return page


def _paths(arguments: Arguments, testbed: str) -> Paths:
    return Paths(Records.of(arguments.out, "methods", f"{testbed}/"), arguments.work / testbed)


def run_stage(plan: Plan, stage: Stage, arguments: Arguments, provenance: Mapping[str, Any]) -> None:
    """The runs that choose the learning rates, then those of the stage, seed by seed, so that what is stopped has whole
    seeds."""
    from method_comparison.worker import run as worker  # and with it torch, which the page does not need

    variants = {label: plan.variants[label] for label in stage.variants}
    paths, regime = _paths(arguments, stage.testbed), plan.regime(stage.testbed)
    for variant in variants.values():
        study_recipe(StudyJob(variant.changes(plan.rates[0]), CHOICE_SEED).recipe(regime))  # a wrong one fails here

    chosen_by, choice = _of_rates(plan, arguments, stage.testbed), choice_regime(plan, stage.testbed)
    unevaluated = {"evaluation": None, "baseline": False}
    tried_here = choices(plan, variants.values())
    run_all(waiting(tried_here, worker, choice, chosen_by, provenance, unevaluated), chosen_by.work, arguments.jobs)
    rates = chosen(plan, stage.testbed, plan.variants, chosen_by)
    jobs = [(UNTRAINED, plan.made())] + [
        (StudyJob(variant.changes(rates[label]), seed), plan.made(variant))
        for seed in stage.seeds
        for label, variant in variants.items()
    ]
    runs = [run for job, made in jobs for run in waiting([job], worker, regime, paths, provenance, made)]
    run_all(runs, paths.work, arguments.jobs)


def _of_rates(plan: Plan, arguments: Arguments, testbed: str) -> Paths:
    paths = _paths(arguments, plan.testbeds[testbed].rates_of)
    return Paths(paths.records._replace(prefix=f"{paths.records.prefix}rates/"), paths.work / "rates")


def read_results(plan: Plan, arguments: Arguments) -> list[Results]:
    """What is finished: a part for the stages that share a testbed and seeds, and one for other seeds which --seeds
    gives to a stage.

    The seeds on which a method was found good are so never among those on which that is tested.
    """
    parts: dict[Part, dict[str, None]] = {}
    given, asked = arguments.other_seeds, {*arguments.stages(plan)}
    for name, stage in plan.stages.items():
        other = name in asked and not {*given} <= {*stage.seeds}
        for seeds in (stage.seeds, *([given] if other else [])):
            labels = dict.fromkeys((*stage.variants, *arguments.add))
            parts.setdefault(Part(stage.testbed, seeds, stage.appendix), {}).update(labels)
    return [_results(plan, part, labels, arguments) for part, labels in parts.items()]


def _results(plan: Plan, part: Part, labels: Iterable[str], arguments: Arguments) -> Results:
    testbed, regime, variants = (
        part.testbed,
        plan.regime(part.testbed),
        {label: plan.variants[label] for label in labels},
    )
    paths, of_rates = _paths(arguments, testbed), _of_rates(plan, arguments, testbed)
    rates = chosen(plan, testbed, variants, of_rates)
    runs: dict[str, dict[int, Mapping[str, Any]]] = {}
    for label, rate in rates.items():
        for seed in part.seeds:
            job = StudyJob(variants[label].changes(rate), seed)
            made = plan.made(variants[label])
            if (record := paths.records.find(job, regime, made)) is not None:
                runs.setdefault(label, {})[seed] = record
    choosing = {label: tried(plan, testbed, variants[label], of_rates) for label in rates}
    return Results(plan, part, runs, paths.records.find(UNTRAINED, regime, plan.made()), rates, choosing)
