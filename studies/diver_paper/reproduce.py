"""`diver reproduce`: an experiment by its name, at laptop scale or at the paper's."""

from __future__ import annotations

import dataclasses
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from diver.core.files import write_text
from diver.core.settings import Positional, choose
from diver.core.types import DiverError
from diver.recipe.load import load_recipe
from diver.sweep.plan import UNTRAINED
from diver.sweep.run import make, record, sweep, untrained
from diver_paper import paper
from diver_paper.aggregate import Study
from diver_paper.custom_pages import BODIES
from diver_paper.experiments import EXPERIMENTS, INITIAL, Experiment
from diver_paper.figures import draw
from diver_paper.pages import comparison, page, seeds_note
from diver_paper.paper_table import write_paper_table
from diver_paper.plan import NEW, OLD, label_of, make_plan, runs_of, study
from diver_paper.runs import flags, records_file
from diver_paper.saved_responses import measure_by_models

SMOKE: Mapping[str, Mapping[str, Any]] = {
    "data": {"countdown": {"problems": 16}},
    "train": {"steps": 2, "batch_size": 4, "mini_batch_size": 2, "save_steps": 1, "save_total_limit": 2},
    "evaluate": {"problems": 4, "num_samples": 16, "num_samples_in_training": 4},
}

NO_MODELS: Mapping[str, str] = {}
RECIPES = Path("recipes/paper")


@dataclasses.dataclass
class Arguments:
    """Reproduce a table or figure of the paper by name: train, evaluate, compare, write tables and figures.

    Runs with a record in OUT/records are not made again, nor are those that come with a clone: `--out mine` makes all
    of them. The same command resumes a stopped study. --list shows what there is.
    """

    name: Positional[str | None] = None
    """Which experiment."""
    scale: Literal["tiny", "paper"] = "tiny"
    """tiny: Countdown and the bundled policy on a CPU; paper: print the commands that run it on verl."""
    list: bool = False
    """Show every experiment, what it reproduces, which of its runs are finished, and how long it takes."""
    seeds: int | None = None
    """How many seeds: 3 are 0, 1 and 2; by default the experiment's own number. The page is of all that are
    finished."""
    jobs: int = 1
    """Runs in parallel, one thread each."""
    results: tuple[str, ...] = ()
    """main: instead write paper.md and paper.tex, the paper's main table with the results of `diver eval`, each
    NAME=FOLDER with the name of a method or of a row."""
    out: Path | None = None
    """The folder of records, tables and figures; by default docs/results, with --results runs/paper."""
    work: Path | None = None
    """Where runs are made; may be deleted when they are finished. By default runs/tiny, or with --out the folder work
    in it."""
    embedding: str = ""
    """metric-validity: also measure the saved responses by this sentence-transformers model, a folder or a hub name;
    NAME=FOLDER gives the name that the page shows. The values are stored beside the page, and not measured again."""
    hidden_state: str = ""
    """metric-validity: the same by the hidden states of this causal language model."""
    smoke: bool = False
    """Only test that it works: two steps on few problems, in a folder that is deleted; with --out, records are kept
    there. For an experiment without a tiny scale, test that its recipes at the paper's scale can be made."""


def reproduce(arguments: Arguments) -> None:
    """Do what the arguments say."""
    out = arguments.out or Path("docs/results")
    if arguments.list:
        print(listing(out))
        return
    experiment, models = _checked(arguments)
    if arguments.scale == "paper":
        print(paper_commands(experiment))
    elif arguments.results:
        print(write_paper_table(_named(arguments.results), arguments.out or Path("runs/paper")))
    elif arguments.smoke:
        _smoke(experiment, arguments.out, models)
    elif not experiment.variants:
        raise DiverError(
            f"{experiment.name}: {experiment.at_tiny_scale}; --scale paper prints the commands at the paper's scale"
        )
    else:
        work = arguments.work or (out / "work" if arguments.out else Path("runs/tiny"))
        _run(experiment, arguments, out, work, models)


def _checked(arguments: Arguments) -> tuple[Experiment, dict[str, str]]:
    """The experiment, and the models that measure its saved responses."""
    if arguments.name is None:
        raise DiverError(f"name an experiment, or give --list; experiments are {', '.join(EXPERIMENTS)}")
    choose(arguments.name, [*EXPERIMENTS, "methods"], "experiment")
    if arguments.jobs < 1 or (arguments.seeds is not None and arguments.seeds < 1):
        raise DiverError("--jobs and --seeds must be at least 1")
    if arguments.results and arguments.name != "main":
        raise DiverError(f"--results: is for main, not for {arguments.name}")
    models = {"embedding": arguments.embedding, "hidden-state": arguments.hidden_state}
    models = {metric: model for metric, model in models.items() if model}
    if models and arguments.name != "metric-validity":
        raise DiverError(f"--embedding and --hidden-state: are for metric-validity, not for {arguments.name}")
    return EXPERIMENTS[arguments.name], models


def _named(results: tuple[str, ...]) -> dict[str, Path]:
    """NAME=FOLDER as row of the paper's table -> folder."""
    parts = {text: text.partition("=") for text in results}
    if wrong := [text for text, (name, _, folder) in parts.items() if not (name and folder)]:
        raise DiverError(f"--results {wrong[0]}: must be NAME=FOLDER, such as diver-mix=runs/eval/diver-mix")
    return {paper.NAMES.get(name, name): Path(folder) for name, _, folder in parts.values()}


