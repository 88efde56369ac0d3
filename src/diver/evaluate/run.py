"""`diver eval`: evaluate a model on benchmarks in a folder, from which it can be resumed."""

import dataclasses
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from diver.core.extras import provenance, require
from diver.core.files import to_json, write_text
from diver.core.seeds import digest
from diver.core.types import DiverError
from diver.evaluate.config import EvalConfig, parse_ks
from diver.evaluate.evaluate import Task, evaluate
from diver.evaluate.grade import grader_for
from diver.evaluate.results import ResultFolder, benchmark_table, read_results, table_of, write_curves
from diver.evaluate.samplers import SamplerHandle, sampler, sampler_metadata
from diver.recipe.sections import Model
from diver.tasks.benchmarks import Loaded, load
from diver.tasks.templates import TEMPLATES, check_used, prompted
from diver.tasks.verify import DEFAULT, Verification


def run(
    config: EvalConfig,
    log: Callable[[str], Any] = print,
    benchmarks: Sequence[Loaded] | None = None,
    policy: Model | None = None,
    verification: Verification = DEFAULT,
) -> Path:
    """Do what is missing of an evaluation; returns its folder.

    `benchmarks` stand for those of the settings, and `policy` says more of the model than --model.
    """
    require("scipy", "matplotlib")  # the table and the curves at the end need them
    show, log = log, config.notes(log)
    generator = sampler(config, policy)
    tasks = make_tasks(config, generator, benchmarks)
    out = config.out or Path("runs/eval") / generator.model.replace("/", "--")
    with ResultFolder(out, generator.model, provenance()) as folder:
        results = {}
        for task in tasks:
            if config.skip_long_prompts:
                task = _skip_long_prompts(task, generator, config.extra_options.get("max_model_len"))
            for note in task.info["source"]["notes"]:
                log(note)
            for note in sorted({grader_for(problem, task.grader).note for problem in task.problems} - {""}):
                log(note)
            prompting = f"{task.name}: template {task.template!r}, temperature {task.temperature}"
            log(f"{prompting}, up to {task.max_tokens:,} tokens a response")
            with (
                folder.log("generations", task.name) as generations,
                folder.log("grades", f"{task.name}.{task.grader}") as grades,
            ):
                results[task.name] = evaluate(
                    task, generator.open, generations, grades, verification=verification, log=log
                )
        file = out / "results.json"
        earlier = read_results(file)["benchmarks"] if file.exists() else {}
        every = {**earlier, **results}
        titles = Counter(result["title"] for result in every.values())
        every = {name: {**r, "title": name if titles[r["title"]] > 1 else r["title"]} for name, r in every.items()}
        write_text(file, to_json({"model": generator.model, "benchmarks": every}, indent=1) + "\n")
        table, text = table_of(every), benchmark_table(every)
        write_text(out / "table.md", text)
        written = [*config.write(table, out), *write_curves(every, *config.figure_paths(out, "pass_at_k"))]
    config.show(table, f"\n{text}", show)
    for name, result in results.items():
        log(f"{name}: " + ", ".join(f"{count} {grade}" for grade, count in result["grades"].items()))
        if result["unscored"]:
            log(f"{name}: {result['unscored']} responses are unscored: left out, not counted as wrong")
    log(f"results: {', '.join([f'{out}/results.json', 'table.md', *(path.name for path in written)])}")
    return out


def make_tasks(config: EvalConfig, model: SamplerHandle, benchmarks: Sequence[Loaded] | None = None) -> list[Task]:
    """`benchmarks`, by default those of the settings, for a model; DiverError for whatever cannot be evaluated."""
    names = [name for part in (config.benchmarks or "countdown").split(",") if (name := part.strip())]
    loaded = [load(name, config.seed or 0, config.limit) for name in names] if benchmarks is None else benchmarks
    tasks = [_task(config, benchmark, model) for benchmark in loaded]
    if not tasks:
        raise DiverError("--benchmarks: names none")
    if repeated := [name for name, n in Counter(task.name for task in tasks).items() if n > 1]:
        raise DiverError(f"--benchmarks: {repeated[0]!r} is there twice")
    return tasks


