"""verl itself reads what `diver verl` writes: every option of the command, and the problems."""

import dataclasses
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("verl.trainer.ppo", reason="in the environment of `make test-verl` only")

import stock
import verl.trainer
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.dataset.rl_dataset import RLHFDataset

from diver.config.load import load_recipe
from diver.config.recipe import make_recipe
from diver.data.prompts import prompted
from diver.data.splits import load
from diver.generate.policy import load_configuration
from diver.integrations.verl.config import check, read_plugin
from diver.integrations.verl.launch import command, problems_of
from diver.integrations.verl.parquet import write_problems
from diver.methods import METHODS
from diver.types import DiverError, Grade

RECIPES = sorted((Path(__file__).parents[3] / "recipes").rglob("*.toml"))


def configuration(recipe):
    """verl's, with the recipe's command; hydra stops at an option that verl does not have."""
    folder = str(Path(verl.trainer.__file__).parent / "config")
    with initialize_config_dir(folder, version_base=None):
        return compose("ppo_trainer", overrides=command(recipe)[2:])


@pytest.mark.parametrize("path", RECIPES, ids=lambda p: p.stem)
def test_verl_takes_the_command_of_every_recipe(path):
    recipe = load_recipe(path)
    config = configuration(recipe)
    plugin = read_plugin(config.algorithm.diver)
    assert (plugin.method, plugin.verify) == (recipe.method, recipe.verify)
    check(recipe.method, lambda key: OmegaConf.select(config, key))
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)  # where verl checks values and their types
    assert actor.optim.lr == recipe.train.learning_rate and tuple(actor.optim.betas) == recipe.train.betas
    assert actor.optim.clip_grad == recipe.train.max_grad_norm and actor.use_dynamic_bsz is True
    rollout = omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    assert (rollout.n, rollout.name, rollout.temperature) == (
        recipe.sample.group_size,
        "vllm",
        recipe.sample.temperature,
    )
    assert (rollout.prompt_length, rollout.response_length) == (
        recipe.sample.max_prompt_tokens,
        recipe.sample.max_tokens,
    )
    assert rollout.val_kwargs.do_sample and rollout.val_kwargs.temperature == recipe.evaluate.temperature
    assert config.actor_rollout_ref.model.custom_chat_template.startswith("{% for")


@pytest.mark.parametrize("name", METHODS)
def test_verl_takes_every_method(name):
    recipe = make_recipe(
        {"method": {"name": name, "loss": {"kl_coef": 0.3}, "diversity": {"orders": 2}}, "verify": {"timeout_s": 2.5}}
    )
    try:
        config = configuration(recipe)
    except DiverError as refused:
        assert name == "high-entropy" and "verl has no such loss" in str(refused)
        return
    plugin = read_plugin(config.algorithm.diver)
    assert (plugin.method, plugin.verify) == (recipe.method, recipe.verify)
    check(recipe.method, lambda key: OmegaConf.select(config, key))


def test_verls_data_set_reads_the_problems(tmp_path):
    recipe = make_recipe(
        {
            "run": {"folder": str(tmp_path / "run")},
            "train": {"batch_size": 4, "mini_batch_size": 2},
            "sample": {"max_prompt_tokens": 24},
            "data": {"countdown": {"problems": 12}},
            "evaluate": {"problems": 3},
        }
    )
    write_problems(recipe)
    config = configuration(recipe)
    tokenizer = load_configuration(recipe.model).tokenizer
    train, held, _ = load(recipe.data, None, 3, 0)
    ids = prompted([*train, *held], "plain", tokenizer, 24).ids
    tokenizer.chat_template = config.actor_rollout_ref.model.custom_chat_template
    for part, problems in (("train", train), ("val", held)):
        given = RLHFDataset(str(problems_of(recipe.folder)[part]), tokenizer, config.data)
        assert len(given) == len(problems)
        for row, problem in zip(given, problems, strict=True):
            seen = tokenizer.apply_chat_template(row["raw_prompt"], add_generation_prompt=True, return_dict=True)[
                "input_ids"
            ]
            assert list(seen) == ids[problem.id]
            assert row["reward_model"]["ground_truth"] == problem.answer and row["data_source"] == problem.source
            assert dict(row["extra_info"])["verifier"] == "countdown"


def test_a_relative_folder_is_the_same_place_for_every_worker(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = configuration(
        dataclasses.replace(make_recipe({}), run=dataclasses.replace(make_recipe({}).run, folder="a"))
    )
    assert config.data.train_files == str(tmp_path / "a" / "verl" / "train.parquet")


RECIPE = """
[run]
folder = "run"
[data.countdown]
problems = 24
[sample]
group_size = 4
max_tokens = 40
max_prompt_tokens = 24
[method]
name = "diver-td"
[train]
steps = 1
batch_size = 8
mini_batch_size = 4
[evaluate]
problems = 3
num_samples_in_training = 2
[verl]
gpus = 1
attention = "sdpa"
"""
MACHINE = (
    "device",
    "ray",
    "num_workers",
    "num_data_storage",
    "strategy",
    "compile",
    "mixed_precision",
    "free_cache",
    "load_format",
)


def test_the_verb_trains(tmp_path):
    """The command as users give it, with what a machine without a GPU adds: a step, a validation, a checkpoint."""
    (tmp_path / "tiny.toml").write_text(RECIPE)
    options = {key: value for key, value in stock.OPTIONS.items() if any(word in key for word in MACHINE)}
    options |= {"trainer.logger": "[console,file]", "actor_rollout_ref.rollout.name": "transformers"}
    words = [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in options.items()]
    program = [sys.executable, "-c", "from diver.cli import main; main()", "verl", "tiny.toml", "--", *words]
    said = stock.run(tmp_path, program)
    assert f"{tmp_path}/run/verl/train.parquet: 24 problems" in said
    home = tmp_path / "run" / "verl"
    rows = [json.loads(line) for line in (home / "rollouts" / "1.jsonl").read_text().splitlines()]
    assert len(rows) == 8 * 4 and all(row["input"].startswith("Use ") for row in rows)
    assert {row["score"] for row in rows} <= {0.0, 1.0} and {row["grade"] for row in rows} <= set(Grade)
    logged = stock.metrics(tmp_path)[1]
    assert logged["diver/shaping/coef"] == pytest.approx(0.1)
    assert logged["critic/score/mean"] == pytest.approx(sum(row["score"] for row in rows) / 32)
    assert any(name.startswith("val-") for name in logged)
    assert list((home / "validation").glob("*.jsonl"))
    assert list((home / "checkpoints" / "global_step_1").rglob("config.json"))
