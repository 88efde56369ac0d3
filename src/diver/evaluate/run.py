"""`diver eval`: evaluate a model on benchmarks in a folder, from which it can be resumed."""

import dataclasses
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from diver.config.sections import Model
from diver.data.benchmarks import Loaded
from diver.data.templates import prompted
from diver.evaluate.config import EvalConfig
from diver.evaluate.evaluate import evaluate
from diver.evaluate.samplers import SamplerHandle, sampler
from diver.evaluate.store import ResultFolder, read_results
from diver.evaluate.tables import benchmark_table, has_curves, table_of, write_curves
from diver.evaluate.task import Task, make_tasks
from diver.extras import require
from diver.io.files import write_text
from diver.io.jsonl import to_json
from diver.io.provenance import provenance
from diver.types import DiverError
from diver.verify import DEFAULT, Verification


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
    require("scipy", "matplotlib")  # of the table and the curves, at the end
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
        every = _with_unique_titles({**earlier, **results})
        write_text(file, to_json({"model": generator.model, "benchmarks": every}, indent=1) + "\n")
        table = benchmark_table(every)
        write_text(out / "table.md", table)
        figures = config.figure_paths(out, "pass_at_k") if has_curves(every) else []
        written = [*config.write(table_of(every), out), *figures]
        if figures:
            write_curves(every, *figures)
    config.show(table_of(every), f"\n{table}", show)
    log(_summary(out, results, written))
    return out


def _with_unique_titles(results: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The results, with its name for a title where benchmarks of one's own have the same."""
    titles = Counter(result["title"] for result in results.values())
    return {name: {**r, "title": name if titles[r["title"]] > 1 else r["title"]} for name, r in results.items()}


def _skip_long_prompts(task: Task, model: SamplerHandle, context: int | None) -> Task:
    """The task without the problems whose prompts fill `context`, by default as many tokens as the model has positions."""
    from diver.generate.policy import load_configuration, positions

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


def _summary(out: Path, results: Mapping[str, Mapping[str, Any]], written: Sequence[Path]) -> str:
    lines = []
    for name, result in results.items():
        lines.append(f"{name}: " + ", ".join(f"{count} {grade}" for grade, count in result["grades"].items()))
        if result["unscored"]:
            lines.append(f"{name}: {result['unscored']} responses are unscored: left out, not counted as wrong")
    return "\n".join(
        [*lines, f"results: {', '.join([f'{out}/results.json', 'table.md', *(path.name for path in written)])}"]
    )
