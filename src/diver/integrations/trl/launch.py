"""Convert a recipe to the arguments of DiverTrainer. Neither TRL nor torch is imported."""

import re
import sys
from collections.abc import Collection, Sequence
from typing import Any

from diver.core.types import DiverError
from diver.integrations.keys import mapped, read_keys
from diver.integrations.trl.objective import TRAINER, config
from diver.recipe.recipe import Recipe

STEPS = {
    "num_iterations": 1,
    "shuffle_dataset": False,
    "ignore_data_skip": False,
    "logging_strategy": "steps",
    "logging_first_step": False,
    "save_strategy": "steps",
}
"""One row of the run folder per rollout step, and an order of problems that a resumed run can continue."""
EVALUATION = ("do_eval", "num_generations_eval", "per_device_eval_batch_size")
CORRECTION = "vllm_importance_sampling_"
UNCORRECTED = {
    f"{CORRECTION}correction": True,
    f"{CORRECTION}mode": "token_truncate",
    f"{CORRECTION}clip_min": 1 - 1e-6,
    f"{CORRECTION}clip_max": 1 + 1e-6,
}
"""No correction of the loss: TRL's factor, the ratio of the trainer's to vLLM's probabilities, is 1 within 1e-6.

With the correction off, TRL would not log how far the log-probs are apart (docs/engines/trl.md#vllm).
"""


def arguments(recipe: Recipe) -> dict[str, Any]:
    """The fields of GRPOConfig for `recipe`. Raises DiverError with the key and the reason if TRL cannot run it.

    A rollout step is `updates` optimizer steps, each on as many responses as mini_batch_size problems have.
    """
    train, trl, log = recipe.train, recipe.trl, recipe.log
    updates = train.batch_size // train.mini_batch_size
    sampled = recipe.sample.group_size * recipe.method.selection.multiplier
    rows = train.mini_batch_size * sampled
    if rows % trl.processes:
        raise DiverError(f"trl.processes = {trl.processes} must divide the {rows} responses of a mini-batch")
    process_rows = rows // trl.processes
    per_device = max(n for n in range(1, min(trl.rows_per_device, process_rows) + 1) if process_rows % n == 0)
    objective = config(recipe.method, TRAINER)
    fields = {
        **dict(mapped(recipe, "trl")),
        **objective,
        **STEPS,
        "num_generations": sampled,
        "output_dir": str(recipe.folder / "trl"),
        "per_device_train_batch_size": per_device,
        "gradient_accumulation_steps": process_rows // per_device,
        "steps_per_generation": updates * process_rows // per_device,
        "max_steps": train.steps * updates,
        "warmup_steps": train.warmup_steps * updates,
        "adam_beta1": train.betas[0],
        "adam_beta2": train.betas[1],
        "save_steps": train.save_steps * updates,
        "logging_steps": updates,  # one row of TRL's log per rollout step
        "report_to": list(log.to) or "none",
        "use_cpu": recipe.model.device == "cpu",
        "use_vllm": trl.vllm != "off",
        **({} if trl.vllm == "off" else {"vllm_mode": trl.vllm}),
        **({"learning_rate": lora_learning_rate(recipe)} if trl.lora_rank else {}),
    }
    _check_options(trl.options, objective, fields)
    return {
        **fields,
        "lr_scheduler_type": "constant_with_warmup",
        **(UNCORRECTED if trl.vllm != "off" and not any(CORRECTION in name for name in trl.options) else {}),
        **trl.options,
    }


def _check_options(options: Collection[str], objective: Collection[str], fields: Collection[str]) -> None:
    """Raises DiverError for an option that would replace a setting of the recipe, with the key of that setting."""
    for name in options:
        if name.startswith("eval_") or name in EVALUATION:
            reason = "TRL does not evaluate here; run diver eval on the run folder afterwards"
        elif name in objective:
            reason = "the method sets it; change [method]"
        elif name in (*fields, "bf16"):
            keys = (key for key, row in read_keys("trl").items() if name in (*row.to, *re.findall(r"\w+", row.note)))
            default = "diver train counts steps and problems by it; leave it out"
            reason = next((f"set {key} instead" for key in keys), default)
        else:
            continue
        raise DiverError(f"trl.options.{name}: {reason}")


def adapters(recipe: Recipe) -> dict[str, Any] | None:
    """The fields of peft's LoraConfig; None if all weights are trained."""
    trl = recipe.trl
    if not trl.lora_rank:
        return None
    return {
        "r": trl.lora_rank,
        "lora_alpha": trl.lora_alpha,
        "lora_dropout": trl.lora_dropout,
        "target_modules": list(trl.lora_targets) or "all-linear",
        "task_type": "CAUSAL_LM",
    }


def lora_learning_rate(recipe: Recipe) -> float:
    """The learning rate of the adapters: by default ten times that of the weights (LoRA Without Regret, 2025)."""
    rate = recipe.trl.lora_learning_rate
    return 10 * recipe.train.learning_rate if rate is None else rate


def identity(recipe: Recipe) -> dict[str, Any]:
    """The settings of the section [trl] that a resumed run must not change."""
    tables = {"lora": adapters(recipe) or {}, "options": recipe.trl.options}
    settings = {f"trl.{table}.{name}": value for table, fields in tables.items() for name, value in fields.items()}
    rate = {"trl.lora_learning_rate": lora_learning_rate(recipe)} if recipe.trl.lora_rank else {}
    # A folder without `trl.trainer` was trained with TRL's update, which DiverTrainer does not continue.
    return {"trl.trainer": "DiverTrainer", "trl.quantization": recipe.trl.quantization, **rate, **settings}


def command(words: Sequence[str], processes: int) -> list[str]:
    """The command that runs `diver train` with `words` in several processes of this machine, which accelerate uses."""
    run = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes), "-m", "diver", "train"]
    return [sys.executable, *run, *words]
