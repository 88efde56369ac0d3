"""[trl.options] sets what the recipe does not; without TRL."""

import pytest

from diver.core.types import DiverError
from diver.integrations.trl.launch import arguments, identity
from diver.recipe.recipe import make_recipe
from diver.recipe.run import open_run


def recipe(folder="run", **options):
    train = {"steps": 10, "batch_size": 8, "mini_batch_size": 2}
    return make_recipe({"run": {"folder": str(folder), "engine": "trl"}, "train": train, "trl": {"options": options}})


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("num_generations", 4, "set sample.group_size instead"),
        ("temperature", 0.7, "set sample.temperature instead"),
        ("max_completion_length", 64, "set sample.max_tokens instead"),
        ("learning_rate", 1e-3, "set train.learning_rate instead"),
        ("steps_per_generation", 4, "set train.batch_size instead"),
        ("gradient_accumulation_steps", 4, "set train.mini_batch_size instead"),
        ("per_device_train_batch_size", 4, "set trl.rows_per_device instead"),
        ("max_steps", 4, "set train.steps instead"),
        ("adam_beta2", 0.9, "set train.betas instead"),
        ("save_steps", 4, "set train.save_steps instead"),
        ("warmup_steps", 4, "set train.warmup_steps instead"),
        ("output_dir", "other", "set run.folder instead"),
        ("report_to", "wandb", "set log.to instead"),
        ("seed", 3, "set run.seed instead"),
        ("bf16", True, "set model.precision instead"),
        ("use_cpu", True, "set model.device instead"),
        ("use_vllm", True, "set trl.vllm instead"),
        ("epsilon", 0.3, "the method sets it; change [method]"),
        ("num_iterations", 2, "diver train counts steps and problems by it; leave it out"),
        ("logging_steps", 1, "diver train counts steps and problems by it; leave it out"),
        ("logging_first_step", True, "diver train counts steps and problems by it; leave it out"),
        ("eval_strategy", "steps", "TRL does not evaluate here; run diver eval on the run folder afterwards"),
        ("num_generations_eval", 1, "TRL does not evaluate here; run diver eval on the run folder afterwards"),
        ("shuffle_dataset", True, "diver train counts steps and problems by it; leave it out"),
    ],
)
def test_an_option_that_the_recipe_says_already_is_refused(name, value, told):
    with pytest.raises(DiverError) as error:
        arguments(recipe(**{name: value}))
    assert str(error.value) == f"trl.options.{name}: {told}"


def test_other_options_are_given_to_trl():
    fields = arguments(recipe(top_p=0.9, lr_scheduler_type="cosine"))
    assert fields["top_p"] == 0.9 and fields["lr_scheduler_type"] == "cosine"
    assert fields["num_iterations"] == 1 and not fields["shuffle_dataset"]


def test_a_run_is_not_resumed_with_other_options(tmp_path):
    begun = recipe(tmp_path / "run", top_p=0.9)
    open_run(begun, **identity(begun)).begin()
    open_run(begun, **identity(begun)).close()
    for other, told in ((recipe(tmp_path / "run"), "now None"), (recipe(tmp_path / "run", top_p=0.8), "now 0.8")):
        with pytest.raises(DiverError, match=rf"run of another recipe \(trl.options.top_p was 0.9, {told}"):
            open_run(other, **identity(other))


def test_a_run_that_trls_own_update_began_is_not_resumed(tmp_path):
    """An earlier `--engine trl` trained by the stock GRPOTrainer, and its folder says nothing of the trainer."""
    begun = recipe(tmp_path / "run")
    before = {key: value for key, value in identity(begun).items() if key != "trl.trainer"}
    open_run(begun, **before).begin()
    with pytest.raises(DiverError, match=r"trl.trainer was None, now 'DiverTrainer'"):
        open_run(begun, **identity(begun))
