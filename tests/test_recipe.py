import dataclasses
from pathlib import Path

import pytest

from diver.config.load import describe, load_recipe, parse_flags, split_flags
from diver.config.recipe import SECTIONS, make_recipe
from diver.methods import METHODS
from diver.types import DiverError

RECIPES = sorted((Path(__file__).parents[1] / "recipes").rglob("*.toml"))


def write(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("path", RECIPES, ids=lambda p: p.stem)
def test_every_shipped_recipe_loads(path):
    recipe = load_recipe(path)
    assert recipe.folder == Path("runs") / path.stem
    assert recipe.train.batch_size % recipe.train.mini_batch_size == 0


def test_paper_recipes_have_the_papers_hyperparameters():
    """Its table of hyperparameters; 350 steps for Qwen2.5-Math-7B, 200 for the others."""
    paper = [p for p in RECIPES if p.parent.name == "paper"]
    assert len(paper) == 5
    for path in paper:
        r = load_recipe(path)
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


def test_flags_change_keys_and_the_method_by_name():
    assert parse_flags(["--train.steps", "5", "--model.path=a/b", "--data.template", "plain"]) == {
        "train": {"steps": 5},
        "model": {"path": "a/b"},
        "data": {"template": "plain"},
    }
    paid = parse_flags(["--method.diversity_rewards.self-bleu.weight", "2", "--train.mini-batch-size", "4"])
    assert paid == {"method": {"diversity_rewards": {"self-bleu": {"weight": 2}}}, "train": {"mini_batch_size": 4}}
    recipe = load_recipe(
        RECIPES[-1], ["--method.name", "diver-td", "--method.shaping.coef", "0.5", "--log.to", '["wandb"]']
    )
    assert recipe.method.name == "diver-td" and recipe.method.shaping.coef == 0.5
    assert recipe.log.to == ("wandb",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[train]\nstps = 3", r"mine.toml: train.stps: unknown key, did you mean 'steps'"),
        ("[trian]\nsteps = 3", r"mine.toml: there is no section \[trian\]; sections are run, model"),
        ("[train]\nsteps = 'three'", r"mine.toml: train.steps: should be a valid integer, not 'three'"),
        ("[train]\nsteps = 0", r"mine.toml: train: steps must be at least 1, not 0"),
        (
            "[train]\nbatch_size = 8\nmini_batch_size = 16",
            r"mine.toml: train: mini_batch_size \(16\) is larger than batch_size \(8\)",
        ),
        (
            "[train]\nbatch_size = 8\nmini_batch_size = 3",
            r"mine.toml: train: mini_batch_size \(3\) must divide batch_size \(8\)",
        ),
        ("[sample]\ngroup_size = 1", r"mine.toml: sample: sample.group_size: G is 1; a group needs at least 2"),
        ("[method]\nname = 'divr-mix'", r"mine.toml: method.name: unknown choice 'divr-mix', did you mean 'diver-mix'"),
        ("[method.shaping]\ncoeff = 1.0", r"mine.toml: method.shaping.coeff: unknown key, did you mean 'coef'"),
        ("train = 3", r"mine.toml: train must be a section"),
        (
            "[method]\nname = 'pass-at-k'\nk = 8",
            r"mine.toml: method.k is 8 with sample.group_size = 8: k",
        ),
        ("[train\nsteps = 3", r"mine.toml: is not TOML"),
        ("[data.countdown.mix]\nfive = 1.0", r"no level 'five'; there are three, four"),
        ("[log]\nto = ['mlflow']", r"mine.toml: log.to"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    with pytest.raises(DiverError, match=message):
        load_recipe(write(tmp_path, text))


def test_flags_of_the_recipe_may_stand_before_it():
    words = ["--method", "grpo", "a.toml", "--train.steps=5", "--dry-run", "--data.path", "x.jsonl"]
    flags = ["--method", "grpo", "--train.steps=5", "--data.path", "x.jsonl"]
    assert split_flags(words) == (["a.toml", "--dry-run"], flags)
    assert split_flags(["a.toml", "--train.steps"]) == (["a.toml"], ["--train.steps"])


def test_wrong_flags_are_named(tmp_path):
    path = write(tmp_path, "")
    with pytest.raises(DiverError, match="no such recipe"):
        load_recipe(tmp_path / "none.toml")
    with pytest.raises(DiverError, match="--section.field value"):
        load_recipe(path, ["--steps", "3"])
    with pytest.raises(DiverError, match="--tarin: unknown choice 'tarin', did you mean 'train'"):
        load_recipe(path, ["--tarin.steps", "3"])
    with pytest.raises(DiverError, match="needs a value"):
        load_recipe(path, ["--train.steps"])


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


def test_help_tells_every_key():
    text = describe()
    for section, cls in SECTIONS.items():
        assert f"[{section}]" in text
        for field in dataclasses.fields(cls):
            assert field.name in text
    lines = text.splitlines()
    assert all(lines[i + 1].strip() for i, line in enumerate(lines) if line.startswith("  ") and line[2] != " ")


def test_every_method_loads_by_its_name():
    for name in METHODS:
        assert make_recipe({"method": {"name": name}}).method.name == name
