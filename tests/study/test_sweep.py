"""`diver reproduce` on a regime made to work little: its records, runs twice, its list, and the paper's commands."""

import re
import shlex
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from diver.core.settings import parse_ks
from diver.core.types import DiverError
from diver.evaluate.config import EvalConfig
from diver.recipe.flags import parse
from diver.recipe.load import load_recipe
from diver.sweep.run import make, sweep, untrained
from diver.tasks.benchmarks import BENCHMARKS
from diver.tasks.templates import TEMPLATES
from diver_paper import paper
from diver_paper.experiments import EXPERIMENTS, INITIAL
from diver_paper.plan import make_plan, study
from diver_paper.reproduce import SMOKE, Arguments, reproduce, write

ROOT = Path(__file__).parents[2]


def slowly(name):
    return pytest.param(name, marks=pytest.mark.slow)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiments_load(name):
    experiment = EXPERIMENTS[name]
    assert experiment.title and experiment.reproduces and experiment.varied
    assert experiment.paper_variants and experiment.recipes


def test_what_cannot_be_reproduced_is_told():
    with pytest.raises(DiverError, match="did you mean 'main'"):
        reproduce(Arguments(name="mian"))
    with pytest.raises(DiverError, match="--list"):
        reproduce(Arguments())
    with pytest.raises(DiverError, match="--jobs and --seeds"):
        reproduce(Arguments(name="main", jobs=0))


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
def test_every_experiment_runs_and_has_its_page(name, smoked, capsys):
    reproduce(Arguments(name=name, smoke=True, out=smoked))
    assert "can be made" in capsys.readouterr().out
    found = study(EXPERIMENTS[name], 1, smoked, SMOKE)
    assert list(found.runs) == [INITIAL, *EXPERIMENTS[name].variants]
    write(found, smoked / "pages")
    page = (smoked / "pages" / f"{name}-tiny.md").read_text()
    assert EXPERIMENTS[name].reproduces in page and "1 seed" in page
    assert ("-tiny.png" in page) == (smoked / "pages" / f"{name}-tiny.png").exists()
    # The k of pass-at-k-large are above the number of samples here, and a row without any value is left out.
    for variant in EXPERIMENTS[name].variants if name != "pass-at-k-large" else ():
        assert variant in page


def test_a_record_has_what_the_tables_need(tmp_path, monkeypatch):
    """The last checkpoint of main is evaluated at 0.6, too."""
    for name, temperatures in {"case-study": [], "main": ["0.6"]}.items():
        few = replace(EXPERIMENTS[name], variants={"diver-mix": EXPERIMENTS["main"].variants["diver-mix"]})
        plan = make_plan(few, 1, tmp_path, tmp_path / "work", SMOKE)
        untrained(plan)
        make(plan, plan.settings[0], 0)
        record = study(few, 1, tmp_path, SMOKE).runs["diver-mix"][0]
        assert len(record["metrics"]["diversity/textual"]) == len(record["metrics"]["signal/mixed"]) == 2
        assert [*record["evaluations"]] == ["1", "2"] and [*record.get("at", {})] == temperatures
        last = record["evaluations"]["2"]
        assert len(last["solutions"]) == last["problems"] == 4 and all(sum(c) <= 16 for c in last["solutions"])
        assert len(last["responses"][0]) == 8 and len(last["diversity"]["textual"]) == 4
        assert 0 <= record["evaluations"]["1"]["pass@4"] <= 1
        assert [*study(few, 1, tmp_path, SMOKE).runs[INITIAL][0]["evaluations"]] == ["0"]
    monkeypatch.setattr(subprocess, "Popen", None)
    sweep(plan, 1)  # nothing is left to be made


def test_the_list_names_every_experiment_and_what_has_been_run(tmp_path, capsys):
    reproduce(Arguments(list=True, out=tmp_path))
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
    reproduce(Arguments(name=name, scale="paper"))
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
        reproduce(Arguments(name="main", scale="paper"))


def test_experiments_without_a_tiny_scale_say_so(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    reproduce(Arguments(name="judge", smoke=True))
    assert "its recipes at the paper's scale can be made" in capsys.readouterr().out
    with pytest.raises(DiverError, match="models: .*--scale paper"):
        reproduce(Arguments(name="models"))
