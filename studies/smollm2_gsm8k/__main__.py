"""The study by one command, which resumes where it was stopped: python -m smollm2_gsm8k --data train.jsonl

Warm-up, selection of problems by solve rate, a run of each method and seed, evaluations, records, page.
"""

from __future__ import annotations

import dataclasses
import resource
import signal
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from diver.core.extras import provenance
from diver.core.files import JsonlLog, read_json, write_jsonl
from diver.core.run_folder import RunFolder
from diver.core.seeds import digest, fingerprint
from diver.core.settings import merge
from diver.core.types import DiverError, Grade, Problem
from diver.diversity import Diversity, measure
from diver.evaluate.evaluate import Task, evaluate
from diver.grading import verify
from diver.methods import OBSERVED
from diver.recipe.data import Source
from diver.recipe.flags import parse
from diver.recipe.recipe import make_recipe
from diver.recipe.sections import Model
from diver.sample.hf import HFGenerator
from diver.sample.policy import load_configuration, load_policy
from diver.sweep.records import add
from diver.sweep.run import train
from diver_paper.measure import SHOWN, columns, draw
from diver_paper.runs import find, given, records_file, rounded, study_recipe
from smollm2_gsm8k.data import Solved, split
from smollm2_gsm8k.page import METHODS, NAME, write_page
from smollm2_gsm8k.warm_up import read, warm_up, warmed_up

CONFIG = Path(__file__).with_name("study.toml")
KS = (1, 2, 4, 8, 16, 32)
RELEASED_SAMPLES = 4  # for the model before its warm-up, which solves hardly anything


@dataclasses.dataclass
class Arguments:
    """Train SmolLM2-135M-Instruct on GSM8K by clip-higher and by diver-mix, and write what came of it.

    The same command resumes a stopped study. Threads are those of torch: OMP_NUM_THREADS.
    """

    data: str = "openai/gsm8k"
    """GSM8K's training set with its solutions: train.jsonl of openai/grade-school-math, or the data set on the hub."""
    model: Path = Path("build/smollm2-135m-instruct")
    """The model to begin with; python scripts/smollm2.py makes this folder."""
    out: Path = Path("docs/results")
    """The folder of the page, and of the records, records/smollm2-gsm8k.jsonl.gz."""
    work: Path = Path("runs/smollm2-gsm8k")
    """Where runs are made. It holds problems of the data set, so it is not to be published."""
    device: str = "cpu"
    """cpu, cuda and so on."""
    config: Path | None = None
    """Another study.toml: the sizes of the study and the recipe of its runs."""
    prepare: bool = False
    """Only warm up and write the problems, for `python -m fronts --study language_model`."""


class Run(NamedTuple):
    """A run of this study; without a method it is the policy before training."""

    method: str = ""
    seed: int = 0

    @property
    def name(self) -> str:
        return f"{self.method or 'initial'}_seed{self.seed}"

    @property
    def changes(self) -> dict[str, Any]:
        return {"method": {"name": self.method}} if self.method else {}


BEFORE = Run()


