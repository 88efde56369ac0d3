"""The one evaluation: sample, grade, reduce. `diver eval` stores the rows in between, training keeps them in memory.

Responses are sampled once and reduced in many ways. A row of grades also has what the estimates need, so that they
never read the responses again: `answer`, by which maj@k counts votes, and `solution`, which identifies distinct correct
solutions.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from diver.core.endings import EMPTY, until_next_question
from diver.core.files import Log, MemoryLog
from diver.core.progress import progress_bar
from diver.core.seeds import digest
from diver.core.statistics import (
    bounds_of,
    distinct_at_k,
    effective_number,
    interval,
    maj_at_k,
    pair_diversity,
    pass_at_k,
)
from diver.core.tables import counted
from diver.core.turns import turn_row, turns_from_rows
from diver.core.types import SCORED, DiverError, Grade, Problem, Rollout
from diver.grading import DEFAULT, EnvironmentGrader, get_grader, opens_thought, verdicts
from diver.grading.grading import AUTO, answer, grader_for
from diver.grading.settings import Verification
from diver.sample.base import Generator, Key, Prompt, PromptTooLong, SamplingParams, requests
from diver.sample.trajectories import playing
from diver.tasks.templates import TEMPLATES, chat_messages, render

T = TypeVar("T")
CHUNK = 4096  # rows per call: equal answers are graded once, and the text in memory is bounded


@dataclass(frozen=True, kw_only=True)
class Task:
    """A benchmark to evaluate. `name` is the key of its files and random streams."""

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
    """Further entries of the results: title, source, ..."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A graded response, its vote, and its solution if it is correct; `count` samples are this response."""

    grade: Grade
    answer: str | None
    solution: str | None
    count: int = 1


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

    A stored grade of timeout or error counts as missing. If a response has several rows, the last one counts. The logs
    may have rows of a stopped evaluation and of other settings; without logs nothing is stored. The generator is opened
    only if a response is missing. Returns the settings of the task and what `reduce` returns.
    """
    generations, grades = generations or MemoryLog(), grades or MemoryLog()
    problems = {problem.id: problem for problem in task.problems}
    keys = {name: task.keys.get(name, "") for name in problems}
    graders = {problem.id: grader_for(problem, task.grader) for problem in task.problems}
    for problem in task.problems:  # the text of an environment belongs to the sampling
        if isinstance(grader := get_grader(problem.verifier), EnvironmentGrader):
            keys[problem.id] = digest(keys[problem.id], grader.version, {k: str(v) for k, v in problem.meta.items()})
    graded_keys = {  # all that a grade depends on: the sampling, the reference answer, the grader and its version
        p.id: digest(keys[p.id], p.answer, {k: str(v) for k, v in p.meta.items()}, graders[p.id].version)
        for p in task.problems
    }
    size = f"{task.name}: {counted(len(problems), 'problem')} x {counted(task.samples, 'sample')}"
    total = len(problems) * task.samples
    stored: set[Key] = set()
    lost: set[Key] = set()
    for row in _rows(task, generations, keys):
        (lost if _is_lost(task, row) else stored).update(_samples(row))
    if repeated := len(lost - stored):
        log(f"{task.name}: {counted(repeated, 'empty response')} of an earlier run sampled again")
    if missing := total - len(stored):
        log(f"{size}; {counted(missing, 'response')} to sample, of up to {counted(task.max_tokens, 'token')}")
        _sample(task, open_generator(), generations, keys, stored, log, progress)
    graded_rows = {(row["problem"], row["sample"]): row for row in _rows(task, grades, graded_keys)}
    graded_rows = {key: row for key, row in graded_rows.items() if key not in lost or row["grade"] != Grade.NO_ANSWER}
    graded_before, graded = {*graded_rows}, 0
    scored = {key for row in graded_rows.values() if row["grade"] in SCORED for key in _samples(row)}
    went_on: Counter[str] = Counter()
    if len(scored) < total:
        ungraded = (
            _ended(task, row, problems[row["problem"]], went_on)
            for row in _rows(task, generations, keys)
            # A grade that failed is made again, a response that failed is not.
            if (row["problem"], row["sample"]) not in (graded_before if row.get("error") else scored)
            and (row.get("error") or not _is_lost(task, row))
        )
        with progress_bar(total - len(scored), f"{task.name}: grade", "response", show=progress) as bar:
            for row in grade_rows(ungraded, problems, graded_keys, task.grader, verification):
                grades.append(row)
                graded_rows[row["problem"], row["sample"]] = row
                graded += row.get("count", 1)
                bar.update(row.get("count", 1))
    for label, n in went_on.items():
        log(f"{task.name}: {counted(n, 'response')} graded up to {label!r}, where another question begins")
    log(f"{size}: {missing} sampled, {len(stored)} stored before; {graded} graded")
    samples: dict[str, list[Sample]] = {name: [] for name in problems}
    for (name, _), row in sorted(graded_rows.items(), key=lambda item: item[0]):
        samples[name].append(Sample(Grade(row["grade"]), row["answer"], row["solution"], row.get("count", 1)))
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
        "graders": sorted({grader.version for grader in graders.values()}),
        "k": list(task.ks),
        **reduce(task.problems, samples, task.ks, task.grader, solutions),
    }


def _rows(task: Task, log: Log, keys: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The rows that belong to the task."""
    return (r for r in log.rows() if keys.get(r["problem"]) == r["key"] and r["sample"] < task.samples)


