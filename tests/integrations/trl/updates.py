"""Runs of `DiverTrainer` on the bundled policy, and the same updates by the built-in trainer's `update`.

By itself (FOLDER METHOD...), under torchrun, it trains with each method and writes what it did to FOLDER/METHOD.pt.
"""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import torch
from accelerate import PartialState
from datasets import Dataset
from peft import get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig

from diver.core.seeds import stream_seed
from diver.core.types import Progress, Reward, trained_on
from diver.grading import with_keys
from diver.integrations.trl import DiverTrainer, GroupOutcome
from diver.methods import method_named
from diver.recipe.data import Countdown
from diver.recipe.sections import Update
from diver.sample.policy import Policy
from diver.tasks.countdown import problems
from diver.tasks.testbeds import policy_folder
from diver.train.update import update

G, P, SEED, RATE = 4, 4, 3, 0.05
"""Responses to a problem, problems of a generation, the seed of a run, and the rate of SGD."""
LIMIT = 28
OF_TWO = {
    "verified-replay": {},
    "dapo": {},
    "high-entropy": {},
    "dph-rl": {"start_responses": G, "solved": 0.75, "coef": 0.5},
    "grpo": {"selection": {"retries": 2}},
}
"""Methods that two processes train by, with their settings."""
WRAPPED = "base_model.model."


