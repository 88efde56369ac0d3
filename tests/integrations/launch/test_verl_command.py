"""The verl command of a recipe, without verl; tests/integrations/verl reads it with verl's own configuration."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from diver import cli
from diver.core.types import DiverError
from diver.integrations.verl import config
from diver.integrations.verl.launch import PROGRAM, checkpoints, command, hydra, shown
from diver.methods import METHODS, method_named
from diver.recipe.load import load_recipe
from diver.recipe.recipe import make_recipe
from diver.tasks.testbeds import policy_folder

ROOT = Path(__file__).parents[3]
PAPER = sorted((ROOT / "recipes" / "paper").glob("*.toml"))
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"


def options(recipe, extra=()):
    words = command(recipe, extra)
    assert tuple(words[:2]) == PROGRAM
    pairs = [word.partition("=")[::2] for word in words[2:]]
    assert len({key.lstrip("+") for key, _ in pairs}) == len(pairs)
    return dict(pairs)


@pytest.mark.parametrize("path", PAPER, ids=lambda p: p.stem)
def test_the_papers_table_of_hyperparameters(path):
    found = options(load_recipe(path))
    wanted = {
        "data.max_prompt_length": "1024",
        "data.max_response_length": "8192",
        "data.train_batch_size": "128",
        "data.val_batch_size": "512",
        f"{ROLLOUT}.n": "8",
        f"{ROLLOUT}.gpu_memory_utilization": "0.85",
        f"{ROLLOUT}.temperature": "1.0",
        f"{ROLLOUT}.val_kwargs.temperature": "0.6",
        f"{ACTOR}.optim.lr": "1e-06",
        f"{ACTOR}.ppo_mini_batch_size": "32",
        f"{ACTOR}.use_dynamic_bsz": "true",
        f"{ACTOR}.use_kl_loss": "false",
        f"{ACTOR}.entropy_coeff": "0.0",
        f"{ACTOR}.clip_ratio_low": "0.2",
        f"{ACTOR}.clip_ratio_high": "0.28",
        "trainer.total_training_steps": "350" if path.stem == "qwen2.5-math-7b" else "200",
        "trainer.n_gpus_per_node": "8",
    }
    offload = {f"{ACTOR}.fsdp_config.{part}_offload": "true" for part in ("param", "optimizer")}
    wanted |= {} if path.stem == "qwen2.5-math-1.5b" else offload
    assert {key: found.get(key) for key in wanted} == wanted
    # lambda is 0.1 and sigma 0.65 by default
    paper = method_named("diver-mix", diversity={"until": "end"}, shaping={"condition": "correct"})
    assert config.read_plugin({"method": found["+algorithm.diver.method"].strip("'")}).method == paper


@pytest.mark.parametrize("name", METHODS)
def test_the_plugin_reads_the_recipes_method_back(name):
    changes = {
        **({"shaping": {"coef": 0.25, "schedule": {"kind": "linear"}}} if name.startswith("diver") else {}),
        "loss": {"kl_coef": 0.5},
        "diversity": {"weights": [0.5, 0.5], "orders": 2},
    }
    published = {
        "clip_high": 0.2,
        "clip_low": 0.2,
        "kl_coef": 0.1,
    }  # what some methods have by their source, and no other frame
    tables = [{"name": name}, {"name": name, **changes}, {"name": name, "frame": "common"}]
    tables += [
        {"name": name, "frame": "common", "loss": published},
        {"name": name, "loss": {"name": "cispo", **published}},
    ]
    for table in tables:
        verify = {"timeout_s": 2.0} if len(table) > 2 else {}
        try:
            recipe = make_recipe({"method": table, "verify": verify})
        except DiverError as other_loss:  # of a method whose loss is its definition
            assert "loss" in str(other_loss)
            continue
        try:
            given = options(recipe)
        except DiverError as refused:
            assert "verl" in str(refused)
            continue
        given = {k.removeprefix("+algorithm.diver."): v for k, v in given.items() if k.startswith("+algorithm.diver")}
        folder = given.pop("run.folder")
        plugin = config.read_plugin({k: v.strip("'").replace("\\'", "'") for k, v in given.items()})
        assert folder == str(recipe.folder.resolve())
        assert (plugin.method, plugin.verify) == (recipe.method, recipe.verify)


def test_a_setting_that_only_the_source_has_reaches_the_plugin_in_another_frame():
    recipe = make_recipe({"method": {"name": "darling", "frame": "common", "divisor": "none"}})
    assert '"divisor": "none"' in options(recipe)["+algorithm.diver.method"].replace("\\", "")


def test_verls_own_options_have_the_last_word():
    recipe = make_recipe({"verl": {"overrides": ["trainer.nnodes=4", "+trainer.extra=1"]}})
    assert options(recipe)["trainer.nnodes"] == "4" and options(recipe)["+trainer.extra"] == "1"
    assert options(recipe, ["trainer.nnodes=2"])["trainer.nnodes"] == "2"
    with pytest.raises(
        DiverError, match=r"apply_chat_template_kwargs: has no effect, .* set model.chat_template_kwargs"
    ):
        command(recipe, ["+data.apply_chat_template_kwargs.enable_thinking=false"])
    for option, told in (
        ("actor_rollout_ref.rollout.multi_turn.enable=true", "the problems have no tools, and the prompt is the whole"),
        ("trainer.use_v1=false", "the plugin is one of verl's V1 trainers"),
        ("trainer.v1.trainer_mode=separate_async", "whole groups are shaped in verl's synchronous trainer only"),
    ):
        with pytest.raises(DiverError) as error:
            command(recipe, [option])
        assert str(error.value).startswith(f"{option}: {told}")
    command(recipe, ["actor_rollout_ref.rollout.multi_turn.enable=False"])
    assert options(recipe)["actor_rollout_ref.actor.strategy"] == "fsdp2"
    with pytest.raises(DiverError, match=r"algorithm.diver: is set by the recipe: change its section \[method\]"):
        command(recipe, ["+algorithm.diver.method=grpo"])
    with pytest.raises(DiverError, match="verl.overrides.0: should match pattern .*=', not 'nnodes'"):
        make_recipe({"verl": {"overrides": ["nnodes"]}})


def test_a_mini_batch_that_the_gpus_cannot_divide_is_refused():
    """32 problems x 8 responses are 256, which 24 GPUs cannot divide, and 16 can."""
    three = make_recipe({"verl": {"nodes": 3}})
    with pytest.raises(DiverError) as error:
        command(three)
    told = "train.mini_batch_size x sample.group_size = 256 responses cannot be divided over 24 GPUs (verl.nodes x"
    assert str(error.value).startswith(told)
    with pytest.raises(DiverError, match="cannot be divided over 24 GPUs"):
        command(make_recipe({}), ["trainer.nnodes=3"])
    assert options(three, ["trainer.nnodes=2"])["trainer.nnodes"] == "2"
    assert options(three, [f"{ACTOR}.ppo_mini_batch_size=48"])[f"{ACTOR}.ppo_mini_batch_size"] == "48"
    for left_to_verl in (f"{ACTOR}.ulysses_sequence_parallel_size=2", "trainer.n_gpus_per_node='${oc.env:GPUS}'"):
        command(three, [left_to_verl])


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        ({"name": "gmpo"}, "'gmpo': the verl adapter does not support this loss"),
        ({"name": "sapo", "aggregation": "token-mean"}, "'token-mean': verl has sequence-mean for the loss 'sapo'"),
    ],
)
def test_a_loss_that_verl_has_in_another_form_is_refused(loss, told):
    with pytest.raises(DiverError, match=told):
        options(make_recipe({"method": {"name": "grpo", "loss": loss}}))


def test_the_ratio_of_dppo_is_bounded_as_its_loss_says():
    """By the option that bounds it for A < 0 in verl's clipped loss, which `diver train` sets to 1e6."""
    given = options(make_recipe({"method": {"name": "dppo", "loss": {"delta": 0.1, "max_ratio": 50.0}}}))
    actor = "actor_rollout_ref.actor."
    wanted = {"clip_ratio_low": "0.1", "clip_ratio_high": "0.1", "clip_ratio_c": "50.0", "loss_agg_mode": "token-mean"}
    assert {key: given[actor + key] for key in wanted} == wanted