def _samples(row: Mapping[str, Any]) -> Iterator[Key]:
    """The samples that a row represents: `count` of them, from `sample` on."""
    return ((row["problem"], row["sample"] + i) for i in range(row.get("count", 1)))


def _ended(task: Task, row: dict[str, Any], problem: Problem, went_on: Counter[str]) -> dict[str, Any]:
    """The row with its response up to the point where a base model begins another question."""
    stop = () if row.get("thinking") or row.get("turns") else TEMPLATES[task.template].stop_texts(problem.prompt)
    ended = until_next_question(row["response"], problem.question, stop)
    if ended == row["response"]:
        return row
    went_on[row["response"][len(ended) :].strip().partition(":")[0]] += 1
    return {**row, "response": ended, "truncated": False}


def _is_lost(task: Task, row: Mapping[str, Any]) -> bool:
    """Whether a server counted tokens of a reply but returned no text: the request failed, and is repeated."""
    return (
        task.info.get("generator") == "endpoint"
        and not (row["response"].strip() or row["truncated"])
        and row["tokens"] > EMPTY[not TEMPLATES[task.template].chat]
    )


def _sample(
    task: Task,
    generator: Generator,
    into: Log,
    keys: Mapping[str, str],
    have: Collection[Key],
    log: Callable[[str], Any],
    progress: bool,
) -> None:
    """Sample and store the responses that are not in `have`. Log an estimate of the remaining time.

    Many generators return the responses of a batch at once, when its last one has ended. So the remaining time is
    estimated when a batch begins, from the earlier responses and their time. They must be at least a sixteenth of all.

    A row has `thinking` if the prompt ended inside a thought, which is unknown if a server applies the chat template.
    It has `error` if the generator or an environment failed, and `turns` and `grade` if an environment has answered and
    judged. `logprob` is the sum over the tokens, if the generator knows it.
    """
    if note := getattr(generator, "note", ""):
        log(note)
    if any(isinstance(get_grader(problem.verifier), EnvironmentGrader) for problem in task.problems):
        generator = playing(generator, task.problems, task.template)
    prompts = {problem.id: render_prompt(problem, task.template, generator) for problem in task.problems}
    thinking = {name for name, prompt in prompts.items() if isinstance(prompt, str) and opens_thought(prompt)}
    samples = range(task.samples)
    wanted = [r for name, prompt in prompts.items() for r in requests(task.seed, task.name, name, prompt, samples)]
    stop = {texts for prompt in prompts.values() if (texts := TEMPLATES[task.template].stop_texts(prompt))}
    params = SamplingParams(task.temperature, task.max_tokens, task.stop_token_ids, *stop)
    missing = len(wanted) - len(have)
    start, num_sampled, estimated = time.monotonic(), 0, False
    last = start
    with progress_bar(missing, f"{task.name}: sample", "response", show=progress, bursts=True) as bar:
        try:
            for generation in generator.generate(wanted, params, have):
                now = time.monotonic()
                if not estimated and num_sampled >= missing / 16 and now - last > (last - start) / num_sampled:
                    estimated, remaining = True, (last - start) * (missing - num_sampled) / num_sampled - (now - last)
                    timing = f"{num_sampled} of {missing} responses took {duration(last - start)}"
                    log(f"{task.name}: {timing}; what is left takes about {duration(max(remaining, 0.0))}")
                rollout, name = generation.rollout, generation.problem_id
                row = {
                    "key": keys[name],
                    "problem": name,
                    "sample": generation.sample,
                    "response": rollout.response,
                    "tokens": rollout.length,
                    "truncated": rollout.truncated,
                    **({"thinking": True} if name in thinking else {}),
                    **({"error": True} if rollout.grade in (Grade.ERROR, Grade.TIMEOUT) else {}),
                    **({"turns": [*map(turn_row, rollout.turns)], "grade": rollout.grade} if rollout.turns else {}),
                    "logprob": None if rollout.logprobs is None else float(rollout.logprobs.sum(dtype=float)),
                    **({"count": generation.count} if generation.count > 1 else {}),
                }
                into.append(row)
                bar.update(generation.count)
                num_sampled += generation.count
                last = time.monotonic()
        except PromptTooLong as error:
            raise DiverError(f"{error}; another --template than {task.template!r} may be shorter") from None


