"""A run folder as the trainer writes one: numbers that move as real ones do, and text that no page should trust."""

import json
import math
import random
from pathlib import Path

import numpy as np
from rows import write_rows

from diver.core.files import to_json
from diver.core.statistics import bounds_of, interval, pass_at_k

HOSTILE = [
    "</p></div></main><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\"><svg onload=alert(1)>",
    "</textarea></style></title><iframe src='https://example.com/'></iframe>",
    '" onmouseover="alert(1)" x="',
    "<meta http-equiv='refresh' content='0;url=https://example.com/'><base href='https://example.com/'>",
    "NUL \x00, escape \x1b[31m, bell \x07, C1 \x9b, DEL \x7f, half a pair \ud800, no character \uffff",
    "right to left \u202e override, שלום עולם, مرحبا بالعالم",
    "emoji 👩‍🔬🧪 and marks Z̴̡̧̛̺̗̗a̸̢l̷̛g̸o&amp;&lt;b&gt;",
    "x" * 100_000,
    "The sum is \\( 3 + 5 = 8 \\). " * 400 + "So \\boxed{ 8 }.",
    "",
]
CORRECT = r"\( {} \times {} = {} \) \( {} - {} = {} \) \boxed{{ {} }}"


def write_run(
    folder: Path, *, steps: int = 60, every: int = 10, rollouts: int = 24, hostile: bool = True, seed: int = 0
) -> Path:
    """A whole run of `steps` steps with an evaluation each `every` steps, and rollouts of the first and last step."""
    rng = random.Random(seed)
    for part in ("rollouts", "eval"):
        (folder / part).mkdir(parents=True)
    _write(folder / "config.json", _config(steps, seed))
    evaluated = sorted({0, *range(every, steps + 1, every), steps})
    evaluations = {step: _evaluation(step, step / max(steps, 1), rng) for step in evaluated}
    for step, row in evaluations.items():
        _write(folder / "eval" / f"step_{step:04}.json", row)
    with (folder / "metrics.jsonl").open("w") as out:
        for step in range(steps + 1):
            row = {"step": step} | (_metrics(step / steps, rng) if step else {})
            estimates = evaluations.get(step, {}).get("estimates", {})
            row |= {f"eval/{name}": estimate["mean"] for name, estimate in estimates.items()}
            out.write(json.dumps(row) + "\n")
    for step in sorted({1, steps}):
        rows = [row for problem in range(rollouts) for row in _group(step, problem, rng, hostile)]
        write_rows(folder / "rollouts" / f"step_{step:04}.jsonl", rows)
    return folder


def _write(path: Path, value) -> None:
    path.write_text(to_json(value))


def _config(steps: int, seed: int) -> dict:
    recipe = {
        "run": {"folder": "runs/quickstart", "seed": seed},
        "model": {"path": "countdown"},
        "data": {"name": "countdown", "problems": 4096},
        "sample": {"group_size": 8, "temperature": 1.0, "max_tokens": 40},
        "method": {"name": "diver-mix", "shaping": {"coef": 0.1, "clip_max": 0.65, "schedule": {"kind": "cosine"}}},
        "train": {"steps": steps, "learning_rate": 1e-4, "clip_low": 0.2, "clip_high": 0.28},
        "evaluate": {"every": 10, "problems": 256, "num_samples": 64},
        "log": {"to": None},
    }
    versions = {"diver-rl": "0.1.0", "python": "3.11.2", "torch": "2.13.0", "transformers": "5.23.0", "numpy": "2.4.6"}
    return {
        "recipe": recipe,
        "versions": versions,
        "commit": "0b1a4890b1a4890b1a4890b1a4890b1a4890b1a4",
        "seed": seed,
        "started": "2026-03-02T09:15:00+00:00",
        "command": "diver train recipes/quickstart.toml",
        "schedule_steps": steps,
    }


