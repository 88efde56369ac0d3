"""`diver eval`: draw what is missing, grade what is not graded, reduce all of it, write it down.

Each of the three looks only at what is stored, so it can be killed at any moment and run again: the results are a
function of the settings, whatever happened on the way.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from diver.data.templates import QUESTION, Template, render
from diver.evaluate.grade import grade, grade_key, grader_for, ungraded
from diver.evaluate.plan import Plan, Task, make_tasks
from diver.evaluate.reduce import Sample, summarise
from diver.evaluate.samplers import Drawing, asked_of, drawing
from diver.evaluate.store import ResultFolder
from diver.evaluate.tables import benchmark_table, write_curves
from diver.generate.base import Generator, Prompt, Request, TooLong, requests, room_for
from diver.io.files import write_text
from diver.io.jsonl import JsonlLog, to_json
from diver.types import DiverError, Grade, Problem

Tell = Callable[[str], Any]


def evaluate(plan: Plan, provenance: Mapping[str, Any], tell: Tell = print) -> Path:
    """Do what is left to do of a plan; returns the folder. `provenance` (versions, commit) is kept if there was any."""
    drawn_by = drawing(plan, plan.model)
    tasks = make_tasks(plan, drawn_by.model)
    out = plan.out or Path("runs/eval") / drawn_by.model.replace("/", "--")
    with ResultFolder(out, drawn_by.model, provenance) as folder:
        found = {}
        for task in tasks:
            if plan.leave_out_long:
                task = _without_long(task, folder, drawn_by)
            for note in task.loaded.notes:
                tell(note)
            tell(_asked_with(task))
            found[task.benchmark.name] = _do(plan, task, folder, drawn_by, tell)
        everything = {**folder.results(), **found}
        results = json.loads(to_json({"model": drawn_by.model, "benchmarks": everything}))
        write_text(out / "results.json", json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        table = benchmark_table(results["benchmarks"])
        write_text(out / "table.md", table)
        write_curves(results["benchmarks"], out)
    tell(f"\n{table}\n{_where(out, found)}")
    return out


# ---- leave out, draw, grade, reduce ----------------------------------------------------------------------------------


def _without_long(task: Task, folder: ResultFolder, drawn_by: Drawing) -> Task:
    """The task without the problems whose prompts the model has no room for; the lengths are kept, so it is asked once."""
    problems = task.loaded.problems
    with folder.prompts(task.benchmark.name) as lengths:
        known = {row["problem"]: row for row in lengths.rows() if task.keys.get(row["problem"]) == row["key"]}
        if unknown := [p for p in problems if p.id not in known]:
            generator = drawn_by.open()
            for problem in unknown:
                tokens, room = room_for(prompt(problem, task.template, generator), generator)
                row = {"key": task.keys[problem.id], "problem": problem.id, "tokens": tokens, "room": room}
                folder.record_provenance()
                lengths.append(row)
                known[problem.id] = row
    long = {name for name, row in known.items() if row["room"] is not None and row["tokens"] >= row["room"]}
    left = tuple(p for p in problems if p.id not in long)
    if not left:
        raise DiverError(
            f"{task.benchmark.name}: no problems are left: no prompt fits into {drawn_by.model}; {_another(task)}"
        )
    told = f"{task.benchmark.name}: {len(problems) - len(left)} of {len(problems)} problems left out, whose prompts are too long"
    notes = [*task.loaded.notes, told] if long else task.loaded.notes
    return task._replace(loaded=task.loaded._replace(problems=left, notes=notes), left_out=len(problems) - len(left))


def _do(plan: Plan, task: Task, folder: ResultFolder, drawn_by: Drawing, tell: Tell) -> dict[str, Any]:
    name, problems = task.benchmark.name, {p.id: p for p in task.loaded.problems}
    with folder.generations(name) as generations, folder.grades(name, task.grader) as grades:
        drawn = _draw(plan, task, folder, generations, drawn_by.open)
        judged_by = {p.id: grade_key(task.keys[p.id], p, task.grader) for p in task.loaded.problems}
        samples = _graded(grades, judged_by, task.samples)
        total = len(problems) * task.samples
        if left := total - len(samples):
            folder.record_provenance()
        with _bar(left, f"{name}: grade") as bar:
            waiting = ungraded(generations, task.keys, task.samples, samples) if left else iter(())
            graded = grade(waiting, grades, problems, task.grader, bar.update)
        samples = _graded(grades, judged_by, task.samples) if graded else samples
    tell(
        f"{name}: {len(problems)} problems x {task.samples} samples: {drawn} drawn, {total - drawn} were there; {graded} graded"
    )
    by_problem = {p.id: [samples[p.id, i] for i in range(task.samples)] for p in task.loaded.problems}
    reduced = summarise(
        task.loaded.problems, by_problem, task.ks, task.grader, plan.runs if plan.protocol == "paper" else 0
    )
    return {**_description(plan, task), **reduced}


def _draw(plan: Plan, task: Task, folder: ResultFolder, into: JsonlLog, open_generator: Callable[[], Generator]) -> int:
    """Draw and store the responses that are missing; returns how many."""
    have = {
        (row["problem"], row["sample"])
        for row in into.rows()
        if task.keys.get(row["problem"]) == row["key"] and row["sample"] < task.samples
    }
    left = len(task.loaded.problems) * task.samples - len(have)
    if not left:
        return 0
    benchmark, generator = task.benchmark, open_generator()
    asked: list[Request] = []
    for problem in task.loaded.problems:
        text = prompt(problem, task.template, generator)
        asked += requests(plan.seed, benchmark.name, problem.id, text, range(task.samples))
    drawn = generator.generate(asked, temperature=benchmark.temperature, max_tokens=benchmark.max_tokens, have=have)
    with _bar(left, f"{benchmark.name}: draw") as bar:
        folder.record_provenance()
        try:
            for g in drawn:
                row = g._asdict()
                into.append({"key": task.keys[g.problem_id], "problem": row.pop("problem_id"), **row})
                bar.update(1)
        except TooLong as error:
            raise DiverError(f"{error}; {_another(task)}") from None
    return left


def prompt(problem: Problem, chosen: Template, generator: Generator) -> Prompt:
    """Text where the generator has a tokenizer or the template needs none; messages where the other side has it."""
    tokenizer = getattr(generator, "tokenizer", None)
    if tokenizer is not None or (isinstance(problem.prompt, str) and not chosen.chat):
        return render(problem, chosen, tokenizer)
    if not isinstance(problem.prompt, str):
        return problem.prompt
    if chosen.assistant:
        raise DiverError(
            f"--template: this one begins the response with {chosen.assistant!r}, which {generator.name} cannot be given in "
            "chat messages; choose a flat template such as 'paper', or 'chat'"
        )
    system = [{"role": "system", "content": chosen.system}] if chosen.system else []
    return [*system, {"role": "user", "content": chosen.user.replace(QUESTION, problem.prompt)}]


def _graded(grades: JsonlLog, keys: Mapping[str, str], samples: int) -> dict[tuple[str, int], Sample]:
    """The grades that count, by problem and sample."""
    return {
        (row["problem"], row["sample"]): Sample(Grade(row["grade"]), row["answer"], row["solution"])
        for row in grades.rows()
        if row["sample"] < samples and keys.get(row["problem"]) == row["key"]
    }


# ---- telling ---------------------------------------------------------------------------------------------------------


def _description(plan: Plan, task: Task) -> dict[str, Any]:
    b, problems = task.benchmark, task.loaded.problems
    return {
        "title": b.title,
        "domain": b.domain,
        "source": {"path": b.source.path, "notes": task.loaded.notes},
        "problems": len(problems),
        "left_out": task.left_out,
        "samples": task.samples,
        "seed": plan.seed,
        **asked_of(plan),
        "template": b.template,
        "temperature": b.temperature,
        "max_tokens": b.max_tokens,
        "graders": sorted({str(grader_for(p, task.grader)) for p in problems}),
        "protocol": plan.protocol,
        "k": task.ks,
        "random_baseline": task.loaded.random_baseline,
    }


def _asked_with(task: Task) -> str:
    b = task.benchmark
    return f"{b.name}: template {b.template!r}, temperature {b.temperature}, up to {b.max_tokens:,} tokens a response"


def _another(task: Task) -> str:
    return f"the template is {task.benchmark.template!r}, and another --template may be shorter"


def _where(out: Path, found: Mapping[str, Mapping[str, Any]]) -> str:
    lines = []
    for name, result in found.items():
        grades = ", ".join(f"{count} {grade}" for grade, count in result["grades"].items())
        lines.append(f"{name}: {grades}")
        if result["unscored"]:
            lines.append(
                f"{name}: {result['unscored']} responses could not be judged; they are left out, not counted as wrong"
            )
    return "\n".join([*lines, f"results: {out}/results.json, table.md, pass_at_k.png, pass_at_k.svg"])


def _bar(total: int, title: str) -> Any:
    from tqdm import tqdm

    return tqdm(
        total=total, desc=title, unit="response", leave=False, dynamic_ncols=True, disable=not total, file=sys.stderr
    )
