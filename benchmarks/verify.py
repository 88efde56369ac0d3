"""Grades: ours against plain `math_verify.verify(parse(gold), parse(response))`, in CPU seconds, on real responses.

The two rollout files are repeated to 64 samples a problem; "distinct texts" puts a line of its own before every sample,
so that no two responses are equal and only equal answers can be shared. The last load has answers that are all
different, graded by one worker; of it the seconds within math-verify's parse and verify are taken, too, ours and plain
each in a process of its own. "warm" counts from when the workers are up, as in a training run; "cold" has their start
too, against math-verify's import. Workers are ended before their CPU seconds are read. Needs DIVER_DATA.

    python benchmarks/verify.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from machine import measured_on

from diver.core.settings import import_object
from diver.core.types import Grade, Problem
from diver.grading import get_grader, grade
from diver.grading.equivalence import warm
from diver.grading.workers import Failure, Function, Pool

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("DIVER_DATA", HERE.parents[1] / "shared" / "data"))
WARM = "diver.grading.equivalence:warm"
Pairs = list[tuple[str, Problem]]


def rows(name: str) -> list[dict[str, Any]]:
    with (DATA / f"{name}.jsonl").open() as file:
        return [json.loads(line) for line in file]


def repeated(name: str, samples: int, distinct: bool) -> Pairs:
    """`samples` responses a problem, its own in turn."""
    groups: dict[str, list[str]] = {}
    problems: dict[str, Problem] = {}
    for row in rows(name):
        groups.setdefault(row["problem"], []).append(row["response"])
        problems[row["problem"]] = Problem(id=row["problem"][:40], prompt=row["problem"], answer=row["answer"])
    return [
        ((f"Sample number {i}.\n" if distinct else "") + responses[i % len(responses)], problems[text])
        for text, responses in groups.items()
        for i in range(samples)
    ]


def all_different(quick: bool) -> Pairs:
    """The equivalence set, and the reference answer of every problem as the answer to the next one."""
    pairs = [(row["prediction"], row["gold"]) for row in rows("equivalence")]
    for name in ("math500", "olympiadbench", "minerva"):
        answers = [row["answer"].strip("$") for row in rows(name)][: 100 if quick else None]
        pairs += [(rf"\boxed{{{a}}}", b) for a, b in pairwise(answers)]
    once = list(dict.fromkeys(pairs))
    return [(response, Problem(id=f"{i}", prompt="", answer=gold)) for i, (response, gold) in enumerate(once)]


def cpu(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def worker_seconds(pool: Pool) -> float:
    """CPU seconds of the workers that are running (Linux)."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pool.pids]
    return sum(int(f[11]) + int(f[12]) for f in fields) / os.sysconf("SC_CLK_TCK")


def plain(pairs: Pairs) -> tuple[list[bool], float]:
    from math_verify import parse, verify

    start = cpu(resource.RUSAGE_SELF)
    theirs_all = []
    for response, problem in pairs:
        gold = problem.answer if "$" in problem.answer else f"${problem.answer}$"
        theirs_all.append(bool(verify(parse(gold), parse(response))))
    return theirs_all, cpu(resource.RUSAGE_SELF) - start


def ours(pairs: Pairs, grader: str, workers: int) -> tuple[list[Grade], dict[str, float]]:
    children, wall = cpu(resource.RUSAGE_CHILDREN), time.perf_counter()
    with Pool(workers=workers, warm=WARM) as pool:
        pool.map(len, [("",)], 60)
        start = worker_seconds(pool)
        own = cpu(resource.RUSAGE_SELF)
        grades = grade(pairs, grader=grader, pool=pool)
        own = cpu(resource.RUSAGE_SELF) - own
    children, wall = cpu(resource.RUSAGE_CHILDREN) - children, time.perf_counter() - wall
    return grades, {"warm": own + children - start, "cold": own + children, "start": start, "wall": wall}


class InProcess:
    """In the place of a pool: grades in this process, so that the seconds within math-verify can be taken."""

    def map(self, function: Function, jobs: Sequence[Sequence[Any]], timeout_s: float) -> list[Any]:
        function = import_object(function, "the function of a worker") if isinstance(function, str) else function

        def outcome(job: Sequence[Any]) -> Any:
            try:
                return function(*job)
            except Exception as error:
                return Failure(Grade.ERROR, str(error))

        return [outcome(job) for job in jobs]


