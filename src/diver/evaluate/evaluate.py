"""The one evaluation: sample, grade, reduce. `diver eval` stores the rows in between, training keeps them in memory."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from diver.core.progress import progress_bar
from diver.core.seeds import digest
from diver.core.tables import counted
from diver.core.types import DiverError, Grade, Problem
from diver.evaluate.grade import AUTO, SCORED, Sample, grade_rows, grader_for, reduce
from diver.evaluate.results import Log, MemoryLog
from diver.sample.base import Generation, Generator, Key, Prompt, PromptTooLong, SamplingParams, requests
from diver.tasks.templates import TEMPLATES, chat_messages, render
from diver.tasks.verify import DEFAULT, Verification, in_thought


@dataclass(frozen=True, kw_only=True)
class Task:
    """`name` names the benchmark: files and random streams are keyed by it."""

    name: str
    problems: Sequence[Problem]
    template: str
    temperature: float
    max_tokens: int
    stop_token_ids: Sequence[int] = ()
    samples: int
    """Responses to each problem."""
    ks: Sequence[int]
    """Values of k of Pass@k, distinct@k and maj@k."""
    seed: int = 0
    grader: str = AUTO
    keys: Mapping[str, str] = field(default_factory=dict)
    """By problem id, a digest of all that a response depends on; stored rows with another key belong to other
    settings."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """What the results say besides: title, source, ..."""


def evaluate(
    task: Task,
    open_generator: Callable[[], Generator],
    generations: Log | None = None,
    grades: Log | None = None,
    *,
    verification: Verification = DEFAULT,
    solutions: bool = False,
    log: Callable[[str], Any] = lambda line: None,
    progress: bool = True,
) -> dict[str, Any]:
    """Sample the responses that `generations` lacks, grade those that `grades` lacks, and reduce all of them.

    A stored grade that is timeout or error is lacking, too; of several rows of one response the last counts. The logs
    may have rows of a stopped evaluation and of other settings; without them nothing is stored. The generator is opened
    only if a response is missing. Returns the settings of the task and what `reduce` returns.
    """
    generations, grades = generations or MemoryLog(), grades or MemoryLog()
    problems = {problem.id: problem for problem in task.problems}
    keys = {name: task.keys.get(name, "") for name in problems}
    graders = {problem.id: grader_for(problem, task.grader) for problem in task.problems}
    graded_keys = {  # all that a grade depends on: the sampling, the reference answer, the grader and its version
        p.id: digest(keys[p.id], p.answer, {k: str(v) for k, v in p.meta.items()}, str(graders[p.id]))
        for p in task.problems
    }
    total = len(problems) * task.samples
    sampled = _sample(task, open_generator, generations, keys, log, progress)
    known, graded = _known(task, grades, graded_keys), 0
    scored = {key for key, sample in known.items() if sample.grade in SCORED}
    if len(scored) < total:
        ungraded = (
            row
            for row in _rows(task, generations, keys)
            # A grade that failed is made again, a response that failed is not.
            if (row["problem"], row["sample"]) not in (known if row.get("error") else scored)
        )
        with progress_bar(total - len(scored), f"{task.name}: grade", "response", show=progress) as bar:
            for row in grade_rows(ungraded, problems, graded_keys, task.grader, verification):
                grades.append(row)
                graded += row.get("count", 1)
                bar.update(row.get("count", 1))
        known = _known(task, grades, graded_keys)
    log(f"{_size(task)}: {sampled} sampled, {total - sampled} stored before; {graded} graded")
    samples: dict[str, list[Sample]] = {name: [] for name in problems}
    for name, index in sorted(known):
        samples[name].append(known[name, index])
    return {
        "title": task.name,
        **task.info,
        "problems": len(task.problems),
        "samples": task.samples,
        "seed": task.seed,
        "template": task.template,
        "temperature": task.temperature,
        "max_tokens": task.max_tokens,
        **({"stop_token_ids": list(task.stop_token_ids)} if task.stop_token_ids else {}),
        "graders": sorted({str(by) for by in graders.values()}),
        "k": list(task.ks),
        **reduce(task.problems, samples, task.ks, task.grader, solutions),
    }


def _size(task: Task) -> str:
    return f"{task.name}: {counted(len(task.problems), 'problem')} x {counted(task.samples, 'sample')}"


def _rows(task: Task, log: Log, keys: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The rows that belong to the task."""
    return (r for r in log.rows() if keys.get(r["problem"]) == r["key"] and r["sample"] < task.samples)


