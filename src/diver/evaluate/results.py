"""The results of one model: what an evaluation stores, and its Markdown table.

docs/evaluation.md has a table of the files. A row has a key of the settings that it belongs to, so rows of other
settings stay in the file and are never mixed up.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from diver.core.files import JsonlLog, WorkFolder, number, read_json
from diver.core.statistics import ABOUT_PAIRS, DISTINCT, EFFECTIVE, PAIRS, SUPPORT, UNKNOWN, Estimate, enough
from diver.core.tables import Cell, Table, markdown
from diver.core.tables import Measure as Column
from diver.core.types import DiverError


class ResultFolder(WorkFolder):
    """The folder of one model's evaluation, locked while it is open."""

    content = "an evaluation of another model"
    option = "--out"

    def __init__(self, path: Path, model: str, provenance: Mapping[str, Any]) -> None:
        super().__init__(path, {}, {"model": model})
        self.provenance = provenance

    def record_provenance(self) -> None:
        """Record the origin of the rows that follow, once; results.json depends on the settings alone."""
        if self.provenance:
            with JsonlLog(self.path / "provenance.jsonl") as log:
                log.append(self.provenance)
        self.provenance = {}

    def log(self, kind: str, name: str) -> JsonlLog:
        """A log of the folder: `kind` is generations or grades."""
        return JsonlLog(self.path / kind / f"{name}.jsonl", self.record_provenance)


def read_results(path: Path) -> dict[str, Any]:
    """`model` and `benchmarks` of an evaluation: a folder of `diver eval`, its results.json, or eval/step_NNNN.json of
    a run."""
    path = path / "results.json" if path.is_dir() else path
    if not path.exists():
        raise DiverError(f"{path}: there is no results.json; name a folder of `diver eval`, or RUN/eval/step_NNNN.json")
    try:
        results = read_json(path)
        if "benchmark" in results:
            model = f"{results['model']} after {results['step']} steps"
            results = {"model": model, "benchmarks": {results["benchmark"]: results}}
        return {**results, "benchmarks": dict(results["benchmarks"]), "model": str(results["model"])}
    except (ValueError, KeyError, TypeError):
        raise DiverError(f"{path}: is not the results of an evaluation") from None


Results = Mapping[str, Mapping[str, Any]]
NOTE = (
    "Per cent, with 95 % intervals over problems; Pass@k is the unbiased estimate from all samples. "
    "distinct: different correct solutions among k samples; written differently: sets of formulas that correct "
    f"samples write. {ABOUT_PAIRS}"
)


def table_of(results: Results) -> Table:
    """One row per benchmark. Missing estimates are unknown."""
    estimated = {name for r in results.values() for name in r["estimates"]}
    ks = sorted({k for r in results.values() for k in r["k"]})
    names = ["avg@n", *(name for kind in ("pass", "maj") for k in ks if (name := f"{kind}@{k}") in estimated)]
    largest = [k for k in ks if f"distinct@{k}" in estimated][-1:]
    entries = [*results.values()]
    exacts = [r.get("exact_solutions", True) for r in entries]
    kinds = [exact for exact in DISTINCT if exact in exacts]

    def of_kind(kind: bool, name: str) -> list[Cell]:
        return [estimate(r, name) if exact is kind else UNKNOWN for r, exact in zip(entries, exacts, strict=True)]

    columns: dict[Column, Sequence[Cell]] = {
        Column(name): [r[name] for r in entries] for name in ("problems", "samples")
    }
    if len({r["temperature"] for r in entries}) > 1:  # their numbers are then not comparable
        columns[Column("temperature", digits=2)] = [float(r["temperature"]) for r in entries]
    for name in names:
        cells = [estimate(r, f"avg@{r['samples']}" if name == "avg@n" else name) for r in entries]
        columns[Column(name, name.capitalize(), 100)] = cells
    columns |= {Column(f"{DISTINCT[kind]}@{k}"): of_kind(kind, f"distinct@{k}") for k in largest for kind in kinds}
    if any("pair_diversity" in r["estimates"] for r in entries):
        effective = [number(r.get("effective_solutions")) for r in entries]
        columns |= {Column(PAIRS[kind], scale=100): of_kind(kind, "pair_diversity") for kind in kinds}
        columns[Column(SUPPORT)] = [r["estimates"].get("pair_diversity", {}).get("problems") for r in entries]
        for kind in kinds:
            counts = [n if exact is kind else None for n, exact in zip(effective, exacts, strict=True)]
            columns[Column(EFFECTIVE[kind], digits=2)] = counts
    columns[Column("random_baseline", "random baseline", 100)] = [r["random_baseline"] for r in entries]
    columns[Column("unscored")] = [r["unscored"] for r in entries]
    rows = zip((r["title"] for r in entries), zip(*columns.values(), strict=True), strict=True)
    return Table("benchmark", [*columns], dict(rows))


def benchmark_table(results: Results) -> str:
    """The estimates as Markdown, with one column per benchmark and one row per estimate."""
    header, _, _, *rows = table_of(results).upright()
    sizes = ["problems x samples", *(f"{r['problems']} x {r['samples']}" for r in results.values())]
    passed = [(r, k) for r in results.values() for k in r["k"]]
    note = enough((f"{r['title']} Pass@{k}", estimate(r, f"pass@{k}"), r["problems"]) for r, k in passed)
    return markdown(header, [sizes, *rows]) + f"\n{NOTE} {note}".rstrip() + "\n"


def estimate(result: Mapping[str, Any], name: str) -> Estimate:
    stored = result["estimates"].get(name, {})
    return Estimate(*(number(stored.get(end)) for end in Estimate._fields))
