"""`diver sweep` by its real command: its records and page, kills, one's own method, finished runs, and what it refuses.

The runs are tiny: two methods, two seeds, two steps, eight problems, eight samples, two pairs beside the untrained one.
"""

import contextlib
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from diver_command import fails, succeeds
from waiting import until

from diver.core.files import read_jsonl
from diver.core.types import DiverError
from diver.grading import get_grader
from diver.recipe.data import Data
from diver.sweep import records
from diver.sweep.arguments import SweepArguments, make_plan, recipe_flags, values_of
from diver.sweep.pilot import at_equal_time, estimate
from diver.sweep.plan import HELD_OUT, SELECTION, Plan, Setting
from diver.tasks.splits import load

RECIPE = """\
[model]
path = "countdown"
threads = 1
[data]
path = "countdown"
[data.countdown]
problems = 64
[sample]
group_size = 4
max_tokens = 24
max_prompt_tokens = 24
[train]
steps = 2
batch_size = 4
mini_batch_size = 4
learning_rate = 1e-3
save_steps = 1
[evaluate]
problems = 8
"""
FRONT = "--alphas 0.5 --temperatures 0.6 --samples 8 --k 1,8"
WORDS = f"tiny.toml --methods clip-higher own_methods:MaxRl --seeds 0,1 {FRONT}"
OUT = Path("runs/sweep/tiny")
CHANGES = ("command", "started", "cpu_seconds", "metrics")
"""What the record of the same run says anew; of its metrics, those that are times."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a sweep that was not interrupted."""
    folder = tmp_path_factory.mktemp("sweep")
    begin(folder)
    done = subprocess.run(command("--jobs=2"), cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "clip-higher: 2 runs of 2 steps" in done.stdout and done.stdout.endswith(f"page: {OUT}/sweep.html\n")
    return folder


def begin(folder):
    """A recipe, and a file with a method of one's own."""
    (folder / "tiny.toml").write_text(RECIPE)
    shutil.copy(Path(__file__).parents[1] / "own_methods.py", folder)


def command(*more):
    return [sys.executable, "-c", "from diver.cli import main; main()", "sweep", *WORDS.split(), *more]


def compared(folder):
    """The records of a sweep without what changes from run to run."""
    rows = records.read(folder / OUT / "records.jsonl.gz")
    for row in rows.values():
        row["training"] = {name: c for name, c in row.get("metrics", {}).items() if not name.startswith("time/")}
    return {name: {k: v for k, v in row.items() if k not in CHANGES} for name, row in rows.items()}


@pytest.mark.slow
def test_the_records_have_every_run_and_the_page_every_section(finished):
    rows = records.read(finished / OUT / "records.jsonl.gz")
    labels = ("clip-higher", "own_methods:MaxRl")
    assert {*rows} == {"untrained", *(f"{label}/seed_{seed}" for label in labels for seed in (0, 1))}
    assert {*rows["untrained"]["fronts"][HELD_OUT]} == {*rows["untrained"]["fronts"][SELECTION]} == {"0 0.6"}
    for name, row in rows.items():
        if name != "untrained":
            assert {*row["fronts"][SELECTION]} == {"0.5 0.6", "1 0.6"} and row["steps"] == 2
            assert row["recipe"]["method.name"] == row["setting"] and row["recipe"]["train.steps"] == 2
            assert {len(counts) for counts in row["fronts"][SELECTION].values()} == {2}  # a quarter of 8
            assert {len(counts) for counts in row["fronts"][HELD_OUT].values()} == {6}
    page = (finished / OUT / "sweep.html").read_text(encoding="utf-8")
    for title in ("What to turn on", "Fronts", "Every setting at its best", "Runs"):
        assert f"<h2>{title}</h2>" in page
    assert "4 of 4 runs" in page and "<h1>At k = 1: " in page


@pytest.mark.slow
def test_counts_are_those_of_the_stored_responses(finished):
    """Recounted by the grader: the correct ones of 8 responses to each selection problem, of one run at one pair."""
    folder = finished / OUT / "fronts" / "own_methods-MaxRl_seed_1" / "step_0002" / SELECTION
    rows = [row for _, row in read_jsonl(folder / "alpha_0.5_temperature_0.6" / "generations" / f"{SELECTION}.jsonl")]
    problems = load(Data(path="countdown"), None, 8)[1][:2]
    grader = get_grader("countdown")
    correct = [
        sum(
            row.get("count", 1) * (grader.grade(row["response"], problem).value == "correct")
            for row in rows
            if row["problem"] == problem.id
        )
        for problem in problems
    ]
    record = records.read(finished / OUT / "records.jsonl.gz")["own_methods:MaxRl/seed_1"]
    assert record["fronts"][SELECTION]["0.5 0.6"] == correct


@pytest.mark.slow
def test_killed_at_any_point_the_same_command_gives_the_same_records(finished, tmp_path):
    begin(tmp_path)
    out = tmp_path / OUT
    for pattern in (  # while it trains, samples the selection problems, and judges
        "clip-higher/seed_0/metrics.jsonl",
        f"fronts/*/step_0002/{SELECTION}/*/generations",
        f"fronts/*/step_0002/{HELD_OUT}/*/generations",
    ):
        nothing = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command("--jobs=2"), cwd=tmp_path, **nothing)
        # Where every chosen pair is the untrained one, only (1, 0.6) is judged, and the sweep may end before.
        with contextlib.suppress(RuntimeError):
            until(lambda pattern=pattern: [*out.glob(pattern)], process)
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = subprocess.run(command("--jobs=2"), cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert compared(tmp_path) == compared(finished)


@pytest.mark.slow
def test_a_finished_run_joins(finished, tmp_path):
    """A run of the sweep as another setting has the counts that it has there, and its own recipe in the record."""
    (tmp_path / "tiny.toml").write_text(RECIPE)
    words = f"tiny.toml --seeds 0 --methods max-rl {FRONT} --baseline joined"
    succeeds("sweep", *words.split(), f"--runs=joined={finished / OUT / 'clip-higher'}", cwd=tmp_path)
    there = records.read(finished / OUT / "records.jsonl.gz")["clip-higher/seed_0"]
    row = records.read(tmp_path / OUT / "records.jsonl.gz")["joined/seed_0"]
    assert row["fronts"][SELECTION] == there["fronts"][SELECTION] and row["recipe"] == there["recipe"]
    assert not (finished / OUT / "clip-higher" / "seed_0" / "fronts").exists()
    more = words.replace("--baseline joined", f"--runs joined={finished / OUT / 'clip-higher'}").split()
    assert "data.countdown.problems is 64, and 32" in fails(
        "sweep", *more, "--data.countdown.problems=32", "--out=other", cwd=tmp_path
    )
    assert "has no run of seed 2" in fails("sweep", *more, "--seeds=0..2", "--out=other", cwd=tmp_path)
    changed = fails("sweep", *words.split(), f"--runs=joined={finished / OUT / 'own_methods-MaxRl'}", cwd=tmp_path)
    assert "joined/seed_0 is a run with method.name = 'clip-higher'" in changed


@pytest.mark.slow
def test_other_problems_or_samples_need_another_folder(finished):
    words = WORDS.split()
    assert "other evaluation problems; give another --out" in fails("sweep", *words, "--selection=3", cwd=finished)
    changed = fails("sweep", *words, "--train.learning_rate=1e-4", cwd=finished)
    assert "is a run with train.learning_rate = 0.001, now 0.0001; give another --out" in changed
    assert "has 8 samples, not 16" in fails("sweep", *words, "--samples=16", cwd=finished)


# ---- what is refused before the first step


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    path = tmp_path_factory.mktemp("recipe") / "tiny.toml"
    path.write_text(RECIPE)
    return path


TWO = ("--methods", "clip-higher", "max-rl")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*TWO, "--evaluate.problems=0"], "there are 0; raise --evaluate.problems"),
        ([*TWO, "--selection", "8"], "--selection 8: some of the evaluation problems choose"),
        (["--methods", "clip-higher", "nonsense"], "unknown choice 'nonsense'"),
        (["--methods", "clip-higher", "--set", "method.replay.alhpa=0,1"], "unknown key, did you mean 'alpha'"),
        (["--methods", "clip-higher", "--set", "method.name=a,b"], "--set method.name=a,b: give --methods"),
        (["--methods", "clip-higher", "clip-higher"], "same name, clip-higher"),
        (["--rates", "1e-4", "--set", "train.weight_decay=0.1,0.10"], "are the same setting"),
        ([*TWO, "--baseline", "grpo"], "--baseline: unknown choice 'grpo'; choices: clip-higher, max-rl"),
        (["--rates", "1e-4"], "diver-mix, rate 0.0001 is the only setting"),
        ([*TWO, "--set", "data.countdown.seed=1,2"], "data.countdown.seed is 2, and 1 in clip-higher"),
        ([*TWO, "--run.seed", "3"], "--run.seed: a sweep has many runs; give --seeds"),
        ([*TWO, "--engine", "trl"], "runs of others join by --runs"),
        ([*TWO, "--jobs", "0"], "jobs: must be at least 1, not 0"),
        ([*TWO, "--alphas", "0,2"], "--alphas 0,2: must be numbers from 0 to 1"),
        ([*TWO, "--temperatures", "0,1"], "must be numbers above 0"),
        ([*TWO, "--runs", "x=nowhere"], "nowhere: no such file or folder in "),
        (["--set", "train.steps=1,2", "--equal", "time"], "--equal time: decides the steps"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_the_first_step(recipe, words, message):
    assert message in fails("sweep", "tiny.toml", *words, cwd=recipe.parent)
    assert not (recipe.parent / "runs").exists()


# ---- the plan


def planned(recipe, *words):
    from diver.recipe.load import parse_arguments

    args = [str(recipe), *words]
    return make_plan(parse_arguments(SweepArguments, args, "diver sweep"), args)


def test_a_plan_has_every_combination(recipe):
    plan = planned(
        recipe, *TWO, "--rates", "1e-4", "2.5e-05", "--set", "method.replay.alpha=0,0.3", "--seeds=3..4", "--k=1,8",
        "--train.batch_size", "8", "--alphas=0.5",
    )  # fmt: skip
    assert len(plan.settings) == 8 and plan.baseline == "clip-higher, rate 0.0001, replay.alpha 0"
    last = plan.settings[-1]
    assert last.label == "max-rl, rate 2.5e-05, replay.alpha 0.3" and last.seeds == (3, 4)
    run = plan.trained(last, 4)
    assert (run.method.name, run.train.learning_rate, run.method.replay.alpha) == ("max-rl", 2.5e-5, 0.3)
    assert run.train.batch_size == 8 and run.run.seed == 4 and run.evaluate.problems == 0
    assert run.run.folder == f"{OUT}/max-rl-rate-2.5e-05-replay.alpha-0.3/seed_4"
    assert plan.alphas == (0.0, 0.5, 1.0) and str(plan.grid[0]) == "alpha 0.5, temperature 0.3"


def test_evaluation_problems_that_are_part_of_the_data_are_left_out_of_the_training(recipe, tmp_path):
    rows = [{"problem": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(40)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = (f"--data.path={tmp_path / 'sums.jsonl'}", "--data.template=plain", "--sample.max_prompt_tokens=64")
    plan = planned(recipe, *TWO, *words)
    run = plan.trained(plan.settings[1], 0)
    train, held_out, _ = load(run.data, run.evaluate.source, run.evaluate.problems)
    parts = plan.problems(run)
    judged = [p.id for part in parts.values() for p in part.problems]
    assert [len(parts[part].problems) for part in (SELECTION, HELD_OUT)] == [2, 6]  # a quarter of 8
    assert judged == [p.id for p in held_out] and {p.id for p in train}.isdisjoint(judged) and len(train) == 32


def test_values_of_a_key():
    assert values_of("method.replay.alpha=0.1,0.3") == [
        ("replay.alpha 0.1", ["--method.replay.alpha=0.1"]),
        ("replay.alpha 0.3", ["--method.replay.alpha=0.3"]),
    ]
    assert values_of("sample.group_size=16") == [("sample.group_size 16", ["--sample.group_size=16"])]
    for wrong in ("alpha=1", "method.replay.alpha", "method.replay.alpha="):
        with pytest.raises(DiverError, match="must be KEY=VALUE,VALUE"):
            values_of(wrong)


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("--methods a b --seeds 0..1", ""),
        ("--methods a b --train.steps 3 --seeds=0..1 --model countdown", "--train.steps 3 --model countdown"),
        ("--seeds=0..1 --train.steps=3", "--train.steps=3"),
        ("--dry-run --train.betas 0.9 0.99", "--train.betas 0.9 0.99"),
        ("--dry_run --set a.b=1,2 c.d=3 --method.frame common", "--method.frame common"),
    ],
)
def test_flags_of_the_recipe(words, kept):
    assert recipe_flags(words.split()) == kept.split()


def test_equal_time_gives_a_setting_as_many_steps_as_the_baseline_takes(recipe):
    """The baseline takes 2 s a step and 2 x 10 s: 5 steps of 4 s, and 40 of half a second."""
    trained = (Setting(name, (), (0, 1)) for name in ("base", "slow", "fast"))
    plan = Plan(
        recipe=recipe,
        flags=("--train.steps", "10"),
        settings=(*trained, Setting("joined", (), (0,), folders={0: "x"})),
        seeds=(0, 1),
        baseline="base",
        out=recipe.parent / "out",
        records=recipe.parent / "records",
    )
    costs = {"base": 2.0, "slow": 4.0, "fast": 0.5}
    equal = at_equal_time(plan, costs)
    assert [equal.trained(equal.setting(name), 0).train.steps for name in costs] == [10, 5, 40]
    assert equal.setting("joined") == plan.setting("joined")
    lines = estimate(equal, costs, jobs=2)
    assert lines[0] == "base: 2 runs of 10 steps, 20 s of CPU time each" and lines[3] == "joined: 1 finished runs"
    assert lines[4].startswith("training: about 1 min 00 s with --jobs 2")