def _known(task: Task, grades: Log, keys: Mapping[str, str]) -> dict[Key, Sample]:
    return {
        (r["problem"], r["sample"]): Sample(Grade(r["grade"]), r["answer"], r["solution"], r.get("count", 1))
        for r in _rows(task, grades, keys)
    }


def _sample(
    task: Task,
    open_generator: Callable[[], Generator],
    into: Log,
    keys: Mapping[str, str],
    log: Callable[[str], Any],
    progress: bool,
) -> int:
    """Sample and store the responses that are missing; returns how many. Says how long it takes, once it can tell.

    Many generators give the responses of a batch at once, when its last one has ended. So the time of what is left is
    known when a batch begins: by the responses before it, at least a sixteenth of all, and the time that they took.
    """
    have = {(row["problem"], row["sample"]) for row in _rows(task, into, keys)}
    missing = len(task.problems) * task.samples - len(have)
    if not missing:
        return 0
    log(f"{_size(task)}; {counted(missing, 'response')} to sample, of up to {counted(task.max_tokens, 'token')}")
    generator = open_generator()
    if note := getattr(generator, "note", ""):
        log(note)
    prompts = {problem.id: render_prompt(problem, task.template, generator) for problem in task.problems}
    thinking = {name for name, prompt in prompts.items() if isinstance(prompt, str) and in_thought(prompt)}
    samples = range(task.samples)
    wanted = [r for name, prompt in prompts.items() for r in requests(task.seed, task.name, name, prompt, samples)]
    params = SamplingParams(task.temperature, task.max_tokens, task.stop_token_ids)
    start, num_sampled, estimated = time.monotonic(), 0, False
    last = start
    with progress_bar(missing, f"{task.name}: sample", "response", show=progress, bursts=True) as bar:
        try:
            for generation in generator.generate(wanted, params, have):
                now = time.monotonic()
                if not estimated and num_sampled >= missing / 16 and now - last > (last - start) / num_sampled:
                    estimated, left = True, (last - start) * (missing - num_sampled) / num_sampled - (now - last)
                    told = f"{num_sampled} of {missing} responses took {duration(last - start)}"
                    log(f"{task.name}: {told}; what is left takes about {duration(max(left, 0.0))}")
                into.append(_row(generation, keys[generation.problem_id], generation.problem_id in thinking))
                bar.update(generation.count)
                num_sampled += generation.count
                last = time.monotonic()
        except PromptTooLong as error:
            raise DiverError(f"{error}; another --template than {task.template!r} may be shorter") from None
    return missing


def _row(generation: Generation, key: str, thinking: bool) -> dict[str, Any]:
    """A generation in the form that is stored; `logprob` is the sum over the tokens, where the generator knows it.

    `error` is stored where the generator had no response, `thinking` where the prompt ended inside a thought. It is
    not known where a server applies the chat template.
    """
    rollout = generation.rollout
    row = {
        "key": key,
        "problem": generation.problem_id,
        "sample": generation.sample,
        "response": rollout.response,
        "tokens": rollout.length,
        "truncated": rollout.truncated,
        **({"thinking": True} if thinking else {}),
        **({"error": True} if rollout.grade is Grade.ERROR else {}),
        "logprob": None if rollout.logprobs is None else float(rollout.logprobs.sum(dtype=float)),
    }
    return {**row, "count": generation.count} if generation.count > 1 else row


def render_prompt(problem: Problem, template: str, generator: Generator) -> Prompt:
    """Text where the generator has a tokenizer or the template needs none; messages where the server has it."""
    tokenizer, layout = getattr(generator, "tokenizer", None), TEMPLATES[template]
    if tokenizer is not None or (isinstance(problem.prompt, str) and not layout.chat):
        return render(problem, template, tokenizer)
    if isinstance(problem.prompt, str) and layout.assistant:
        raise DiverError(
            f"--template: {template!r} begins the response with {layout.assistant!r}, which {generator.name} cannot be "
            "given in chat messages; choose a flat template such as 'paper', or 'chat'"
        )
    return chat_messages(problem, layout)


def metrics(result: Mapping[str, Any]) -> dict[str, float]:
    """What training logs about a result: the means of eval/pass@k and of eval/distinct@n, n the number of samples."""
    names = [f"pass@{k}" for k in result["k"]] + [f"distinct@{result['samples']}"]
    return {f"eval/{name}": result["estimates"][name]["mean"] for name in names if name in result["estimates"]}


def duration(seconds: float) -> str:
    """40 s, 12 min 05 s, 1 h 06 min; a dash where it is not known."""
    if math.isnan(seconds):
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
