"""A run of GRPOTrainer with a tiny random policy, and its loss and gradient computed again from copies of the policy.

The computation runs each row alone and without padding, and has the formulas of losses written out.
"""

import warnings
from types import SimpleNamespace

import numpy as np
import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from diver.integrations.trl import GroupAdvantage, config

WORDS = ("<eos>", "<pad>", "<unk>", *(f"w{i}" for i in range(9)))
G = 4
LORA = {"r": 2, "lora_alpha": 4, "target_modules": ["q_proj", "down_proj"], "task_type": "CAUSAL_LM"}


def save_policy(folder, seed=0):
    """A policy of random weights, far enough from uniform that log-probs differ; returns its tokenizer."""
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, padding_side="left", **special)
    torch.manual_seed(seed)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    ids = {"pad_token_id": 1, "eos_token_id": 0, "bos_token_id": None}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(WORDS), max_position_embeddings=64, **sizes, **ids))
    model.lm_head.weight.data *= 20
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return tokenizer


def even(completion_ids, **_):
    """Correct: an even number of tokens is odd."""
    return [float(sum(i % 2 for i in ids) % 2 == 0) for ids in completion_ids]


def dense(completion_ids, **_):
    return [sum(i % 3 for i in ids) / (2 * len(ids)) for ids in completion_ids]


class Record(TrainerCallback):
    """What a run did: its generations, and its optimizer steps with micro-batches, losses and gradients."""

    def __init__(self):
        self.generations, self.steps, self.parts = [], [], []

    def on_pre_optimizer_step(self, args, state, control, model, **_):
        model = getattr(model, "module", model)
        gradient = {name: p.grad.clone() for name, p in model.named_parameters() if p.requires_grad}
        self.steps.append(SimpleNamespace(parts=self.parts, weights=weights_of(model), gradient=gradient))
        self.parts = []


def weights_of(model):
    return {name.removeprefix("module."): value.clone() for name, value in model.state_dict().items()}


def train(folder, out, method, outcome=even, *, cls=GRPOTrainer, lora=False, model=None, reward_funcs=(), **options):
    """Train for a few optimizer steps: the record, and what was warned of."""
    weights, changes = options.pop("weights", None), options.pop("changes", {})
    rollout_func = options.pop("rollout_func", None)
    batch = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "num_generations": G, "max_steps": 2}
    batch |= {"max_completion_length": 6, "learning_rate": 0.03, "max_grad_norm": 0.0, "lr_scheduler_type": "constant"}
    quiet = {"report_to": "none", "use_cpu": True, "bf16": False, "disable_tqdm": True, "save_strategy": "no"}
    record, tokenizer = Record(), PreTrainedTokenizerFast.from_pretrained(folder)
    first, *others = outcome if isinstance(outcome, list) else [outcome]

    def rewarded(prompts, completion_ids, **columns):
        made = first(prompts=prompts, completion_ids=completion_ids, **columns)
        state = weights_of(record.trainer.model)
        texts = tokenizer.batch_decode(completion_ids, skip_special_tokens=True)
        record.generations.append(SimpleNamespace(ids=completion_ids, texts=texts, outcomes=made, weights=state))
        return made

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        args = GRPOConfig(str(out), **{**batch, **quiet, "gradient_checkpointing": False, **config(method), **options})
        ends = {"answer_ends": lambda completions, **_: [None] * len(completions)}
        given = [rewarded, *others] if others else rewarded
        reward = GroupAdvantage(method, args, tokenizer, outcome=given, weights=weights, **ends)
        rows = Dataset.from_list([{"prompt": f"w{i} w{(i * i) % 9}"} for i in range(9)])
        further = {"peft_config": LoraConfig(**LORA)} if lora else {}
        further |= {} if rollout_func is None else {"rollout_func": rollout_func}
        trainer = cls(
            str(folder) if model is None else model,
            [reward, *reward_funcs],
            args=args,
            train_dataset=rows,
            processing_class=tokenizer,
            callbacks=[record],
            **further,
        )
        for name, value in changes.items():
            setattr(trainer, name, value)
        record.trainer, compute = trainer, trainer.compute_loss

        def recorded(model, inputs, *rest, **options):
            loss = compute(model, inputs, *rest, **options)
            if torch.is_grad_enabled():  # not where the adapter compares losses
                record.parts.append(SimpleNamespace(inputs=inputs, loss=float(loss), of=len(record.generations) - 1))
            return loss

        trainer.compute_loss = recorded
        trainer.train()
    return record, [str(warning.message) for warning in told]


