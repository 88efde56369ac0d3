"""docs/results/smollm2-gsm8k.md, from the records alone."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diver.core.files import write_text
from diver.core.statistics import Estimate
from diver.core.tables import markdown
from diver_paper.aggregate import Study, difference, over_seeds
from diver_paper.experiments import INITIAL, Experiment
from diver_paper.pages import GUIDE, seeds_note, shown, title
from diver_paper.runs import Record, find, given, records_file

NAME = "smollm2-gsm8k"
METHODS = ("clip-higher", "diver-mix")
HELD_OUT = ("pass@1", "pass@4", "pass@16", "pass@32", "distinct@32", "held-out/textual", "held-out/equational")
TRAINING = (
    "reward/outcome", "group/solve_all", "group/solve_none", "policy/entropy", "diversity/textual",
    "diversity/equational", "signal/all_correct",
)  # fmt: skip
EXPERIMENT = Experiment(
    name=NAME,
    title="SmolLM2-135M-Instruct on GSM8K",
    reproduces="",
    varied="the method",
    variants={name: {"method": {"name": name}} for name in METHODS},
    paper_variants={},
)


def write_page(config: Mapping[str, Any], out: Path) -> None:
    """Write the page of the available records; at first there are none."""
    regime, seeds = config["recipe"], config["study"]["seeds"]
    wanted = [(INITIAL, 0, {}), *((m, s, {"method": {"name": m}}) for s in range(seeds) for m in METHODS)]
    runs: dict[str, dict[int, Record]] = {}
    for variant, seed, changes in wanted:
        recipe = given(regime, changes, seed)
        if (record := find(records_file(out, NAME), recipe, trained=variant != INITIAL)) is not None:
            runs.setdefault(variant, {})[seed] = record
    study = Study(EXPERIMENT, runs, seeds)
    parts = [
        f"# {EXPERIMENT.title}\n",
        "A pretrained language model trained by clip-higher and by diver-mix from one warmed-up policy. "
        "`python -m smollm2_gsm8k` makes this page ([study.toml](../../studies/smollm2_gsm8k/study.toml), commands in "
        f"[README.md](README.md)) from `records/{NAME}.jsonl.gz`, which has problem ids and no text of the data set. "
        f"{seeds_note(study)}\n",
    ]
    if INITIAL in runs:
        temperatures = [str(t) for t in config["study"]["temperatures"]]
        if len(runs) > len(METHODS):
            parts += [f"{' '.join(_outcome(study, t) for t in temperatures)}\n"]
        parts += ["## Data, warm-up, problems\n", _preparation(config, runs[INITIAL][0])]
        parts += [block for t in temperatures for block in _held_out(study, t)]
        parts += ["## Training\n", _training(study), "## Cost\n", _cost(runs)]
    write_text(out / f"{NAME}.md", "\n".join(parts))


def at(study: Study, temperature: str) -> Study:
    """The study with the evaluation at one temperature alone in every record."""
    runs = {
        variant: {
            seed: {**record, "evaluations": {temperature: record["evaluations"][temperature]}}
            for seed, record in records.items()
        }
        for variant, records in study.runs.items()
    }
    return study._replace(runs=runs)


def _preparation(config: Mapping[str, Any], before: Record) -> str:
    sizes, rule, recipe = before["parts"], config["select"], config["recipe"]
    released, losses = before["released"], before["warm_up"]["loss"]
    tail = losses[-max(1, len(losses) // 10) :]
    solved = 100 * np.mean(released["correct"]) / released["samples"]
    rates = np.array(list(before["selected"].values())) / rule["samples"]
    return (
        "GSM8K's training set is divided at random into problems for the warm-up "
        f"({sizes['warm_up']:,}), for training ({sizes['training']:,}) and held out ({sizes['held_out']:,}, of which "
        f"{len(released['correct'])} are evaluated). A problem has at most {config['split']['longest_prompt']} tokens, "
        f"and its expression at most {recipe['sample']['max_tokens']}. Without its chat template and with at most "
        f"{recipe['sample']['max_tokens']} tokens per answer, the 4-bit copy of the model solves {solved:.1f} % of the "
        "held-out problems. "
        "This is not the model's usual score.\n\n"
        f"The warm-up is supervised: {len(losses)} steps of {config['warm_up']['batch_size']} solutions, each written "
        f"as one expression that the grader computes. The loss falls from {losses[0]:.2f} to {np.mean(tail):.2f} nats "
        f"per token. The runs train on the {len(rates)} training problems that the warmed-up model solves in "
        f"{rule['least']} to {rule['most']} of {rule['samples']} samples"
        + (f", {100 * rates.mean():.0f} % on average.\n" if len(rates) else ".\n")
    )


def _outcome(study: Study, temperature: str) -> str:
    """The differences of Pass@k whose intervals exclude 0. Without one, the smallest difference that is detected with
    80 % probability."""
    now = at(study, temperature)
    samples = now.runs[INITIAL][0]["evaluations"][temperature]["samples"]
    measures = [m for m in HELD_OUT if m.startswith("pass@") and int(m.partition("@")[2]) <= samples]
    gaps = {measure: difference(now, "diver-mix", "clip-higher", measure) for measure in measures}
    significant = [f"{title(m)} {shown(m, gap, '+')}" for m, gap in gaps.items() if gap.low > 0 or gap.high < 0]
    if significant:
        return f"At temperature {temperature} diver-mix differs from clip-higher at {', '.join(significant)} points."
    least = " and ".join(f"{shown(m, _least(gaps[m]))} at {title(m)}" for m in (measures[0], measures[-1]))
    return (
        f"At temperature {temperature} no difference of Pass@k between diver-mix and clip-higher is significant. "
        f"The smallest true difference that such a study detects with 80 % probability is {least}, in points."
    )


def _least(gap: Estimate) -> Estimate:
    return Estimate(gap.detectable, np.nan, np.nan)


def _held_out(study: Study, temperature: str) -> Sequence[str]:
    now = at(study, temperature)
    evaluation = now.runs[INITIAL][0]["evaluations"][temperature]
    problems, samples = len(evaluation["ids"]), evaluation["samples"]
    rows = []
    for measure in HELD_OUT:
        k = measure.partition("@")[2]
        if k and int(k) > samples:
            continue
        gap = difference(now, "diver-mix", "clip-higher", measure)
        means = [shown(measure, Estimate(over_seeds(now, v, measure)[0], np.nan, np.nan)) for v in (INITIAL, *METHODS)]
        rows.append([title(measure), *means, shown(measure, gap, "+")])
    unscored = sum(r["evaluations"][temperature]["unscored"] for by_seed in now.runs.values() for r in by_seed.values())
    return [
        f"## Held out, temperature {temperature}\n",
        markdown(["", INITIAL, *METHODS, "diver-mix − clip-higher"], rows),
        f"{problems} problems x {samples} samples ([definitions]({GUIDE})); TD and ED have 8 samples. Every policy has "
        "the same random streams." + (f" {unscored} samples are unscored.\n" if unscored else "\n"),
    ]


def _training(study: Study) -> str:
    variants = [v for v in study.runs if v != INITIAL]
    rows = []
    for measure in TRAINING:
        means = [shown(measure, Estimate(over_seeds(study, v, measure)[0], np.nan, np.nan)) for v in variants]
        rows.append(
            [title(measure), *means, shown(measure, difference(study, "diver-mix", "clip-higher", measure), "+")]
        )
    if not variants:
        return "No run is finished.\n"
    return markdown(["over the last quarter of the steps", *variants, "diver-mix − clip-higher"], rows)


def _cost(runs: Mapping[str, Mapping[int, Record]]) -> str:
    before, trained = runs[INITIAL][0], [r for name, seeds in runs.items() if name != INITIAL for r in seeds.values()]
    hours = [sum(r["cpu_seconds"].values()) / 3600 for r in (before, *trained)]
    warm_up = before.get("warm_up", {}).get("cpu_seconds", 0.0) / 3600
    parts = [
        f"the warm-up {warm_up:.2f}",
        f"the selection of problems and the evaluation before training {hours[0]:.2f}",
    ]
    if trained:
        parts.append(f"a run with its evaluation {min(hours[1:]):.2f} to {max(hours[1:]):.2f}")
    return f"CPU hours ({before['device']}): {', '.join(parts)}.\n"


if __name__ == "__main__":  # python -m smollm2_gsm8k.page: made again from the records
    write_page(tomllib.loads(Path(__file__).with_name("study.toml").read_text(encoding="utf-8")), Path("docs/results"))