class Record(TrainerCallback):
    """What a run did: its generations, each with its groups and the weights and gradients of its optimizer steps.

    `graded` are the groups of each call of the reward function, which may come before the first generation.
    """

    def __init__(self):
        self.generations, self.graded = [], []

    @property
    def start(self):
        """The groups that the policy before training sampled: one of each problem."""
        problems = len(self.trainer.pool) if self.trainer.outcome.method.start_responses else 0
        return [group for groups in self.graded[: -(-problems // P)] for group in groups][:problems]

    def on_groups(self, step, groups, metrics):
        here = SimpleNamespace(step=step, groups=groups, metrics=dict(metrics), weights=weights_of(self.trainer.model))
        here.gradients = []
        self.generations.append(here)

    def on_pre_optimizer_step(self, args, state, control, model, **_):
        if not self.generations:  # a run that resumes within one
            return
        model = getattr(model, "module", model)
        self.generations[-1].gradients.append(
            {name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}
        )


def weights_of(model):
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def made(folder, method, *, rows=16, outcome=None, verifier="countdown", ids=None, **options):
    """A trainer with its record: two optimizer steps of two micro-batches on each generation."""
    batch = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "steps_per_generation": 4}
    batch |= {"num_generations": G, "max_completion_length": LIMIT, "max_steps": 4, "seed": SEED}
    still = {"learning_rate": RATE, "lr_scheduler_type": "constant", "optim": "sgd", "max_grad_norm": 0.0}
    quiet = {"report_to": "none", "use_cpu": True, "bf16": False, "disable_tqdm": True, "save_strategy": "no"}
    given = {key: options.pop(key) for key in ("peft_config", "rollout_func", "eval_dataset") if key in options}
    fields = {**batch, **still, **quiet, "gradient_checkpointing": False, **DiverTrainer.config(method), **options}
    args, tokenizer, record = (
        GRPOConfig(str(folder), **fields),
        AutoTokenizer.from_pretrained(policy_folder()),
        Record(),
    )
    reward = GroupOutcome(method, args, tokenizer, outcome=outcome, verifier=verifier, on_step=record.on_groups)
    trained = reward._trained
    reward._trained = lambda groups, *rest: record.graded.append(groups) or trained(groups, *rest)
    found = [
        {"prompt": p.prompt, "answer": p.answer, "meta": dict(p.meta)}
        for p in problems(Countdown(), rows, held_out=False)
    ]
    found = [row | {"id": name} for row, name in zip(found, ids, strict=True)] if ids else found
    data = {"train_dataset": Dataset.from_list(found), "processing_class": tokenizer, "callbacks": [record], **given}
    record.trainer = DiverTrainer(str(policy_folder()), reward, args=args, **data)
    return record


def policy_with(weights, lora=None):
    model = AutoModelForCausalLM.from_pretrained(policy_folder(), dtype=torch.float32)
    if lora is not None:
        get_peft_model(model, lora)  # in place; the weights are those of the wrapper
        weights = {name.removeprefix(WRAPPED): value for name, value in weights.items()}
    model.load_state_dict(weights)
    return Policy(model, AutoTokenizer.from_pretrained(policy_folder()), None)


def logprobs(model, group, rollout, temperature=1.0):
    """log pi of each token of a response that is run alone, [T]."""
    ids, mask = rollout.sequence
    logits = model(input_ids=torch.tensor([[*group.prompt_tokens, *ids.tolist()]])).logits[0, -len(ids) - 1 : -1]
    return (logits / temperature).log_softmax(-1)[range(len(ids)), ids][torch.from_numpy(mask)]


def as_sampled(group, model):
    """A group before it was shaped, with the log-probs of the policy that sampled it."""
    with torch.no_grad():
        found = [logprobs(model, group, rollout).numpy() for rollout in group.rollouts]
    rewards = [Reward(outcome) for outcome in group.outcomes.tolist()]
    return group.with_each(reward=rewards, logprobs=found, trained=[None] * len(group), diversity=[{}] * len(group))


class Gradients(torch.optim.SGD):
    """SGD that keeps the gradient of each step."""

    def __init__(self, model, rate):
        super().__init__(model.parameters(), lr=rate)
        self.names, self.steps = {p: name for name, p in model.named_parameters()}, []

    def step(self, closure=None):
        self.steps.append(
            {name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for p, name in self.names.items()}
        )
        return super().step(closure)


def started(method, groups, policy):
    """The state of the method after these responses of the policy before training."""
    state, policy = {}, Policy(policy.model.eval(), policy.tokenizer, None)
    for group in groups:
        group = replace(group, prompt_tokens=tuple(policy.tokenizer(group.prompt)["input_ids"]))
        method.update_start(as_sampled(group, policy.model), state)
    return state


def check_updates(generations, method, steps=2, mini=2, iterations=1, lora=None, start=()):
    """Assert that advantages and the gradients of all optimizer steps are those of the built-in trainer.

    `start` are the groups that the policy before training sampled. Returns the built-in trainer's state, and how many
    tokens were selected or replayed, rows left out and groups sampled again.
    """
    method, first = method.limited(LIMIT), policy_with(generations[0].weights, lora)
    state = started(method, start, first)
    config = Update(mini_batch_size=mini, micro_batch_tokens=512, max_grad_norm=1e9)
    seen = SimpleNamespace(state=state, replayed=0, dropped=0, selected=0.0, signal=0.0, retried=0)
    for generation in generations:
        policy, progress = policy_with(generation.weights, lora), Progress(generation.step - 1, steps)
        optimizer = Gradients(policy.model, RATE)
        sampled = [as_sampled(group, policy.model.eval()) for group in generation.groups]
        if "keys" in method.needs:
            sampled = with_keys(sampled)
        shaped = method.shaped(sampled, progress, policy.tokenizer.decode, state)
        for group, again in zip(generation.groups, shaped, strict=True):
            for used, rollout in zip(group.rollouts, again.rollouts, strict=True):
                if not used.trained:  # also where a batch had more groups than the step needs
                    seen.dropped += 1
                    continue
                assert rollout.trained and abs(used.advantage - rollout.advantage) < 1e-5, (used, rollout)
                seen.signal += abs(rollout.advantage)
        kept = [
            group.with_each(trained=[r.trained for r in g.rollouts])
            for group, g in zip(shaped, generation.groups, strict=True)
        ]
        groups = trained_on(kept)
        again = method.replayed(state, P, progress) if "replay" in method.needs and groups else None
        for _ in range(iterations):
            metrics = update(
                policy,
                optimizer,
                groups,
                method.loss,
                config,
                temperature=1.0,
                seed=stream_seed(SEED, "choose", generation.step),
                reference=first,
                state=state,
                replayed=again,
                reweighed=method.reweighed,
            )
        seen.replayed += sum(map(len, again or []))
        seen.retried += sum(len(group) > G for group in generation.groups)
        seen.selected += metrics.get("policy/selected_frac", 0.0)
        for name in ("replay/rollouts", "replay/gradient_share", "replay/logprob", "replay/age"):
            if again:
                assert abs(generation.metrics[name] - metrics[name]) < 1e-5, name
        assert len(optimizer.steps) <= len(generation.gradients)
        for i, gradient in enumerate(generation.gradients):
            for name, found in gradient.items():
                wanted = (
                    optimizer.steps[i][name.removeprefix(WRAPPED)]
                    if i < len(optimizer.steps)
                    else torch.zeros_like(found)
                )
                assert (found - wanted).abs().max() < 1e-5 * max(1.0, float(wanted.abs().max())), (i, name)
    return seen


def main(folder, names):
    for name in names:
        record = made(folder / name, method_named(name, **OF_TWO[name]), per_device_train_batch_size=2)
        record.trainer.train()
        kept = [vars(generation) for generation in record.generations]
        torch.save(
            {"generations": kept, "processes": PartialState().num_processes, "start": record.start},
            folder / f"{name}_{PartialState().process_index}.pt",
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), sys.argv[2:])
    PartialState().destroy_process_group()
