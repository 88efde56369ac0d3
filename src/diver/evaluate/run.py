"""`diver eval`: evaluate a model on benchmarks in a folder, from which it can be resumed.

Sampling, grading and reducing each look only at what is stored, so the command can be killed at any moment and given
again: the results are a function of the settings.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from diver.config.sections import Model
from diver.data.benchmarks import Loaded
from diver.evaluate.config import EvalConfig
from diver.evaluate.evaluate import evaluate, render_prompt
from diver.evaluate.samplers import SamplerHandle, sampler, sampler_metadata
from diver.evaluate.store import ResultFolder, read_results
from diver.evaluate.tables import benchmark_table, write_curves
from diver.evaluate.task import Task, make_tasks
from diver.generate.base import Request, prompt_tokens
from diver.io.files import write_text
from diver.io.jsonl import to_json
from diver.types import DiverError
from diver.verify import DEFAULT, Verification


def run(
    config: EvalConfig,
    provenance: Mapping[str, Any],
    log: Callable[[str], Any] = print,
    benchmarks: Sequence[Loaded] | None = None,
    policy: Model | None = None,
    verification: Verification = DEFAULT,
) -> Path:
    """Do what is missing of an evaluation; returns its folder. `provenance` (versions, commit) is stored if any was.

    `benchmarks` stand for those of the settings, and `policy` says more of the model than --model.
    """
    generator = sampler(config, policy)
    tasks = make_tasks(config, generator.model, sampler_metadata(config), benchmarks, generator.template)
    out = config.out or Path("runs/eval") / generator.model.replace("/", "--")
    with ResultFolder(out, generator.model, provenance) as folder:
        results = {}
        for task in tasks:
            if config.skip_long_prompts:
                task = _skip_long_prompts(task, folder, generator)
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
        stored = json.loads(to_json({"model": generator.model, "benchmarks": {**earlier, **results}}))
        write_text(file, json.dumps(stored, indent=1, ensure_ascii=False) + "\n")
        table = benchmark_table(stored["benchmarks"])
        write_text(out / "table.md", table)
        write_curves(stored["benchmarks"], out)
    log(f"\n{table}\n{_summary(out, results)}")
    return out


def _skip_long_prompts(task: Task, folder: ResultFolder, generator: SamplerHandle) -> Task:
    """The task without the problems whose prompts are too long for the model; lengths are stored, so computed once."""
    with folder.log("prompts", task.name) as lengths:
        known = {row["problem"]: row for row in lengths.rows() if task.keys.get(row["problem"]) == row["key"]}
        if unknown := [p for p in task.problems if p.id not in known]:
            opened: Any = generator.open()
            if not hasattr(opened, "tokenizer"):
                raise DiverError(
                    "--skip-long-prompts: an endpoint does not report the length of prompts; omit this flag"
                )
            prompts = [Request(p.id, 0, render_prompt(p, task.template, opened), 0) for p in unknown]
            for name, ids in prompt_tokens(prompts, opened).items():
                row = {"key": task.keys[name], "problem": name, "tokens": len(ids), "context": opened.context}
                lengths.append(row)
                known[name] = row
    long = {name for name, row in known.items() if row["context"] is not None and row["tokens"] >= row["context"]}
    short = [p for p in task.problems if p.id not in long]
    if not short:
        raise DiverError(
            f"{task.name}: no problems are left: no prompt fits into the context of {generator.model}; another --template "
            f"than {task.template!r} may be shorter"
        )
    skipped, source = len(task.problems) - len(short), task.info["source"]
    if skipped:
        note = f"{task.name}: {skipped} of {len(task.problems)} problems are skipped, their prompts are too long"
        source = {**source, "notes": [*source["notes"], note]}
    return dataclasses.replace(task, problems=short, info={**task.info, "source": source, "skipped": skipped})


def _summary(out: Path, results: Mapping[str, Mapping[str, Any]]) -> str:
    lines = []
    for name, result in results.items():
        lines.append(f"{name}: " + ", ".join(f"{count} {grade}" for grade, count in result["grades"].items()))
        if result["unscored"]:
            lines.append(f"{name}: {result['unscored']} responses are unscored: left out, not counted as wrong")
    return "\n".join([*lines, f"results: {out}/results.json, table.md, pass_at_k.png, pass_at_k.svg"])