def _task(config: EvalConfig, loaded: Loaded, model: SamplerHandle) -> Task:
    if not loaded.problems:
        raise DiverError(f"{loaded.benchmark.name}: no problems are left")
    flags = {field: getattr(config, field) for field in ("template", "temperature", "max_tokens", "grader")}
    benchmark = dataclasses.replace(
        loaded.benchmark, **{field: value for field, value in flags.items() if value not in ("", None)}
    )
    for problem in loaded.problems:
        grader_for(problem, benchmark.grader).check(problem, f"{benchmark.name}: ")
    template = benchmark.template or model.template(loaded.problems)
    check_used(config.template_variables, template, loaded.problems, "--chat-template-kwargs")
    # Those of the model's chat template; an endpoint is sent them.
    of_template = dict(model.policy.chat_template_kwargs) if model.policy else {}
    variables = {"chat_template_kwargs": of_template} if of_template else {}
    ks = parse_ks(config.k)
    if benchmark.temperature == 0 and max(config.samples or 1, *ks, 1) > 1:
        raise DiverError(
            f"{benchmark.name}: temperature 0 is greedy, so a problem has one response; leave out --samples and --k, "
            "or give another --temperature"
        )
    samples = 1 if benchmark.temperature == 0 else config.samples or max([benchmark.samples, *ks])
    if ks and max(ks) > samples:
        raise DiverError(f"{benchmark.name}: k = {max(ks)} needs more than {samples} samples; raise --samples")
    depends_on = {
        "model": model.model,
        "template": dataclasses.asdict(TEMPLATES[template]),
        **variables,
        "temperature": benchmark.temperature,
        "max_tokens": benchmark.max_tokens,
        **({"stop_token_ids": config.stop_token_ids} if config.stop_token_ids else {}),
        "seed": config.seed or 0,
        "extra": config.extra_options if config.generator == "endpoint" else {},  # samplers.vllm records those of vLLM
    }
    return Task(
        name=benchmark.name,
        problems=loaded.problems,
        template=template,
        temperature=benchmark.temperature,
        max_tokens=benchmark.max_tokens,
        stop_token_ids=config.stop_token_ids,
        samples=samples,
        ks=ks or [1 << i for i in range(samples.bit_length())],
        seed=config.seed or 0,
        grader=benchmark.grader,
        keys={p.id: digest(depends_on, p.prompt) for p in loaded.problems},
        info={
            "title": benchmark.title,
            "domain": benchmark.domain,
            "source": {"path": benchmark.source.path, "notes": loaded.notes},
            "skipped": 0,
            "random_baseline": loaded.random_baseline,
            **variables,
            **sampler_metadata(config),
        },
    )


def _skip_long_prompts(task: Task, model: SamplerHandle, context: int | None) -> Task:
    """The task without the problems whose prompts fill `context`, by default as many tokens as the model has
    positions."""
    from diver.sample.policy import load_configuration, positions

    if model.policy is None:
        raise DiverError("--skip-long-prompts: an endpoint does not report the length of prompts; omit this flag")
    policy = load_configuration(model.policy)
    longest = (context or positions(policy.config) or sys.maxsize) - 1
    kept = prompted(task.problems, task.template, policy.tokenizer, longest)
    if not kept.problems:
        raise DiverError(
            f"{task.name}: no problems are left: no prompt fits into the context of {model.model}; another --template "
            f"than {task.template!r} may be shorter"
        )
    source = task.info["source"]
    if kept.skipped:
        note = f"{task.name}: {kept.skipped} of {len(task.problems)} problems are skipped, their prompts are too long"
        source = {**source, "notes": [*source["notes"], note]}
    info = {**task.info, "source": source, "skipped": kept.skipped}
    return dataclasses.replace(task, problems=kept.problems, info=info)
