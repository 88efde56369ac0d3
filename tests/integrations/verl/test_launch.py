"""verl itself reads what `diver train --engine verl` writes: every option of the command, and the problems."""

import dataclasses
import shutil
import sys
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("verl.trainer.ppo", reason="in the environment of `make test-verl` only")

import numpy as np
import stock
from omegaconf import OmegaConf
from report_page import curve
from transformers import AutoTokenizer
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

from diver import cli
from diver.core.files import JsonlLog, read_jsonl
from diver.core.run_folder import groups_from_rows
from diver.core.types import DiverError, Progress
from diver.integrations.verl.config import check_config, read_plugin
from diver.integrations.verl.launch import command, compose, problems_of
from diver.integrations.verl.parquet import write_problems
from diver.integrations.verl.trainer import METRICS, run_folder
from diver.methods import METHODS, method_named
from diver.recipe.load import load_recipe
from diver.recipe.recipe import make_recipe
from diver.sample.policy import load_configuration
from diver.tasks.splits import load
from diver.tasks.templates import prompted
from diver.tasks.testbeds import policy_folder
from diver.train.prepare import prepare

RECIPES = sorted((Path(__file__).parents[3] / "recipes").rglob("*.toml"))


def configuration(recipe):
    """verl's, with the recipe's command; hydra stops at an option that verl does not have."""
    return compose(command(recipe))


