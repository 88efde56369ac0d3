"""`diver grade`: responses that exist already, graded against reference answers, and compared with their labels."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from tyro.conf import Positional

from diver.core.export import Export
from diver.core.extras import require
from diver.core.figures import write_intervals
from diver.core.files import write_text
from diver.core.folder import WorkFolder
from diver.core.jsonl import JsonlLog, to_json, write_jsonl
from diver.core.progress import progress_bar
from diver.core.seeds import digest
from diver.core.settings import settings
from diver.core.statistics import Estimate, bounds_of, by_problem, interval, pass_at_k
from diver.core.tables import Cell, Measure, Table, export, write_table
from diver.core.types import DiverError, Grade, Problem, Rollout
from diver.evaluate.config import parse_ks
from diver.evaluate.grade import AUTO, CHUNK, SCORED, answer, grader_for
from diver.evaluate.store import Log, MemoryLog
from diver.look.known import known_problems
from diver.look.read import Columns, Rollouts, read_rollouts
from diver.look.read.reader import THRESHOLD, largest_outcome, scale_note
from diver.tasks.verify import Verification, get_grader
from diver.tasks.verify import grade as verify_grade
from diver.tasks.verify.extraction import in_thought

NOTE = (
    "Per cent, with 95 % intervals over problems; Pass@k is the unbiased estimate from all samples. Agreement: of the "
    "graded responses that have a label, those whose grade says the same."
)


@settings
class GradeConfig(Columns, Export):
    """Grade responses that exist against reference answers, estimate Pass@k, and compare the grades with the labels
    there.

    Reads what diver measure reads. The grader runs in worker processes that are killed when they hang. With --out the
    same command resumes: responses that are graded already are not graded again, but those whose grading hung are.
    Try: diver grade mine.jsonl --by model --out runs/graded --format csv
    """

    rollouts: Positional[str]
    """A file or a folder of responses."""
    grader: str = AUTO
    """auto (for a run, the verifier of its recipe; else math, gsm8k or choice by the data, with a line that says why),
    one of these, math-verify (the package alone), or your own, package.module:function of (response, problem)."""
    k: str = "1,8"
    """Values of k for Pass@k, such as 1,8,64; `...` doubles in between."""
    threshold: float = THRESHOLD
    """A label of at least this says that a response is correct."""
    steps: str = ""
    """Read only the files of these steps of a folder: 100, or 1,50-60,last."""
    out: Path | None = None
    """The folder for samples.jsonl, summary.json and the table; it keeps the grades."""
    verify: Verification = Verification()
    """Time limit, workers and memory of grading."""

    def __post_init__(self) -> None:
        if self.grader != AUTO:
            get_grader(self.grader, "--grader")
        parse_ks(self.k)
        if not math.isfinite(self.threshold):
            raise DiverError(f"--threshold: must be a finite number, not {self.threshold}")
        self.check_export(self.out)


@dataclass(frozen=True)
class Response:
    """A response with all that its grade depends on in `key`: equal keys have equal grades."""

    problem: Problem
    group: int
    """The number of its group: the same problem at two steps has two."""
    rollout: Rollout
    thinking: bool
    """Whether the prompt ends inside a thought."""
    key: str

    @property
    def by(self) -> str:
        return str(self.problem.meta.get("by", ""))

    @property
    def name(self) -> str:
        """Its problem, whatever the step."""
        return f"{self.problem.source}/{self.problem.id}"

    def label(self, threshold: float) -> bool | None:
        return None if self.rollout.reward is None else self.rollout.reward.outcome >= threshold


class Graded(WorkFolder):
    """The folder of the grades of one file."""

    content = "the grades of other rollouts"
    option = "--out"


def run(config: GradeConfig) -> Table:
    """Grade what is not graded yet, print the table, and write the results where `out` names a folder."""
    require("scipy")
    print_note = config.notes()
    path = Path(config.rollouts).expanduser()
    rollouts = read_rollouts(path, config.columns, config.steps)
    for note in [*rollouts.notes, *scale_note(str(path), largest_outcome(rollouts), config.threshold)]:
        print_note(note)
    known = known_problems(rollouts, path, config.grader)
    if known.note:
        print_note(known.note)
    for note in sorted({grader_for(problem, config.grader).note for problem in known.problems} - {""}):
        print_note(note)
    responses = list(_responses(rollouts, known.problems, config))
    if config.out is None:
        grades = _grade(responses, MemoryLog(), config)
    else:
        with (
            Graded(config.out, {}, {"rollouts": str(path.resolve())}) as folder,
            JsonlLog(folder.path / "grades.jsonl") as log,
        ):
            grades = _grade(responses, log, config)
    table = summary(responses, grades, config)
    counts = Counter(grades[r.key]["grade"] for r in responses)
    print_note(", ".join(f"{counts[grade]:,} {grade}" for grade in Grade if counts[grade]))
    labelled, said = confusion(responses, grades, config.threshold)
    if labelled:
        print_note(said)
        if warning := doubt(labelled):
            print_note(warning)
    if config.out is not None:
        write_jsonl(config.out / "samples.jsonl", _rows(responses, grades, config))
        results = {"grades": counts, "confusion": labelled, "table": table.records()}
        write_text(config.out / "summary.json", to_json(results, indent=1) + "\n")
        written = [write_table(table, config.out, config.format)]
        if config.figures:
            write_intervals(table, *(paths := config.figure_paths(config.out, "table")))
            written += paths
        names = ", ".join(path.name for path in written)
        print_note(f"written: {names}, samples.jsonl, summary.json in {config.out}")
    config.show(table, f"\n{export(table, 'markdown')}\n{NOTE}")
    return table


def _responses(rollouts: Rollouts, problems: Sequence[Problem], config: GradeConfig) -> Iterator[Response]:
    for number, (group, problem) in enumerate(zip(rollouts, problems, strict=True)):
        meta = {name: str(value) for name, value in problem.meta.items()}
        about = [str(grader_for(problem, config.grader)), problem.prompt, problem.answer, meta]
        thinking = in_thought(group.prompt)
        for rollout in group.rollouts:
            key = digest(*about, rollout.response, rollout.truncated, *([thinking] if thinking else []))
            yield Response(problem, number, rollout, thinking, key)


def _grade(responses: Sequence[Response], log: Log, config: GradeConfig) -> dict[str, dict[str, Any]]:
    """The row of grades of every key; those that the log lacks, or has as timeout or error, are graded and appended."""
    known = {row["key"]: row for row in log.rows()}
    scored = {key for key, row in known.items() if Grade(row["grade"]) in SCORED}
    ungraded = {r.key: r for r in responses if r.key not in scored}
    missing = iter(ungraded.values())
    named = None if config.grader == AUTO else config.grader
    with progress_bar(len(ungraded), "grade", "response") as bar:
        while chunk := list(islice(missing, CHUNK)):
            pairs = [(r.rollout.response, r.problem) for r in chunk]
            truncated, thinking = [r.rollout.truncated for r in chunk], [r.thinking for r in chunk]
            found = verify_grade(pairs, config.verify, grader=named, truncated=truncated, thinking=thinking)
            for response, grade in zip(chunk, found, strict=True):
                problem, text = response.problem, response.rollout.response
                known[response.key] = {
                    "key": response.key,
                    "grader": str(grader_for(problem, config.grader)),
                    "grade": grade,
                    "extracted": answer(problem, text, config.grader) if grade in SCORED else None,
                }
                log.append(known[response.key])
            bar.update(len(chunk))
    return known


def summary(responses: Sequence[Response], grades: Mapping[str, Mapping[str, Any]], config: GradeConfig) -> Table:
    """A row for each value of --by, or one: problems, samples, Pass@k by grades, Pass@1 by labels, how they agree."""
    largest = max(Counter(r.group for r in responses).values())
    ks = [k for k in parse_ks(config.k) if k <= largest]  # of a larger k nothing is known
    measures = [Measure("problems"), Measure("samples")]
    measures += [Measure(f"pass@{k}", f"Pass@{k}", 100) for k in ks]
    measures += [
        Measure("label_pass@1", "Pass@1 by labels", 100),
        Measure("agreement", "agreement", 100),
        Measure("unscored"),
    ]
    rows: dict[str, list[Cell]] = {}
    groups: dict[str, list[Response]] = {}
    for response in responses:
        groups.setdefault(response.by, []).append(response)
    for by, of in groups.items():
        found = [Grade(grades[r.key]["grade"]) for r in of]
        labels = [r.label(config.threshold) for r in of]
        verdicts = [None if g not in SCORED else g is Grade.CORRECT for g in found]
        both = [verdict == v for verdict, v in zip(verdicts, labels, strict=True) if None not in (verdict, v)]
        rows[by or Path(config.rollouts).stem] = [
            len({r.name for r in of}),
            len(of),
            *(_pass_at_k(of, verdicts, k) for k in ks),
            _pass_at_k(of, labels, 1),
            sum(both) / len(both) if both else None,
            sum(g not in SCORED for g in found),
        ]
    return Table(config.by or "rollouts", measures, rows)


def _pass_at_k(responses: Sequence[Response], verdicts: Sequence[bool | None], k: int) -> Estimate | None:
    """Pass@k within each group of known verdicts, then the mean per problem; None where no verdict is known."""
    problems = {r.group: r.name for r in responses}
    known, correct = Counter[int](), Counter[int]()
    for response, verdict in zip(responses, verdicts, strict=True):
        known[response.group] += verdict is not None
        correct[response.group] += bool(verdict)
    n, c = ([counts[group] for group in problems] for counts in (known, correct))
    values = by_problem(problems.values(), pass_at_k(n, c, k))
    return None if np.isnan(values).all() else interval(values, bounds_of(f"pass@{k}"))


def confusion(
    responses: Sequence[Response], grades: Mapping[str, Mapping[str, Any]], threshold: float
) -> tuple[dict[str, int], str]:
    """How often each grade meets each label, by "LABEL labelled, GRADE", and in words; empty without labels."""
    counts: Counter[tuple[bool, str]] = Counter()
    for response in responses:
        if (label := response.label(threshold)) is not None:
            counts[label, str(grades[response.key]["grade"])] += 1
    if not counts:
        return {}, ""
    words = {True: "correct", False: "wrong"}
    table = {f"{words[label]} labelled, {grade}": n for (label, grade), n in sorted(counts.items(), reverse=True)}
    missed = sum(
        n for (label, grade), n in counts.items() if label and grade != Grade.CORRECT and Grade(grade) in SCORED
    )
    extra = counts[False, str(Grade.CORRECT)]
    scored = sum(n for (_, grade), n in counts.items() if Grade(grade) in SCORED)
    return table, (
        f"labels: {scored - missed - extra:,} of {scored:,} agree; labelled correct but not graded so: {missed:,}; "
        f"graded correct but labelled wrong: {extra:,}"
    )


def doubt(confusion: Mapping[str, int]) -> str:
    """A warning where the grades contradict most labels, of all or of those that say correct; else empty."""
    labelled = {
        label: {g: confusion.get(f"{label} labelled, {g}", 0) for g in SCORED} for label in ("correct", "wrong")
    }
    right, wrong = (sum(counts.values()) for counts in labelled.values())
    missed, extra = right - labelled["correct"][Grade.CORRECT], labelled["wrong"][Grade.CORRECT]
    if 2 * missed > right:
        found = f"{missed:,} of {right:,} responses that the labels call correct are not so by these grades"
    elif 2 * (missed + extra) > right + wrong:
        found = f"the grades say something else than the labels of {missed + extra:,} of {right + wrong:,} responses"
    else:
        return ""
    return (
        f"warning: {found}; if the labels are right, name another --grader, or the column of the answer with --answer"
    )


def _rows(
    responses: Sequence[Response], grades: Mapping[str, Mapping[str, Any]], config: GradeConfig
) -> Iterator[dict[str, Any]]:
    """samples.jsonl: a row a response, in the order of the file; `correct` is by its grade, `label` what was there."""
    for r in responses:
        row = grades[r.key]
        yield {
            **({"by": r.by} if r.by else {}),
            **({"step": r.problem.meta["step"]} if "step" in r.problem.meta else {}),
            **({"source": r.problem.source} if r.problem.source else {}),
            "problem": r.problem.id,
            "prompt": r.problem.prompt,
            "answer": r.problem.answer,
            "index": r.rollout.index,
            "response": r.rollout.response,
            "truncated": r.rollout.truncated,
            "correct": row["grade"] == Grade.CORRECT if Grade(row["grade"]) in SCORED else None,
            "label": r.label(config.threshold),
            **{name: row[name] for name in ("grade", "grader", "extracted")},
        }