def render_prompt(problem: Problem, template: str, generator: Generator) -> Prompt:
    """The prompt as text if the generator has a tokenizer or the template needs none, else messages for the server."""
    tokenizer, layout = getattr(generator, "tokenizer", None), TEMPLATES[template]
    if tokenizer is not None or (isinstance(problem.prompt, str) and not layout.chat):
        return render(problem, template, tokenizer)
    if isinstance(problem.prompt, str) and layout.assistant:
        raise DiverError(f"--template: {template!r} begins the response; chat messages cannot: choose 'chat'")
    return chat_messages(problem, layout)


def problem_digest(problem: Problem) -> str:
    """A digest that differs for different problems of one id. Problems of an environment may differ only in `meta`."""
    played = isinstance(get_grader(problem.verifier), EnvironmentGrader)
    return digest(problem.prompt, problem.answer, *([{k: str(v) for k, v in problem.meta.items()}] if played else []))


def grade_rows(
    responses: Iterable[Mapping[str, Any]],
    problems: Mapping[str, Problem],
    keys: Mapping[str, str],
    grader: str,
    verification: Verification = DEFAULT,
) -> Iterator[dict[str, Any]]:
    """A row of grades for each row of generations. `keys` has, by problem, a digest of all that a grade depends on.

    A trajectory has the grade of its environment, and its solution is the sequence of its actions.
    """
    responses = iter(responses)
    while rows := list(islice(responses, CHUNK)):
        graders = [grader_for(problems[row["problem"]], grader) for row in rows]
        texts = [r for r, by in zip(rows, graders, strict=True) if not isinstance(by, EnvironmentGrader)]
        pairs = [(row["response"], problems[row["problem"]]) for row in texts]
        truncated, thinking = ([bool(row.get(name)) for row in texts] for name in ("truncated", "thinking"))
        text_verdicts = iter(verdicts(pairs, verification, grader=grader, truncated=truncated, thinking=thinking))
        for row, by in zip(rows, graders, strict=True):
            problem, response, solution = problems[row["problem"]], row["response"], None
            if isinstance(by, EnvironmentGrader):
                grade = Grade(row["grade"])
                if grade is Grade.CORRECT:
                    solution = by.key(Rollout.of_turns(turns_from_rows(row["turns"])), problem)
            else:
                verdict = next(text_verdicts)
                grade = Grade.ERROR if row.get("error") else verdict.grade
                if grade is Grade.CORRECT:  # formulas after the answer do not belong to the solution
                    solution = by.solution(response[: verdict.answer_end], problem)
            yield {
                "key": keys[problem.id],
                "problem": problem.id,
                "sample": row["sample"],
                "grader": by.version,
                "grade": grade,
                "answer": answer(problem, response, grader) if grade in SCORED else None,
                "solution": None if solution is None else digest(solution),
                **({"count": row["count"]} if "count" in row else {}),
            }


