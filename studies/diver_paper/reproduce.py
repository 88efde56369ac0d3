"""diver reproduce: an experiment by its name, at laptop scale or at the paper's."""

from __future__ import annotations

import dataclasses
import shlex
import tempfile
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from diver.config.load import load_recipe
from diver.io.files import write_text
from diver.settings import choose, merge
from diver.types import DiverError
from diver_paper.catalogue import EXPERIMENTS, Experiment
from diver_paper.claims import INITIAL
from diver_paper.kept import measure_by_models
from diver_paper.pictures import picture
from diver_paper.reading import Study, jobs, study
from diver_paper.special import BODIES
from diver_paper.store import Job, find, flags
from diver_paper.sweep import Places, sweep
from diver_paper.tables import comparison, page, rests_on
from diver_paper.work import carry_out

SMOKE: Mapping[str, Mapping[str, Any]] = {
    "data": {"countdown": {"problems": 16}},
    "train": {"steps": 2, "batch_size": 4, "mini_batch_size": 2, "save_steps": 1, "save_total_limit": 2},
    "evaluate": {"problems": 4, "num_samples": 16, "num_samples_in_training": 4},
}

NO_MODELS: Mapping[str, str] = {}
RECIPES = Path("recipes/paper")


@dataclasses.dataclass
class Arguments:
    """Reproduce a table or figure of the paper by name: train, evaluate, compare, write tables and pictures.

    Runs that have a record under OUT/runs are not made again, those that come with a clone neither: `--out mine` makes all
    of them. The same command goes on where a stopped study was. --list shows what there is.
    """

    name: Positional[str | None] = None
    """Which experiment."""
    scale: Literal["tiny", "paper"] = "tiny"
    """tiny: Countdown and the bundled policy on a CPU; paper: print the commands that run it on verl."""
    list: bool = False
    """Show every experiment, what it answers, what has been run of it, and how long it takes."""
    seeds: int | None = None
    """Make the runs of so many seeds, from 0; nothing means the experiment's own number. The page is of all that are there."""
    jobs: int = 1
    """Runs side by side, one thread each."""
    out: Path | None = None
    """Where records, tables and pictures are kept; nothing means docs/results."""
    work: Path | None = None
    """Where runs are made; may be deleted when they are done. Nothing means runs/tiny, or with --out the folder work in it."""
    embedding: str = ""
    """metric-validity: also measure the kept responses by this sentence-transformers model, a folder or a hub name; NAME=FOLDER
    gives the name that the page shows. What is measured is stored beside the page, and not measured again."""
    hidden_state: str = ""
    """metric-validity: the same by the hidden states of this causal language model."""
    smoke: bool = False
    """Only see that it works: two steps on few problems, in a folder that is deleted; with --out, records stay there. Of an
    experiment without a tiny scale, only that its recipes at the paper's scale can be made."""


def reproduce(arguments: Arguments, provenance: Mapping[str, Any]) -> None:
    """What the command does; `provenance` goes into every record."""
    out = arguments.out or Path("docs/results")
    if arguments.list:
        print(listing(out))
        return
    if arguments.name is None:
        raise DiverError(f"name an experiment, or give --list; experiments are {', '.join(EXPERIMENTS)}")
    choose(arguments.name, EXPERIMENTS, "experiment")
    if arguments.jobs < 1 or (arguments.seeds is not None and arguments.seeds < 1):
        raise DiverError("--jobs and --seeds must be at least 1")
    experiment = EXPERIMENTS[arguments.name]
    models = {"embedding": arguments.embedding, "hidden-state": arguments.hidden_state}
    models = {metric: told for metric, told in models.items() if told}
    if models and experiment.name != "metric-validity":
        raise DiverError(f"--embedding and --hidden-state: are of metric-validity, not of {experiment.name}")
    if arguments.scale == "paper":
        print(paper_commands(experiment))
        return
    if arguments.smoke:
        _smoke(experiment, arguments.out, models, provenance)
        return
    if not experiment.variants:
        raise DiverError(
            f"{experiment.name}: {experiment.tiny}; --scale paper prints the commands at the paper's scale"
        )
    work = arguments.work or (out / "work" if arguments.out else Path("runs/tiny"))
    regime, places, seeds = load_regime(), Places(out / "runs", work), arguments.seeds or experiment.seeds

    def known() -> Study:
        return study(experiment, max(seeds, experiment.seeds), regime, places)

    try:
        sweep([job for _, job in jobs(experiment, seeds)], regime, places, arguments.jobs, provenance)
    except (DiverError, KeyboardInterrupt):
        if (found := known()).runs.keys() - {INITIAL}:  # a study that was stopped has its page, too, of what there is
            write(found, out)
        raise
    found = known()
    write(found, out, models)
    print(f"{rests_on(found)}\n{out / experiment.name}-tiny.md")


