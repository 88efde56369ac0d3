"""Pages that are not a comparison of Pass@k: overhead, extraction of formulas, agreement of the metrics, a case study.

Each is a function of the study and of the folder of the pages, where its figure goes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from diver.core.formulas import Extractor
from diver.core.tables import markdown
from diver.core.types import Grade, Group
from diver.diversity import formulas
from diver.grading import get_grader
from diver.rollouts.problems import title
from diver.tasks import countdown
from diver_paper import pages, saved_responses
from diver_paper.aggregate import Study
from diver_paper.correlations import rank_correlations
from diver_paper.experiments import INITIAL
from diver_paper.figures import dots, stacked
from diver_paper.runs import Record
from diver_paper.saved_responses import groups

PARTS = {"sampling": "time/sample", "verifying": "time/verify", "diversity": "time/diversity", "update": "time/update"}
BENCHMARK, EXTRACTION = Path("benchmarks/results/overhead.json"), Path("benchmarks/results/extraction.json")
PAPER_STEP_SECONDS = 29.75 * 3600 / 350  # DIVER's time over its steps (Table 2)
EXTRACTORS: tuple[Extractor, ...] = ("nested", "paper")
COUNTS = ("responses", "formulas", "missed", "invented")


# ---- overhead --------------------------------------------------------------------------------------------------------


def overhead(study: Study, out: Path) -> str:
    """The fraction of a step that diversity and the other parts take, for every method, and at the paper's batch size.

    Seconds are not shown: on a machine with other load they are not comparable between methods.
    """
    name = study.experiment.name
    fractions = {variant: _fractions(runs.values()) for variant, runs in study.runs.items() if variant != INITIAL}
    stacked({variant: part.mean(axis=0) for variant, part in fractions.items()}, list(PARTS), out / f"{name}-tiny.png")
    rows = []
    for variant, part in fractions.items():
        ends = zip(100 * part.mean(axis=0), 100 * part.min(axis=0), 100 * part.max(axis=0), strict=True)
        rows.append([variant, *(f"{mean:.1f} [{low:.1f}, {high:.1f}]" for mean, low, high in ends)])
    return "\n".join(
        [
            "TD and ED are measured with every method, so their share is the cost of diversity. It is large here "
            "because a step of a policy of 0.9 M parameters is cheap. The table has the share of each part in the "
            "time on one thread: the median over steps, then the mean over runs with the [lowest, highest run].\n",
            f"![{study.experiment.title}]({name}-tiny.png)\n",
            markdown(["", *(f"{part}, %" for part in PARTS)], rows),
            "## At the paper's batch size\n",
            _at_scale(),
        ]
    )


def _fractions(runs: Iterable[Record]) -> np.ndarray:
    """Fractions of the medians over the steps, [runs, parts]."""
    seconds = np.array([[np.median(run["metrics"][name]) for name in PARTS.values()] for run in runs])
    return seconds / seconds.sum(axis=1, keepdims=True)


def _at_scale() -> str:
    paper = (
        "In the paper (Table 2) 350 steps of DIVER take 29.75 h, 4.5 % more than those of GRPO with clip-higher, which "
        "measures nothing. "
    )
    if not BENCHMARK.exists():
        return paper + "`python benchmarks/overhead.py` in a clone measures ours on a rollout batch of that size.\n"
    ours = json.loads(BENCHMARK.read_text(encoding="utf-8"))
    return paper + (
        f"TD and ED of {ours['groups']} groups of {ours['responses']} responses with {ours['tokens']:,.0f} tokens "
        f"(load A) take {ours['cpu_seconds']:.2f} s of one core here (`python benchmarks/overhead.py`). This is "
        f"{100 * ours['cpu_seconds'] / PAPER_STEP_SECONDS:.2f} % of the paper's {PAPER_STEP_SECONDS:.0f} s per step.\n"
    )


# ---- extraction of formulas ------------------------------------------------------------------------------------------


def equations(study: Study, out: Path) -> str:
    """Extracted formulas against written ones, which Countdown's parser reads exactly from well-formed responses."""
    responses = [
        response
        for runs in study.runs.values()
        for run in runs.values()
        for group in groups(run)
        for response in group.responses
    ]
    parsed = [(r, steps) for r in responses if (steps := countdown.parse(r)[0])]
    written = [{_bare(str(step)) for step in steps} for _, steps in parsed]
    number = sum(map(len, written))
    rows = []
    for extractor in EXTRACTORS:
        extracted = [{_bare(formula) for formula in formulas(r, extractor)} for r, _ in parsed]
        missed = sum(len(w - x) for w, x in zip(written, extracted, strict=True))
        invented = sum(len(x - w) for w, x in zip(written, extracted, strict=True))
        rows.append(_extracted("Countdown", extractor, (len(parsed), number, missed, invented)))
    note = (
        "Error: missed and invented, in per cent of the formulas written. The paper counted by hand in 5 responses: "
        "8 of 95 formulas missed, 8.4 %. The responses to Countdown are those of "
        f"{', '.join(study.runs)}. Countdown's parser counts their formulas, which are simple, so the test is weak. "
        "A reader of LaTeX counts those of mathematics (`python benchmarks/extraction.py`). GSM8K has prices, which "
        "the paper's pattern matches as formulas.\n"
    )
    return "\n".join([markdown(["rollouts, extractor", *COUNTS, "error"], [*rows, *_on_mathematics()]), note])