def reduce(
    problems: Sequence[Problem],
    samples: Mapping[str, Sequence[Sample]],
    ks: Sequence[int],
    grader: str,
    solutions: bool = False,
) -> dict[str, Any]:
    """Estimates over problems with 95 % intervals, counts of grades, and a row for each problem.

    A problem has n scored samples, of which c are correct. A sample whose grade is timeout or error is left out. A
    problem with n < k has no estimate at that k (`problems` of an estimate says how many have one). maj@k needs single
    samples in order, so it is missing if a response has a count. It is also missing if the grader counts no votes, as
    for Countdown, where the number to reach is given. `exact_solutions` is whether `distinct` counts solutions;
    otherwise it counts ways in which correct responses are written. `pair_diversity` is missing from the row of a
    problem with fewer than two correct samples. `solutions` adds to each row how often each distinct correct solution
    was sampled, most frequent first.
    """
    scored = {name: [s for s in sampled if s.grade in SCORED] for name, sampled in samples.items()}
    solved = [_counts((s.solution, s.count) for s in scored[p.id] if s.solution is not None) for p in problems]
    solution_counts = [sorted(counts.values(), reverse=True) for counts in solved]
    diversity = np.array([pair_diversity(counts) for counts in solution_counts])
    rows: list[dict[str, Any]] = [
        {
            "id": p.id,
            "digest": problem_digest(p),
            "n": sum(s.count for s in scored[p.id]),
            "c": sum(s.count for s in scored[p.id] if s.grade is Grade.CORRECT),
            "distinct": len(counts),
            **({"pair_diversity": float(d)} if not np.isnan(d) else {}),
            **({"solutions": counts} if solutions else {}),
        }
        for p, counts, d in zip(problems, solution_counts, diversity, strict=True)
    ]
    n, c = (np.array([row[name] for row in rows]) for name in ("n", "c"))
    values = {f"avg@{max(sum(s.count for s in sampled) for sampled in samples.values())}": pass_at_k(n, c, 1)}
    values |= {f"pass@{k}": pass_at_k(n, c, k) for k in ks}
    if all(grader_for(p, grader).votes for p in problems) and all(s.count == 1 for p in problems for s in scored[p.id]):
        votes = [_votes(scored[problem.id]) for problem in problems]
        values |= {f"maj@{k}": np.array([maj_at_k(v, k) for v in votes]) for k in ks if k > 1}
    for k in ks:
        distinct = [distinct_at_k(row["n"], counts, k) for row, counts in zip(rows, solution_counts, strict=True)]
        values[f"distinct@{k}"] = np.array(distinct)
    values["pair_diversity"] = diversity
    grades = _counts((s.grade, s.count) for sampled in samples.values() for s in sampled)
    estimates = {
        name: {**interval(v, bounds_of(name))._asdict(), "problems": int(np.sum(~np.isnan(v)))}
        for name, v in values.items()
    }
    return {
        "estimates": estimates,
        "effective_solutions": effective_number(estimates["pair_diversity"]["mean"]),
        "grades": {str(grade): grades[grade] for grade in Grade if grades[grade]},
        "unscored": sum(count for grade, count in grades.items() if grade not in SCORED),
        "exact_solutions": all(grader_for(p, grader).exact_solutions for p in problems),
        "per_problem": rows,
    }


def _counts(pairs: Iterable[tuple[T, int]]) -> Counter[T]:
    """The sum of the counts of each key."""
    totals: Counter[T] = Counter()
    for key, count in pairs:
        totals[key] += count
    return totals


def _votes(scored: Sequence[Sample]) -> np.ndarray:
    """Votes as `maj_at_k` takes them: 0 for a correct answer, -1 for none, else a number for each answer."""
    numbers: dict[str, int] = {}
    votes = []
    for sample in scored:
        if sample.grade is Grade.CORRECT:
            votes.append(0)
        elif sample.grade is Grade.WRONG and sample.answer is not None:
            votes.append(numbers.setdefault(sample.answer, len(numbers) + 1))
        else:
            votes.append(-1)
    return np.array(votes, dtype=np.int64)


def metrics(result: Mapping[str, Any]) -> dict[str, float]:
    """What training logs about a result: the means of eval/pass@k and of eval/distinct@n, n the number of samples."""
    names = [f"pass@{k}" for k in result["k"]] + [f"distinct@{result['samples']}"]
    return {f"eval/{name}": result["estimates"][name]["mean"] for name in names if name in result["estimates"]}


def duration(seconds: float) -> str:
    """40 s, 12 min 05 s, 1 h 06 min; a dash if it is unknown."""
    if math.isnan(seconds):
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
