"""`diver grade`: responses that exist already, graded against reference answers, and compared with their labels."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from diver.core.extras import require
from diver.core.figures import write_intervals
from diver.core.files import JsonlLog, Log, MemoryLog, WorkFolder, to_json, write_jsonl, write_text
from diver.core.progress import progress_bar
from diver.core.rounding import reaches
from diver.core.seeds import digest
from diver.core.settings import Positional, parse_ks, settings
from diver.core.statistics import Estimate, bounds_of, by_problem, interval, pass_at_k
from diver.core.tables import Cell, Export, Measure, Table, counted, export, write_table
from diver.core.types import SCORED, Grade, Problem, Rollout
from diver.grading import Verification, get_grader
from diver.grading import grade as verify_grade
from diver.grading.extraction import opens_thought
from diver.grading.grading import AUTO, answer, grader_for
from diver.grading.references import final_answer, is_letter
from diver.rollouts import Columns, Rollouts, read_rollouts
from diver.rollouts.dependence import dependence
from diver.rollouts.known import ProblemsOfRun, known_problems, without_reference
from diver.rollouts.problems import name_of, owner
from diver.rollouts.reader import THRESHOLD, largest_outcome, scale_note

CHUNK = 4096  # responses per call: equal answers are graded once, and rows are stored before a kill loses many
NOTE = (
    "Per cent, with 95 % intervals over problems; Pass@k is the unbiased estimate from all samples. Agreement: of the "
    "graded responses that have a label, those whose grade says the same."
)


@settings
class GradeConfig(Columns, Export):
    """Grade stored responses against reference answers, estimate Pass@k, and compare the grades with labels.

        diver grade mine.jsonl --by model --out runs/graded --format csv

    Files are read as by diver measure. The grader runs in worker processes that are killed when they hang. With --out
    the same command resumes. It grades again only the responses whose grading hung.
    """

    rollouts: Positional[str]
    """A file or a folder of responses."""
    grader: str = AUTO
    """Grader of the answers, or package.module:function of (response, problem). Names are math, gsm8k, choice and
    math-verify, the package alone. With auto, a run has the verifier of its recipe. Other data has math, gsm8k or
    choice, and a line says why."""
    k: str = "1,8"
    """Values of k for Pass@k, such as 1,8,64 or 1,...,1024. `...` doubles in between."""
    threshold: float = THRESHOLD
    """Minimum label of a correct response."""
    steps: str = ""
    """Read only the files of these steps of a folder: 100, or 1,50-60,last."""
    out: Path | None = None
    """Folder for samples.jsonl, summary.json and the table."""
    verify: Verification = Verification()
    """Time limit, workers and memory of grading."""

    def __post_init__(self) -> None:
        if self.grader != AUTO:
            get_grader(self.grader, "--grader")
        parse_ks(self.k)
        self.check_export(self.out)


@dataclass
class Response:
    """A response. Its grade depends on nothing but the content of `key`: equal keys have equal grades."""

    problem: Problem
    group: int
    """The number of its group. A problem has one group per step."""
    rollout: Rollout
    label: bool | None
    """Whether the file labels it as correct; None without a label."""
    thinking: bool
    """Whether the prompt ends inside a thought."""
    key: str
    graded: Mapping[str, Any] = field(default_factory=dict)
    """Its row of grades.jsonl, once it is graded."""

    @property
    def by(self) -> str:
        return str(self.problem.meta.get("by", ""))

    @property
    def grade(self) -> Grade:
        return Grade(self.graded["grade"])

    @property
    def verdict(self) -> bool | None:
        """Whether its grade is correct; None if it is unscored."""
        return self.grade is Grade.CORRECT if self.grade in SCORED else None


class Graded(WorkFolder):
    """The folder of the grades of one file."""

    content = "the grades of other rollouts"
    option = "--out"


def run(config: GradeConfig, problems_of_run: ProblemsOfRun | None = None) -> Table:
    """Grade the responses without a grade, print the table, and write the results if `out` names a folder."""
    require("scipy")
    print_note = config.notes()
    path = Path(config.rollouts).expanduser()
    rollouts = read_rollouts(path, config, config.steps)
    for note in [*rollouts.notes, *scale_note(str(path), largest_outcome(rollouts), config.threshold)]:
        print_note(note)
    if repetition := dependence(group.responses for group in rollouts):
        print_note(str(repetition))
    for note in without_reference(rollouts, config.grader):
        print_note(f"{path}: {note}")
    problems, graded_by = known_problems(rollouts, path, config.grader, problems_of_run)
    for note in filter(None, [graded_by, *sorted({grader_for(problem, config.grader).note for problem in problems})]):
        print_note(note)
    responses = list(_responses(rollouts, problems, config))
    if config.out is None:
        _grade(responses, MemoryLog(), config)
    else:
        with (
            Graded(config.out, {}, {"rollouts": str(path.resolve())}) as folder,
            JsonlLog(folder.path / "grades.jsonl") as log,
        ):
            _grade(responses, log, config)
    table = summary(responses, config)
    counts = Counter(r.grade for r in responses)
    print_note(", ".join(f"{counts[grade]:,} {grade}" for grade in Grade if counts[grade]))
    label_counts, label_notes = confusion(responses)
    for line in [*too_few(responses, config), *label_notes, *missed_options(responses)]:
        print_note(line)
    if config.out is not None:
        by_row = sorted(responses, key=lambda r: (r.rollout.place or ("", 0))[:2])  # rows of a group may be far apart
        write_jsonl(config.out / "samples.jsonl", map(_row, by_row))
        results = {"grades": counts, "confusion": label_counts, "table": table.records()}
        write_text(config.out / "summary.json", to_json(results, indent=1) + "\n")
        table_path, figures = write_table(table, config.out, config.format), config.figure_paths(config.out)
        if figures:
            write_intervals(table, *figures)
        names = ", ".join(path.name for path in [table_path, *figures])
        print_note(f"written: {names}, samples.jsonl, summary.json in {config.out}")
    config.show(table, f"\n{export(table, 'markdown')}\n{NOTE}")
    return table


def _responses(rollouts: Rollouts, problems: Sequence[Problem], config: GradeConfig) -> Iterator[Response]:
    for number, (group, problem) in enumerate(zip(rollouts, problems, strict=True)):
        meta = {name: str(value) for name, value in problem.meta.items()}
        problem_key = [grader_for(problem, config.grader).version, problem.prompt, problem.answer, meta]
        thinking = opens_thought(group.prompt)
        for rollout in group.rollouts:
            key = digest(*problem_key, rollout.response, rollout.truncated, *([thinking] if thinking else []))
            label = None if rollout.reward is None else bool(reaches(rollout.reward.outcome, config.threshold))
            yield Response(problem, number, rollout, label, thinking, key)


def _by_reference(problem: Problem) -> list[Problem]:
    """The problem with each of its right answers: inspect_ai may have several, and each one is correct."""
    accepted = problem.meta.get("accepted", ())
    return [problem, *(replace(problem, answer=final_answer(str(reference))) for reference in accepted)]


def _grade(responses: Sequence[Response], log: Log, config: GradeConfig) -> None:
    """Grade the responses that the log lacks, or has as timeout or error, and append their rows to it."""
    rows = {row["key"]: row for row in log.rows()}
    ungraded = {r.key: r for r in responses if r.key not in rows or Grade(rows[r.key]["grade"]) not in SCORED}
    missing = iter(ungraded.values())
    with progress_bar(len(ungraded), "grade", "response") as bar:
        while chunk := list(islice(missing, CHUNK)):
            cases = [(r, problem) for r in chunk for problem in _by_reference(r.problem)]
            truncated, thinking = [r.rollout.truncated for r, _ in cases], [r.thinking for r, _ in cases]
            pairs = [(r.rollout.response, problem) for r, problem in cases]
            given = verify_grade(pairs, config.verify, grader=config.grader, truncated=truncated, thinking=thinking)
            grades: dict[str, Grade] = {}
            for (response, _), grade in zip(cases, given, strict=True):
                grades[response.key] = grade if grade is Grade.CORRECT else grades.get(response.key, grade)
            for response in chunk:
                problem, grade = response.problem, grades[response.key]
                rows[response.key] = {
                    "key": response.key,
                    "grader": grader_for(problem, config.grader).version,
                    "grade": grade,
                    "extracted": answer(problem, response.rollout.response, config.grader) if grade in SCORED else None,
                }
                log.append(rows[response.key])
            bar.update(len(chunk))
    for response in responses:
        response.graded = rows[response.key]


def summary(responses: Sequence[Response], config: GradeConfig) -> Table:
    """One row per value of --by, or a single row: problems, samples, Pass@k by grades, Pass@1 by labels, agreement."""
    largest = max(Counter(r.group for r in responses).values())
    ks = [k for k in parse_ks(config.k) if k <= largest]  # Pass@k is unknown for a larger k
    measures = [
        Measure("problems"),
        Measure("samples"),
        *(Measure(f"pass@{k}", f"Pass@{k}", 100) for k in ks),
        Measure("label_pass@1", "Pass@1 by labels", 100),
        Measure("agreement", "agreement", 100),
        Measure("unscored"),
    ]
    owners: dict[str, list[Response]] = {}
    has_names = any(response.by for response in responses)
    for response in responses:
        by = owner(response.problem, config.by) if has_names else Path(config.rollouts).stem
        owners.setdefault(by, []).append(response)
    rows: dict[str, list[Cell]] = {}
    for by, owned in owners.items():
        verdicts, labels = [r.verdict for r in owned], [r.label for r in owned]
        agree = [v == label for v, label in zip(verdicts, labels, strict=True) if None not in (v, label)]
        rows[by] = [
            len({name_of(r.problem) for r in owned}),
            len(owned),
            *(_pass_at_k(owned, verdicts, k) for k in ks),
            _pass_at_k(owned, labels, 1),
            sum(agree) / len(agree) if agree else None,
            verdicts.count(None),
        ]
    return Table(config.by or "rollouts", measures, rows)


def _pass_at_k(responses: Sequence[Response], verdicts: Sequence[bool | None], k: int) -> Estimate | None:
    """Pass@k within each group of known verdicts, then the mean per problem; None if no verdict is known."""
    problems = {r.group: name_of(r.problem) for r in responses}
    scored = Counter(r.group for r, verdict in zip(responses, verdicts, strict=True) if verdict is not None)
    correct = Counter(r.group for r, verdict in zip(responses, verdicts, strict=True) if verdict)
    n, c = ([counts[group] for group in problems] for counts in (scored, correct))
    values = by_problem(problems.values(), pass_at_k(n, c, k))
    return None if np.isnan(values).all() else interval(values, bounds_of(f"pass@{k}"))


def too_few(responses: Sequence[Response], config: GradeConfig) -> Iterator[str]:
    """A note for each k on the problems that have too few scored responses for Pass@k."""
    scored = Counter(r.group for r in responses if r.verdict is not None)
    sizes: dict[tuple[str, str], int] = {}
    for r in responses:
        problem = (r.by, name_of(r.problem))
        sizes[problem] = max(sizes.get(problem, 0), scored[r.group])
    for k in parse_ks(config.k):
        few, scope = sum(n < k for n in sizes.values()), f" of all {config.by}s" if config.by else ""
        if few == len(sizes):
            yield f"no Pass@{k}: no problem has {counted(k, 'scored response')}"
        elif few:
            yield f"Pass@{k}: {few:,} of {len(sizes):,} problems{scope} have fewer than {k} scored responses: left out"


def confusion(responses: Sequence[Response]) -> tuple[dict[str, int], list[str]]:
    """The counts of each pair of label and grade, by "LABEL labelled, GRADE", and in words; empty without labels.

    A warning follows if the grades contradict most of all labels, or most labels that say correct.
    """
    counts = Counter((r.label, r.grade) for r in responses if r.label is not None)
    if not counts:
        return {}, []
    words = {True: "correct", False: "wrong"}
    table = {f"{words[label]} labelled, {grade}": n for (label, grade), n in sorted(counts.items(), reverse=True)}
    right, wrong = (sum(counts[label, grade] for grade in SCORED) for label in (True, False))
    missed, extra = right - counts[True, Grade.CORRECT], counts[False, Grade.CORRECT]
    contradicted, scored = missed + extra, right + wrong
    lines = [
        f"labels: {scored - contradicted:,} of {scored:,} agree; labelled correct but not graded so: {missed:,}; "
        f"graded correct but labelled wrong: {extra:,}"
    ]
    if 2 * missed > right or 2 * contradicted > scored:
        which = f"{missed:,} of the {right:,} labels that say correct and {extra:,} of the {wrong:,} others"
        lines.append(
            f"warning: the grades contradict {which}; if the labels are right, name another --grader, or the column of "
            "the answer with --answer"
        )
    return table, lines


def missed_options(responses: Sequence[Response]) -> list[str]:
    """A warning if reference answers are letters, like those of options, and math accepts 10 % of responses at most."""
    cases = [r for r in responses if r.graded["grader"].startswith("math@") and is_letter(r.problem.answer, small=True)]
    correct = sum(r.grade is Grade.CORRECT for r in cases)
    if not cases or 10 * correct > len(cases):
        return []
    return [
        f"warning: the reference answers of {len(cases):,} responses are letters, and math calls {correct:,} of these "
        "responses correct; where the letters are those of options, --grader choice grades them"
    ]


def _row(response: Response) -> dict[str, Any]:
    """A row of samples.jsonl. `correct` is the new grade, `label` the label of the file."""
    problem, rollout = response.problem, response.rollout
    file, row, name = rollout.place or ("", 0, None)
    return {
        **({"file": Path(file).name, "row": row} if row else {}),
        **({"id": name} if name is not None else {}),
        **({"by": response.by} if response.by else {}),
        **({"step": problem.meta["step"]} if "step" in problem.meta else {}),
        **({"source": problem.source} if problem.source else {}),
        "problem": problem.id,
        "prompt": problem.prompt,
        "answer": problem.answer,
        **{name: problem.meta[name] for name in ("accepted", "options") if name in problem.meta},
        "index": rollout.index,
        "response": rollout.response,
        "truncated": rollout.truncated,
        "correct": response.verdict,
        "label": response.label,
        **{name: response.graded[name] for name in ("grade", "grader", "extracted")},
    }
