"""Fronts: the policies between an untrained and a trained one, each at several temperatures.

A front shows what a policy reaches without further training. Its pairs (alpha, temperature) trade Pass@1 for Pass@k.
So two methods are compared by the best pair of each for a k, and not at one temperature.
"""

import dataclasses
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from diver.core.files import lock, make_folder, to_json, write_text
from diver.core.statistics import UNKNOWN, interval
from diver.core.tables import Cell, Measure, Table, counted, export
from diver.evaluate.comparison import values
from diver.evaluate.config import EvalConfig
from diver.evaluate.results import estimate
from diver.evaluate.run import SamplerHandle, evaluate_model, load_generator, sampler
from diver.grading import DEFAULT, Verification
from diver.recipe.sections import Model
from diver.sample.base import Generator
from diver.tasks.benchmarks import Loaded

FILE = "front.json"
HALVES = "half of each"
ABOUT = (
    "Pass@k in per cent, with 95 % intervals over problems. alpha 0 is the base model and alpha 1 the trained one. "
    "Half of each: k / 2 samples of each of them, estimated from the same samples."
)
SHARED_STREAMS = "With transformers both draw by the same random streams, so half of each is estimated too low."


class Pair(NamedTuple):
    """A policy of a front: weights base + alpha (trained - base), sampled at a temperature."""

    alpha: float
    temperature: float

    def __str__(self) -> str:
        return f"alpha {self.alpha:.12g}, temperature {self.temperature:.12g}"

    @property
    def folder(self) -> str:
        return f"alpha_{self.alpha:.12g}_temperature_{self.temperature:.12g}"


def between(config: EvalConfig, base: Model, trained: Model, alpha: float) -> SamplerHandle:
    """The generator of the weights at `alpha`. They are written to --out when it opens, and deleted once they are
    loaded."""
    if alpha in (0, 1):
        return sampler(config, trained if alpha else base)
    ends = [sampler(config, model) for model in (base, trained)]
    name = f"{ends[1].model}*{alpha:.12g}+{ends[0].model}*{1 - alpha:.12g}"
    folder = (config.out or Path()) / ".weights"

    @cache
    def opened() -> Generator:
        from diver.sample.blend import blend, model_folder

        shutil.rmtree(folder, ignore_errors=True)  # a kill may have left it
        try:
            blend(model_folder(base), model_folder(trained), alpha, folder)
            policy = dataclasses.replace(ends[1].policy or trained, path=str(folder), revision=None)
            return load_generator(config, policy, str(folder), name)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return ends[1]._replace(model=name, open=opened)


def evaluate_front(
    config: EvalConfig,
    base: Model,
    trained: Model,
    benchmarks: Sequence[Loaded] | None,
    out: Path,
    pairs: Sequence[Pair],
    verification: Verification = DEFAULT,
    log: Callable[[str], Any] = lambda line: None,
) -> dict[Pair, dict[str, Any]]:
    """The results of every pair by benchmark. Each pair is stored and resumed in a folder in `out`.

    Raises:
        DiverError: The models cannot be blended. It is raised before anything is sampled.
    """
    from diver.sample.blend import check_blend, model_folder

    if any(pair.alpha not in (0, 1) for pair in pairs):
        check_blend(model_folder(base), model_folder(trained))
    model_config = dataclasses.replace(
        config, run=None, step=None, alphas="", temperatures="", base="", model=trained.path, out=out
    )
    results = {}
    make_folder(out)
    with lock(out):
        for alpha in dict.fromkeys(pair.alpha for pair in pairs):
            generator = between(model_config, base, trained, alpha)  # one for all temperatures, so it is loaded once
            for pair in (pair for pair in pairs if pair.alpha == alpha):
                log(str(pair))
                pair_config = dataclasses.replace(model_config, temperature=pair.temperature)
                results[pair] = evaluate_model(pair_config, generator, benchmarks, out / pair.folder, verification)[0]
                for name, result in results[pair].items():
                    if number := result["unscored"]:
                        log(f"{name}: {counted(number, 'response')} unscored: left out, not counted as wrong")
    return results


def halves(base: Mapping[str, Any], trained: Mapping[str, Any], k: int) -> np.ndarray:
    """Pass@k of k / 2 samples of each of two policies, by problem: 1 - (1 - Pass@(k/2)) (1 - Pass@(k/2)).

    It is unbiased if the samples are independent, as those of the prefix tree are. With transformers both policies draw
    by the same random streams. Then their samples tend to be correct together, and the estimate is low. NaN where a
    problem has fewer samples.
    """
    base_pass, trained_pass = (values(result, f"pass@{k // 2}") for result in (base, trained))
    return 1 - (1 - base_pass) * (1 - trained_pass)


def front_table(front: Mapping[Pair, Mapping[str, Any]]) -> Table:
    """Pass@k of every pair, and of half of the samples from each end at each temperature that both ends have."""
    ks = sorted({k for result in front.values() for k in result["k"]})
    rows: dict[str, list[Cell]] = {
        str(pair): [estimate(result, f"pass@{k}") for k in ks] for pair, result in front.items()
    }
    for temperature in dict.fromkeys(pair.temperature for pair in front):
        base, trained = (front.get(Pair(alpha, temperature)) for alpha in (0.0, 1.0))
        if base and trained:
            label = f"{HALVES}, temperature {temperature:.12g}"
            rows[label] = [UNKNOWN if k % 2 else interval(halves(base, trained, k), (0, 1)) for k in ks]
    return Table("policy", [Measure(f"pass@{k}", f"Pass@{k}", 100) for k in ks], rows)


def write_front(
    config: EvalConfig, out: Path, front: Mapping[Pair, Mapping[str, Mapping[str, Any]]], base: str, trained: str
) -> Path:
    """Write front.json and front.md in `out` and print the tables. Returns front.json.

    The file has the paths of both models and, for each benchmark, `problems`, `samples`, `k` and a row for each policy.
    A row has the `alpha` and `temperature` of a pair, and its estimates.
    """
    log, data, text, written = config.notes(), {}, "", []
    for name in next(iter(front.values())):
        results_by_pair = {pair: results[name] for pair, results in front.items()}
        table = front_table(results_by_pair)
        pair_fields = {str(pair): pair._asdict() for pair in results_by_pair}
        largest = max(results_by_pair.values(), key=lambda result: result["samples"])  # a greedy pair has one
        rows = [{**pair_fields.get(str(row[table.of]), {}), **row} for row in table.records()]
        data[name] = {**{key: largest[key] for key in ("problems", "samples", "k")}, "rows": rows}
        shown = f"{name}\n\n{export(table, 'markdown')}"
        config.show(table, f"\n{shown}", log)
        written += config.write(table, out, f"front_{name}")
        text += f"{shown}\n"
    about = f"{ABOUT} {SHARED_STREAMS}" if config.generator == "transformers" and HALVES in text else ABOUT
    write_text(out / "front.md", f"{text}{about}\n")
    write_text(out / FILE, to_json({"base": base, "trained": trained, "benchmarks": data}, indent=1) + "\n")
    log(f"{about}\nresults: {', '.join([f'{out}/{FILE}', 'front.md', *(path.name for path in written)])}")
    return out / FILE
