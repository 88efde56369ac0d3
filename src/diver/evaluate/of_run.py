"""`diver eval RUN`: checkpoints and the base model of a run, evaluated on its held-out problems with its settings."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from diver.core.files import read_json, table, write_text
from diver.core.run_folder import by_step, run_name, runs_in
from diver.core.settings import no_file
from diver.core.types import DiverError, Problem
from diver.evaluate.comparison import digests, other_problems
from diver.evaluate.config import EvalConfig, parse_numbers
from diver.evaluate.evaluate import problem_digest
from diver.evaluate.front import FILE as FRONT
from diver.evaluate.front import Pair, evaluate_front, write_front
from diver.evaluate.run import named_model, run
from diver.grading import DEFAULT
from diver.grading.grading import AUTO, grader_for
from diver.recipe.data import Source
from diver.recipe.flags import checked
from diver.recipe.recipe import Recipe, flatten, make_recipe
from diver.recipe.run import contents
from diver.recipe.sections import Model
from diver.tasks.benchmarks import Benchmark, Loaded
from diver.tasks.splits import load
from diver.tasks.templates import prompted, template_for

SECTIONS = ("run", "model", "data", "sample", "evaluate", "verify")  # not the method: its code may be gone


class TrainedRun(NamedTuple):
    """A run folder, its recipe, its checkpoints by step, and the step of the checkpoint by which it was named, if
    any."""

    folder: Path
    recipe: Recipe
    checkpoints: Mapping[int, Path]
    step: int | None

    def model(self, step: int) -> Model:
        """The model after `step` steps; 0 is the base model."""
        base = self.recipe.model
        return dataclasses.replace(base, path=str(self.checkpoints[step]), revision=None) if step else base


def evaluate_run(config: EvalConfig) -> list[Path]:
    """Evaluate the base model and the chosen checkpoints of `config.run`; returns the results."""
    trained, config, benchmarks = _prepared(config)
    log = config.notes()
    results = []
    for step in [0, *_steps(config, trained)]:
        path = benchmarks and _by_the_run(trained, step, config, benchmarks[0])
        if path:
            log(f"after {step} steps: evaluated by the run, {path}")
        else:
            model = trained.model(step)
            out = (config.out or Path("runs/eval") / run_name(trained.folder)) / f"step_{step:04d}"
            log(f"after {step} steps: {model.path}")
            changed = dataclasses.replace(
                config, run=None, step=None, all_steps=False, model=model.path, out=out, format="markdown"
            )
            path = run(changed, log, benchmarks, model, trained.recipe.verify)
        results.append(path)
    return results


def front_of_run(config: EvalConfig) -> Path:
    """Evaluate the front of `config.run`, or of --base and --model; returns its front.json.

    The front of a run on its held-out problems is also copied to RUN/eval/front.json, which its page draws.
    """
    verification, benchmarks, folder = DEFAULT, None, None
    if config.run:
        trained, config, benchmarks = _prepared(config)
        step, verification = _steps(config, trained)[0], trained.recipe.verify
        base, model = trained.model(0), trained.model(step)
        folder = trained.folder / "eval" if benchmarks else None
        out = config.out or Path("runs/eval") / run_name(trained.folder) / f"front_{step:04d}"
    else:
        base, model = named_model(config.base), named_model(config.model)
        out = config.out or Path("runs/eval") / f"front_{Path(config.base).name}_{Path(config.model).name}"
    default = [] if config.temperature is None else [config.temperature]
    temperatures = parse_numbers("--temperatures", config.temperatures) or default
    pairs = [Pair(alpha, t) for alpha in parse_numbers("--alphas", config.alphas) for t in temperatures]
    front = evaluate_front(config, base, model, benchmarks, out, pairs, verification, config.notes())
    file = write_front(config, out, front, base.path, model.path)
    if folder:
        write_text(folder / FRONT, file.read_text(encoding="utf-8"))
    return file


def _prepared(config: EvalConfig) -> tuple[TrainedRun, EvalConfig, list[Loaded] | None]:
    """The run, the settings with those of the run where none are given, and its held-out problems, if they are used."""
    trained = read_run(config.run or Path())
    check_contents(trained, of_data=not config.benchmarks)
    eval_problems = held_out(trained.recipe, config.limit)
    config = with_settings_of(trained.recipe, config, eval_problems)
    return trained, config, None if config.benchmarks else [eval_problems]


def with_settings_of(recipe: Recipe, config: EvalConfig, eval_problems: Loaded) -> EvalConfig:
    """The settings, with those of a recipe and of its held-out problems where none are given."""
    given = config.temperature is not None or config.temperatures
    return dataclasses.replace(
        config,
        template=config.template or eval_problems.benchmark.template,
        temperature=config.temperature if given else recipe.evaluate.temperature,
        max_tokens=config.max_tokens or recipe.sample.max_tokens,
        stop_token_ids=config.stop_token_ids or recipe.sample.stop_token_ids,
        seed=recipe.run.seed if config.seed is None else config.seed,
    )


def read_run(path: Path) -> TrainedRun:
    """The run of a run folder, or of a checkpoint folder in it. DiverError if `path` is neither."""
    for folder in (path, *path.parents):
        file = folder / "config.json"
        if file.is_file() and (recipe := table(read_json(file), "recipe")):
            break
    else:
        hint = f"name a run in it: {runs[0]}" if (runs := runs_in(path)) else "a model is given by --model"
        problem = f"{path}: is neither a run folder nor a checkpoint in one" if path.exists() else no_file(path)
        raise DiverError(f"{problem}; {hint}")
    read = checked(file, lambda: make_recipe({name: recipe[name] for name in SECTIONS if name in recipe}))
    checkpoints = by_step(folder / "checkpoints")
    named = [step for step, p in checkpoints.items() if p.resolve() == path.resolve()]
    return TrainedRun(folder, read, checkpoints, named[0] if named else None)


def problems_of_run(path: Path) -> list[Problem]:
    """The training problems of the run whose folder contains `path`."""
    return load(read_run(path.resolve()).recipe.data, None, 0)[0]


def trained_model(path: Path) -> tuple[Model, Model]:
    """The base model of a run, and the checkpoint that `path` names, by default the last."""
    trained = read_run(path)
    check_contents(trained, of_data=False)
    return trained.model(0), trained.model(_steps(EvalConfig(run=path), trained)[0])


def _steps(config: EvalConfig, trained: TrainedRun) -> list[int]:
    """The steps of the chosen checkpoints: all, the named one, or the last."""
    steps = list(trained.checkpoints)
    if not steps:
        raise DiverError(f"{trained.folder}: has no checkpoints (checkpoints/step_NNNN)")
    if config.all_steps:
        return steps
    step = next(step for step in (config.step, trained.step, steps[-1]) if step is not None)
    if step not in steps:
        raise DiverError(f"--step {step}: {trained.folder} has checkpoints of the steps {', '.join(map(str, steps))}")
    return [step]


def check_contents(trained: TrainedRun, of_data: bool) -> None:
    """DiverError if the content of a file of the run has changed: the split or the base model would differ."""
    before = table(read_json(trained.folder / "config.json"), "content")
    now = {k: v for k, v in contents(trained.recipe).items() if of_data or k == "model.path"}
    if changed := [key for key, digest in now.items() if before.get(key, digest) != digest]:
        path = flatten(dataclasses.asdict(trained.recipe))[changed[0]]
        raise DiverError(
            f"{trained.folder}: the content of {changed[0]}, {path!r}, has changed since the training; restore it, or "
            "evaluate a checkpoint with --model and --benchmarks"
        )


def held_out(recipe: Recipe, limit: int | None = None) -> Loaded:
    """The held-out problems of the run as a benchmark, at most `limit`, without those that the run skipped."""
    from diver.sample.policy import load_configuration

    source: Source = recipe.evaluate.source or recipe.data
    train, problems, notes = load(recipe.data, recipe.evaluate.source, recipe.evaluate.problems)
    tokenizer = load_configuration(recipe.model).tokenizer
    template = template_for(recipe.data.template, problems or train, tokenizer)
    fitting = prompted(problems, template, tokenizer, recipe.sample.max_prompt_tokens)
    name = Path(source.path).stem
    samples = recipe.evaluate.num_samples
    benchmark = Benchmark(name=name, title=name, source=source, samples=samples, template=fitting.template)
    return Loaded(benchmark, tuple(fitting.problems[:limit]), notes, None)


def _by_the_run(trained: TrainedRun, step: int, config: EvalConfig, eval_problems: Loaded) -> Path | None:
    """The evaluation that the run made after `step`, if it has these settings."""
    path = trained.folder / "eval" / f"step_{step:04d}.json"
    if config.k or config.grader or config.generator != "transformers" or not path.exists():
        return None
    if config.template_variables not in ({}, trained.recipe.model.chat_template_kwargs):
        return None
    result = read_json(path)
    settings = {
        "template": config.template,
        "temperature": config.temperature,
        "max_tokens": config.max_tokens,
        "stop_token_ids": list(config.stop_token_ids) or None,
        "seed": config.seed,
        "step": step,
        "samples": config.samples or (1 if config.temperature == 0 else eval_problems.benchmark.samples),
        "graders": sorted({grader_for(p, AUTO).version for p in eval_problems.problems}),
    }
    stored, wanted = digests(result), {p.id: problem_digest(p) for p in eval_problems.problems}
    matches = all(result.get(key) == value for key, value in settings.items()) and [*stored] == [*wanted]
    return path if matches and not other_problems(stored, wanted) else None
