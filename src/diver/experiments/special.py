"""Pages that are not a comparison of Pass@k: overhead, extraction of formulas, validity of the metrics, answers to read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from diver.diversity import formulas
from diver.diversity.equational import Extractor
from diver.engine.evaluation import solution
from diver.engine.problems import load
from diver.evaluate.tables import markdown
from diver.experiments.reading import INITIAL, Record, Study
from diver.measure import measured, problem_table, validity
from diver.measure.validity import correlation_table, means_table
from diver.recipe import make_recipe
from diver.tasks import countdown
from diver.types import Group, Rollout, Verdict
from diver.verify import verify

PARTS = ("time/sample", "time/verify", "time/diversity", "time/update")
METRICS = ("textual", "equational", "distinct-n", "self-bleu")
BENCHMARK = Path("benchmarks/results/overhead.json")
PAPER_STEP_SECONDS = 29.75 * 3600 / 350  # DIVER's time over its steps (Table 2)
CASES = 3
EXTRACTORS: tuple[Extractor, ...] = ("nested", "paper")


def groups(record: Record) -> list[Group]:
    """The responses that a record keeps, judged again: 8 to each of the first held-out problems."""
    recipe = make_recipe(record["recipe"])
    final = list(record["evaluations"].values())[-1]
    _, held, _ = load(recipe.data, recipe.evaluate.source, recipe.evaluate.problems, recipe.run.seed)
    known = {problem.id: problem for problem in held}
    kept = zip(final["ids"], final["responses"], strict=True)
    return verify([Group(known[name], tuple(Rollout(response=r) for r in responses)) for name, responses in kept])


def _all_groups(study: Study) -> dict[str, list[Group]]:
    return {variant: [g for run in runs.values() for g in groups(run)] for variant, runs in study.runs.items()}


# ---- overhead ----------------------------------------------------------------------------------------------------------


def overhead(study: Study) -> str:
    """Seconds a step by part and the share of diversity, for every method; load A of the paper's size beside them."""
    rows = []
    for variant, runs in study.runs.items():
        if variant == INITIAL:
            continue
        parts = [np.mean([_median(run, part) for run in runs.values()]) for part in PARTS]
        share = parts[2] / sum(parts)
        rows.append([variant, *(f"{p:.3f}" for p in parts), f"{sum(parts):.3f}", f"{100 * share:.1f}"])
    head = ["", "sampling", "verifying", "diversity", "update", "step", "diversity, %"]
    return "\n".join(
        [
            "## Seconds of a step by part\n",
            markdown(head, rows),
            "Medians over steps, means over runs, on one thread of a shared machine: read the shares, not the seconds. TD and "
            "ED are measured for every method, so that runs can be compared; what a method that pays for them adds is "
            "nothing beyond that.\n",
            "## At the size of the paper\n",
            _at_scale(),
        ]
    )


def _median(run: Record, part: str) -> float:
    return float(np.median(run["metrics"][part]))


def _at_scale() -> str:
    told = (
        "The paper reports 29.75 h for DIVER, 28.46 h for GRPO with clip-higher and 28.13 h for Entropy-RL over 350 steps: 4.5 % "
        "and 5.8 % more. "
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


def equations(study: Study) -> str:
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


def metric_validity(study: Study) -> str:
    """The paper's table of metrics by method, and how the metrics correlate over problems."""
    tables = {name: problem_table(measured(of, METRICS), ks=(1, 8)) for name, of in _all_groups(study).items()}
    result = validity(tables)
    return "\n".join(
        [
            "## By method\n",
            means_table(result),
            "8 responses to each of 32 held-out problems a run. Embedding and hidden-state similarity need models and are "
            "measured on rollouts by `diver measure ROLLOUTS --metrics textual,equational,embedding,hidden-state`.\n",
            "## Over problems\n",
            correlation_table(result),
            "Spearman's correlation over problems, with 95 % bootstrap intervals.\n",
        ]
    )


# ---- answers to read ---------------------------------------------------------------------------------------------------


def cases(study: Study) -> str:
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


BODIES = {
    "overhead": overhead,
    "equation-extraction": equations,
    "metric-validity": metric_validity,
    "case-study": cases,
}
