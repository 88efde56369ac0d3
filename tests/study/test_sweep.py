"""The real command on a regime made to work little: killed and gone on with, run twice, and runs that fail."""

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import traceback
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from in_this_process import InThisProcess
from waiting import until

from diver.core.settings import merge, parse_ks
from diver.core.types import DiverError
from diver.evaluate.config import EvalConfig
from diver.recipe.flags import parse
from diver.recipe.load import load_recipe
from diver.recipe.run import open_run
from diver.tasks.benchmarks import BENCHMARKS
from diver.tasks.templates import TEMPLATES
from diver_paper import paper
from diver_paper.aggregate import study
from diver_paper.experiments import EXPERIMENTS, INITIAL
from diver_paper.job import Job, study_recipe
from diver_paper.records import Records, add, read
from diver_paper.reproduce import SMOKE, Arguments, load_regime, records_of, reproduce, write
from diver_paper.sweep import Paths, sweep
from diver_paper.worker import run, train_run

ROOT = Path(__file__).parents[2]
REGIME = merge(load_regime(), merge(SMOKE, {"train": {"steps": 4}}))
MIX = Job({"method": {"name": "diver-mix"}}, 0)
WRONG = Job({"method": {"name": "clip-higher", "loss": {"clip_low": -1.0}}}, 0)
SWEEP = """
import json, sys
from pathlib import Path
from diver_paper.job import Job
from diver_paper.records import Records
from diver_paper.sweep import Paths, sweep
regime, jobs = json.loads(sys.argv[1]), [Job(*job) for job in json.loads(sys.argv[2])]
sweep(jobs, regime, Paths(Records(Path("records.jsonl.gz")), Path("work")), 2, {"commit": None}, [0.6])
"""


def slowly(name):
    return pytest.param(name, marks=pytest.mark.slow)


def told(file):
    """The records by name without what a clock measured."""
    found = {}
    for name, line in read(file).items():
        record = json.loads(line)
        record["metrics"] = {k: v for k, v in record["metrics"].items() if not k.startswith("time/")}
        found[name] = {k: v for k, v in record.items() if k not in ("finished", "cpu_seconds")}
    return found


