"""The measurements of scripts/one_hour.sh.

python scripts/one_hour.py measure trl          # runs/one-hour-trl.json from its runs, and the summary
python scripts/one_hour.py page FILE.json ...   # adds the files to the records, and writes docs/results/one-hour.md
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from diver.core.files import number, read_json, read_jsonl, to_json, write_text
from diver.core.run_folder import by_step
from diver.core.statistics import Estimate
from diver.core.tables import markdown
from diver.evaluate.comparison import difference, values
from diver.evaluate.results import read_results

METHODS = ("clip-higher", "diver-mix")
TIMES = ("sample", "verify", "diversity", "update")
MISMATCH, OUTCOME, LENGTH = "policy/logprob_mismatch", "reward/outcome", "response/length_mean"
ENDS = 3  # steps at each end of a run whose mean outcome is measured
DOCS = Path(__file__).parents[1] / "docs" / "results"
RECORDS = Path("records")
INTRODUCTION = """\
# One hour of a GPU: what was measured

`sh scripts/one_hour.sh ENGINE` trains clip-higher and diver-mix, evaluates both before and after, and compares them. It
ends with this summary and writes its measurements to runs/one-hour-ENGINE.json. `python scripts/one_hour.py page
FILE.json` writes this page from such files, which are in docs/results/records. Intervals are of 95 % over problems; one
run of a tiny model on few problems says nothing of the methods.
"""


def main(words: list[str]) -> None:
    match words:
        case ["measure", engine]:
            found = measure(engine, Path("runs"))
            write_text(Path(f"runs/one-hour-{engine}.json"), to_json(found, indent=1) + "\n")
            print(f"== summary, from runs/one-hour-{engine}.json\n\n{summary(found)}")
        case ["page", *files]:
            for file in map(Path, files):
                write_text(DOCS / RECORDS / file.name, file.read_text(encoding="utf-8"))
            print(write_page(DOCS))
        case _:
            sys.exit(__doc__)


def measure(engine: str, runs: Path) -> dict[str, Any]:
    """Everything that an hour measures: its stages, the steps of each run, and the evaluations."""
    config = read_json(runs / f"{engine}-{METHODS[0]}" / "config.json")
    recipe = config["recipe"]
    evaluated = {method: evaluations(runs / "eval" / f"{engine}-{method}") for method in METHODS}
    last = [evaluated[method][max(evaluated[method])] for method in reversed(METHODS)]
    return {
        "engine": engine,
        "device": device(),
        "commit": config["commit"],
        "started": config["started"],
        "versions": config["versions"],
        "model": recipe["model"]["path"],
        "data": recipe["data"]["path"],
        "stages": stages(runs / f"one-hour-{engine}.stages"),
        "runs": {method: run(runs / f"{engine}-{method}", recipe) for method in METHODS},
        "evaluations": {
            method: {str(step): result["estimates"] for step, result in found.items()}
            for method, found in evaluated.items()
        },
        "problems": last[0]["problems"],
        "generator": last[0]["generator"],
        "difference": {
            f"pass@{k}": difference(*({0: values(result, f"pass@{k}")} for result in last), (0.0, 1.0))
            for k in last[0]["k"]
        },
    }


def device() -> str:
    import torch

    if torch.cuda.is_available():
        return f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}"
    return f"CPU, {platform.machine()}"


def stages(file: Path) -> dict[str, dict[str, int]]:
    """How often each stage began, and the seconds of its last time."""
    found: dict[str, dict[str, int]] = {}
    began = 0
    for name, event, at in map(str.split, file.read_text().splitlines()):
        stage = found.setdefault(name, {"begun": 0})
        if event == "begin":
            stage["begun"] += 1
            began = int(at)
        else:
            stage["seconds"] = int(at) - began
    return found


def run(folder: Path, recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The steps of a run: seconds of their parts, sampled tokens a second, the outcome and the mismatch."""
    rows = [row for _, row in read_jsonl(folder / "metrics.jsonl", appended=True)]

    def column(name: str) -> np.ndarray:
        return np.array([number(row.get(name)) for row in rows])

    tokens = column(LENGTH) * recipe["train"]["batch_size"] * recipe["sample"]["group_size"]
    return {
        "steps": [row["step"] for row in rows],
        "seconds": {part: column(f"time/{part}").mean() for part in TIMES},
        "tokens_per_second": (tokens / column("time/sample")).mean(),
        "outcome": [column(OUTCOME)[:ENDS].mean(), column(OUTCOME)[-ENDS:].mean()],
        "mismatch": column(MISMATCH).max(),
    }


def evaluations(folder: Path) -> dict[int, dict[str, Any]]:
    """The result of each step."""
    return {step: next(iter(read_results(path)["benchmarks"].values())) for step, path in by_step(folder).items()}


def summary(found: Mapping[str, Any]) -> str:
    """The measurements of an hour as Markdown."""
    times = [[name, f"{stage['begun']}", f"{stage['seconds']}"] for name, stage in found["stages"].items()]
    rows = []
    for method, of in found["runs"].items():
        outcome = " to ".join(f"{value:.2f}" for value in of["outcome"])
        parts = [_text(of["seconds"][part], ".2f") for part in TIMES]
        rows.append(
            [
                method,
                f"{len(of['steps'])}",
                *parts,
                _text(of["tokens_per_second"], ",.0f"),
                outcome,
                _text(of["mismatch"], ".1e"),
            ]
        )
    ks = [*found["difference"]]
    levels = [
        [f"{method}, step {step}", *(_points(estimates[k]) for k in ks)]
        for method, of in found["evaluations"].items()
        for step, estimates in of.items()
    ]
    gaps = [Estimate(*map(number, found["difference"][k])).text(100, sign="+") for k in ks]
    versions = ", ".join(f"{name} {found['versions'][name]}" for name in ("torch", "transformers", found["engine"]))
    commit = (found["commit"] or "unknown")[:8]
    return "\n\n".join(
        (
            f"{found['model']} on {found['data']}, {found['device']}, {versions}, commit {commit}.",
            markdown(["stage", "begun", "seconds of the last time"], times),
            markdown(
                ["run", "steps", *(f"s/step: {part}" for part in TIMES), "sampled tokens/s", "outcome", "mismatch"],
                rows,
            ),
            f"{found['problems']} problems, sampled by {found['generator']}, per cent:",
            markdown(["", *ks], [*levels, ["diver-mix minus clip-higher, after training", *gaps]]),
        )
    )


def _text(value: float | None, form: str) -> str:
    return "–" if value is None or np.isnan(value) else format(value, form)


def _points(estimate: Mapping[str, Any]) -> str:
    return Estimate(*(number(estimate.get(end)) for end in Estimate._fields)).text(100)


def write_page(out: Path) -> Path:
    """Write one-hour.md in `out` from the files of measurements in its records."""
    files = sorted((out / RECORDS).glob("one-hour-*.json"))
    parts = [f"## {file.stem.removeprefix('one-hour-')}\n\n{summary(read_json(file))}" for file in files]
    write_text(out / "one-hour.md", "\n".join([INTRODUCTION, "\n\n".join(parts)]) + "\n")
    return out / "one-hour.md"


if __name__ == "__main__":
    main(sys.argv[1:])
