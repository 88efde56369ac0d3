"""The gradient of every mini-batch in verl's own actor, on a CPU without a cluster: BATCH OUT, both read by test_agreement.

The actor's worker is the one that Ray would start, with its engine, its cutting of mini-batches and micro-batches, its
log-probs and its loss; only the optimizer's step is replaced, by one that keeps the gradient and leaves the weights.
"""

import os
import sys
from pathlib import Path

import torch
import verl.trainer
from hydra import compose, initialize_config_dir
from tensordict import TensorDict
from torch.distributed.tensor import DTensor
from verl.trainer.ppo.core_algos import get_adv_estimator_fn
from verl.utils import tensordict_utils
from verl.workers.engine_workers import ActorRolloutRefWorker

from diver.integrations.verl.config import read_plugin
from diver.integrations.verl.trainer import override_advantages


def configuration(options: list[str]):
    folder = str(Path(verl.trainer.__file__).parent / "config")
    with initialize_config_dir(folder, version_base=None):
        return compose("ppo_trainer", overrides=options)


def nested(rows, dtype=None):
    return torch.nested.as_nested_tensor([torch.as_tensor(row, dtype=dtype) for row in rows], layout=torch.jagged)


def advantages(batch, config):
    """As verl's trainer takes them: of the method that its configuration names, through the registered estimator."""
    groups = read_plugin(config.algorithm.diver).method.apply(batch["groups"], batch["progress"])
    length = max(map(len, batch["tokens"]))
    mask = torch.tensor([[1.0] * len(t) + [0.0] * (length - len(t)) for t in batch["tokens"]])
    with override_advantages([float(a) for g in groups for a in g.advantages]):
        given, _ = get_adv_estimator_fn(config.algorithm.adv_estimator)(response_mask=mask)
    return given[:, 0]


def data_of(batch, advantage, config):
    """A batch as verl's trainer hands it to the actor (`PPOTrainer._update_actor`)."""
    prompts, tokens = batch["prompts"], batch["tokens"]
    columns = {
        "prompts": nested(prompts),
        "responses": nested(tokens),
        "input_ids": nested([p + t for p, t in zip(prompts, tokens, strict=True)]),
        "position_ids": nested([range(len(p) + len(t)) for p, t in zip(prompts, tokens, strict=True)]),
        "response_mask": nested([[1] * len(t) for t in tokens]),
        "loss_mask": nested([[1] * len(t) for t in tokens]),
        "old_log_probs": nested(batch["logprobs"], torch.float32),
        "advantages": nested([[float(a)] * len(t) for a, t in zip(advantage, tokens, strict=True)], torch.float32),
    }
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    rows = actor.ppo_mini_batch_size * rollout.n
    data = TensorDict(columns, batch_size=len(tokens))
    tensordict_utils.assign_non_tensor(
        data,
        calculate_entropy=actor.entropy_coeff != 0,
        global_batch_size=rows,
        mini_batch_size=rows,
        epochs=actor.ppo_epochs,
        seed=actor.data_loader_seed,
        dataloader_kwargs={"shuffle": actor.shuffle},
        temperature=rollout.temperature,
    )
    return data


def gradients(worker, data):
    """Of each mini-batch, by the parameters' names."""
    engine, kept = worker.actor.engine, []

    def keep():
        whole = {
            n: p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad
            for n, p in engine.module.named_parameters()
        }
        kept.append({name: gradient.clone() for name, gradient in whole.items()})
        return 0.0

    engine.optimizer_step = keep
    worker.update_actor(data)
    return kept


def main(source: str, out: str) -> None:
    os.environ.update(
        RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0", DIST_INIT_METHOD=f"file://{out}.store"
    )
    found = []
    for case in torch.load(source, weights_only=False):
        config = configuration(case["options"])
        worker = ActorRolloutRefWorker(config.actor_rollout_ref, role="actor")
        worker.init_model()
        advantage = advantages(case["batch"], config)
        kept = gradients(worker, data_of(case["batch"], advantage, config))
        found.append({"advantages": advantage, "gradients": kept})
    torch.save(found, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
