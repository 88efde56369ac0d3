"""Pages that are not a comparison of Pass@k: overhead, extraction of formulas, validity of the metrics, answers to read.

Each is a function of the study and of the folder of the pages, where its picture goes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from pathlib import Path

import numpy as np

from diver.diversity import formulas
from diver.diversity.equational import Extractor
from diver.engine.evaluation import solution
from diver.evaluate.tables import markdown
from diver.experiments import kept, tables
from diver.experiments.claims import INITIAL
from diver.experiments.kept import groups
from diver.experiments.pictures import dots, stacked
from diver.experiments.reading import Record, Study
from diver.measure.validity import title
from diver.statistics import rank_correlations
from diver.tasks import countdown
from diver.types import Group, Verdict

PARTS = {"sampling": "time/sample", "verifying": "time/verify", "diversity": "time/diversity", "update": "time/update"}
BENCHMARK = Path("benchmarks/results/overhead.json")
PAPER_STEP_SECONDS = 29.75 * 3600 / 350  # DIVER's time over its steps (Table 2)
CASES = 3
EXTRACTORS: tuple[Extractor, ...] = ("nested", "paper")


def _all_groups(study: Study) -> dict[str, list[Group]]:
    return {variant: [g for run in runs.values() for g in groups(run)] for variant, runs in study.runs.items()}


# ---- overhead ----------------------------------------------------------------------------------------------------------


def overhead(study: Study, out: Path) -> str:
    """Seconds a step by part and the share of diversity, for every method; load A of the paper's size beside them."""
    name = study.experiment.name
    seconds = {variant: _seconds(runs.values()) for variant, runs in study.runs.items() if variant != INITIAL}
    shares = {variant: of / of.sum(axis=1, keepdims=True) for variant, of in seconds.items()}
    stacked({variant: of.mean(axis=0) for variant, of in shares.items()}, list(PARTS), out / f"{name}-tiny.png")
    at = list(PARTS).index("diversity")
    rows = []
    for variant, of in seconds.items():
        mean, share = of.mean(axis=0), 100 * shares[variant][:, at]
        told = f"{share.mean():.1f} [{share.min():.1f}, {share.max():.1f}]"
        rows.append([variant, *(f"{s:.3f}" for s in mean), f"{mean.sum():.3f}", told])
    return "\n".join(
        [
            f"![{study.experiment.title}]({name}-tiny.png)\n",
            "Share of a step by part, mean over runs.\n",
            "## Seconds of a step by part\n",
            markdown(["", *PARTS, "step", "diversity, % of the step"], rows),
            "Medians over steps, means over runs, [lowest, highest run]; on one thread of a machine that had other work at "
            "times: read the shares, not the seconds. TD and ED are measured for every method, so that any two runs can be "
            "compared; what a method that pays for them adds is nothing beyond that. So a method that pays for them does not "
            "take longer here than one that does not, and the paper's comparison of two trainings is the share of diversity.\n",
            "A policy of 0.9 M parameters makes a step cheap, and so the share of diversity large.\n",
            "## At the size of the paper\n",
            _at_scale(),
        ]
    )


def _seconds(runs: Iterable[Record]) -> np.ndarray:
    """Medians over the steps, [runs, parts]."""
    return np.array([[np.median(run["metrics"][name]) for name in PARTS.values()] for run in runs])


def _at_scale() -> str:
    told = (
        "The paper reports (Table 2) 29.75 h for DIVER, 28.46 h for GRPO with clip-higher, 28.13 h for Entropy-RL and 30.73 h for "
        "Pass@k Training, over 350 steps: DIVER takes 4.5 % more than the first, 5.8 % more than the second, 3.2 % less than the "
        "third. "
    )
    if not BENCHMARK.exists():
        return told + "`python benchmarks/overhead.py` in a clone measures ours on a rollout batch of that size.\n"
    found = json.loads(BENCHMARK.read_text(encoding="utf-8"))
    return told + (
        f"A rollout batch of that size (load A: {found['groups']} groups x {found['responses']} responses x "
        f"{found['tokens']:,.0f} tokens) takes {found['cpu_seconds']:.2f} s of one core here for TD and ED together "
        f"(`python benchmarks/overhead.py`), {100 * found['cpu_seconds'] / PAPER_STEP_SECONDS:.2f} % of the paper's "
        f"{PAPER_STEP_SECONDS:.0f} s a step.\n"
    )


# ---- extraction of formulas --------------------------------------------------------------------------------------------


def equations(study: Study, out: Path) -> str:
    """Formulas found against formulas written: Countdown's own parser reads every well-formed response exactly."""
    rows = []
    for variant, found in _all_groups(study).items():
        responses = [r for group in found for r in group.responses if countdown.parse(r)[0]]
        written = [len({str(step) for step in countdown.parse(r)[0] or []}) for r in responses]
        for extractor in EXTRACTORS:
            counted = [len(formulas(r, extractor)) for r in responses]
            wrong = sum(abs(a - b) for a, b in zip(written, counted, strict=True))
            rows.append([f"{variant}, {extractor}", str(len(responses)), str(sum(written)), str(wrong)])
    return "\n".join(
        [
            "## Formulas found and written\n",
            markdown(["method, extractor", "responses", "formulas", "wrongly counted"], rows),
            "The paper counted by hand in 5 responses of mathematics: 8 of 95 formulas missed, 8.4 %. Countdown's formulas are "
            "simple; on real mathematics `python benchmarks/extraction.py` compares both extractors with a reader of LaTeX.\n",
        ]
    )


