"""The entry point of SkyRL with a method of ours: `python -m diver.integrations.skyrl_main`, with SkyRL's own
arguments.

With SkyRL's own entry point, set `trainer.override_entrypoint=diver.integrations.skyrl_main`. DIVER_METHOD or
DIVER_RECIPE names the method."""

import sys
from typing import Any

import ray
from skyrl.backends.skyrl_train.utils.ppo_utils import register_advantage_estimator
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.entrypoints.main_base import BasePPOExp
from skyrl.train.trainer import RayPPOTrainer
from skyrl.train.utils import validate_cfg
from skyrl.train.utils.utils import initialize_ray

from diver.core.types import Progress
from diver.integrations.configured import configured
from diver.integrations.skyrl import NAME, SEAM, check_config, groups_of, outcomes_of, token_rewards
from diver.methods import Method


@register_advantage_estimator(NAME)
def passed_on(token_level_rewards: Any, response_mask: Any, **_: Any) -> tuple[Any, Any]:
    """The rewards of the tokens are the advantages already."""
    advantages = token_level_rewards * response_mask
    return advantages, advantages


class Trainer(RayPPOTrainer):
    method: Method

    def postprocess_generator_output(self, generator_output: Any, uids: Any, *args: Any, **options: Any) -> Any:
        """SkyRL's method runs first, so that its metrics and its filter see the outcome."""
        outcomes = outcomes_of(generator_output["rewards"])
        output, uids = super().postprocess_generator_output(generator_output, uids, *args, **options)
        progress = Progress(max(self.global_step - 1, 0), self.total_training_steps or 0)
        groups = groups_of(uids, self.cfg.generator.n_samples_per_prompt)
        output["rewards"] = token_rewards(self.method, output, outcomes, groups, self.tokenizer, progress)
        return output, uids


class Experiment(BasePPOExp):
    method: Method

    def get_trainer(self, *args: Any, **options: Any) -> Trainer:
        trainer = Trainer(*args, **options)
        trainer.method = self.method
        return trainer


@ray.remote(num_cpus=1)
def run(config: SkyRLTrainConfig, method: Method) -> None:
    """The training, which may run on another machine than the command, without its environment variables."""
    experiment = Experiment(config)
    experiment.method = method
    experiment.run()


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("trainer.override_entrypoint=")]
    config = SkyRLTrainConfig.from_cli_overrides(words)
    method = SEAM.usable(configured().method)
    check_config(method, config)
    validate_cfg(config)
    initialize_ray(config)
    ray.get(run.remote(config, method))


if __name__ == "__main__":
    main()