def test_folders_are_absolute_and_hub_names_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny").mkdir()
    path = "actor_rollout_ref.model.path"
    assert options(make_recipe({"model": {"path": "tiny"}}))[path] == str(tmp_path / "tiny")
    assert options(make_recipe({"model": {"path": "Qwen/Qwen2.5-7B"}}))[path] == "Qwen/Qwen2.5-7B"
    found = options(make_recipe({"run": {"folder": "runs/a"}}))
    assert found[path] == str(policy_folder())
    assert found["data.train_files"] == str(tmp_path / "runs/a/verl/train.parquet")


def test_validation_follows_evaluation():
    keys = ("trainer.val_before_train", "trainer.test_freq")
    for evaluate, wanted in (
        ({"problems": 8, "every": 5}, ("true", "5")),
        ({"problems": 8}, ("true", "30")),  # at the end
        ({"problems": 0, "every": 5}, ("false", "-1")),
    ):
        found = options(make_recipe({"evaluate": evaluate, "train": {"steps": 30}}))
        assert tuple(found[key] for key in keys) == wanted


def test_a_forward_pass_holds_the_longest_response():
    key = f"{ACTOR}.ppo_max_token_len_per_gpu"
    assert options(make_recipe({}))[key] == "16384"
    assert options(make_recipe({"sample": {"max_tokens": 30000}}))[key] == str(30000 + 1024)
    assert options(make_recipe({"verl": {"tokens_per_gpu": 20000}}))[key] == "20000"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (True, "true"),
        (None, "null"),
        (1e-6, "1e-06"),
        ((0.9, 0.999), "[0.9,0.999]"),
        (["console", "wandb"], "[console,wandb]"),
        ("a/b-c_1.5", "a/b-c_1.5"),
        ("", "''"),
        ("it's", r"'it\'s'"),
        ("/home/josé", "'/home/josé'"),  # outside quotes hydra reads ASCII only
        ("a \\", "'a \\\\'"),  # a backslash escapes a quote, and itself before one; elsewhere it is a character
        (r"a\'b\c", r"'a\\\'b\c'"),
        ('{"a": 1}', "'{\"a\": 1}'"),
    ],
)
def test_values_in_hydras_grammar(value, written):
    assert hydra(value) == written