# ---- validity of the metrics -------------------------------------------------------------------------------------------


def metric_validity(study: Study, out: Path) -> str:
    """The paper's table of metrics by method, its order of the methods as claims, and how the metrics correlate."""
    study, name = kept.with_measures(study, out), study.experiment.name
    names, means, each = kept.agreement(study)
    of_runs = [variant for variant, of in study.runs.items() if variant != INITIAL for _ in of]
    panels = [(title("textual"), title(other), means[:, [0, i]]) for i, other in enumerate(names) if i]
    dots(panels, of_runs, out / f"{name}-tiny.png")
    return "\n".join(
        [
            f"![{study.experiment.title}]({name}-tiny.png)\n",
            "A dot a run: the mean over problems of TD and of each other column.\n",
            tables.CLAIM_HEAD,
            tables.claims(study),
            "## What was measured\n",
            tables.levels(study),
            _about_models(study, out),
            f"## Difference from {study.experiment.against}\n",
            tables.differences(study),
            tables.DIFFERENCE_NOTE,
            "## Do the metrics agree?\n",
            _correlations(names, means, each),
            "Spearman's correlation. Over problems: within a run, over its 32 problems, the mean of the runs and in brackets the "
            "lowest and the highest. Over runs: of the means of the trained runs, with a 95 % bootstrap interval. That the metrics "
            "put the methods in one order, as the paper's table of four methods shows it, is a correlation near +1 of two "
            "metrics over runs; which order it is, is the matter of the claims above. More on this, with other data, is in "
            "[metric-validity.md](metric-validity.md).\n",
        ]
    )


def _about_models(study: Study, out: Path) -> str:
    """Which models measured, and what is missing."""
    told = (
        "Means over seeds and problems of the 8 responses to each of 32 held-out problems that a record keeps; Pass@k in per "
        "cent. Every metric is a diversity, mean 1 - similarity for the two of models, so that more is more diverse."
    )
    stored, runs = kept.read(out / kept.STORED), [r["kept"] for of in study.runs.values() for r in of.values()]
    for metric in kept.MODELLED:
        have = sum(metric in found for found in runs)
        told += f" {title(metric).capitalize()}: "
        told += f"{stored[metric]['model']}, {have} of {len(runs)} runs." if have else "no model has measured it."
    return told + " The paper's models are Qwen2.5-7B-Instruct (hidden states) and embeddinggemma-300m.\n"


def _correlations(names: list[str], means: np.ndarray, each: np.ndarray) -> str:
    over_runs = rank_correlations(means)
    within = np.array([rank_correlations(run, resamples=1).rho for run in each])
    rows = []
    for i, j in combinations(range(len(names)), 2):
        if names[i].startswith("pass@"):
            continue
        known = within[:, i, j][~np.isnan(within[:, i, j])]
        inside = f"{known.mean():+.2f} [{known.min():+.2f}, {known.max():+.2f}]" if len(known) else "–"
        across = [part[i, j] for part in over_runs]
        outside = "–" if np.isnan(across[0]) else "{:+.2f} [{:+.2f}, {:+.2f}]".format(*across)
        rows.append([f"{title(names[i])} ~ {title(names[j])}", inside, outside])
    return markdown(["", "over problems", f"over {len(means)} runs"], rows)


# ---- answers to read ---------------------------------------------------------------------------------------------------


def cases(study: Study, out: Path) -> str:
    """All methods on the problems on which their numbers of distinct correct solutions differ most, seed 0."""
    found = {variant: groups(runs[0]) for variant, runs in study.runs.items() if 0 in runs}
    size = min(map(len, found.values()))
    spread = [np.std([distinct(of[i]) for of in found.values()]) for i in range(size)]
    order = sorted(range(size), key=lambda i: -spread[i])[:CASES]
    return "\n".join(part for i in order for part in _case({variant: of[i] for variant, of in found.items()}))


def distinct(group: Group) -> int:
    """How many different correct solutions a group has."""
    return len({solution(group.problem, r.response) for r in group.rollouts if r.verdict is Verdict.CORRECT})


def _case(found: Mapping[str, Group]) -> Iterable[str]:
    first = next(iter(found.values()))
    yield f"## {first.problem.prompt}\n"
    yield "Times of 8, right (+) or wrong (-), and the response.\n"
    for variant, group in found.items():
        verdicts = {r.response: r.verdict for r in group.rollouts}
        lines = [
            f"{times}  {'+' if verdicts[response] is Verdict.CORRECT else '-'}  {_one_line(response)}"
            for response, times in Counter(group.responses).most_common()
        ]
        yield f"**{variant}**\n\n```\n" + "\n".join(lines) + "\n```\n"


def _one_line(response: str) -> str:
    return " ".join(response.replace("`", "'").split())[:200]


BODIES: dict[str, Callable[[Study, Path], str]] = {
    "overhead": overhead,
    "equation-extraction": equations,
    "metric-validity": metric_validity,
    "case-study": cases,
}