def by_part(whose: str, quick: bool) -> dict[str, float]:
    """CPU seconds of the answers all different: within math-verify's parse, within its verify, and the rest."""
    import math_verify

    from diver.grading import equivalence

    logging.disable(logging.WARNING)
    importing() if whose == "plain" else warm()
    spent = {"parse": 0.0, "verify": 0.0}

    def timed(name: str) -> Callable[..., Any]:
        function = getattr(math_verify, name)

        def call(*args: Any, **options: Any) -> Any:
            start = cpu(resource.RUSAGE_SELF)
            try:
                return function(*args, **options)
            finally:
                spent[name] += cpu(resource.RUSAGE_SELF) - start

        return call

    for name in spent:  # the names by which each of them calls the functions
        setattr(math_verify if whose == "plain" else equivalence, name, timed(name))
    pairs, start = all_different(quick), cpu(resource.RUSAGE_SELF)
    plain(pairs) if whose == "plain" else grade(pairs, grader="math", pool=InProcess())
    total = cpu(resource.RUSAGE_SELF) - start
    assert all(spent.values()), f"{whose} calls neither parse nor verify by these names"
    return {name: round(s, 2) for name, s in {**spent, "rest": total - sum(spent.values()), "all": total}.items()}


def compare(title: str, pairs: Pairs, grader: str, workers: int, importing: float, base: Any = None) -> dict[str, Any]:
    theirs_all, seconds = base or plain(pairs)
    grades, spent = ours(pairs, grader, workers)
    differ: dict[str, int] = {}
    for (response, problem), theirs, mine in zip(pairs, theirs_all, grades, strict=True):
        if theirs != (mine is Grade.CORRECT):
            key = f"{problem.answer[:40]!r}: plain {'correct' if theirs else 'wrong'}, ours {mine}: {response[-60:]!r}"
            differ[key] = differ.get(key, 0) + 1
    result = {
        "load": title,
        "grader": get_grader(grader).version,
        "grades": len(pairs),
        "workers": workers,
        "plain_cpu_s": round(seconds, 3),
        "ours_warm_cpu_s": round(spent["warm"], 3),
        "ours_cold_cpu_s": round(spent["cold"], 3),
        "ours_wall_s": round(spent["wall"], 3),
        "times_warm": round(seconds / spent["warm"], 1),
        "times_cold": round((seconds + importing) / spent["cold"], 1),
        "different": differ,
    }
    print(
        f"{title:46} {grader:12} {len(pairs):6} grades  plain {seconds:6.2f} s  ours {spent['warm']:5.2f} s "
        f"(x {result['times_warm']:.1f}), cold {spent['cold']:5.2f} s (x {result['times_cold']:.1f})  "
        f"{sum(differ.values())} different",
        flush=True,
    )
    return result


def measured(function: Callable[[], Any]) -> float:
    start = cpu(resource.RUSAGE_SELF)
    function()
    return cpu(resource.RUSAGE_SELF) - start


def importing() -> None:
    from math_verify import parse, verify

    verify(parse("$\\frac{x}{2}$"), parse("\\boxed{\\frac{1}{2}x}"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="16 samples a problem; nothing is written")
    quick = parser.parse_args().quick
    logging.disable(logging.WARNING)
    cores, samples = os.cpu_count() or 1, 16 if quick else 64
    import_s = measured(importing)
    results, total = [], {"plain": import_s, "ours": 0.0}
    parts = {}
    for whose in ("plain", "ours"):
        with get_context("spawn").Pool(1) as process:
            parts[whose] = process.apply(by_part, (whose, quick))
        print(f"answers all different, {whose}: {parts[whose]}", flush=True)
    for name, graders in (
        ("rollouts_gsm8k_110x21models", ("math", "gsm8k")),
        ("rollouts_math_qwen_100x8", ("math",)),
    ):
        for distinct in (False, True):
            pairs = repeated(name, samples, distinct)
            base = plain(pairs)
            title = name + (", distinct texts" if distinct else "")
            results += [compare(title, pairs, grader, cores, import_s, base) for grader in graders]
            total["plain"] += base[1] if not distinct else 0
    both = [
        pair
        for name in ("rollouts_gsm8k_110x21models", "rollouts_math_qwen_100x8")
        for pair in repeated(name, samples, False)
    ]
    total["ours"] = ours(both, "math", cores)[1]["cold"]
    print(f"both files in one call, cold: plain {total['plain']:.2f} s, ours {total['ours']:.2f} s")
    results.append(compare("answers all different, one worker", all_different(quick), "math", 1, import_s))
    if not quick:
        report = {
            "machine": {**measured_on(), "cores": cores},
            "versions": {name: version(name) for name in ("math-verify", "latex2sympy2-extended", "sympy")},
            "math_verify_import_cpu_s": round(import_s, 3),
            "both_files_cold_cpu_s": {name: round(seconds, 3) for name, seconds in total.items()},
            "answers_all_different_cpu_s": parts,
            "results": results,
        }
        (HERE / "results" / "verify.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
