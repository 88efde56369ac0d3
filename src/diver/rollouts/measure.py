"""`diver measure`: read rollouts, measure their diversity, print a table and write the results."""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from diver.core.extras import require
from diver.core.figures import write_intervals
from diver.core.files import read_json, to_json, write_jsonl, write_text
from diver.core.progress import progress
from diver.core.run_folder import given_name, run_name
from diver.core.settings import NonNegativeInt, Positional, parse_ks, settings
from diver.core.statistics import ABOUT_PAIRS, effective_number
from diver.core.tables import Cell, Export, Log, Table, clean, markdown
from diver.core.tables import Measure as Column
from diver.core.types import DiverError, Group
from diver.diversity import Diversity, resolve, unspaced_note, with_diversity
from diver.rollouts import Columns, read_rollouts
from diver.rollouts.dependence import dependence
from diver.rollouts.files import check_out
from diver.rollouts.problems import (
    EFFECTIVE_OF,
    PAIR_KINDS,
    SINGLE,
    ProblemTable,
    column,
    group_row,
    owner,
    pair_columns,
    problem_table,
    summary,
    support_of,
)
from diver.rollouts.reader import THRESHOLD, largest_outcome, scale_note

PAGE = "index.html"
FILES = ("groups.jsonl", PAGE, "summary.json")  # written to --out
NOTE = f"Means over problems, with 95 % intervals. {ABOUT_PAIRS}"


class Measurement(NamedTuple):
    """The measured groups of each path, or of each value of --by in it, and their table of problems."""

    groups: dict[str, list[Group]]
    tables: dict[str, ProblemTable]


@settings
class Measure(Columns, Export):
    """Measure how diverse the responses to each problem are, in rollouts of any origin.

        diver measure runs/quickstart --steps 1,last --out runs/measure

    Files of diver, TRL, verl, slime, SkyRL, lm-eval, inspect_ai and others are recognised; docs/measure.md lists them.
    Other JSONL, parquet, CSV or JSON is read by the names of its columns. With --by model, each model is a column.
    """

    rollouts: Positional[tuple[str, ...]]
    """Files or folders, each a column of the table. NAME=PATH gives a name."""
    metrics: str = "textual,equational"
    """Metrics, separated by commas. Examples are textual, equational, self-bleu, embedding, actions (trajectories), and
    package.module:function; docs/measure.md lists all."""
    steps: str = ""
    """Read only the files of these steps of a folder: 100, or 1,50-60,last."""
    threshold: float = THRESHOLD
    """Minimum outcome of a correct response."""
    k: str = "1,8"
    """Values of k for Pass@k, where outcomes are known."""
    out: Path | None = None
    """Folder for groups.jsonl, summary.json and index.html. The page index.html shows the groups."""
    groups: NonNegativeInt = 200
    """Maximum number of groups on the page, evenly spaced."""
    diversity: Diversity = Diversity()
    """How the metrics are measured; the same keys as method.diversity of a recipe."""

    def __post_init__(self) -> None:
        if not self.rollouts:
            raise DiverError("name at least one file or folder of rollouts")
        self.check_export(self.out)
        if self.diversity.horizon is not None or self.diversity.tokenize == "policy":
            raise DiverError("--diversity.horizon and tokenize = policy: need policy tokens, which files do not have")
        if not self.names:
            raise DiverError(f"--metrics {self.metrics}: name at least one, such as textual")
        for name in self.names:
            resolve(name, self.diversity)

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name.strip() for name in self.metrics.split(",") if name.strip()))


WritePage = Callable[[Path, Measure, Measurement], Any]


def run(config: Measure, log: Log = print, write_page: WritePage | None = None) -> dict[str, ProblemTable]:
    """Measure the rollouts, log the summary, and write the results if `out` names a folder; returns tables by name.

    `write_page` writes the page into `out`; without it, no page is written.
    """
    out = config.out
    names = [name for name in FILES if write_page or name != PAGE]
    files = [*names, *(path.name for path in config.paths(Path()))]
    if out is not None:
        check_out(out, files, paths_of(config.rollouts).values(), mine=_has_results(out))
    require("scipy")  # SciPy computes the intervals
    show, log = log, config.notes(log)
    ks = parse_ks(config.k)
    unknown = [dict.fromkeys(config.names, math.nan)]  # a single response has no diversity; equal ones have 0
    groups = {}
    for name, path_groups in _read(config, log):
        groups[name] = [
            with_diversity(group, config.names, config.diversity)
            if len(group) > 1
            else group.with_each(diversity=unknown)
            for group in progress(path_groups, f"{name}: measure", "group")
        ]
        for note in _remarks(groups[name], config.diversity.tokenize):
            log(f"{name}: {note}")
    all_groups = [group for members in groups.values() for group in members]
    largest = max((sum(r.reward is not None for r in group.rollouts) for group in all_groups), default=0)
    if largest and (beyond := [str(k) for k in ks if k > largest]):
        log(f"no Pass@k for k = {', '.join(beyond)}: the most responses to a problem are {largest}")
    tables = {name: problem_table(measured_groups, ks, config.threshold) for name, measured_groups in groups.items()}
    result = table_of(tables)
    header, *rows = result.upright()
    config.show(result, f"\n{markdown(header, rows)}\n{NOTE}", show)
    if out is not None:
        by_path = {
            name: {
                "problems": len(table.problems),
                "means": {
                    measure: {
                        **estimate._asdict(),
                        "problems": support_of(table.columns[measure]),
                        **({"effective": effective_number(estimate.mean)} if measure in EFFECTIVE_OF else {}),
                    }
                    for measure, estimate in summary(table).items()
                },
            }
            for name, table in tables.items()
        }
        summaries = {"metrics": config.names, "diversity": dataclasses.asdict(config.diversity), "rollouts": by_path}
        # The summary is first: if the command is stopped and repeated, it recognises the folder by this file.
        write_text(out / "summary.json", to_json(summaries) + "\n")
        write_jsonl(out / "groups.jsonl", _rows(groups, ks, config.threshold))
        if write_page:
            write_page(out / PAGE, config, Measurement(groups, tables))
        config.write(result, out)
        if figures := config.figure_paths(out):
            write_intervals(result, *figures)
        log(f"written: {', '.join(files)} in {out}")
    return tables