def _metrics(t: float, rng: random.Random) -> dict[str, float]:
    def near(value: float, std: float) -> float:
        return max(0.0, value + rng.gauss(0, std))

    outcome = near(0.32 + 0.3 * (1 - math.exp(-3 * t)), 0.03)
    return {
        "reward/outcome": outcome,
        "reward/shaped": outcome + 0.02,
        "diversity/textual": near(0.62 - 0.15 * t, 0.02),
        "diversity/equational": near(0.48 - 0.1 * t, 0.02),
        "advantage/solve_all_frac": near(0.05 + 0.3 * t, 0.03),
        "shaping/coef": 0.05 * (1 + math.cos(math.pi * t)),
        "shaping/clipped": near(0.1, 0.02),
        "policy/entropy": near(0.35 - 0.2 * t, 0.01),
        "policy/clip_fraction": near(0.01, 0.002),
        "policy/grad_norm": near(0.6, 0.1),
        "policy/logprob_mismatch": 1e-6,
        "group/solve_all": near(0.04 + 0.3 * t, 0.03),
        "group/solve_none": near(0.3 - 0.2 * t, 0.03),
        "grade/correct": outcome,
        "grade/wrong": 1 - outcome,
        "response/length_mean": near(24.5, 0.3),
        "response/truncated": 0.0,
        "time/sample": near(1.4, 0.1),
        "time/verify": near(0.05, 0.005),
        "time/diversity": near(0.08, 0.005),
        "time/update": near(1.9, 0.1),
    }


def _evaluation(step: int, t: float, rng: random.Random) -> dict:
    """Problems of every difficulty, each a little easier as t goes from 0 to 1."""
    rates = [min(1.0, (0.9 * i / 256) ** 2 * (1.2 + 0.8 * (1 - math.exp(-3 * t)))) for i in range(256)]
    solved = [sum(rng.random() < rate for _ in range(64)) for rate in rates]
    rows = [{"id": str(i), "n": 64, "c": c, "distinct": min(c, 8)} for i, c in enumerate(solved)]
    right = sum(solved)
    grades = {"correct": right, "wrong": 256 * 64 - right - 300, "no_answer": 250, "truncated": 50}
    return {"step": step, **evaluation(rows, 64, (1, 4, 16, 64)), "grades": grades}


def evaluation(rows: list[dict], samples: int, ks: tuple[int, ...]) -> dict:
    """The result of an evaluation with these rows of its problems, as a run writes it."""
    n, c, distinct = (np.array([row[key] for row in rows], dtype=int) for key in ("n", "c", "distinct"))
    values = {f"pass@{k}": pass_at_k(n, c, k) for k in ks} | {f"distinct@{samples}": distinct}
    return {
        "problems": len(rows),
        "samples": samples,
        "k": list(ks),
        "temperature": 1.0,
        "estimates": {name: interval(v, bounds_of(name))._asdict() for name, v in values.items()},
        "grades": {},
        "exact_solutions": True,
        "per_problem": rows,
    }


def _group(step: int, problem: int, rng: random.Random, hostile: bool) -> list[dict]:
    """Problem 0 is solved by half of its rollouts, 1 by all, 2 by none; the others by chance."""
    a, b, c = (rng.randint(2, 12) for _ in range(3))
    chance = {0: 0.5, 1: 1.0, 2: 0.0}.get(problem, rng.random())
    right = [i < 8 * chance for i in range(8)]
    rows = []
    for sample, outcome in enumerate(map(float, right)):
        response = CORRECT.format(a, b, a * b, a * b, c, a * b - c, a * b - c)
        grade = "correct" if outcome else "wrong"
        if hostile and problem == 0:
            response = HOSTILE[(sample + 8 * (step > 1)) % len(HOSTILE)]
        textual, equational = rng.random(), rng.random()
        extra = 0.1 * min(0.65, (textual + equational) / 2) * outcome
        rows.append(
            {
                "step": step,
                "problem": f"countdown-{problem}" + (HOSTILE[0] if hostile and problem == 0 else ""),
                "sample": sample,
                "prompt": f"Use {a} , {b} and {c} to make {a * b - c} ." + (HOSTILE[2] if hostile else ""),
                "response": response,
                "grade": grade,
                "reward": {"outcome": outcome, "diversity": extra, "length": 0.0, "total": outcome + extra},
                "diversity": {"textual": textual, "equational": equational},
                "advantage": rng.gauss(0, 1),
                "length": len(response) // 4,
                "truncated": False,
            }
        )
    return rows
