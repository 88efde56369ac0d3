"""A comparison of what a trainer trains on with what the reward function returned.

A reward function does not see how its values are used. A subclass, a callback or another release of TRL may change
advantages, rows or the loss. So the rows of every micro-batch are compared, and the loss once.
"""

import copy
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from diver.core.types import DiverError, Rollout
from diver.integrations.trl.outcomes import name_of
from diver.losses.base import Tensor, Tokens, kl_to_reference, row_weights
from diver.methods import Method

COPIES = {"epsilon": "epsilon_low"}
"""Field of the GRPOConfig -> the trainer's attribute with its value, if the names differ."""
TOKENS = 32
"""The number of tokens of each prompt and response on which the losses are compared; more would need more memory."""


def calling_trainer(inputs: Mapping[str, Any]) -> Any | None:
    """The trainer that calls a reward function with `inputs`, None without one.

    TRL passes a method of the trainer, `log_metric`. TRL before 1.0 and ms-swift do not. Then the trainer is the
    nearest object in the call stack that has a trainer's attributes.
    """
    callers = (getattr(inputs.get("log_metric"), "__self__", None), *_calling_objects())
    return next((c for c in callers if {"reward_funcs", "args"} <= {*getattr(c, "__dict__", ())}), None)


def _calling_objects() -> Iterator[Any]:
    frame = inspect.currentframe()
    while frame := frame and frame.f_back:
        yield frame.f_locals.get("self")


def is_training(trainer: Any) -> bool:
    """Whether a batch is for training. As in TRL, the mode of the model decides."""
    return getattr(getattr(trainer, "model", None), "training", True)


def check_trainer(trainer: Any, reward_function: Any, wanted: Mapping[str, Any]) -> None:
    """Raises DiverError if the trainer adds rewards beside those of `reward_function`, or has other values than
    `wanted`, which it copies from its GRPOConfig when it is created."""
    # TRL adds the get_reward of an environment to the weights of the trainer, not to those of the arguments.
    configured = getattr(trainer, "reward_weights", trainer.args.reward_weights)
    weights = [1.0] * len(trainer.reward_funcs) if configured is None else [float(weight) for weight in configured]
    index = next((i for i, function in enumerate(trainer.reward_funcs) if function is reward_function), 0)
    if names := {i: name_of(f) for i, f in enumerate(trainer.reward_funcs) if weights[i] and i != index}:
        raise DiverError(
            f"reward functions {', '.join(names.values())}: TRL would add their rewards to the advantage; read them "
            "in outcome (get_reward: outcome=lambda environments, **_: [e.get_reward() for e in environments]), and "
            f"set trainer.reward_weights[{min(names)}] = 0 before trainer.train()"
        )
    values = {name: getattr(trainer, COPIES.get(name, name), value) for name, value in wanted.items()}
    if not getattr(trainer, "aux_loss_enabled", False):  # no mixture of experts, whatever the coefficient
        values.pop("router_aux_loss_coef", None)
    if stale := [f"{name}={value!r}" for name, value in values.items() if value != wanted[name]]:
        raise DiverError(f"the trainer has {', '.join(stale)}: correct its GRPOConfig, and create the trainer again")