def _run(experiment: Experiment, arguments: Arguments, out: Path, work: Path, models: Mapping[str, str]) -> None:
    """Make the runs that have no record yet, and the page."""
    seeds = arguments.seeds or experiment.seeds
    plan = make_plan(experiment, seeds, out, work)
    try:
        if plan:
            missing = sum(record(plan, s.label, seed) is None for s in plan.settings for seed in s.seeds)
            print(f"{experiment.name}: {missing} runs to make; --list has the core hours of all", flush=True)
            sweep(plan, arguments.jobs)
    except (DiverError, KeyboardInterrupt):
        partial = study(experiment, max(seeds, experiment.seeds), out)
        if partial.runs.keys() - {INITIAL}:  # a stopped study has a page of its finished runs, too
            write(partial, out)
        raise
    made = study(experiment, max(seeds, experiment.seeds), out)
    write(made, out, models)
    print(f"{seeds_note(made)}\n{out / experiment.name}-tiny.md")


def _smoke(experiment: Experiment, out: Path | None, models: Mapping[str, str]) -> None:
    """One seed of every variant, a few small steps, in this process."""
    if not experiment.variants:
        paper_commands(experiment)
        print(
            f"{experiment.name}: its recipes at the paper's scale can be made; at tiny scale {experiment.at_tiny_scale}"
        )
        return
    with tempfile.TemporaryDirectory() as folder:
        record_folder = out or Path(folder)
        plan = make_plan(experiment, 1, record_folder, Path(folder) / "work", SMOKE)
        if plan:
            if record(plan, UNTRAINED) is None:
                untrained(plan)
            for setting in plan.settings:
                if record(plan, setting.label, 0) is None:
                    make(plan, setting, 0)
        write(study(experiment, 1, record_folder, SMOKE), Path(folder), models)
    print(f"{experiment.name}: its runs, its page and its figure can be made")


def write(finished: Study, out: Path, models: Mapping[str, str] = NO_MODELS) -> None:
    """Write NAME-tiny.md and, if it has a figure, NAME-tiny.png. First `models` measure responses without values."""
    name = finished.experiment.name
    measure_by_models(finished, models, out)
    if name in BODIES:
        body = BODIES[name](finished, out)
    else:
        draw(finished, out / f"{name}-tiny.png")
        body = comparison(finished)
    write_text(out / f"{name}-tiny.md", page(finished, f"diver reproduce {name}", body))


def paper_commands(experiment: Experiment) -> str:
    """The commands of the experiment at the paper's scale; none of them has been run here.

    Raises:
        DiverError: The recipes are missing. They come with a clone and not with the package.
    """
    if not RECIPES.exists():
        raise DiverError(
            f"{RECIPES}: not found; --scale paper needs the recipes, so run it in a clone of the repository"
        )
    train, evaluate, results = [], [], []

    def add_evaluation(name: str, folder: str, model: str, template: str) -> None:
        out = f"runs/eval/{folder}"
        options = ["--model", model, "--template", template, "--generator", "vllm", "--out", out]
        for extra in experiment.eval_options:
            evaluate.append(shlex.join(["diver", "eval", *options, *shlex.split(extra)]))
        results.append(f"{name}={out}")

    for name in experiment.recipes:
        path = RECIPES / f"{name}.toml"
        recipe = load_recipe(path)
        add_evaluation("base", f"{name}_base", recipe.model.path, recipe.data.template)
        for changes in experiment.paper_variants.values():
            variant = label_of(changes)
            folder = f"runs/{name}_{variant}_seed0"
            train.append(
                shlex.join(
                    [
                        "diver",
                        "train",
                        str(path),
                        "--engine",
                        "verl",
                        *flags(changes),
                        "--run.folder",
                        folder,
                    ]
                )
            )
            model = f"{folder}/verl/checkpoints/global_step_{recipe.train.steps}/actor/huggingface"
            add_evaluation(variant, f"{name}_{variant}_seed0", model, recipe.data.template)
    for public in paper.MODELS if experiment.public_models else ():
        add_evaluation(public.row, public.row, public.path, public.template)
    lines = [
        f"# {experiment.title}: {experiment.reproduces} of the paper, on verl. Printed, not run: it needs the paper's "
        "8 GPUs.",
        *train,
        "# The base model, every trained one" + (", and models with public weights" * experiment.public_models),
        *evaluate,
    ]
    if experiment.then:
        lines += ["# All of them", experiment.then.format(results=" ".join(results))]
    return "\n".join(lines)


def listing(out: Path) -> str:
    """Every experiment: what it reproduces, how many of its runs are finished, how long all of them take."""
    rows = [["name", "reproduces", "tiny: finished", "core hours", "title"]]
    for experiment in EXPERIMENTS.values():
        planned = [*runs_of(experiment, experiment.seeds)]
        variant_runs = study(experiment, experiment.seeds, out).runs.values()
        records = [record for by_seed in variant_runs for record in by_seed.values()]
        seconds = [sum(r["cpu_seconds"].values()) for r in records if r["metrics"] and r["cpu_seconds"]["train"]]
        hours = f"{len(planned) * sum(seconds) / len(seconds) / 3600:.1f}" if seconds else "?"
        count = f"{len(records)} of {len(planned)} runs" if planned else "-"
        rows.append([experiment.name, experiment.reproduces, count, hours if planned else "-", experiment.title])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(
        [
            *lines,
            "",
            *(
                []
                if out.exists()
                else [
                    f"{out}: no such folder here; the finished runs come with a clone, where this command finds them."
                ]
            ),
            f"Runs are in {records_file(out, OLD)}, and new ones in {records_file(out, NEW).name}: runs/, which the "
            "experiments share, and runs-main/, those of main.",
            "Core hours are of all runs, estimated from the finished ones. At paper scale none has been run: --scale "
            "paper prints the commands.",
            "Beside these, `diver reproduce methods` compares exploration methods on testbeds (diver reproduce methods "
            "--help).",
        ]
    )