def fresh(folder, weights, lora):
    """The policy with these weights, without what TRL changes in a model."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    if lora:
        model = get_peft_model(model, LoraConfig(**LORA))
    model.load_state_dict(weights)
    return model


def logprobs(model, prompt, ids, temperature):
    """The log-prob and the entropy of each token of a response, which is run alone: [T] each."""
    logits = model(input_ids=torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1] / temperature
    logp = logits.log_softmax(-1)
    return logp[range(len(ids)), list(ids)], -(logp.exp() * logp).sum(-1)


def surrogate(loss, logp, old, advantage):
    """The loss of each token of a response, [T] or [1], as its paper writes it."""
    ratio = (logp - old).exp()
    if loss.name == "gspo":
        ratio = (logp - old).mean(0, keepdim=True).exp()
    if loss.name == "cispo":
        return -ratio.detach().clamp(max=1 + loss.clip_high) * advantage * logp
    if loss.name == "sapo":
        tau = loss.tau_positive if advantage > 0 else loss.tau_negative
        return -4 / tau * torch.sigmoid(tau * (ratio - 1)) * advantage
    return -torch.minimum(ratio * advantage, ratio.clamp(1 - loss.clip_low, 1 + loss.clip_high) * advantage)


def check_steps(folder, record, method, expected, *, lora=False, of_generation=False):
    """Assert that advantages, loss and gradient of every optimizer step are those of the method.

    `expected` gives the advantages of a generation. With `of_generation` the loss is divided by the mean tokens of the
    generation's steps. Returns how often a ratio left the clip, and the number of rows with an advantage.
    """
    args, loss = record.trainer.args, method.loss
    advantages = [expected(generation) for generation in record.generations]
    begin = fresh(folder, record.generations[0].weights, lora)
    clipped = signal = 0
    for step in record.steps:
        model = fresh(folder, step.weights, lora)
        rows = []
        for part in step.parts:
            generation = record.generations[part.of]
            old_model = fresh(folder, generation.weights, lora)
            inputs = part.inputs
            for i in range(len(inputs["advantages"])):
                prompt = inputs["prompt_ids"][i][inputs["prompt_mask"][i].bool()].tolist()
                ids = inputs["completion_ids"][i][inputs["completion_mask"][i].bool()].tolist()
                used = float(inputs["advantages"][i])
                same = [a for known, a in zip(generation.ids, advantages[part.of], strict=True) if [*known] == ids]
                advantage = min(same, key=lambda a: abs(a - used))
                assert abs(advantage - used) < 1e-5 * max(1, abs(advantage)), (advantage, used)
                attended = inputs["completion_mask"][i].bool()
                own = inputs.get("tool_mask", inputs["completion_mask"])[i][attended].bool()
                logp, entropy = (x[own] for x in logprobs(model, prompt, ids, args.temperature))
                with torch.no_grad():
                    old = logprobs(old_model, prompt, ids, args.temperature)[0][own]
                    with begin.disable_adapter() if lora else torch.no_grad():
                        reference = logprobs(begin, prompt, ids, args.temperature)[0][own]
                values = surrogate(loss, logp, old, advantage)
                kl = (reference - logp).exp() - (reference - logp) - 1
                clipped += int(((logp - old).exp() > 1 + getattr(loss, "clip_high", 0.2)).sum())
                signal += advantage != 0
                rows.append((values + loss.kl_coef * kl * torch.ones_like(logp), entropy))
        tokens = sum(len(entropy) for _, entropy in rows)
        divisor = tokens
        if of_generation:
            of = record.generations[step.parts[0].of]
            divisor = sum(map(len, of.ids)) * args.gradient_accumulation_steps / args.steps_per_generation
        if loss.aggregation == "sequence-mean":
            total = sum(values.mean() for values, _ in rows) / len(rows)
        else:
            total = sum(values.sum() for values, _ in rows) / (
                len(rows) if loss.aggregation == "token-sum" else divisor
            )
        total = total - loss.entropy_coef * sum(e.sum() for _, e in rows) / tokens
        assert abs(sum(part.loss for part in step.parts) - float(total)) < 1e-4 * max(1.0, abs(float(total)))
        total.backward()
        names = [name for name, p in model.named_parameters() if p.requires_grad and p.grad is not None]
        assert {*names} == {name for name, g in step.gradient.items() if name in names or g.abs().max() > 0}
        got, wanted = (torch.cat([g[name].flatten() for name in names]) for g in (step.gradient, gradients(model)))
        assert (got - wanted).norm() < 1e-3 * wanted.norm() + 1e-7, ((got - wanted).norm(), wanted.norm())
    return clipped, signal


def masked_in(size):
    """A `rollout_func` after which the environment has written every fifth token of a completion."""

    def rollout(prompts, trainer):
        ids, _, _ = trainer._tokenize_prompts(prompts)
        completions, _ = trainer._generate_single_turn(ids, None, {}, size)
        mask = [[int(i % 5 != 2) for i in range(len(row))] for row in completions]
        rows = {"prompt_ids": ids, "completion_ids": completions, "logprobs": None}
        return {**rows, "env_mask": mask, "policy_mask": mask}

    return rollout


def of_processes(parts):
    """One record of the records of all processes: each optimizer step has the micro-batches of all."""
    first = parts[0]
    for record in parts[1:]:
        for generation, other in zip(first.generations, record.generations, strict=True):
            generation.ids, generation.outcomes = generation.ids + other.ids, generation.outcomes + other.outcomes
        for step, other in zip(first.steps, record.steps, strict=True):
            step.parts += other.parts
    for part in [part for step in first.steps for part in step.parts]:
        part.loss /= len(parts)  # processes average their gradients
    return first


# Advantages by hand.


def mean_only(rewards):
    return (grouped(rewards) - grouped(rewards).mean(1, keepdims=True)).ravel()


def by_std(rewards):
    spread = grouped(rewards).std(1, keepdims=True)
    return (mean_only(rewards).reshape(-1, G) / np.where(spread > 0, spread, 1)).ravel()


def of_outcomes(formula):
    return lambda generation: formula(generation.outcomes)


TWO_PARTS = {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 4}
TWO_STEPS = {"steps_per_generation": 2, "per_device_train_batch_size": 4, "max_steps": 4}


def gradients(model):
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def grouped(rewards):
    return np.array(rewards, dtype=float).reshape(-1, G)
