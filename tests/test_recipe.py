import dataclasses
import functools
import importlib
import re
from pathlib import Path

import pytest

from diver.core.types import DiverError
from diver.methods import METHODS, method_named
from diver.methods.base import Selection
from diver.methods.grpo import ClipHigher
from diver.methods.pass_at_k import PassAtK
from diver.recipe import sections
from diver.recipe.data import Data
from diver.recipe.load import RecipeArguments, load_recipe, parse_arguments
from diver.recipe.recipe import SECTIONS, Recipe, make_recipe
from diver.recipe.run import open_run

RECIPES = sorted((Path(__file__).parents[1] / "recipes").rglob("*.toml"))


shipped = functools.cache(load_recipe)


def write(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("path", RECIPES, ids=lambda p: p.stem)
def test_every_shipped_recipe_loads(path):
    recipe = shipped(path)
    assert recipe.folder == Path("runs") / path.stem
    assert recipe.train.batch_size % recipe.train.mini_batch_size == 0


def test_paper_recipes_have_the_papers_hyperparameters():
    """Its table of hyperparameters; 350 steps for Qwen2.5-Math-7B, 200 for the others."""
    paper = [p for p in RECIPES if p.parent.name == "paper"]
    assert len(paper) == 5
    for path in paper:
        r = shipped(path)
        assert (r.sample.max_prompt_tokens, r.sample.max_tokens, r.sample.group_size, r.sample.temperature) == (
            1024,
            8192,
            8,
            1.0,
        )
        assert (r.train.learning_rate, r.train.batch_size, r.train.mini_batch_size) == (1e-6, 128, 32)
        assert (r.method.loss.clip_low, r.method.loss.clip_high, r.method.loss.kl_coef, r.method.loss.entropy_coef) == (
            0.2,
            0.28,
            0,
            0,
        )
        assert (r.method.shaping.coef, r.method.shaping.clip_max, r.method.shaping.discount) == (0.1, 0.65, 1.0)
        assert r.evaluate.temperature == 0.6 and r.data.path == "Elliott/Openr1-Math-46k-8192"
        assert r.train.steps == (350 if path.stem == "qwen2.5-math-7b" else 200)


def test_defaults_are_the_papers():
    assert make_recipe({}).method.name == "diver-mix"
    assert make_recipe({"method": {"name": "grpo"}}).method.loss.clip_high == 0.20
    assert make_recipe({"method": {"name": "clip-higher"}}).method.loss.clip_high == 0.28


def test_flags_change_keys_and_the_method_by_name(tmp_path):
    path = write(tmp_path, "[data.columns]\nanswer = 'solution'")
    recipe = load_recipe(path, ["--train.steps", "5", "--model.path=a/b", "--data.template", "boxed"])
    assert (recipe.train.steps, recipe.model.path, recipe.data.template) == (5, "a/b", "boxed")
    recipe = load_recipe(path, ["--model", "a/b", "--data=x.jsonl", "--train.mini-batch-size", "4"])
    assert (recipe.model.path, recipe.data.path, recipe.train.mini_batch_size) == ("a/b", "x.jsonl", 4)
    assert recipe.data.columns == {"answer": "solution"}
    recipe = load_recipe(path, ["--data.columns.prompt", "q"])
    assert recipe.data.columns == {"answer": "solution", "prompt": "q"}
    recipe = load_recipe(path, ["--data.columns", "prompt", "q", "id", "5"])
    assert recipe.data.columns == {"prompt": "q", "id": "5"}
    recipe = load_recipe(
        RECIPES[-1], ["--method.name", "diver-td", "--method.shaping.coef", "0.5", "--log.to", "wandb", "tensorboard"]
    )
    assert recipe.method.name == "diver-td" and recipe.method.shaping.coef == 0.5
    assert recipe.log.to == ("wandb", "tensorboard")


def test_flags_add_a_metric_that_is_rewarded(tmp_path, monkeypatch):
    """By its name, dashes and dots included, to those of the method."""
    (tmp_path / "my_pkg.py").write_text("def metric(responses):\n    return [0.0] * len(responses)\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = write(tmp_path, "[method]\nname = 'diver-td'")
    flags = [
        "--method.diversity_rewards.self-bleu.weight",
        "2",
        "--method.diversity_rewards.my_pkg:metric.clip_max=0.5",
    ]
    rewarded = load_recipe(path, [*flags, "--method.diversity_rewards.textual.weight", "0"]).method.diversity_rewards
    assert {name: (spec.weight, spec.clip_max) for name, spec in rewarded.items()} == {
        "textual": (0.0, None), "self-bleu": (2.0, None), "my_pkg:metric": (1.0, 0.5)
    }  # fmt: skip
    with pytest.raises(
        DiverError,
        match=(
            "command line: .*diversity metric: unknown choice 'self-blue', did you mean 'self-bleu'.*choices: textual"
        ),
    ):
        load_recipe(path, ["--method.diversity_rewards.self-blue.weight", "2"])


def test_flags_of_one_table_add_up(tmp_path):
    """The second flag took the place of the first one: enable_thinking = false was lost where a date was added."""
    path = tmp_path / "r.toml"
    path.write_text("[data]\ncolumns = {source = 'set'}")
    both = {"prompt": "q", "answer": "a"}
    assert load_recipe(path, "--data.columns prompt q --data.columns answer a".split()).data.columns == both
    assert load_recipe(path, "--data.columns prompt q --data.columns.answer a".split()).data.columns == both
    added = load_recipe(path, "--data.columns.prompt q --data.columns answer a".split()).data.columns
    assert added == {"source": "set", **both}  # the first flag adds to the table of the file


def test_what_must_go_together_is_checked_after_the_flags(tmp_path):
    path = write(tmp_path, "[sample]\ngroup_size = 4\n[method]\nname = 'pass-at-k'")
    assert load_recipe(path, ["--method.k", "2"]).method.k == 2
    with pytest.raises(DiverError, match="mine.toml: method.k is 4"):
        load_recipe(path)


def test_a_method_named_by_a_flag_replaces_the_table_of_the_recipe(tmp_path):
    """Else a baseline would be rewarded for diversity under its own name."""
    path = write(tmp_path, "[method]\nname = 'diver-td'\ndivisor = 'sample-std'\n[method.shaping]\ncoef = 0.5")
    assert load_recipe(path).method.shaping.coef == 0.5
    assert load_recipe(path, ["--method", "clip-higher"]).method == method_named("clip-higher")
    assert load_recipe(path, ["--method", "diver-td", "--method.divisor=sample-std"]).method == method_named(
        "diver-td", divisor="sample-std"
    )


def test_flags_give_a_source_of_held_out_problems(tmp_path):
    recipe = load_recipe(write(tmp_path, ""), ["--evaluate.source.path", "x.jsonl", "--evaluate.source.limit", "3"])
    assert (recipe.evaluate.source.path, recipe.evaluate.source.limit) == ("x.jsonl", 3)
    with pytest.raises(DiverError, match="data.limit: must be at least 1"):  # which would leave out the last ones
        make_recipe({"data": {"path": "countdown", "limit": -5}})


@pytest.mark.parametrize(
    "table, told",
    [
        ({"loss": "gspo"}, "method.loss: is a table; its name is method.loss.name = 'gspo'"),
        ({"name": 5}, "method.name: must be a name, not 5"),
        ({"loss": {"name": ["gspo"]}}, r"method.loss.name: must be a name, not \['gspo'\]"),
    ],
)
def test_a_method_that_is_no_name_and_a_loss_that_is_no_table(table, told):
    with pytest.raises(DiverError, match=told):
        make_recipe({"method": table})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[train]\nstps = 3", r"mine.toml: train.stps: unknown key, did you mean 'steps'"),
        ("[trian]\nsteps = 3", "mine.toml: section: unknown choice 'trian', did you mean 'train'. choices: run, model"),
        ("[train]\nsteps = 'three'", r"mine.toml: train.steps: should be a valid integer, not 'three'"),
        ("[train]\nsteps = 0", r"mine.toml: train.steps: must be at least 1, not 0"),
        (
            "[train]\nbatch_size = 8\nmini_batch_size = 16",
            r"mine.toml: train: mini_batch_size \(16\) must divide batch_size \(8\)",
        ),
        (
            "[train]\nbatch_size = 8\nmini_batch_size = 3",
            r"mine.toml: train: mini_batch_size \(3\) must divide batch_size \(8\)",
        ),
        ("[sample]\ngroup_size = 1", r"mine.toml: sample.group_size: must be at least 2, not 1"),
        ("[method]\nname = 'divr-mix'", r"mine.toml: method.name: unknown choice 'divr-mix', did you mean 'diver-mix'"),
        ("[method.shaping]\ncoeff = 1.0", r"mine.toml: method.shaping.coeff: unknown key, did you mean 'coef'"),
        ("train = 3", r"mine.toml: train: should be a table, not 3"),
        (
            "[method]\nname = 'pass-at-k'\nk = 8",
            r"mine.toml: method.k is 8 with sample.group_size = 8: k",
        ),
        (
            "[method]\nname = 'diver-mix'\nthreshold = 1.5",
            r"mine.toml: method.threshold: 1.5 is above 1, the outcome of a correct response, so no response would",
        ),
        ("[train\nsteps = 3", r"mine.toml: is not TOML"),
        (f"[train]\nsteps = {'9' * 5000}", r"mine.toml: is not TOML: Exceeds the limit"),
        (f"[train]\nsteps = {'[' * 5000}", r"mine.toml: is not TOML: "),
        ("[data.countdown.mix]\nsix = 1.0", r"no level 'six'; there are three, four"),
        ("[log]\nto = ['neptune']", r"mine.toml: log.to"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    with pytest.raises(DiverError, match=message):
        load_recipe(write(tmp_path, text))


@dataclasses.dataclass(kw_only=True)
class Arguments(RecipeArguments):
    """A command that takes a recipe."""

    dry_run: bool = False
    """Stop early."""


def test_flags_of_the_recipe_may_stand_before_it(tmp_path):
    path = str(write(tmp_path, "[train]\nbatch_size = 64"))
    words = ["--method", "grpo", path, "--train.steps=5", "--dry-run", "--data.path", "x.jsonl"]
    given = parse_arguments(Arguments, words, "diver it")
    assert given.dry_run and given.recipe == load_recipe(
        Path(path), ["--method", "grpo", "--train.steps=5", "--data.path", "x.jsonl"]
    )
    assert (given.recipe.train.batch_size, given.recipe.train.steps) == (64, 5)


GRAPHS = '[data]\npath = "reasoning-gym:graph_color"\n[data.reasoning_gym.sizes]\nnum_colors = 3\nmax_num_vertices = 12'


@pytest.mark.parametrize(
    ("flags", "sizes", "unused"),
    [
        (["--data.reasoning_gym.sizes", "num_colors", "4"], {"num_colors": 4}, ["max_num_vertices"]),
        (["--data.reasoning_gym.sizes.num_colors", "4"], {"num_colors": 4, "max_num_vertices": 12}, []),
        (["--data", "reasoning-gym:graph_color"], {"num_colors": 3, "max_num_vertices": 12}, []),
        (["--data", "reasoning-gym:chain_sum"], {}, ["num_colors", "max_num_vertices"]),
        (
            ["--data=reasoning-gym:chain_sum", "--data.reasoning-gym.sizes", "min_terms", "2"],
            {"min_terms": 2},
            ["num_colors", "max_num_vertices"],
        ),
    ],
)
def test_sizes_of_a_task(tmp_path, capsys, flags, sizes, unused):
    """As the help writes them, also over a file that has some, which are replaced;
    those of another task are not taken."""
    path = write(tmp_path, GRAPHS)
    assert load_recipe(path, flags).data.reasoning_gym.sizes == sizes
    keys = ", ".join(f"data.reasoning_gym.sizes.{key}" for key in unused)
    told = f"{path}: {keys} not used: the command line gives others\n" if unused else ""
    assert capsys.readouterr().err == told


def test_wrong_flags_are_named(tmp_path):
    path = write(tmp_path, "")
    with pytest.raises(DiverError, match="none.toml: no such file or folder in .*; did you mean '.*mine.toml'"):
        load_recipe(tmp_path / "none.toml")
    with pytest.raises(DiverError, match="name a recipe: diver it recipes/quickstart.toml"):
        parse_arguments(Arguments, ["--dry-run"], "diver it")
    for flags, message in [
        (["--steps", "3"], "command line: '--steps': did you mean --train.steps"),
        (["other.toml"], "command line: 'other.toml'.*--section.key value"),
        (["--tarin.steps", "3"], "command line: '--tarin.steps': did you mean --train.steps"),
        (["--data.columns", "prompt", "q", "answer"], "command line: prompt q answer: must be pairs, NAME value"),
        (["--data.countdown.mix.seed", "3"], "countdown.mix: no level 'seed'; there are three, four"),
        (["--train.seed", "3"], "--train.seed': did you mean --run.seed.$"),
        (["--train.steps"], "command line: --train.steps: needs a value$"),
        (["--train.steps", "x"], "command line: train.steps: should be a valid integer, not 'x'$"),
        (["--train.stps", "3"], "command line: train.stps: unknown key, did you mean 'steps'. choices: .*batch_size"),
        (["--train.max_grad_norm", "inf"], "command line: train.max_grad_norm: should be a finite number, not inf"),
        (["--train.mini_batch_size", "256"], r"command line: train: mini_batch_size \(256\) must divide"),
        (["--method", "divr-mix"], "command line: method.name: unknown choice 'divr-mix', did you mean 'diver-mix'"),
        (["--method.divisor", "both"], "command line: method.divisor: should be 'std', 'sample-std'.*, not 'both'$"),
        (["--method.shaping.coeff", "1"], "command line: method.shaping.coeff: unknown key, did you mean 'coef'"),
        (["--method=pass-at-k", "--method.k=8"], "command line: method.k is 8 with sample.group"),
    ]:
        with pytest.raises(DiverError, match=message) as error:
            load_recipe(path, flags)
        assert "\n" not in str(error.value)


def test_identity_leaves_out_steps_paths_and_loggers():
    base = make_recipe({"model": {"path": "old/place/tiny"}})
    same = {"model": {"path": "new/tiny"}, "train": {"steps": 7}, "run": {"folder": "x"}, "log": {"to": ["wandb"]}}
    assert make_recipe(same).identity() == base.identity()
    machine = {"train": {"micro_batch_tokens": 64, "save_steps": 1}, "sample": {"max_num_seqs": 8}}
    assert make_recipe({**machine, "model": {"path": "tiny", "device": "cuda"}}).identity() == base.identity()
    for other in ({"model": {"path": "old/place/large"}}, {"run": {"seed": 1}}, {"train": {"batch_size": 64}}):
        assert make_recipe({**same, **other}).identity() != base.identity()


def test_the_models_of_metrics_count_by_their_names():
    def identity(**embedding):
        return make_recipe({"method": {"diversity": {"embedding": embedding}}}).identity()

    assert identity(model="old/MiniLM", batch=8) == identity(model="new/MiniLM", device="cuda")
    assert identity(model="new/MiniLM") != identity(model="new/gemma")


def test_help_lists_every_key_with_its_default_and_meaning(capsys, tmp_path):
    path = write(tmp_path, "[train]\nsteps = 77")
    with pytest.raises(SystemExit) as stop:
        parse_arguments(Arguments, [str(path), "--train.batch_size", "64", "--help", "all"], "diver it")
    text = " ".join(capsys.readouterr().out.split())
    assert stop.value.code == 0 and f"usage: diver it {path}" in text and "--dry_run" in text
    for section, cls in SECTIONS.items():
        assert cls.__doc__.splitlines()[0].partition(". ")[0] in text
        for field in dataclasses.fields(cls):
            assert f"--{section}.{field.name}" in text
    assert not re.search(r"(INT|STR|FLOAT|\.\.\.) (Default|--)", text)  # no key without a meaning
    assert (
        "--train.steps INT Number of rollout steps. In each, "
        "a batch of groups is sampled and the policy is updated on it. Default: 77."
    ) in text


def test_every_method_loads_by_its_name():
    for name in METHODS:
        assert make_recipe({"method": {"name": name}}).method.name == name


def test_bounds_hold_where_annotations_are_postponed(tmp_path, monkeypatch):
    code = "from __future__ import annotations\nfrom diver.core.settings import PositiveInt, settings\n"
    (tmp_path / "postponed_settings.py").write_text(code + "@settings\nclass Own:\n    size: PositiveInt = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="size must be at least 1, not 0"):
        importlib.import_module("postponed_settings").Own(size=0)


@pytest.mark.parametrize(
    ("section", "settings", "message"),
    [
        (sections.Train, {"steps": 0}, "steps must be at least 1, not 0"),
        (sections.Train, {"learning_rate": -1e-6}, "learning_rate must be at least 0, not -1e-06"),  # of its base class
        (sections.Sampling, {"group_size": 1}, "group_size must be at least 2, not 1"),
        (sections.Sampling, {"temperature": 0.0}, "temperature must be above 0, not 0.0"),
        (sections.Evaluation, {"problems": -1}, "problems must be at least 0, not -1"),
        (
            sections.Cluster,
            {"gpu_memory_utilization": 1.0},
            "gpu_memory_utilization must be above 0 and below 1, not 1.",
        ),
        (sections.Trl, {"lora_learning_rate": -1.0}, "lora_learning_rate must be at least 0, not -1.0"),
        (Selection, {"keep": "most", "samples": 0}, "samples must be at least 1, not 0"),
    ],
)
def test_a_number_out_of_range_is_refused_in_python_as_in_a_file(section, settings, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        section(**settings)


def test_the_smallest_numbers_are_accepted_in_python():
    assert sections.Train(steps=1, learning_rate=0.0, warmup_steps=0, save_minutes=0.0).steps == 1
    assert sections.Sampling(group_size=2, max_num_seqs=0).group_size == 2
    assert sections.Evaluation(problems=0).problems == 0
    assert sections.Trl(lora_learning_rate=None).lora_rank == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": sections.Model(device="gpu")}, "model.device: should match pattern"),
        ({"run": sections.Run(engine="ray")}, "run.engine: should be 'builtin', 'trl' or 'verl', not 'ray'"),
        ({"train": sections.Train(steps=2.5)}, "train.steps: should be a valid integer, not 2.5"),
        ({"method": PassAtK(k=8)}, "method.k is 8 with sample.group_size = 8: k must be below G"),
        ({"method": ClipHigher(threshold=2.0)}, "method.threshold: 2 is above 1"),
    ],
)
def test_a_recipe_made_in_python_is_checked_before_its_run(tmp_path, changes, message):
    recipe = dataclasses.replace(Recipe(run=sections.Run(folder=str(tmp_path / "run"))), **changes)
    with pytest.raises(DiverError, match=re.escape(message)):
        open_run(recipe)
    assert not (tmp_path / "run").exists()


def test_an_overlong_penalty_that_is_never_full_is_refused():
    table = {"sample": {"max_tokens": 40}, "method": {"name": "dapo", "overlong": {"max_tokens": 41}}}
    with pytest.raises(
        DiverError, match=r"^method.overlong.max_tokens: 41 is above the length limit of a response, 40"
    ):
        make_recipe(table)
    table["method"]["overlong"]["max_tokens"] = 40
    assert make_recipe(table).method.overlong.max_tokens == 40
    table["method"] = {"name": "clip-higher"}  # without a penalty there is no limit
    assert not make_recipe(table).method.overlong


def test_the_range_of_an_optional_number_is_checked_in_python():
    assert Data(path="maze", limit=None).limit is None and Data(path="maze", limit=1).limit == 1
    with pytest.raises(ValueError, match="^limit must be .*, not 0$"):
        Data(path="maze", limit=0)
