"""What TRL is given for a recipe, without TRL."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from diver import cli
from diver.core.types import DiverError
from diver.integrations.trl.launch import adapters, arguments, command, identity
from diver.recipe.recipe import make_recipe
from diver.recipe.run import open_run
from diver.tasks.testbeds import policy_folder
from diver.train.prepare import prepare

ROOT = Path(__file__).parents[3]
PAPER = {
    "sample": {"group_size": 8},
    "train": {"batch_size": 128, "mini_batch_size": 32, "steps": 350, "warmup_steps": 3},
}


def test_the_papers_four_updates():
    """1,024 responses a rollout step, 256 an optimizer step: 32 forward passes of 8 each."""
    fields = arguments(make_recipe(PAPER))
    assert fields["per_device_train_batch_size"] == 8 and fields["gradient_accumulation_steps"] == 32
    assert fields["steps_per_generation"] == 128 and fields["max_steps"] == 1400 and fields["logging_steps"] == 4
    assert fields["warmup_steps"] == 12 and fields["save_steps"] == 40
    assert (fields["epsilon"], fields["epsilon_high"], fields["beta"], fields["loss_type"]) == (0.2, 0.28, 0.0, "dapo")
    assert fields["max_completion_length"] == 8192 and fields["learning_rate"] == 1e-6


@pytest.mark.parametrize(
    ("processes", "rows", "per_device", "accumulation"), [(1, 6, 4, 64), (8, 16, 16, 2), (3, 8, 0, 0)]
)
def test_rows_of_a_process_divide_its_mini_batch(processes, rows, per_device, accumulation):
    recipe = make_recipe({**PAPER, "trl": {"processes": processes, "rows_per_device": rows}})
    if not per_device:
        with pytest.raises(DiverError, match="trl.processes = 3 must divide the 256 responses of a mini-batch"):
            arguments(recipe)
        return
    fields = arguments(recipe)
    assert (fields["per_device_train_batch_size"], fields["gradient_accumulation_steps"]) == (per_device, accumulation)
    assert processes * per_device * fields["steps_per_generation"] == 1024


def test_the_difference_of_log_probs_is_logged_and_corrects_nothing():
    """TRL logs it only where it corrects; its factor is within 1e-6 of 1."""

    def correction(**trl):
        fields = arguments(make_recipe({"trl": trl}))
        return {
            name.rpartition("sampling_")[2]: v
            for name, v in fields.items()
            if "importance_sampling_" in name and name.startswith("vllm")
        }

    ours = correction(vllm="colocate")
    assert ours["correction"] is True and ours["mode"] == "token_truncate"
    assert 1 - 1e-5 < ours["clip_min"] < 1 < ours["clip_max"] < 1 + 1e-5
    assert correction() == {}
    chosen = {"vllm_importance_sampling_mode": "sequence_mask"}
    assert correction(vllm="server", options=chosen) == {"mode": "sequence_mask"}


def test_what_only_trl_has():
    given = {
        "vllm": "colocate",
        "options": {"vllm_gpu_memory_utilization": 0.3},
        "lora_rank": 16,
        "quantization": "4bit",
    }
    recipe = make_recipe({"trl": given})
    fields = arguments(recipe)
    assert fields["use_vllm"] and fields["vllm_mode"] == "colocate" and fields["vllm_gpu_memory_utilization"] == 0.3
    assert fields["learning_rate"] == pytest.approx(1e-5)  # ten times that of the weights
    assert arguments(make_recipe({"trl": {"lora_rank": 4, "lora_learning_rate": 3e-6}}))["learning_rate"] == 3e-6
    assert arguments(make_recipe({"trl": {"lora_learning_rate": 3e-6}}))["learning_rate"] == 1e-6
    assert adapters(recipe)["target_modules"] == "all-linear" and adapters(make_recipe({})) is None
    assert identity(recipe)["trl.lora.r"] == 16
    assert identity(make_recipe({})) == {"trl.trainer": "DiverTrainer", "trl.quantization": "none"}
    assert identity(recipe)["trl.lora_learning_rate"] == pytest.approx(1e-5)
    with pytest.raises(DiverError, match="trl: quantization = '8bit' freezes the weights: give lora_rank, such as 16"):
        make_recipe({"trl": {"quantization": "8bit"}})
    with pytest.raises(DiverError, match="trl.options.beta: the method sets it; change"):
        arguments(make_recipe({"trl": {"options": {"beta": 0.1}}}))


def test_several_processes_run_the_same_words():
    words = command(["recipe.toml", "--train.steps", "3"], 2)
    assert words[0] == sys.executable and words[-5:] == ["diver", "train", "recipe.toml", "--train.steps", "3"]
    assert words[words.index("--nproc_per_node") + 1] == "2"


def test_the_verb_prints_and_refuses(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*given):
        quickstart = str(ROOT / "recipes" / "quickstart.toml")
        small = ["--data.countdown.problems", "64", "--train.batch_size", "64"]
        monkeypatch.setattr(sys, "argv", ["diver", "train", quickstart, "--engine", "trl", *small, *given])
        cli.main()

    run("--dry-run", "--trl.lora_rank", "4", "--method", "clip-higher")
    printed = capsys.readouterr().out
    fields, _ = json.JSONDecoder().raw_decode(printed)
    assert fields["LoraConfig"]["r"] == 4 and fields["GRPOConfig"]["epsilon_high"] == 0.28
    assert "train.micro_batch_tokens" in printed and "train.learning_rate" not in printed.split("not in GRPOConfig")[1]
    assert not list(tmp_path.iterdir())
    for given, told in (
        (["--sample.stop_token_ids", "7"], "cannot be run with trl: TRL ends a response by the end tokens"),
        (["--trl.vllm", "yes"], "command line: "),
        (["--restart"], "command line: --restart: only the built-in engine has it; give another --run.folder"),
        (["--seeds", "0..1"], "command line: --seeds: only the built-in engine has it; give --run.seed and --run.fol"),
        (["--problems-only"], "command line: --problems-only: is for --engine verl"),
        (["--", "trainer.nnodes=2"], "command line: --: options of the engine follow, which is for --engine verl"),
    ):
        with pytest.raises(SystemExit) as stop:
            run(*given)
        assert stop.value.code == 2 and told in capsys.readouterr().err


@pytest.mark.parametrize("engine", ["builtin", "trl", "verl"])
def test_adapters_are_no_model_to_train(tmp_path, engine):
    """transformers loads them frozen, and peft would replace them by new ones without a word."""
    (tmp_path / "adapter_config.json").write_text("{}")
    recipe = make_recipe({"run": {"engine": engine}, "model": {"path": str(tmp_path)}, "trl": {"lora_rank": 4}})
    with pytest.raises(
        DiverError, match="has LoRA adapters, and diver train trains whole models or new adapters; merge"
    ):
        prepare(recipe)


@pytest.mark.parametrize("engine", ["builtin", "trl"])
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"temperature": 0.5, "do_sample": False}, "`temperature`: `do_sample` is not set to `True`"),
        ({"pad_token_id": -1}, "`pad_token_id` should be positive"),
        ({"temperature": 0.5, "do_sample": True}, None),
        ({"suppress_tokens": [13]}, None),
    ],
)
def test_a_generation_config_with_which_no_checkpoint_is_saved_is_refused(tmp_path, engine, settings, told):
    """Before the first step, as the first checkpoint would be the first to say so."""
    model = tmp_path / "model"
    shutil.copytree(policy_folder(), model)
    saved = json.loads((model / "generation_config.json").read_text()) | settings
    del saved["_from_model_config"]
    (model / "generation_config.json").write_text(json.dumps(saved))
    small = {"data": {"countdown": {"problems": 64}}, "train": {"batch_size": 8, "mini_batch_size": 8}}
    limits = {"sample": {"max_prompt_tokens": 24, "max_tokens": 28}, "evaluate": {"problems": 4}}
    recipe = make_recipe({"run": {"engine": engine}, "model": {"path": str(model), "device": "cpu"}, **small, **limits})
    if told is None:
        prepare(recipe)
        return
    with pytest.raises(DiverError, match=f"saves no checkpoint with its generation_config.json; .*{told}") as error:
        prepare(recipe)
    assert "\n" not in str(error.value)


def test_the_folder_of_another_engine_is_refused(tmp_path):
    def recipe(engine, **sections):
        return make_recipe({"run": {"folder": str(tmp_path / "run"), "engine": engine}, **sections})

    with open_run(recipe("verl")):
        pass
    open_run(recipe("verl")).close()
    for engine, told in (("trl", "'trl'"), ("builtin", "'built-in'")):
        with pytest.raises(DiverError, match=f"run: has a run of another recipe .*engine was 'verl', now {told}"):
            open_run(recipe(engine))
    with pytest.raises(DiverError, match="method.name was 'diver-mix', now 'clip-higher'"):
        open_run(recipe("verl", method={"name": "clip-higher"}))
