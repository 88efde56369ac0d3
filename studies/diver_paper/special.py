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

from diver.data import countdown
from diver.diversity import formulas
from diver.diversity.equational import Extractor
from diver.measure.validity import title
from diver.render.tables import markdown
from diver.stats import rank_correlations
from diver.types import Grade, Group
from diver.verify import solution
from diver_paper import kept, tables
from diver_paper.claims import INITIAL
from diver_paper.kept import groups
from diver_paper.pictures import dots, stacked
from diver_paper.reading import Record, Study

PARTS = {"sampling": "time/sample", "verifying": "time/verify", "diversity": "time/diversity", "update": "time/update"}
BENCHMARK, EXTRACTION = Path("benchmarks/results/overhead.json"), Path("benchmarks/results/extraction.json")
PAPER_STEP_SECONDS = 29.75 * 3600 / 350  # DIVER's time over its steps (Table 2)
CASES = 3
EXTRACTORS: tuple[Extractor, ...] = ("nested", "paper")
COUNTS = ("responses", "formulas", "missed", "invented")


def _all_groups(study: Study) -> dict[str, list[Group]]:
    return {variant: [g for run in runs.values() for g in groups(run)] for variant, runs in study.runs.items()}


# ---- overhead ----------------------------------------------------------------------------------------------------------


def overhead(study: Study, out: Path) -> str:
    """The share of diversity and of the other parts in a step, for every method; load A of the paper's size beside them.

    Not the seconds: those of a machine that does other things besides tell nothing about a method.
    """
    name = study.experiment.name
    shares = {variant: _shares(runs.values()) for variant, runs in study.runs.items() if variant != INITIAL}
    stacked({variant: of.mean(axis=0) for variant, of in shares.items()}, list(PARTS), out / f"{name}-tiny.png")
    rows = []
    for variant, of in shares.items():
        low, high = 100 * of.min(axis=0), 100 * of.max(axis=0)
        told = [f"{m:.1f} [{a:.1f}, {b:.1f}]" for m, a, b in zip(100 * of.mean(axis=0), low, high, strict=True)]
        rows.append([variant, *told])
    return "\n".join(
        [
            f"![{study.experiment.title}]({name}-tiny.png)\n",
            "Share of a step by part, mean over runs.\n",
            "## Shares of a step by part\n",
            markdown(["", *(f"{part}, %" for part in PARTS)], rows),
            "Of the time that the four parts take together: medians over steps, means over runs, [lowest, highest run], on one "
            "thread. TD and ED are measured for every method, so that any two runs can be compared, and a method that pays for "
            "them measures nothing more. So their share is what diversity costs; the paper compares the time of two trainings, "
            "of which one measures nothing.\n",
            "A policy of 0.9 M parameters makes a step cheap, and so the share of diversity large.\n",
            "## At the size of the paper\n",
            _at_scale(),
        ]
    )


def _shares(runs: Iterable[Record]) -> np.ndarray:
    """Of medians over the steps, [runs, parts]."""
    seconds = np.array([[np.median(run["metrics"][name]) for name in PARTS.values()] for run in runs])
    return seconds / seconds.sum(axis=1, keepdims=True)


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
    for variant, of in _all_groups(study).items():
        read = [(r, steps) for group in of for r in group.responses if (steps := countdown.parse(r)[0])]
        written = [{_bare(str(step)) for step in steps} for _, steps in read]
        for extractor in EXTRACTORS:
            found = [{_bare(formula) for formula in formulas(r, extractor)} for r, _ in read]
            missed = sum(len(w - f) for w, f in zip(written, found, strict=True))
            invented = sum(len(f - w) for w, f in zip(written, found, strict=True))
            numbers = (len(read), sum(map(len, written)), missed, invented)
            rows.append([f"{variant}, {extractor}", *(f"{n:,}" for n in numbers)])
    return "\n".join(
        [
            "## Formulas found and written\n",
            markdown(["method, extractor", *COUNTS], rows),
            "Of the responses that Countdown's parser can read, nearly all: its formulas are simple, so this says little.\n",
            "## On rollouts of mathematics\n",
            "The paper counted by hand in 5 responses: 8 of 95 formulas missed, 8.4 %.\n",
            _on_mathematics(),
        ]
    )


