"""The gradient of every mini-batch in verl's own actor, on a CPU without a cluster:
BATCH OUT, both read by test_agreement.

The actor's worker is the one that Ray would start, with its engine, its cutting of mini-batches and micro-batches, its
log-probs and its loss; only the optimizer's step is replaced, by one that keeps the gradient and leaves the weights.
"""

import os
import sys
from pathlib import Path

import numpy as np
import torch
import verl.trainer
from hydra import compose, initialize_config_dir
from tensordict import TensorDict
from torch.distributed.tensor import DTensor
from verl.trainer.ppo.core_algos import get_adv_estimator_fn
from verl.utils import tensordict_utils
from verl.workers.engine_workers import ActorRolloutRefWorker
from verl.workers.utils.padding import response_from_nested

from diver.integrations.verl.config import read_plugin
from diver.integrations.verl.replay import Kind, MiniBatches, row_multiple
from diver.integrations.verl.trainer import override_advantages
from diver.methods.replay import weights_of


def configuration(options: list[str]):
    folder = str(Path(verl.trainer.__file__).parent / "config")
    with initialize_config_dir(folder, version_base=None):
        return compose("ppo_trainer", overrides=options)


def nested(rows, dtype=None):
    return torch.nested.as_nested_tensor([torch.as_tensor(row, dtype=dtype) for row in rows], layout=torch.jagged)


def advantages(batch, config):
    """As verl's trainer takes them: of the method that its configuration names, through the registered estimator."""
    groups = read_plugin(config.algorithm.diver).method.apply(batch["groups"], batch["progress"], state={})
    length = max(map(len, batch["tokens"]))
    mask = torch.tensor([[1.0] * len(t) + [0.0] * (length - len(t)) for t in batch["tokens"]])
    with override_advantages([float(a) for g in groups for a in g.advantages]):
        given, _ = get_adv_estimator_fn(config.algorithm.adv_estimator)(response_mask=mask)
    return given[:, 0]


def with_replayed(worker, batch, advantage, config):
    """The data of this rank, with rows of replayed rollouts and of padding, and what `DiverTrainer` gives
    the update for them.

    The rows have the log-probs that verl's actor computes of them, which are returned too, as {row: [T]}.
    """
    actor, groups = config.actor_rollout_ref.actor, batch["replayed"]
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    rows, sampled = [(group, rollout) for group in groups for rollout in group.rollouts], len(batch["tokens"])
    size = actor.ppo_mini_batch_size * config.actor_rollout_ref.rollout.n
    plan = MiniBatches.of(sampled, len(rows), size, row_multiple(config, ranks), ranks)
    padding = plan.count * plan.rows - sampled - len(rows)
    kinds = [Kind.SAMPLED] * sampled + [Kind.REPLAYED] * len(rows) + [Kind.PADDING] * padding
    spread = [row for start in range(ranks) for row in range(start, len(kinds), ranks)]  # verl balances the ranks
    order = [spread[i] for i in plan.order([kinds[row] for row in spread])]
    tokens, replayed = batch["tokens"], [rollout.tokens for _, rollout in rows]

    def ordered(of_sampled, of_replayed, of_padding):
        whole = [*of_sampled, *of_replayed, *[of_padding] * padding]
        return [whole[row] for row in order]

    whole = {
        "prompts": ordered(batch["prompts"], [list(group.prompt_tokens) for group, _ in rows], [1, 1]),
        "tokens": ordered(tokens, replayed, [1]),
        "logprobs": ordered(batch["logprobs"], [np.zeros(len(t)) for t in replayed], [0.0]),
        "mask": ordered([[1] * len(t) for t in tokens], [[1] * len(t) for t in replayed], [0]),
        "advantages": ordered(advantage.tolist(), [rollout.advantage for _, rollout in rows], 0.0),
    }
    weights = {order.index(sampled + i): weight for i, weight in enumerate(weights_of(groups))}
    aggregation, lengths = read_plugin(config.algorithm.diver).method.loss.aggregation, list(map(sum, whole["mask"]))
    wanted, verls = plan.weights([kinds[row] for row in order], lengths, weights, aggregation)
    whole["advantages"] = (np.array(whole["advantages"]) * wanted / verls).tolist()
    mine = range(rank * len(order) // ranks, (rank + 1) * len(order) // ranks)
    part = {name: [column[i] for i in mine] for name, column in whole.items()}
    with plan.configured(config):
        data = data_of(part, part["advantages"], config)
        tensordict_utils.assign_non_tensor(data, calculate_entropy=True, compute_loss=False)
        found = response_from_nested(worker.compute_log_prob(data)["log_probs"], nested(part["mask"])).unbind()
        logprobs = {order[i] - sampled: row for i, row in zip(mine, found, strict=True) if i in weights}
        part["logprobs"] = [found[i - mine[0]] if i in weights else part["logprobs"][i - mine[0]] for i in mine]
        return data_of(part, part["advantages"], config), logprobs


def data_of(batch, advantage, config):
    """A batch as verl's trainer hands it to the actor (`PPOTrainer._update_actor`)."""
    prompts, tokens = batch["prompts"], batch["tokens"]
    masks = batch.get("mask") or [[1] * len(t) for t in tokens]
    columns = {
        "prompts": nested(prompts),
        "responses": nested(tokens),
        "input_ids": nested([p + t for p, t in zip(prompts, tokens, strict=True)]),
        "position_ids": nested([range(len(p) + len(t)) for p, t in zip(prompts, tokens, strict=True)]),
        "response_mask": nested(masks),
        "loss_mask": nested(masks),
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
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", DIST_INIT_METHOD=f"file://{out}.store")
    found = []
    for case in torch.load(source, weights_only=False):
        config = configuration(case["options"])
        worker = ActorRolloutRefWorker(config.actor_rollout_ref, role="actor")
        worker.init_model()
        advantage = advantages(case["batch"], config)
        if "replayed" in case["batch"]:
            data, logprobs = with_replayed(worker, case["batch"], advantage, config)
        else:
            data, logprobs = data_of(case["batch"], advantage, config), {}
        found.append({"advantages": advantage, "logprobs": logprobs, "gradients": gradients(worker, data)})
    torch.save(found, out + os.environ["RANK"])


if __name__ == "__main__":
    main(*sys.argv[1:])