def test_checkpoints_by_hand():
    """Qwen2.5-7B: 7,615,616,512 parameters of 16 bytes are 113.5 GB, or 8 bytes without the moments."""
    recipe = load_recipe(ROOT / "recipes" / "paper" / "qwen2.5-7b.toml")
    words = command(recipe)
    assert "trainer.save_freq=25" in words and "trainer.max_actor_ckpt_to_keep=2" in words
    assert checkpoints(words, 7_615_616_512) == (
        "checkpoints: every 25 steps and after the last (train.save_steps); kept: 2 (train.save_total_limit); "
        "each 113.5 GB: model, optimizer, extra, hf_model"
    )
    assert "; each 16 bytes a parameter: " in checkpoints(words, None)
    light = command(recipe, ["actor_rollout_ref.actor.checkpoint.save_contents=[model,hf_model]"])
    assert checkpoints(light, 2**30).endswith("; each 8.0 GB: model, hf_model")
    assert checkpoints(command(recipe, ["trainer.save_freq=-1"]), None) == "checkpoints: none (trainer.save_freq=-1)"


def test_the_command_as_shown_is_the_command():
    words = command(load_recipe(PAPER[0], ["--method.shaping.coef", "0.2"]))
    assert shlex.split(shown(words).replace("\\\n", "")) == ["python", *words]


def test_the_verb_prints_and_refuses(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    recipe = str(ROOT / "recipes" / "quickstart.toml")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["diver", "train", "--engine", "verl", *arguments])
        cli.main()

    run(recipe, "--dry-run", "--method", "diver-td", "--", "trainer.nnodes=2")
    told = capsys.readouterr()
    assert "+algorithm.diver.method=diver-td" in told.out and told.out.endswith("trainer.nnodes=2\n")
    assert told.err.startswith("checkpoints: every 50 steps") and " GB: " in told.err  # of the bundled policy
    assert not list(tmp_path.iterdir())
    run(recipe, "--problems-only", "--data.countdown.problems", "64")
    for words in ((), ("--dry-run",)):
        with pytest.raises(SystemExit) as stop:
            run(recipe, "--method", "clip-higher", "--data.countdown.problems", "64", *words)
        assert stop.value.code == 2 and "has a run of another recipe (method." in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        run("--help", "all")
    assert stop.value.code == 0 and "the keys of a recipe in verl" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        run(recipe, "--model.device", "cpu")
    assert stop.value.code == 2 and "model.device = 'cpu' cannot be run with verl" in capsys.readouterr().err
    if subprocess.run([sys.executable, "-c", "import verl"], capture_output=True).returncode:
        with pytest.raises(SystemExit) as stop:
            run(recipe, "--data.countdown.problems", "64")
        assert (
            stop.value.code == 2 and "verl: not installed, but this needs it: pip install " in capsys.readouterr().err
        )
