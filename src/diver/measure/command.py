"""`diver measure`: read, measure, tell; write down where a folder is named."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tyro.conf import Positional

from diver.diversity import Diversity, resolve
from diver.evaluate.config import parse_ks
from diver.io.files import write_text
from diver.io.jsonl import to_json
from diver.measure.picture import write_picture
from diver.measure.problems import ProblemTable, group_row, measured, name_of, problem_table, summary
from diver.measure.validity import as_json, cell, correlation_table, means_table, title, validity
from diver.render.tables import markdown
from diver.report import write_browser
from diver.rollouts import Columns, read_rollouts
from diver.settings import settings
from diver.types import DiverError, Grade, Group

PAPER = ("textual", "equational")
VALIDITY = (*PAPER, "hidden-state", "embedding")
NOTE = "Means over problems, with 95 % bootstrap intervals."
WRITTEN = ("groups.jsonl", "index.html", "summary.json")
WRITTEN_OF_VALIDITY = ("validity.json", "validity.md", "validity.png")
Tell = Callable[[str], Any]


@settings
class Measure:
    """How diverse the responses to each problem are, in rollouts of any origin.

    Files and folders of diver, verl, TRL and lm-eval are recognised; any other JSONL or parquet is read by the names of its
    columns. Try: diver measure runs/quickstart --steps 1,last --out runs/measure
    """

    rollouts: Positional[tuple[str, ...]]
    """Files or folders, each told apart in the tables; NAME=PATH gives a name."""
    metrics: str = ""
    """Names with commas between: textual, equational, hidden-state, embedding, distinct-n, self-bleu, or package.module.function.
    Nothing: textual,equational, and with --validity hidden-state,embedding too."""
    steps: str = ""
    """Of a folder, only the files of these steps: 100, or 1,50-60,last."""
    problem: str = ""
    """The column that says which rows answer the same problem."""
    response: str = ""
    """The column of the response, or of a list of them."""
    outcome: str = ""
    """The column that says how good a response is: true, false or a number."""
    answer: str = ""
    """The column of the known answer."""
    threshold: float = 0.5
    """An outcome of at least this is correct."""
    k: str = "1,8"
    """Values of k for Pass@k, where outcomes are known."""
    validity: bool = False
    """Also how the metrics correlate with each other, over problems."""
    out: Path | None = None
    """Write groups.jsonl, summary.json and index.html, a page to browse the groups, into this folder; with --validity also
    its tables and picture."""
    groups: int = 200
    """At most so many groups in the page, evenly spaced."""
    diversity: Diversity = Diversity()
    """How the metrics are measured; the same keys as method.diversity of a recipe."""

    def __post_init__(self) -> None:
        if not self.rollouts:
            raise DiverError("name at least one file or folder of rollouts")
        if self.groups < 0:
            raise DiverError(f"--groups: must be at least 0, is {self.groups}")
        if not math.isfinite(self.threshold):
            raise DiverError(f"--threshold: must be a finite number, is {self.threshold}")
        if self.diversity.horizon is not None or self.diversity.units == "tokens":
            raise DiverError(
                "--diversity.horizon and units = tokens: need policy tokens, which files of rollouts do not have"
            )
        for name in self.names:
            resolve(name, self.diversity)

    @property
    def names(self) -> list[str]:
        default = VALIDITY if self.validity else PAPER
        return list(dict.fromkeys(name.strip() for name in self.metrics.split(",") if name.strip())) or list(default)


def run(how: Measure, tell: Tell = print) -> None:
    """Measure the rollouts as asked, tell the summary, and write it all down where `out` names a folder."""
    if how.out is not None and how.out.exists() and not how.out.is_dir():
        raise DiverError(f"--out {how.out}: is a file; name a folder")
    ks = parse_ks(how.k)
    groups = {name: _measured(how, name, found) for name, found in _read(how, tell)}
    known = [len(group) for of in groups.values() for group in of if any(r.reward for r in group.rollouts)]
    most = max(known, default=0)
    if known and (beyond := [str(k) for k in ks if k > most]):
        tell(f"no Pass@k for k = {', '.join(beyond)}: the most responses to a problem are {most}")
    tables = {name: problem_table(of, ks, how.threshold) for name, of in groups.items()}
    tell(f"\n{markdown(*_table(tables))}\n{NOTE}")
    if how.out is not None:
        write_text(how.out / "groups.jsonl", "".join(to_json(row) + "\n" for row in _rows(groups, ks, how.threshold)))
        write_text(how.out / "summary.json", to_json(_summaries(how, tables)) + "\n")
        _write_page(how, groups, tables)
    if how.validity:
        _validity(tables, how.out, tell)
    if how.out is not None:
        tell(f"written: {', '.join((*WRITTEN, *(WRITTEN_OF_VALIDITY if how.validity else ())))} in {how.out}")


def _read(how: Measure, tell: Tell) -> Iterator[tuple[str, list[Group]]]:
    """The groups of each path, by the name that tells it apart."""
    columns = Columns(problem=how.problem, response=how.response, outcome=how.outcome, answer=how.answer)
    paths = dict(map(_named, how.rollouts))
    if len(paths) < len(how.rollouts):
        raise DiverError("two of the paths have the same name; tell them apart by NAME=PATH")
    for name, path in paths.items():
        found = read_rollouts(path.expanduser(), columns, how.steps)
        for note in found.notes:
            tell(note)
        yield name, found.groups


def _named(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if equals and not Path(text).exists():
        if not name or not path:
            raise DiverError(f"{text!r}: give a path, or NAME=PATH")
        return name, Path(path)
    return Path(text).stem if Path(text).is_file() else Path(text).name, Path(text)


def _measured(how: Measure, name: str, groups: Sequence[Group]) -> list[Group]:
    from tqdm import tqdm

    with tqdm(total=len(groups), desc=f"{name}: measure", unit="group", leave=False, dynamic_ncols=True) as bar:
        return measured(groups, how.names, how.diversity, bar.update)


def _table(tables: Mapping[str, ProblemTable]) -> tuple[list[str], list[list[str]]]:
    """A row an estimate, a column a path."""
    of = {name: summary(table) for name, table in tables.items()}
    columns = dict.fromkeys(column for found in of.values() for column in found)
    rows = [["problems", *(str(len(table.problems)) for table in tables.values())]]
    rows += [[title(column), *(cell(column, found.get(column)) for found in of.values())] for column in columns]
    return ["", *of], rows


def _write_page(how: Measure, groups: Mapping[str, Sequence[Group]], tables: Mapping[str, ProblemTable]) -> None:
    assert how.out is not None
    several = len(groups) > 1
    shown = [_shown(group, f"{name}: " * several, how.threshold) for name, of in groups.items() for group in of]
    header, rows = _table(tables)
    write_browser(
        how.out / "index.html",
        shown,
        title=", ".join(groups),
        about={
            "groups": len(shown),
            "responses": sum(map(len, shown)),
            "metrics": ", ".join(map(title, how.names)),
            **({"steps": how.steps} if how.steps else {}),
        },
        table=[header, *rows],
        notes=[NOTE],
        limit=how.groups,
    )


def _shown(group: Group, prefix: str, threshold: float) -> Group:
    """The group under a name that says where it is from; what has an outcome and no grade is right or wrong by it."""
    problem, step = group.problem, group.problem.meta.get("step")
    name = f"{prefix}{name_of(problem)}" + (f", step {step}" if step is not None else "")
    by_outcome = [Grade.CORRECT if outcome >= threshold else Grade.WRONG for outcome in group.outcomes]
    grades = [r.grade or (None if r.reward is None else v) for r, v in zip(group.rollouts, by_outcome, strict=True)]
    return dataclasses.replace(group.with_each(grade=grades), problem=dataclasses.replace(problem, id=name))


def _rows(groups: Mapping[str, Sequence[Group]], ks: Sequence[int], threshold: float) -> Iterator[dict[str, Any]]:
    for name, of in groups.items():
        for group in of:
            yield {
                "rollouts": name,
                **({"benchmark": group.problem.source} if group.problem.source else {}),
                "problem": group.problem.id,
                "prompt": group.problem.prompt,
                "step": group.problem.meta.get("step"),
                "size": len(group),
                **group_row(group, ks, threshold),
                "outcomes": group.outcomes.tolist(),
                "each": {
                    metric: [r.diversity[metric] for r in group.rollouts] for metric in group.rollouts[0].diversity
                },
            }


def _summaries(how: Measure, tables: Mapping[str, ProblemTable]) -> dict[str, Any]:
    found = {
        name: {"problems": len(table.problems), "means": {k: e._asdict() for k, e in summary(table).items()}}
        for name, table in tables.items()
    }
    return {"metrics": how.names, "diversity": dataclasses.asdict(how.diversity), "rollouts": found}


def _validity(tables: Mapping[str, ProblemTable], out: Path | None, tell: Tell) -> None:
    result = validity(tables)
    tell(f"\n{correlation_table(result)}\nSpearman's correlation over problems, with 95 % bootstrap intervals.")
    if out is not None:
        write_text(out / "validity.md", f"{means_table(result)}\n{correlation_table(result)}")
        write_text(out / "validity.json", to_json(as_json(result)) + "\n")
        write_picture(result, out / "validity.png")
