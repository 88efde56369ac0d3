"""docs/results/smollm2-gsm8k.md, from the records alone."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diver.core.files import write_text
from diver.core.statistics import DETECTABLE, Estimate
from diver.core.tables import markdown
from diver_paper.aggregate import Study, difference, over_seeds
from diver_paper.experiments import INITIAL, Experiment
from diver_paper.pages import NONE, SIGNAL_NOTE, seeds_note, shown, signals, title
from diver_paper.runs import Record, find, given, records_file

NAME = "smollm2-gsm8k"
METHODS = ("clip-higher", "diver-mix")
HELD_OUT = (
    "pass@1", "pass@4", "pass@8", "pass@16", "pass@32", "distinct@8", "distinct@32",
    "held-out/textual", "held-out/equational", "held-out/truncated", "held-out/tokens",
)  # fmt: skip
TRAINING = (
    "reward/outcome", "group/solve_all", "group/solve_none", "policy/entropy", "diversity/textual",
    "diversity/equational", "response/truncated", "policy/grad_norm", "policy/logprob_mismatch",
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
    """The page of the records that are there, none at first."""
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
        "A pretrained language model trained by clip-higher and by diver-mix from one warmed-up policy. Made by "
        "`python -m smollm2_gsm8k`; its settings are in [study.toml](../../studies/smollm2_gsm8k/study.toml), its "
        f"records, which hold problem ids and no text of the data set, in `records/{NAME}.jsonl.gz`; commands, hours "
        f"and failures are in [README.md](README.md).\n\n{seeds_note(study)}\n",
    ]
    if INITIAL in runs:
        temperatures = [str(t) for t in config["study"]["temperatures"]]
        if len(runs) > len(METHODS):
            parts += [f"{' '.join(_outcome(study, t) for t in temperatures)}\n"]
        parts += ["## Data, warm-up, problems\n", _preparation(config, runs[INITIAL][0])]
        parts += [part for t in temperatures for part in _held_out(study, t)]
        parts += ["## Training\n", _training(study), *_case(at(study, temperatures[0])), "## Cost\n", _cost(runs)]
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
        f"GSM8K's training set is divided at random into three parts. Each part contains only problems of at most "
        f"{config['split']['longest_prompt']} tokens with expressions of at most {recipe['sample']['max_tokens']}. "
        f"There are {sizes['warm_up']:,} problems for the warm-up, {sizes['training']:,} for training and "
        f"{sizes['held_out']:,} held out. The evaluation has the first {len(released['correct'])} of these. The "
        f"warm-up starts from the 4-bit copy of the model. Without its chat template and with at most "
        f"{recipe['sample']['max_tokens']} tokens per answer, it solves {solved:.1f} % of them "
        f"({released['samples']} samples each, temperature 1.0). This is not the model's usual score.\n\n"
        f"The warm-up is supervised: {len(losses)} steps of {config['warm_up']['batch_size']} solutions of the first "
        f"part. In a solution, the calculator's formulas are substituted into each other, which gives one expression "
        f"that the grader computes. The loss falls from {losses[0]:.2f} to {np.mean(tail):.2f} nats per token. "
        f"The runs train on the {len(rates)} problems of the second part that the warmed-up model solves in "
        f"{rule['least']} to {rule['most']} of {rule['samples']} samples"
        + (f", {100 * rates.mean():.0f} % on average.\n" if len(rates) else ".\n")
    )


def _outcome(study: Study, temperature: str) -> str:
    """The differences of Pass@k whose intervals exclude 0, or that there is none and the smallest that would have been
    seen."""
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
        rows.append([title(measure), *means, shown(measure, gap, "+"), shown(measure, _least(gap))])
    unscored = sum(r["evaluations"][temperature]["unscored"] for by_seed in now.runs.values() for r in by_seed.values())
    return [
        f"## Held out, temperature {temperature}\n",
        markdown(["", INITIAL, *METHODS, "diver-mix − clip-higher", "detectable"], rows),
        f"Means over seeds and problems, with {problems} problems x {samples} samples. Pass@k is in per cent. Distinct "
        "is the expected number of different correct solutions among k samples. TD and ED have 8 samples. The "
        "difference is "
        "paired over seeds and problems, with its 95 % interval over both. Detectable: the true difference that such a "
        f"study detects with 80 % probability, {DETECTABLE:.2f} times half that interval. Every policy has the same "
        "random streams." + (f" {unscored} samples are unscored.\n" if unscored else "\n"),
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
    return "\n".join(
        [
            markdown(["over the last quarter of the steps", *variants, "diver-mix − clip-higher"], rows),
            "One value per seed, with Student's interval over seeds; shares in per cent.\n",
            signals(study),
            SIGNAL_NOTE,
        ]
    )


def _case(study: Study) -> Sequence[str]:
    """The shown problem of seed 0 on which the methods differ most in their numbers of different correct solutions."""
    finals = {v: next(iter(runs[0]["evaluations"].values())) for v, runs in study.runs.items() if 0 in runs}
    if not finals.keys() >= {*METHODS}:
        return []
    clip, diver = (finals[name]["solutions"] for name in METHODS)
    shown_problems = range(len(finals[METHODS[0]]["responses"]))
    i = max(shown_problems, key=lambda i: (abs(len(diver[i]) - len(clip[i])), sum(diver[i]) + sum(clip[i])))
    parts = [
        "## Case study\n",
        f"Problem {finals[METHODS[0]]['ids'][i]}, seed 0. On this problem, among {len(shown_problems)}, the methods "
        "differ most in how many different correct solutions they found. It is selected to show a difference and is "
        "not a typical case. Count out of 8, correct (+) or wrong (-), and the response.\n",
    ]
    for variant, final in finals.items():
        lines = [
            f"{times}  {'+' if correct else '-'}  {' '.join(response.replace('`', chr(39)).split())[:200]}"
            for (response, correct), times in Counter(map(tuple, final["responses"][i])).most_common()
        ]
        parts.append(f"**{variant}**\n\n```\n" + "\n".join(lines) + "\n```\n")
    return parts


def _cost(runs: Mapping[str, Mapping[int, Record]]) -> str:
    rows = []
    for variant, seed, r in ((variant, seed, r) for variant, of in runs.items() for seed, r in of.items()):
        if variant == INITIAL and (warm_up := r.get("warm_up", {}).get("cpu_seconds")):
            rows.append(["warm-up", r["device"], str(r["warm_up"]["commit"])[:7], f"{warm_up / 3600:.2f}", NONE])
        name = "selection of problems" if variant == INITIAL else f"{variant}, seed {seed}"
        hours = [f"{r['cpu_seconds'][part] / 3600:.2f}" for part in ("train", "evaluate")]
        rows.append([name, r["device"], str(r["commit"])[:7], *hours])
    return markdown(["", "device", "commit", "training, CPU hours", "evaluation, CPU hours"], rows, text=3)


if __name__ == "__main__":  # python -m smollm2_gsm8k.page: made again from the records
    write_page(tomllib.loads(Path(__file__).with_name("study.toml").read_text(encoding="utf-8")), Path("docs/results"))