class Logged(InThisProcess):
    """A run that fails leaves its error in its log, as the process of a run does (tests/test_stopping.py)."""

    def __init__(self, *_, stderr, **__):
        super().__init__()
        self.log = Path(stderr.name)

    def flush(self):
        try:
            super().flush()
        except DiverError:
            self.log.write_text(traceback.format_exc())
            self.returncode = 1


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """The folder of a sweep of a run that fails and of one that does not, and its error."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(DiverError) as failure:
        patch.setattr("diver.train.parallel.subprocess", SimpleNamespace(Popen=Logged, PIPE=subprocess.PIPE))
        sweep(
            [WRONG, MIX],
            REGIME,
            Paths(Records(folder / "records.jsonl.gz"), folder / "work"),
            2,
            {"commit": None},
            [0.6],
        )
    return folder, str(failure.value)


@pytest.fixture(scope="module")
def whole(swept):
    return told(swept[0] / "records.jsonl.gz")


def test_a_record_has_what_the_tables_need(whole):
    record = whole["diver-mix_seed0"]
    assert record["command"].startswith("diver train studies/diver_paper/tiny.toml --method.name diver-mix ")
    assert len(record["metrics"]["diversity/textual"]) == len(record["metrics"]["signal/mixed"]) == 4
    assert list(record["evaluations"]) == ["3", "4"]  # the checkpoints that are kept
    last = record["evaluations"]["4"]
    assert len(last["solutions"]) == last["problems"] == 4 and all(sum(counts) <= 16 for counts in last["solutions"])
    assert len(last["responses"][0]) == 8 and len(last["diversity"]["textual"]) == 4
    assert 0 <= record["evaluations"]["3"]["pass@4"] <= 1
    assert [*record["at"]] == ["0.6"] and record["at"]["0.6"].keys() == last.keys()
    assert record["at"]["0.6"]["solutions"] != last["solutions"]


def test_a_run_of_the_study_is_that_of_diver_train(swept, tmp_path):
    """`train_run` opens what `diver train` began, and `diver train` what `train_run` did."""
    made = swept[0] / "work" / MIX.name
    tables = merge(MIX.recipe(REGIME), {"evaluate": {"problems": 0}})
    begun = open_run(study_recipe(merge(tables, {"run": {"folder": str(tmp_path / "run")}})))
    begun.begin()
    begun.close()
    shutil.copytree(made, tmp_path / "run", dirs_exist_ok=True, ignore=shutil.ignore_patterns("config.json", ".lock"))
    metrics, _ = train_run(study_recipe(MIX.recipe(REGIME)), MIX, tmp_path / "run", {"commit": None})
    assert metrics["step"] == [1, 2, 3, 4]
    opened = open_run(study_recipe(merge(tables, {"run": {"folder": str(made)}})))
    opened.close()
    assert opened.steps() == [1, 2, 3, 4] and opened.config["engine"] == "built-in"
    assert opened.config["command"] == MIX.command


@pytest.mark.first
@pytest.mark.slow
def test_killed_and_started_again_it_ends_with_the_same_records(whole, tmp_path):
    other = Job({"method": {"name": "clip-higher"}}, 0)
    expected = Records(tmp_path / "expected.jsonl.gz")
    run(other._asdict(), tmp_path / "alone", REGIME, expected, {"commit": None}, [0.6])
    command = [sys.executable, "-c", SWEEP, json.dumps(REGIME), json.dumps([[*other], [*MIX]])]
    first = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    rows = tmp_path / "work" / "diver-mix_seed0" / "metrics.jsonl"
    until(lambda: rows.exists() and rows.read_bytes().count(b"\n") >= 2, first)
    first.kill()
    assert first.wait() == -signal.SIGKILL
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    assert told(tmp_path / "records.jsonl.gz") == whole | told(expected.file)


def test_finished_runs_are_not_made_again(whole, tmp_path, monkeypatch):
    add(tmp_path / "runs.jsonl.gz", whole)
    monkeypatch.setattr(subprocess, "Popen", None)
    sweep([MIX], REGIME, Paths(Records(tmp_path / "runs.jsonl.gz"), tmp_path / "work"), 1, {})
    assert not (tmp_path / "work").exists()


def test_a_run_that_fails_is_named_with_its_log_and_the_others_are_made(swept):
    folder, message = swept
    assert re.search(
        r"1 of 2 runs failed \(.*clip_low--1.0_seed0.log: .*DiverError: .*clip_low: must be .* -1.0\);", message
    )
    assert {*read(folder / "records.jsonl.gz")} == {MIX.name}
    assert "clip_low" in (folder / "work" / f"{WRONG.name}.log").read_text()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiments_load(name):
    experiment = EXPERIMENTS[name]
    assert experiment.title and experiment.reproduces and experiment.varied
    assert experiment.paper_variants and experiment.recipes


def test_what_cannot_be_reproduced_is_told():
    with pytest.raises(DiverError, match="did you mean 'main'"):
        reproduce(Arguments(name="mian"), {})
    with pytest.raises(DiverError, match="--list"):
        reproduce(Arguments(), {})
    with pytest.raises(DiverError, match="--jobs and --seeds"):
        reproduce(Arguments(name="main", jobs=0), {})


@pytest.fixture(scope="module")
def smoked(tmp_path_factory):
    return tmp_path_factory.mktemp("smoked")  # runs are shared by the experiments, here as in a study


TWO = {"clip-higher", "diver-mix"}  # the runs of `make test`
NAMES = [
    name if set(e.variants) <= TWO and name != "equation-extraction" else slowly(name)
    for name, e in EXPERIMENTS.items()
    if e.variants
]


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_runs_and_has_its_page(name, smoked, in_this_process, capsys):
    reproduce(Arguments(name=name, smoke=True, out=smoked), {"commit": None})
    assert "can be made" in capsys.readouterr().out
    regime, paths = merge(load_regime(), SMOKE), Paths(records_of(EXPERIMENTS[name], smoked), smoked)
    found = study(EXPERIMENTS[name], 1, regime, paths)
    assert list(found.runs) == [INITIAL, *EXPERIMENTS[name].variants]
    write(found, smoked / "pages")
    page = (smoked / "pages" / f"{name}-tiny.md").read_text()
    assert EXPERIMENTS[name].reproduces in page and "1 seed" in page
    assert ("-tiny.png" in page) == (smoked / "pages" / f"{name}-tiny.png").exists()
    for variant in EXPERIMENTS[name].variants:
        assert variant in page


def test_the_list_names_every_experiment_and_what_has_been_run(tmp_path, whole, capsys):
    reproduce(Arguments(list=True, out=tmp_path), {})
    told = capsys.readouterr().out
    for experiment in EXPERIMENTS.values():
        assert experiment.name in told and experiment.reproduces in told
    assert "0 of 41 runs" in told and "judge                Figure 9, Table 8     -" in told


@cache  # the experiments share most of their commands
def read_recipe(recipe, *flags):
    return load_recipe(Path(recipe), flags)


@cache
def read_evaluation(*flags):
    return parse(EvalConfig, "diver eval", flags)


@pytest.mark.parametrize("name", [name if name in ("main", "judge") else slowly(name) for name in EXPERIMENTS])
def test_commands_at_paper_scale_are_ones_that_can_be_given(name, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    reproduce(Arguments(name=name, scale="paper"), {})
    commands = [shlex.split(line) for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
    trained = [command for command in commands if command[1] == "train"]
    recipes = [read_recipe(*command[2:]) for command in trained]
    asked = [read_evaluation(*command[2:]) for command in commands if command[1] == "eval"]
    for recipe in recipes:
        last = f"{recipe.folder}/verl/checkpoints/global_step_{recipe.train.steps}/actor/huggingface"
        assert last in {arguments.model for arguments in asked}
    public = len(paper.MODELS) * EXPERIMENTS[name].public_models
    models = len(trained) + len(EXPERIMENTS[name].recipes) + public  # the base models, too
    assert len({arguments.model for arguments in asked}) == models
    assert len(asked) == models * len(EXPERIMENTS[name].eval_options)
    for arguments in asked:
        assert {*arguments.benchmarks.split(",")} <= BENCHMARKS.keys() and arguments.template in TEMPLATES
    rest = [command for command in commands if command[1] not in ("train", "eval")]
    assert [command[1] for command in rest] == EXPERIMENTS[name].then.split()[1:2]
    for command in rest:
        named = dict(part.split("=", 1) for part in command[2:] if "=runs/eval/" in part)
        assert {*named.values()} == {str(arguments.out) for arguments in asked}


PRINTED = {
    "main": "main",
    "models": "models",
    "pass-at-k": "pass@k",
    "pass-at-k-large": "larger-pass@k",
    "robustness": "hyperparameters",
}


@pytest.mark.parametrize(("name", "table"), PRINTED.items())
def test_evaluations_at_paper_scale_have_every_number_of_the_papers_table(name, table):
    """Every benchmark, every k with enough samples: three runs of 32 where Table 4 has a deviation over three runs."""
    asked = [read_evaluation("--model", "m", *shlex.split(options)) for options in EXPERIMENTS[name].eval_options]
    found = {benchmark: one for one in asked for benchmark in one.benchmarks.split(",")}
    for row in paper.TABLES[table]:
        labels = {row.group, *row.scores}
        benchmarks = labels & BENCHMARKS.keys()
        ks = {int(label.rpartition("@")[2].removeprefix("k=")) for label in labels if re.match(r"k=|pass@", label)}
        assert benchmarks and benchmarks <= found.keys(), row
        for benchmark in benchmarks:
            one = found[benchmark]
            assert ks <= {*parse_ks(one.k)} and max(ks, default=1) <= (one.samples or 1), (row, benchmark)
            assert benchmark not in row.std or one.samples == 3 * 32, (row, benchmark)


def test_commands_at_paper_scale_need_the_recipes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DiverError, match="recipes/paper: not found.*clone"):
        reproduce(Arguments(name="main", scale="paper"), {})


def test_experiments_without_a_tiny_scale_say_so(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    reproduce(Arguments(name="judge", smoke=True), {})
    assert "its recipes at the paper's scale can be made" in capsys.readouterr().out
    with pytest.raises(DiverError, match="models: .*--scale paper"):
        reproduce(Arguments(name="models"), {})