def _smoke(experiment: Experiment, out: Path | None, models: Mapping[str, str], provenance: Mapping[str, Any]) -> None:
    """One seed of every variant, made to work little, in this process."""
    if not experiment.variants:
        paper_commands(experiment)
        print(f"{experiment.name}: its recipes at the paper's scale can be made; at tiny scale {experiment.tiny}")
        return
    regime = merge(load_regime(), SMOKE)
    with tempfile.TemporaryDirectory() as folder:
        places = Places((out or Path(folder)) / "runs", Path(folder) / "work")
        for _, job in jobs(experiment, 1):
            if find(places.records, job, regime) is None:
                carry_out(job, regime, places.work / job.name, places.records, provenance)
        write(study(experiment, 1, regime, places), Path(folder), models)
    print(f"{experiment.name}: its runs, its page and its picture can be made")


def write(found: Study, out: Path, models: Mapping[str, str] = NO_MODELS) -> None:
    """NAME-tiny.md and, where it has one, NAME-tiny.png; `models` measure first what they have not measured yet."""
    name = found.experiment.name
    measure_by_models(found, models, out)
    if name in BODIES:
        body = BODIES[name](found, out)
    else:
        picture(found, out / f"{name}-tiny.png")
        body = comparison(found)
    write_text(out / f"{name}-tiny.md", page(found, f"diver reproduce {name}", body))


def paper_commands(experiment: Experiment) -> str:
    """The commands of the experiment at the paper's scale; none of them has been run here.

    DiverError where the recipes are not, which come with a clone and not with the package.
    """
    if not RECIPES.exists():
        raise DiverError(
            f"{RECIPES}: is not here; --scale paper needs the recipes, so run it in a clone of the repository"
        )
    variants = experiment.variants if experiment.paper is None else experiment.paper
    train, evaluate, results = [], [], []
    for name in experiment.recipes:
        for changes in (None, *variants.values()):
            label = f"{name}_{'base' if changes is None else Job(changes, 0).name}"
            recipe, told = RECIPES / f"{name}.toml", flags(changes or {})
            settings = load_recipe(recipe, told)
            model = settings.model.path
            if changes is not None:
                train.append(shlex.join(["diver", "verl", str(recipe), *told, "--run.folder", f"runs/{label}"]))
                model = f"runs/{label}/verl/checkpoints/global_step_{settings.train.steps}/actor/huggingface"
            out = f"runs/eval/{label}"
            asked = ["--model", model, "--template", settings.data.template, "--generator", "vllm", "--out", out]
            evaluate.append(shlex.join(["diver", "eval", *asked, *shlex.split(experiment.asked)]))
            results.append(f"{label.removeprefix(name + '_')}={out}")
    lines = [
        f"# {experiment.title}: {experiment.answers} of the paper, on verl. Printed, not run: it needs the paper's 8 GPUs.",
        *train,
        "# The model at the start and every trained one",
        *evaluate,
    ]
    if experiment.afterwards:
        lines += ["# All of them", experiment.afterwards.format(results=" ".join(results))]
    return "\n".join(lines)


def listing(out: Path) -> str:
    """Every experiment: what it answers, how many of its runs are there, how long the others and all of them take."""
    regime = load_regime()
    rows = []
    for experiment in EXPERIMENTS.values():
        made = [job for _, job in jobs(experiment, experiment.seeds)]
        records = [find(out / "runs", job, regime) for job in made]
        known = [sum(r["cpu_seconds"].values()) for r in records if r and r["metrics"] and r["cpu_seconds"]["train"]]
        hours = f"{len(made) * sum(known) / len(known) / 3600:.1f}" if known else "?"
        there = f"{sum(r is not None for r in records)} of {len(made)} runs" if made else "-"
        rows.append([experiment.name, experiment.answers, there, hours if made else "-", experiment.title])
    rows.insert(0, ["name", "answers", "tiny: run", "core hours", "what it is"])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(
        [
            *lines,
            "",
            f"Runs are in {out / 'runs'} and shared: dynamics, pass-at-k and others read those of main. Core hours are of all",
            "runs, by the time that the finished ones took. At paper scale none has been run: --scale paper prints the commands.",
        ]
    )


def load_regime() -> dict[str, Any]:
    """tiny.toml, the regime of every experiment at tiny scale."""
    return tomllib.loads((files("diver_paper") / "tiny.toml").read_text(encoding="utf-8"))