def test_an_option_that_verl_does_not_have_is_refused_by_the_dry_run(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    recipe = str(Path(__file__).parents[3] / "recipes" / "quickstart.toml")
    words = ["diver", "train", recipe, "--engine", "verl", "--dry-run", "--"]
    monkeypatch.setattr(sys, "argv", [*words, "typo.key=3"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert (
        stop.value.code == 2 and "verl refuses this command: Could not override 'typo.key'" in capsys.readouterr().err
    )
    monkeypatch.setattr(sys, "argv", [*words, "trainer.nnodes=2"])
    cli.main()
    assert capsys.readouterr().out.endswith("trainer.nnodes=2\n")


def test_an_attention_that_is_not_installed_is_refused_before_the_run(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    recipe = str(Path(__file__).parents[3] / "recipes" / "quickstart.toml")
    monkeypatch.setattr(sys, "argv", ["diver", "train", recipe, "--engine", "verl", "--run.folder", "run"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    line = "diver: verl.attention 'flash_attention_2': flash-attn is not installed; set it to 'sdpa'\n"
    assert stop.value.code == 2 and capsys.readouterr().err.endswith(line)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("path", RECIPES, ids=lambda p: p.stem)
def test_verl_takes_the_command_of_every_recipe(path):
    recipe = load_recipe(path)
    config = configuration(recipe)
    plugin = read_plugin(OmegaConf.to_container(config.algorithm.diver))
    assert (plugin.method, plugin.verify) == (recipe.method, recipe.verify)
    check_config(recipe.method, lambda key: OmegaConf.select(config, key))
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
    assert config.data.apply_chat_template_kwargs.chat_template.startswith("{% for")
    assert config.actor_rollout_ref.model.custom_chat_template is None  # which verl would save with the tokenizer


@pytest.mark.parametrize("name", METHODS)
def test_verl_takes_every_method(name):
    recipe = make_recipe(
        {"method": {"name": name, "loss": {"kl_coef": 0.3}, "diversity": {"orders": 2}}, "verify": {"timeout_s": 2.5}}
    )
    try:
        config = configuration(recipe)
    except DiverError as refused:
        lossless = ("high-entropy", "entropy-advantage", "siren", "gmpo")
        reasons = dict.fromkeys(lossless, "the verl adapter does not support this loss")
        reasons["verified-replay"] = "method.loss.kl_coef = 0.3: verl would take this term over"
        reasons |= dict.fromkeys(("diver-actions", "gigpo"), "needs turns, which verl does not provide")
        reasons |= dict.fromkeys(
            ("dph-rl", "pba"), "samples all problems before training (start), which verl does not provide"
        )
        assert reasons[name] in str(refused)
        return
    plugin = read_plugin(OmegaConf.to_container(config.algorithm.diver))
    assert (plugin.method, plugin.verify) == (recipe.method, recipe.verify)
    check_config(recipe.method, lambda key: OmegaConf.select(config, key))


def test_verls_data_set_reads_the_problems(tmp_path):
    recipe = make_recipe(
        {
            "run": {"folder": str(tmp_path / "run")},
            "train": {"batch_size": 4, "mini_batch_size": 2},
            "sample": {"max_prompt_tokens": 24, "max_tokens": 40},
            "data": {"countdown": {"problems": 12}},
            "evaluate": {"problems": 3},
        }
    )
    write_problems(recipe, prepare(recipe))
    config = configuration(recipe)
    tokenizer = load_configuration(recipe.model).tokenizer
    train, held, _ = load(recipe.data, None, 3)
    ids = prompted([*train, *held], "plain", tokenizer, 24).ids
    for part, problems in (("train", train), ("val", held)):
        given = RLHFDataset(str(problems_of(recipe.folder)[part]), tokenizer, config.data)
        assert len(given) == len(problems)
        for row, problem in zip(given, problems, strict=True):
            builder = create_continuous_token_builder(
                tokenizer, chat_template_kwargs=config.data.apply_chat_template_kwargs
            )
            assert list(builder.build_initial_tokens(row["raw_prompt"])) == ids[problem.id]
            assert row["reward_model"]["ground_truth"] == problem.answer and row["data_source"] == problem.source
            assert dict(row["extra_info"])["verifier"] == "countdown"


def test_a_relative_folder_is_the_same_place_for_every_worker(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = configuration(
        dataclasses.replace(make_recipe({}), run=dataclasses.replace(make_recipe({}).run, folder="a"))
    )
    assert config.data.train_files == str(tmp_path / "a" / "verl" / "train.parquet")


CARRIED = {
    "LoRA": ["actor_rollout_ref.model.lora_rank=8", "actor_rollout_ref.model.lora_alpha=16"],
    "rollout correction": [
        "algorithm.rollout_correction.rollout_is=token",
        "algorithm.rollout_correction.rollout_is_threshold=2.0",
        "algorithm.rollout_correction.rollout_rs=token_k1",
        "algorithm.rollout_correction.rollout_rs_threshold=0.5_2.0",
        "actor_rollout_ref.rollout.calculate_log_probs=true",
    ],
    "sequence parallelism": [
        "actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size=2",
        "actor_rollout_ref.ref.fsdp_config.ulysses_sequence_parallel_size=2",
    ],
}
"""Options of verl that stay the user's beside our method."""


@pytest.mark.parametrize("method", ["clip-higher", "diver-mix", "verified-replay"])
@pytest.mark.parametrize("name", CARRIED)
def test_options_that_stay_the_users(name, method):
    """verl composes them with our command, our trainer accepts them, and none of them is changed."""
    recipe = make_recipe({"method": {"name": method}, "verl": {"gpus": 2}, "train": {"mini_batch_size": 16}})
    composed = compose(command(recipe, CARRIED[name]))
    select = partial(OmegaConf.select, composed)
    check_config(recipe.method, select)
    for option in CARRIED[name]:
        key, _, value = option.partition("=")
        assert str(select(key)).lower() == value


def test_rollout_correction_in_place_of_old_log_probs_is_refused_with_replay():
    recipe = make_recipe({"method": {"name": "verified-replay"}})
    composed = compose(command(recipe, ["algorithm.rollout_correction.bypass_mode=true"]))
    with pytest.raises(DiverError, match="algorithm.rollout_correction.bypass_mode=true with method.replay: replayed"):
        check_config(recipe.method, partial(OmegaConf.select, composed))


RECIPE = """
[run]
folder = "run"
[model]
path = "policy"
[data.countdown]
problems = 24
[sample]
group_size = 4
max_tokens = 40
max_prompt_tokens = 24
[method]
name = "diver-td"
[train]
steps = 2
batch_size = 8
mini_batch_size = 4
save_steps = 1
save_total_limit = 1
[evaluate]
problems = 3
num_samples = 2
num_samples_in_training = 2
[verl]
gpus = 1
attention = "sdpa"
"""
CHAT = "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run by the command as users give it, with what a machine without a GPU adds."""
    folder = tmp_path_factory.mktemp("verb")
    shutil.copytree(policy_folder(), folder / "policy")
    (folder / "policy" / "chat_template.jinja").write_text(CHAT)
    (folder / "tiny.toml").write_text(RECIPE)
    said = stock.run(folder, stock.verb("tiny.toml"))
    assert f"{folder}/run/verl/train.parquet: 24 problems" in said
    return folder


def test_the_verb_trains(trained):
    home = trained / "run" / "verl"
    assert any(name.startswith("val-") for name in stock.metrics(trained)[2])
    assert list((home / "validation").glob("*.jsonl"))
    assert [path.name for path in (home / "checkpoints").glob("*/actor")] == ["actor"]  # save_total_limit


def test_the_run_folder_has_verls_own_numbers(trained):
    """Its metrics are those that verl logged, its rollouts have the rewards and advantages that the method gives."""
    logged, rows = stock.metrics(trained), list(JsonlLog(trained / "run" / "metrics.jsonl").rows())
    assert [row["step"] for row in rows] == [1, 2]
    method = method_named("diver-td")
    for row in rows:
        verls, step = logged[row["step"]], row["step"]
        assert row["shaping/coef"] == pytest.approx(0.1 * (1 - (step - 1) / 2)) or step == 1
        assert row["reward/outcome"] == pytest.approx(verls["critic/score/mean"])
        assert row["reward/shaped"] == pytest.approx(verls["critic/rewards/mean"])
        assert row["response/length_mean"] == pytest.approx(verls["response_length/mean"])
        assert {name: row[name] for name in METRICS if name in row} == {
            name: verls[key] for name, key in METRICS.items() if key in verls
        }
        assert 0 <= row["policy/logprob_mismatch"] < 1e-3  # both in float32
        assert {"policy/entropy", "policy/grad_norm", "policy/clip_fraction", "time/update"} <= row.keys()
        groups = groups_from_rows(read_jsonl(trained / "run" / "rollouts" / f"step_{step:04d}.jsonl"))
        assert len(groups) == 8 and {len(group) for group in groups} == {4}
        assert all(group.prompt.startswith("Use ") and group.problem.answer in group.prompt for group in groups)
        assert np.mean([group.outcomes for group in groups]) == pytest.approx(row["reward/outcome"])
        again = method.apply(groups, Progress(step - 1, 2))
        for group, expected in zip(groups, again, strict=True):
            assert group.advantages == pytest.approx(expected.advantages, abs=1e-6)


def test_a_checkpoint_has_the_tokenizer_of_the_model(trained):
    (saved,) = (trained / "run" / "checkpoints").iterdir()
    assert saved.name == "step_0002" and (saved / "model.safetensors").exists()
    ours, theirs = (AutoTokenizer.from_pretrained(folder) for folder in (trained / "policy", saved))
    assert theirs.chat_template == CHAT
    assert theirs.get_vocab() == ours.get_vocab() and theirs.special_tokens_map == ours.special_tokens_map


def test_the_report_of_a_verl_run(trained, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["diver", "browse", str(trained / "run")])
    cli.main()
    logged = stock.metrics(trained)
    for ours, verls in {**METRICS, "reward/outcome": "critic/score/mean"}.items():
        if verls in logged[1]:
            steps, values = curve(trained / "run" / "report.html", ours)
            assert (steps, values) == (
                [1, 2],
                pytest.approx([logged[step][verls] for step in steps], rel=1e-3, abs=1e-4),
            )


def test_a_verl_run_is_measured_and_evaluated(trained, monkeypatch, capsys):
    monkeypatch.chdir(trained)
    for words in (["measure", "run"], ["eval", "run", "--out", "evaluated"]):
        monkeypatch.setattr(sys, "argv", ["diver", *words])
        cli.main()
    told = capsys.readouterr().out
    assert "64 responses" in told and "after 2 steps: run/checkpoints/step_0002" in told
    assert {path.name for path in (trained / "evaluated").iterdir()} >= {"step_0000", "step_0002"}


def test_another_method_is_refused_in_its_folder(trained, monkeypatch, capsys):
    monkeypatch.chdir(trained)
    monkeypatch.setattr(sys, "argv", ["diver", "train", "tiny.toml", "--engine", "verl", "--method", "clip-higher"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    told = capsys.readouterr().err
    assert stop.value.code == 2 and told.count("\n") == 1
    assert "run: has a run of another recipe (method." in told and "method.diversity_rewards" in told
    assert "choose another run.folder or delete it" in told
    of_another = read_plugin({"method": "clip-higher", "run": {"folder": str(trained / "run")}})
    with pytest.raises(DiverError, match=r"has a run of another recipe \(method\."):
        run_folder(of_another)  # by verl's own command
    with run_folder(read_plugin({"method": "diver-td", "run": {"folder": str(trained / "run")}})) as same:
        assert same.steps() == [1, 2]