def _bare(formula: str) -> str:
    return formula.removeprefix(r"\(").removesuffix(r"\)").replace(" ", "")


def _on_mathematics() -> str:
    if not EXTRACTION.exists():
        return "`python benchmarks/extraction.py` in a clone compares both extractors with a reader of LaTeX.\n"
    found = [row for row in json.loads(EXTRACTION.read_text(encoding="utf-8")) if row["prices"] == "escaped"]
    rows = [
        [f"{r['rollouts']}, {r['extractor']}", *(f"{r[name]:,}" for name in COUNTS), f"{100 * r['error']:.2f}"]
        for r in found
    ]
    return (
        "Against a reader of LaTeX (`python benchmarks/extraction.py`); error: missed and invented, in per cent of the formulas "
        "written. GSM8K has prices, which the paper's pattern takes for formulas.\n\n"
        + markdown(["rollouts, extractor", *COUNTS, "error"], rows)
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
            *tables.difference_section(study),
            "## Do the metrics agree?\n",
            _correlations(names, np.array(of_runs), means, each),
            "Spearman's correlation. Over problems: within each run, over the problems that all share; the mean of the "
            f"{len(each)} runs, with a 95 % bootstrap interval over problems. Of the methods' means: that the metrics put the "
            "methods in one order, as the paper's table of four methods shows it, is a correlation near +1 there; so few points "
            "have no interval. Which order it is, is the matter of the claims above. More on this, with other data, is in "
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


def _correlations(names: list[str], variants: np.ndarray, means: np.ndarray, each: np.ndarray) -> str:
    methods = list(dict.fromkeys(variants))
    within = rank_correlations(each)
    between = rank_correlations([means[variants == method].mean(axis=0) for method in methods], resamples=1).rho
    rows = []
    for i, j in combinations(range(len(names)), 2):
        if names[i].startswith("pass@"):
            continue
        rho, low, high = (part[i, j] for part in within)
        inside = tables.NONE if np.isnan(rho) else f"{rho:+.2f} [{low:+.2f}, {high:+.2f}]"
        outside = tables.NONE if np.isnan(between[i, j]) else f"{between[i, j]:+.2f}"
        rows.append([f"{title(names[i])} ~ {title(names[j])}", inside, outside])
    return markdown(["", "over problems", f"of {len(methods)} methods' means"], rows)


# ---- answers to read ---------------------------------------------------------------------------------------------------


def cases(study: Study, out: Path) -> str:
    """All methods on the problems on which their numbers of distinct correct solutions differ most, seed 0."""
    found = {variant: groups(runs[0]) for variant, runs in study.runs.items() if 0 in runs}
    size = min(map(len, found.values()))
    spread = [np.std([distinct(of[i]) for of in found.values()]) for i in range(size)]
    order = sorted(range(size), key=lambda i: -spread[i])[:CASES]
    told = (
        f"The {CASES} of {size} held-out problems on which the methods differ most in how many different correct solutions they "
        "have: chosen to show what differs, not what is typical.\n"
    )
    return "\n".join([told, *(part for i in order for part in _case({v: of[i] for v, of in found.items()}))])


def distinct(group: Group) -> int:
    """How many different correct solutions a group has."""
    return len({solution(group.problem, r.response) for r in group.rollouts if r.grade is Grade.CORRECT})


def _case(found: Mapping[str, Group]) -> Iterable[str]:
    first = next(iter(found.values()))
    yield f"## {first.problem.prompt}\n"
    yield "Times of 8, right (+) or wrong (-), and the response.\n"
    for variant, group in found.items():
        verdicts = {r.response: r.grade for r in group.rollouts}
        lines = [
            f"{times}  {'+' if verdicts[response] is Grade.CORRECT else '-'}  {_one_line(response)}"
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