def _has_results(out: Path) -> bool:
    """Whether the folder has the results of an earlier `diver measure`, by its summary.json."""
    try:
        return (out / "summary.json").exists() and {"metrics", "rollouts"} <= read_json(out / "summary.json").keys()
    except DiverError:
        return False


def _remarks(groups: Sequence[Group], tokenize: str) -> Iterator[str]:
    """Notes on the groups of a path for the user."""
    if note := unspaced_note([response for group in groups for response in group.responses], tokenize):
        yield note
    if repetition := dependence(group.responses for group in groups):
        yield str(repetition)
    usual = usual_size(groups)
    if ragged := sum(len(group) != usual for group in groups):
        yield (
            f"{ragged} of {len(groups)} groups are ragged: they do not have {usual} responses, as most have, and "
            "diversity depends on the size of a group; groups.jsonl and the page mark them"
        )
    if single := sum(len(group) == 1 for group in groups):
        yield f"{single} of {len(groups)} groups are {SINGLE}"


def usual_size(groups: Sequence[Group]) -> int:
    """The number of responses that most groups have."""
    return Counter(map(len, groups)).most_common(1)[0][0]


def _read(config: Measure, log: Log) -> Iterator[tuple[str, list[Group]]]:
    """The groups of each path, by its name in the table."""
    paths = paths_of(config.rollouts)
    for name, path in paths.items():
        rollouts = read_rollouts(path, config, config.steps)
        for note in [*rollouts.notes, *scale_note(name, largest_outcome(rollouts), config.threshold)]:
            log(note)
        owners: dict[str, list[Group]] = {}
        for group in rollouts:
            owners.setdefault(owner(group.problem, config.by), []).append(group)
        for by, owned in owners.items():
            yield name if len(owners) == 1 else f"{name}: {by}" if len(paths) > 1 else by, owned


def paths_of(rollouts: Sequence[str]) -> dict[str, Path]:
    """The paths by name: that of NAME=PATH, or for a path alone its last part."""
    paths = {}
    for given, path in map(given_name, rollouts):
        path = path.expanduser()
        name = given or (path.stem if path.is_file() else run_name(path) or str(path))
        paths[clean(name)] = path
    if len(paths) < len(rollouts):
        raise DiverError("two of the paths have the same name; distinguish them by NAME=PATH")
    return paths


def table_of(tables: Mapping[str, ProblemTable]) -> Table:
    """One row per path; the columns are the estimates."""
    summaries = {name: summary(table) for name, table in tables.items()}
    names = dict.fromkeys(name for means in summaries.values() for name in means)
    estimates = {name: [means.get(name) for means in summaries.values()] for name in names}
    columns: dict[Column, Sequence[Cell]] = {Column("problems"): [len(table.problems) for table in tables.values()]}
    columns |= {column(name): cells for name, cells in estimates.items() if name not in PAIR_KINDS}
    for kind in (name for name in names if name in PAIR_KINDS):
        support = [
            support_of(tables[name].columns[kind]) if kind in means else None for name, means in summaries.items()
        ]
        columns |= pair_columns(kind, estimates[kind], support)
    return Table.of_columns("rollouts", tables, columns)


def _rows(groups: Mapping[str, Sequence[Group]], ks: Sequence[int], threshold: float) -> Iterator[dict[str, Any]]:
    for name, measured_groups in groups.items():
        usual = usual_size(measured_groups)
        for group in measured_groups:
            metrics, row = group.rollouts[0].diversity, group_row(group, ks, threshold)
            yield {
                "rollouts": name,
                **({"benchmark": group.problem.source} if group.problem.source else {}),
                "problem": group.problem.id,
                "prompt": group.problem.prompt,
                "step": group.problem.meta.get("step"),
                "size": len(group),
                **({"ragged": True} if len(group) != usual else {}),
                **{k: v for k, v in row.items() if k not in PAIR_KINDS or not math.isnan(v)},
                "outcomes": group.outcomes.tolist(),
                "each": {metric: [r.diversity[metric] for r in group.rollouts] for metric in metrics},
            }