def _extracted(rollouts: str, extractor: str, numbers: Sequence[int]) -> list[str]:
    """A row: how many formulas of some rollouts an extractor misses and invents."""
    _, formulas, missed, invented = numbers
    return [
        f"{rollouts}, {extractor}",
        *(f"{n:,}" for n in numbers),
        f"{100 * (missed + invented) / max(formulas, 1):.2f}",
    ]


def _bare(formula: str) -> str:
    return formula.removeprefix(r"\(").removesuffix(r"\)").replace(" ", "")


def _on_mathematics() -> list[list[str]]:
    if not EXTRACTION.exists():
        return []
    results = [row for row in json.loads(EXTRACTION.read_text(encoding="utf-8")) if row["prices"] == "escaped"]
    return [_extracted(r["rollouts"], r["extractor"], [r[name] for name in COUNTS]) for r in results]


# ---- agreement of the metrics ----------------------------------------------------------------------------------------


def metric_validity(study: Study, out: Path) -> str:
    """The paper's table of metrics by method, its order of the methods as claims, and how the metrics correlate."""
    study, name = saved_responses.with_measures(study, out), study.experiment.name
    names, values = saved_responses.agreement(study)
    means = values.mean(axis=1)
    variants = [variant for variant, runs in study.runs.items() if variant != INITIAL for _ in runs]
    panels = [(title("textual"), title(column), means[:, [0, i]]) for i, column in enumerate(names) if i]
    dots(panels, variants, out / f"{name}-tiny.png")
    return "\n".join(
        [
            pages.claims_section(study),
            _models_note(study, out),
            "## Do the metrics agree?\n",
            _correlations(names, np.array(variants), values),
            "Spearman's correlation. Over problems: within each run; the mean of the "
            f"{len(values)} runs, with a 95 % bootstrap interval over problems. Over the methods' means: near +1, the "
            "metrics rank the methods in the same order, as in the paper's table of four methods. There are too few "
            "methods for an interval. [Another page](metric-validity.md) has the correlations on other data.\n",
            "## Results\n",
            f"![{study.experiment.title}]({name}-tiny.png)\n",
            "A dot per run: the mean over problems of TD and of each other column.\n",
            pages.results(study),
        ]
    )


def _models_note(study: Study, out: Path) -> str:
    """Which models measured, and what is missing."""
    note = (
        "Each record contains 8 responses to each of 32 held-out problems. The two metrics by models are the mean of "
        "1 - similarity."
    )
    stored, runs = (
        saved_responses.read(out / saved_responses.STORED),
        [r["saved"] for by_seed in study.runs.values() for r in by_seed.values()],
    )
    for metric in saved_responses.MODEL_METRICS:
        count = sum(metric in columns for columns in runs)
        note += f" {title(metric).capitalize()}: "
        note += f"{stored[metric]['model']}, {count} of {len(runs)} runs." if count else "not measured by any model."
    return note + " The paper's models are Qwen2.5-7B-Instruct (hidden states) and embeddinggemma-300m.\n"


def _correlations(names: list[str], variants: np.ndarray, each: np.ndarray) -> str:
    methods = list(dict.fromkeys(variants))
    within = rank_correlations(each)
    means = [each.mean(axis=1)[variants == method].mean(axis=0) for method in methods]
    between = rank_correlations(means, resamples=1).rho
    rows = []
    for i, j in combinations(range(len(names)), 2):
        if names[j].startswith("pass@"):
            continue
        rho, low, high = (matrix[i, j] for matrix in within)
        inside = pages.NONE if np.isnan(rho) else f"{rho:+.2f} [{low:+.2f}, {high:+.2f}]"
        outside = pages.NONE if np.isnan(between[i, j]) else f"{between[i, j]:+.2f}"
        rows.append([f"{title(names[i])} ~ {title(names[j])}", inside, outside])
    return markdown(["", "over problems", f"of {len(methods)} methods' means"], rows)


# ---- case study ------------------------------------------------------------------------------------------------------


def cases(study: Study, out: Path) -> str:
    """All methods on the problem on which their numbers of distinct correct solutions differ most, seed 0."""
    by_variant = {variant: groups(runs[0]) for variant, runs in study.runs.items() if 0 in runs}
    size = min(map(len, by_variant.values()))
    std = [np.std([distinct(groups[i]) for groups in by_variant.values()]) for i in range(size)]
    selected = int(np.argmax(std))
    note = (
        f"This is the one of {size} held-out problems on which the methods differ most in how many different correct "
        "solutions they have. It is selected to show differences and is not a typical case. A line has the count out "
        "of 8, correct (+) or wrong (-), and the response.\n"
    )
    return "\n".join([note, *_case({v: groups[selected] for v, groups in by_variant.items()})])


def distinct(group: Group) -> int:
    """How many different correct solutions a group has."""
    grader = get_grader(group.problem.verifier)
    return len({grader.solution(r.response, group.problem) for r in group.rollouts if r.grade is Grade.CORRECT})


def _case(by_variant: Mapping[str, Group]) -> Iterable[str]:
    first = next(iter(by_variant.values()))
    yield f"## {first.problem.prompt}\n"
    for variant, group in by_variant.items():
        grades = {r.response: r.grade for r in group.rollouts}
        lines = [
            f"{times}  {'+' if grades[response] is Grade.CORRECT else '-'}  {_one_line(response)}"
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