class Study:
    """The study's settings, its folders, and the parts of the data set."""

    def __init__(self, arguments: Arguments) -> None:
        self.config = tomllib.loads((arguments.config or CONFIG).read_text(encoding="utf-8"))
        self.regime: Mapping[str, Any] = self.config["recipe"]
        self.recipe = make_recipe(self.regime)
        self.work, self.out, self.device = arguments.work, arguments.out, arguments.device
        self.base, self.warm_up = self.model(arguments.model), self.work / "warm_up.safetensors"
        self.prepare = arguments.prepare
        self.provenance = {key: value for key, value in provenance().items() if key != "started"}
        sizes = self.config["split"]
        source = Source(path=arguments.data, config="main" if arguments.data == Arguments.data else None)
        self.parts = split(
            source,
            load_configuration(self.base).tokenizer,
            sizes,
            sizes["longest_prompt"],
            self.recipe.sample.max_tokens,
        )
        self.held_out = self.problems(self.parts["held_out"][: sizes["held_out"]])
        solved = [f"{s.id} {s.problem} {s.answer}" for part in self.parts.values() for s in part]
        self.identity = {**self.config, "data": digest(*solved), "model": fingerprint(Path(self.base.path))}
        """The settings and data to which a work folder belongs."""

    def model(self, path: Path) -> Model:
        return dataclasses.replace(self.recipe.model, path=str(path), device=self.device)

    def problems(self, solved: Sequence[Solved]) -> list[Problem]:
        return [Problem(s.id, s.problem, s.answer, verifier=self.recipe.data.verifier) for s in solved]

    def run(self) -> None:
        """All stages, in order. Finished stages are read from their files."""
        write_page(self.config, self.out)
        if not self.warm_up.exists():
            part, folder = self.parts["warm_up"], self.work / "warm-up"
            warm_up(self.base, part, self.config["warm_up"], self.warm_up, folder, self.provenance)
        model = warmed_up(self.base, self.warm_up, self.work / "warmed-up")
        with self.timed("select"):
            data = self.select(model)
        if self.prepare:
            unseen = self.parts["held_out"][len(self.held_out) :]
            rows = ({"id": s.id, "problem": s.problem, "answer": s.answer} for s in unseen)
            write_jsonl(self.work / "unseen.jsonl", rows)
            return
        self.write_record(BEFORE, model, self.preparation)
        write_page(self.config, self.out)
        for run in (Run(method, seed) for seed in range(self.config["study"]["seeds"]) for method in METHODS):
            checkpoint = self.work / run.name / "checkpoints" / f"step_{self.recipe.train.steps:04d}"
            self.write_record(run, checkpoint, partial(self.train, run, model, data))
            write_page(self.config, self.out)

    def select(self, model: Path) -> Path:
        """The problems of the training part that the warmed-up model solves in some of its samples, not in nearly
        all."""
        rule, path = self.config["select"], self.work / "selected.jsonl"
        if not path.exists():
            part = self.parts["training"]
            result, _ = self.evaluate("select", model, self.problems(part), rule["samples"], 1.0)
            correct = {row["id"]: row["c"] for row in result["per_problem"]}
            chosen = [s for s in part if rule["least"] <= correct[s.id] <= rule["most"]]
            rows = (
                {"id": s.id, "problem": s.problem, "answer": s.answer, "meta": {"correct": correct[s.id]}}
                for s in chosen
            )
            write_jsonl(path, rows)
        return path

    def preparation(self) -> dict[str, Any]:
        """The entries on warm-up and selection in the record of the policy before training."""
        released, _ = self.evaluate("released", Path(self.base.path), self.held_out, RELEASED_SAMPLES, 1.0)
        chosen = {row["id"]: row["meta"]["correct"] for row in JsonlLog(self.work / "selected.jsonl").rows()}
        return {
            "parts": {part: len(solved) for part, solved in self.parts.items()},
            "released": {"samples": RELEASED_SAMPLES, "correct": [row["c"] for row in released["per_problem"]]},
            "warm_up": read(self.warm_up).info,
            "selected": chosen,
            "metrics": {},
        }

    def train(self, run: Run, model: Path, data: Path) -> dict[str, Any]:
        """Train, or resume. Returns entries of the record."""
        folder = self.work / run.name
        places = {"model": {"path": str(model), "device": self.device}, "data": {"path": str(data)}}
        run_changes = {"run": {"folder": str(folder)}, "evaluate": {"problems": 0}}
        with self.timed(run.name):
            train(study_recipe(merge(given(self.regime, run.changes, run.seed), merge(places, run_changes))))
        return {"commit": read_json(folder / "config.json").get("commit"), "metrics": columns(folder)}

    def write_record(self, run: Run, model: Path, make: Callable[[], Mapping[str, Any]]) -> None:
        """Make the run, evaluate its model at every temperature, and write its record, unless there is one."""
        file, recipe = records_file(self.out, NAME), given(self.regime, run.changes, run.seed)
        if find(file, recipe, trained=bool(run.method)) is not None:
            return
        made = make()
        with self.timed(f"evaluate {run.name}"):
            evaluations = {}
            for temperature in self.config["study"]["temperatures"]:
                name, samples = f"{run.name}_{temperature}", self.config["study"]["samples"]
                evaluations[str(temperature)] = self.measured(
                    *self.evaluate(name, model, self.held_out, samples, temperature)
                )
        rows = list(JsonlLog(self.work / "hours.jsonl").rows())
        stages = {"train": run.name if run.method else "select", "evaluate": f"evaluate {run.name}"}
        seconds = {
            kind: sum(row["cpu_seconds"] for row in rows if row["stage"] == stage) for kind, stage in stages.items()
        }
        device = f"{self.device}, {torch.get_num_threads()} threads"
        header = {"recipe": recipe, "seed": run.seed, "command": "python -m smollm2_gsm8k", "device": device}
        record = {**header, **self.provenance, "cpu_seconds": seconds, **made, "evaluations": evaluations}
        add(file, {run.name: record})

    def evaluate(
        self, name: str, model: Path, problems: Sequence[Problem], samples: int, temperature: float
    ) -> tuple[dict[str, Any], JsonlLog]:
        """The library's evaluation, with its rows in the folder `name`. Every model has the same random streams."""
        task = Task(
            name="gsm8k-train",
            problems=problems,
            template=self.recipe.data.template,
            temperature=temperature,
            max_tokens=self.recipe.sample.max_tokens,
            samples=samples,
            ks=[k for k in KS if k <= samples],
        )

        def generator() -> HFGenerator:
            return HFGenerator(load_policy(self.model(model)), str(model), self.recipe.sample.max_num_seqs)

        folder = self.work / "evaluations" / name
        with JsonlLog(folder / "generations.jsonl") as generations, JsonlLog(folder / "grades.jsonl") as grades:
            return evaluate(task, generator, generations, grades, solutions=True, log=print), generations

    def measured(self, result: Mapping[str, Any], log: JsonlLog) -> dict[str, Any]:
        """An evaluation in a record: numbers for every problem, and the responses to some, by problem id."""
        rows: dict[str, list[dict[str, Any]]] = {problem.id: [] for problem in self.held_out}
        for row in log.rows():
            rows[row["problem"]].append(row)
        groups = draw(self.held_out, log, seed=0)
        by_problem = {
            name: [measure(group, [name], Diversity(until="end"))[name].mean() for group in groups] for name in OBSERVED
        } | {
            name: [np.mean([row[name] for row in sampled]) for sampled in rows.values()]
            for name in ("truncated", "tokens")
        }
        shown = verify(groups[:SHOWN])
        return {
            "samples": result["samples"],
            "unscored": result["unscored"],
            "ids": [row["id"] for row in result["per_problem"]],
            "solutions": [row["solutions"] for row in result["per_problem"]],
            "diversity": {name: [rounded(float(value)) for value in values] for name, values in by_problem.items()},
            "responses": [[[r.response, r.grade is Grade.CORRECT] for r in group.rollouts] for group in shown],
        }

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the CPU seconds of the stage and of its graders to hours.jsonl, also if the stage is stopped."""
        cpu, wall = _cpu_seconds(), time.time()
        try:
            yield
        finally:
            with JsonlLog(self.work / "hours.jsonl") as log:
                log.append(
                    {
                        "stage": stage,
                        "cpu_seconds": round(_cpu_seconds() - cpu, 1),
                        "wall_seconds": round(time.time() - wall, 1),
                    }
                )


def _cpu_seconds() -> float:
    usages = (resource.getrusage(target) for target in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main(args: Sequence[str] | None = None) -> None:
    arguments = parse(Arguments, "python -m smollm2_gsm8k", sys.argv[1:] if args is None else args)
    study = Study(arguments)
    folder = RunFolder(arguments.work, study.provenance, study.identity)  # refuses a folder of other settings or data
    try:
        folder.begin()
        study.run()
    finally:
        folder.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # exits by an exception, so that `timed` writes the time
    try:
        main()
    except DiverError as error:
        sys.exit(f"smollm2_gsm8k: {error}")
