"""SkyRL's own trainer class, registry and configuration with the adapter, where SkyRL can be imported;
no GPU, no training."""

import inspect
import sys
import typing
from types import SimpleNamespace

import contracts as c
import numpy as np
import pytest
from test_contracts import expected

from diver.core.types import DiverError
from diver.integrations import skyrl as adapter
from diver.methods import method_named

pytest.importorskip("skyrl", reason="SkyRL is not installed")
torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def main():
    """The entry point; SkyRL 0.3.0 cannot be imported on Python 3.11, where pydantic refuses typing.TypedDict."""
    standard = typing.TypedDict
    if sys.version_info < (3, 12):
        import typing_extensions

        typing.TypedDict = typing_extensions.TypedDict
    try:
        from diver.integrations import skyrl_main
    except ModuleNotFoundError as error:
        pytest.skip(f"SkyRL's extra skyrl-train is not installed: {error}")
    finally:
        typing.TypedDict = standard
    return skyrl_main


def config(*words):
    from skyrl.train.config import SkyRLTrainConfig

    page = ["advantage_estimator=diver", "use_kl_loss=false", "eps_clip_low=0.2", "eps_clip_high=0.28"]
    settings = [f"trainer.algorithm.{word}" for word in (*page, *words)]
    return SkyRLTrainConfig.from_cli_overrides([*settings, "generator.n_samples_per_prompt=4"])


def test_the_signatures_are_those_that_the_adapter_overrides(main):
    from skyrl.train.entrypoints.main_base import BasePPOExp
    from skyrl.train.trainer import RayPPOTrainer

    given = list(inspect.signature(RayPPOTrainer.postprocess_generator_output).parameters)
    assert given[:3] == ["self", "generator_output", "uids"]
    assert "cfg" in inspect.signature(BasePPOExp.get_trainer).parameters


def test_the_settings_of_the_page_pass_skyrls_parser(main):
    adapter.check_config(method_named("diver-mix"), config())
    with pytest.raises(DiverError, match="set trainer.algorithm.advantage_batch_normalize=False"):
        adapter.check_config(method_named("diver-mix"), config("advantage_batch_normalize=true"))


@pytest.mark.parametrize("name", ["diver-mix", "own_methods:Rising"])
def test_the_advantages_reach_skyrls_batch(main, name):
    """From the generator's output by SkyRL's own post-processing to its own call of the registered estimator."""
    from skyrl.backends.skyrl_train.utils import ppo_utils

    trainer = object.__new__(main.Trainer)
    trainer.cfg, trainer.all_metrics, trainer.tokenizer = config(), {}, c.Tokenizer()
    trainer.global_step, trainer.total_training_steps, trainer.method = 1, 10, method_named(name)
    output, uids = c.skyrl_output()
    output, uids = trainer.postprocess_generator_output(output, uids)
    assert trainer.all_metrics["reward/avg_raw_reward"] == 0.75  # SkyRL's metrics see the outcome
    length = max(map(len, c.TOKENS))
    rewards = torch.tensor([row + [0.0] * (length - len(row)) for row in output["rewards"]])
    mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in output["rewards"]])
    advantages, _ = ppo_utils.AdvantageEstimatorRegistry.get("diver")(
        token_level_rewards=rewards, response_mask=mask, index=np.array(uids), config=SimpleNamespace()
    )
    for row, given in zip(output["rewards"], advantages.tolist(), strict=True):
        assert given[: len(row)] == pytest.approx(row) and not any(given[len(row) :])
    if name == "diver-mix":
        assert [row[0] for row in output["rewards"]] == pytest.approx(expected("diver-mix"))
    else:
        assert output["rewards"][0] == [1.0, 2.0, 3.0]
