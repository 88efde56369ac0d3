"""What the recipe says of the optimizer reaches it."""

import pytest
import torch
from test_gradient import MINI, Recorder, Tokenizer, rollout_batch, tiny_model
from tqdm import tqdm

from diver.core.run_folder import RunFolder
from diver.losses import ClipLoss
from diver.recipe.recipe import make_recipe
from diver.recipe.sections import Update
from diver.sample.policy import Policy
from diver.train.trainer import Trainer
from diver.train.update import update


def gradients(max_grad_norm):
    model = tiny_model()
    recorder = Recorder(model)
    config = Update(mini_batch_size=MINI, max_grad_norm=max_grad_norm)
    groups = rollout_batch(1.0)
    metrics = update(Policy(model, Tokenizer(), None), recorder, groups, ClipLoss(), config, temperature=1.0)
    return [float(g.norm()) for g in recorder.gradients], metrics["policy/grad_norm"]


def test_a_long_gradient_is_scaled_down_and_its_length_logged():
    free, logged = gradients(1e9)
    longest = max(free)
    assert logged == pytest.approx(sum(free) / len(free)) and longest > 1.01 * min(free)
    bounded, still_logged = gradients(longest / 2)
    assert bounded == pytest.approx([min(norm, longest / 2) for norm in free], rel=1e-4)
    assert still_logged == pytest.approx(logged)


@pytest.fixture(scope="module")
def trainer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("optimizer") / "run"
    recipe = make_recipe(
        {
            "sample": {"max_tokens": 40, "max_prompt_tokens": 24},
            "data": {"countdown": {"problems": 4}},
            "model": {"threads": 1},
            "evaluate": {"problems": 0},
            "train": {
                "batch_size": 2,
                "mini_batch_size": 2,
                "learning_rate": 1e-3,
                "warmup_steps": 4,
                "weight_decay": 0.125,
                "betas": [0.8, 0.9],
            },
        }
    )
    return Trainer(recipe, RunFolder(folder, {"schedule_steps": 8}, {}))


def test_adamw_has_the_settings_of_the_recipe(trainer):
    (group,) = trainer.optimizer.param_groups
    assert isinstance(trainer.optimizer, torch.optim.AdamW)
    assert (group["lr"], group["weight_decay"], tuple(group["betas"])) == (1e-3, 0.125, (0.8, 0.9))


def test_the_learning_rate_rises_over_the_warmup_and_stays(trainer, monkeypatch):
    rates = []

    def rate(policy, optimizer, *_, **__):
        rates.append(optimizer.param_groups[0]["lr"])
        return {}

    monkeypatch.setattr("diver.train.trainer.update", rate)
    for step in (1, 2, 4, 5, 100):
        trainer._step(step, tqdm(disable=True))
    assert rates == pytest.approx([0.25e-3, 0.5e-3, 1e-3, 1e-3, 1e-3])
