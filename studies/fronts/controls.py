"""Controls of the gain by interpolated weights: less training, a lower rate, or a mixture of both policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from diver.core.run_folder import by_step
from diver.core.statistics import Estimate, interval, pass_at_k
from diver.core.tables import markdown
from diver.evaluate.comparison import Values, difference
from diver.evaluate.front import Pair
from diver.sweep import records
from diver.sweep.choose import BOUNDS, Policy, key, scored
from diver.sweep.plan import HELD_OUT, SELECTION, UNTRAINED, Plan
from diver.sweep.run import add, counts, name_of, record
from diver.train.parallel import ParallelRun, run_all

CONTROLS = "controls"
HALF, TRAINED = Pair(0.5, 0.6), Pair(1.0, 0.6)
HIGHER = "clip-higher, 4 times the rate"


def make_controls(plan: Plan, jobs: int) -> None:
    """Sample the earlier checkpoints of the baseline's runs that have a record and no controls yet."""
    base = plan.setting(plan.baseline)
    runs = [
        ParallelRun(f"{CONTROLS}-{seed}", partial(make, plan, seed), plan.folder(base, seed), 0)
        for seed in plan.seeds
        if record(plan, base.label, seed) and not record(plan, CONTROLS, seed)
    ]
    run_all(runs, plan.out / "logs", jobs)


def make(plan: Plan, seed: int) -> None:
    """Evaluate alpha 0.5 and a checkpoint on the held-out problems, and add both to the records.

    The checkpoint is the one whose Pass@1 on the selection problems is nearest to that of alpha 0.5.
    """
    base, final = plan.setting(plan.baseline), record(plan, plan.baseline, seed)
    assert final is not None
    folder = plan.folder(base, seed) / "checkpoints"
    earlier = {
        step: counts(plan, replace(base, step=step), seed, SELECTION, [TRAINED])["fronts"][SELECTION][key(TRAINED)]
        for step in by_step(folder)
        if step < final["steps"]
    }
    wanted = mean(final["fronts"][SELECTION][key(HALF)], plan.samples)
    # If two checkpoints are equally near, the later one.
    step = min(sorted(earlier, reverse=True), key=lambda step: abs(mean(earlier[step], plan.samples) - wanted))
    control = {
        "setting": CONTROLS,
        "seed": seed,
        "samples": plan.samples,
        "steps": step,
        "commit": final["commit"],
        "fronts": {SELECTION: {f"step {at}": c for at, c in earlier.items()}, HELD_OUT: {}},
        "problems": {},
    }
    between = counts(plan, base, seed, HELD_OUT, [HALF])
    at_step = counts(plan, replace(base, step=step), seed, HELD_OUT, [TRAINED])
    at_step["fronts"][HELD_OUT] = {f"step {step}": at_step["fronts"][HELD_OUT][key(TRAINED)]}
    add(plan, control, [between, at_step])


def mean(of_problems: list, samples: int, k: int = 1) -> float:
    return float(pass_at_k(*scored(of_problems, samples), k).mean())


def section(plan: Plan, found: Mapping[str, Policy]) -> str:
    """The controls as Markdown; empty before the first."""
    stored = records.read(plan.records)
    controls = {seed: r for seed in plan.seeds if (r := stored.get(name_of(plan, CONTROLS, seed)))}
    if not controls:
        return ""
    ks = [k for k in plan.ks if k > 1]
    rows = [["alpha 0.5 minus the earlier checkpoint", *(_points(_checkpoint(controls, k)) for k in plan.ks)]]
    base = found.get(plan.baseline)
    if base and UNTRAINED in found:
        halves = [Estimate(np.nan, np.nan, np.nan), *(_half(found[UNTRAINED], base, k) for k in ks)]
        rows.append(["half of the samples from each policy minus clip-higher as trained", *map(_points, halves)])
    if base and HIGHER in found:
        for pair in (pair for pair in found[HIGHER].pairs(SELECTION) if pair.temperature == 0.6 and pair.alpha):
            gaps = [
                difference(found[HIGHER].values(SELECTION, pair, k), base.values(SELECTION, TRAINED, k), BOUNDS)
                for k in plan.ks
            ]
            rows.append([f"{HIGHER}, alpha {pair.alpha:g}, minus clip-higher as trained", *map(_points, gaps)])
    steps = ", ".join(f"{record['steps']}" for record in controls.values())
    text = (
        "At temperature 0.6, in points, with intervals of 95 % over seeds and problems; descriptive. The earlier "
        f"checkpoints are of the steps {steps}. The rows of the higher rate are on the selection problems."
    )
    return f"### Controls\n\n{text}\n\n{markdown(['', *(f'Pass@{k}' for k in plan.ks)], rows)}"


def _checkpoint(of: Mapping[int, records.Record], k: int) -> Estimate:
    def values(at: Mapping[int, str]) -> Values:
        return {s: pass_at_k(*scored(r["fronts"][HELD_OUT][at[s]], r["samples"]), k) for s, r in of.items()}

    steps = {seed: f"step {record['steps']}" for seed, record in of.items()}
    return difference(values(dict.fromkeys(of, key(HALF))), values(steps), BOUNDS)


def _half(untrained: Policy, base: Policy, k: int) -> Estimate:
    """k / 2 samples of each policy minus k samples of the trained one, over seeds and held-out problems."""
    half_untrained, half_trained = (
        policy.values(HELD_OUT, pair, k // 2) for policy, pair in ((untrained, Pair(0.0, 0.6)), (base, TRAINED))
    )
    mixed = {seed: 1 - (1 - half_untrained[seed]) * (1 - half_trained[seed]) for seed in half_trained}
    full = base.values(HELD_OUT, TRAINED, k)
    return difference(mixed, full, BOUNDS) if full else interval([])


def _points(estimate: Estimate) -> str:
    return estimate.text(100, sign="+")