class Comparison:
    """Replaces `compute_loss` of a trainer, and calls it after the comparison."""

    def __init__(self, trainer: Any) -> None:
        self.trainer, self.compute, self.state, self.compared = trainer, trainer.compute_loss, None, False
        trainer.diver_comparison = trainer.compute_loss = self

    def expect(self, method: Method, rows: Sequence[tuple[Sequence[int], Rollout]]) -> None:
        """Set what this process trains on next: the tokens of each completion, with its rollout."""
        self.method, self.rows, self.left = method, rows, list(rows)

    def __call__(self, model: Any, inputs: Mapping[str, Any], *rest: Any, **options: Any) -> Any:
        if is_training(self.trainer):
            self._compare_rows(inputs)
            # The loss of a model of images has further inputs, and Unsloth's model returns no logits.
            if not (self.compared or "num_images" in inputs or type(self.trainer).__name__.startswith("Unsloth")):
                self._compare_losses(model, inputs)
            self.compared = True
        return self.compute(model, inputs, *rest, **options)

    def _refuse(self, what: str) -> NoReturn:
        raise DiverError(f"{type(self.trainer).__name__} {what}; train with GRPOTrainer itself, unchanged")

    def _compare_rows(self, inputs: Mapping[str, Any]) -> None:
        """Each row of a micro-batch must be scored, complete, used once, and have the returned advantage."""
        if not self.left or self.state is not self.trainer.state:  # another iteration; or `train` was called again
            self.state, self.left = self.trainer.state, list(self.rows)
        # TRL stores advantages in float32 and subtracts their mean again, so they are equal up to rounding.
        tolerance = 1e-5 * max(1.0, *(abs(rollout.advantage) for _, rollout in self.rows))
        written = inputs.get("tool_mask", inputs["completion_mask"]).bool()
        columns = inputs["completion_ids"], inputs["completion_mask"].bool(), written, inputs["advantages"]
        for ids, mask, by_policy, advantage in zip(*columns, strict=True):
            tokens = ids[mask].tolist()
            matches = (
                i
                for i, (row_tokens, rollout) in enumerate(self.left)
                if row_tokens == tokens and (advantage - rollout.advantage).abs().max() <= tolerance
            )
            if (place := next(matches, None)) is None:
                self._refuse("trains on a row or an advantage that was not returned to it, or twice on one row")
            _, rollout = self.left.pop(place)
            if rollout.tokens is not None and [*rollout.tokens] != ids[mask & by_policy].tolist():
                self._refuse("trains on other tokens; for those of a rollout_func, return env_mask as policy_mask, too")
        if len(inputs["advantages"]) * self.trainer.args.steps_per_generation != len(self.rows):
            self._refuse(f"trains on {len(inputs['advantages'])} rows at a time, and not on all that were scored")

    def _compare_losses(self, model: Any, inputs: Mapping[str, Any]) -> None:
        """Compare the losses on the first tokens of a micro-batch, at ratios 1/e, 1 and e and advantages 1 and -1."""
        import torch

        trainer, loss = self.trainer, self.method.loss
        metrics = copy.deepcopy(trainer._metrics)  # a call of the trainer's loss adds to them
        probe = {
            name: torch.cat([value[:, -TOKENS:] if name.startswith("prompt") else value[:, :TOKENS]] * 2)
            for name, value in inputs.items()
            if getattr(value, "ndim", 0) == 2
        }
        mask = probe["completion_mask"] * probe.get("tool_mask", 1)
        device, exact = mask.device, trainer.accelerator.mixed_precision == "no" and trainer.model.dtype.itemsize == 4
        # bfloat16 rounds a logit of 16 by 0.03, and TF32 on a GPU rounds in float32, too.
        tolerance = 1e-3 if exact and device.type == "cpu" else 0.05
        with torch.no_grad(), torch.random.fork_rng([device] if device.type == "cuda" else []):
            if loss.kl_coef and getattr(trainer, "ref_model", None) and trainer.state.global_step == 0:
                gap = self._logp(model.eval(), probe)[0] - self._logp(trainer.ref_model, probe)[0]
                model.train()
                if (gap * mask).abs().max() > tolerance:  # TRL loads the reference from the path in the model object
                    self._refuse("has another reference than its first policy: save the model, and give its path")
            logp, entropy = self._logp(model, probe)
            rows, columns = (torch.arange(n, device=device) for n in mask.shape)
            place, advantages = rows[:, None] + columns, (rows < len(rows) // 2) * 2.0 - 1
            old, reference = logp - (place % 3 - 1), logp + 3 * (place % 2)
            accumulated = trainer.current_gradient_accumulation_steps
            # TRL gives the number of tokens of a generation here, which covers several steps.
            items = mask.sum() * trainer.accelerator.num_processes * trainer.args.steps_per_generation / accumulated
            extra = {"advantages": advantages, "num_items_in_batch": items, "ref_per_token_logps": reference}
            extra |= {"importance_sampling_ratio": torch.ones_like(old[:, :1])}
            torch.manual_seed(0)  # as in `_logp`, so that dropout is the same
            theirs = self.compute(model, probe | extra | {"old_per_token_logps": old, "sampling_per_token_logps": old})
            values, _ = loss.forward(Tokens(logp, old, advantages[:, None], mask=mask))
            values = (values + loss.kl_coef * kl_to_reference(logp, reference)) * mask
            values = values * row_weights(mask.sum(1), loss.aggregation)[:, None]
            divisor = 1 if loss.aggregation == "token-mean" else accumulated
            ours = values.sum() / divisor - loss.entropy_coef * (entropy * mask).sum() / mask.sum() / accumulated
        trainer._metrics = metrics
        if abs(theirs - ours) > tolerance * values.abs().sum() / divisor:
            self._refuse(f"has a loss of {theirs:.4g} where method {self.method.name!r} has {ours:.4g}")

    def _logp(self, model: Any, probe: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
        """The log-prob of each token of the completions, and the entropy of its distribution: [n, T]."""
        import torch

        tokens = probe["completion_ids"]
        ids, mask = (torch.cat([probe[f"prompt_{name}"], probe[f"completion_{name}"]], 1) for name in ("ids", "mask"))
        torch.manual_seed(0)
        with self.trainer.accelerator.autocast():
            logits = model(input_ids=ids, attention_mask=mask).logits[:, -tokens.shape[1] - 1 : -1]
        logp = (logits.float() / self.trainer.args.temperature).log_softmax(-1)
        return logp.gather(-1, tokens[..., None])[..., 0], -(logp.exp() * logp).sum(-1)
