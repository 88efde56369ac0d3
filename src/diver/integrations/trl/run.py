"""A run with DiverTrainer, in one process or several, with our run folder beside the files of TRL."""

import contextlib
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from datasets import Dataset
from transformers import BitsAndBytesConfig, GenerationConfig, TrainerCallback
from transformers.utils import GENERATION_CONFIG_NAME
from trl import GRPOConfig

from diver.core.extras import require
from diver.core.run_folder import RunFolder
from diver.core.seeds import draw_indices
from diver.core.types import DiverError, Group
from diver.integrations.keys import also_named
from diver.integrations.trl.launch import adapters, arguments, identity
from diver.integrations.trl.trainer import DiverTrainer, GroupOutcome
from diver.recipe.recipe import Recipe
from diver.recipe.run import open_run
from diver.sample.vllm import precision_note
from diver.tasks.templates import Prompted
from diver.tasks.testbeds import policy_folder
from diver.train.alerts import AlertLog
from diver.train.prepare import prepare
from diver.train.stopping import Stop, stop_request

LAST_FILE = "trainer_state.json"
"""The file of a checkpoint that transformers writes last."""
METRICS = {
    "policy/loss": "loss",
    "policy/clip_fraction": "clip_ratio/region_mean",
    "policy/grad_norm": "grad_norm",
    "policy/kl": "kl",
    "policy/entropy": "entropy",
    "policy/logprob_mismatch": "sampling/sampling_logp_difference/mean",  # with vLLM
}
"""Name in the run folder -> TRL's metric. Metrics of the method have the same names in both."""


class RunRecorder(TrainerCallback):
    """Writes the run folder of one process: rollouts, metrics, and links to TRL's checkpoints."""

    def __init__(self, folder: RunFolder, updates: int, stop: Stop, outcome: GroupOutcome) -> None:
        self.folder, self.updates, self.stop, self.outcome = folder, updates, stop, outcome
        outcome.on_step = self.on_rollouts
        self.started = self.sampled = time.perf_counter()
        self.ours: set[str] = set()
        self.generation_config = GenerationConfig()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.alerts = AlertLog(self.folder.rows("metrics.jsonl"), named=also_named("trl"))

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step % self.updates == 0:
            self.started = time.perf_counter()

    def on_rollouts(self, step: int, groups: list[Group], metrics: Mapping[str, float]) -> None:
        self.sampled, self.ours = time.perf_counter(), {*metrics}
        self.folder.write_rollouts(step, groups)

    def on_log(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        logs: Mapping[str, float] = given["logs"]
        if "time/verify" not in logs:  # TRL's summary at the end of training
            return
        ours = {name: value for name, value in logs.items() if name in self.ours}
        trls = {name: logs[key] for name, key in METRICS.items() if key in logs}
        started = max(self.started, self.outcome.began)
        sampling = self.sampled - started - logs["time/verify"] - logs["time/diversity"]
        times = {"time/sample": sampling, "time/update": time.perf_counter() - self.sampled}
        step, row = state.global_step // self.updates, {**ours, **trls, **times}
        self.folder.append("metrics.jsonl", {"step": step, **row})
        self.alerts.log(step, row)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Save and stop at the end of a rollout step, where a signal has asked for it."""
        if self.stop.is_set() and state.global_step % self.updates == 0:
            control.should_save = control.should_training_stop = True

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        saved = Path(args.output_dir, f"checkpoint-{state.global_step}")
        if (saved / GENERATION_CONFIG_NAME).exists():  # not with adapters
            self.generation_config.save_pretrained(saved)
        self.folder.link_checkpoint(state.global_step // self.updates, saved)


def run(recipe: Recipe) -> None:
    """Begin or resume the run of `recipe`; on the first of several processes the run folder is written.

    A single process saves and stops on SIGTERM and Ctrl-C, as the built-in trainer does; several are stopped by their
    launcher.
    """
    processes = PartialState(cpu=recipe.model.device == "cpu")
    if recipe.trl.vllm == "server" and processes.device.type != "cuda":
        raise DiverError("trl.vllm = 'server': needs a CUDA device (NCCL); without one choose 'colocate' or 'off'")
    stop = Stop()
    folder = open_run(recipe, **identity(recipe)) if processes.is_main_process else None
    if recipe.model.threads:
        torch.set_num_threads(recipe.model.threads)
    args = grpo_config(recipe)
    updates = recipe.train.batch_size // recipe.train.mini_batch_size
    saved = last_checkpoint(Path(args.output_dir))
    done = int(saved.rpartition("-")[2]) if saved else 0
    if folder:
        folder.check_saved(done // updates, recipe.train.save_steps)
    problems, _, tokenizer, _ = prepare(recipe)
    by_id = {problem.id: problem for problem in problems.problems}
    reward = GroupOutcome(recipe.method, args, tokenizer, verification=recipe.verify, problems=by_id)
    recorder = RunRecorder(folder, updates, stop, reward) if folder else None  # on the first process
    # The rows of all steps, in the order of the built-in trainer. TRL's shuffling would start again when a run resumes,
    # so after the first epoch it would repeat the order of that epoch.
    rows, seed = Dataset.from_list(_rows(problems, tokenizer)), recipe.run.seed
    trainer = DiverTrainer(
        str(policy_folder(recipe.model.path) or Path(recipe.model.path).expanduser()),
        reward,
        args=args,
        train_dataset=rows.select(draw_indices(1, recipe.train.steps * recipe.train.batch_size, len(rows), seed)),
        processing_class=tokenizer,
        callbacks=[recorder] if recorder else [],
        peft_config=_lora(recipe),
        quantization_config=_quantization(recipe),
    )
    trainer.pool = rows
    # `generate` would take options that TRL does not set from the model's configuration, and sample by them.
    base = trainer.model.generation_config
    trainer.model.generation_config = GenerationConfig(eos_token_id=base.eos_token_id, pad_token_id=base.pad_token_id)
    if recorder:
        recorder.generation_config = base
        if recipe.trl.vllm == "colocate":
            print(precision_note(trainer.vllm_generation.llm.model_config.dtype), file=sys.stderr)
        recorder.folder.begin()
        recorder.folder.keep_until(done // updates)
    if done < args.max_steps:
        with stop_request(stop) if processes.num_processes == 1 else contextlib.nullcontext():
            trainer.train(resume_from_checkpoint=saved)
    if folder:
        folder.close()
    step = trainer.state.global_step // updates
    if stop.is_set() and step < recipe.train.steps:
        stop.end(step, recipe.train.steps, recipe.folder)


def last_checkpoint(folder: Path) -> str | None:
    """The newest complete checkpoint of TRL in `folder`. A killed run may leave an incomplete one, without its last
    file, from which no run can resume."""
    paths = {file.parent.name.partition("-")[2]: str(file.parent) for file in folder.glob(f"checkpoint-*/{LAST_FILE}")}
    steps = [step for step in paths if step.isdigit()]
    return paths[max(steps, key=int)] if steps else None


def check_arguments(recipe: Recipe) -> None:
    """Raises DiverError if the installed TRL or peft refuses the arguments made from the recipe; loads no model."""
    _lora(recipe)
    grpo_config(recipe)


def grpo_config(recipe: Recipe) -> GRPOConfig:
    """TRL's configuration of `recipe`. Raises DiverError for arguments that TRL refuses."""
    model = recipe.model
    gpu = torch.cuda.is_available() and model.device != "cpu"
    bf16 = model.precision == "bfloat16" or (model.precision == "auto" and gpu)
    low = bf16 and recipe.trl.lora_rank  # frozen weights; the trained ones are in float32
    weights = {"dtype": "bfloat16" if low else "float32", "attn_implementation": model.attention}
    revision = {"revision": model.revision} if model.revision else {}
    try:
        return GRPOConfig(**arguments(recipe), bf16=bf16, model_init_kwargs={**weights, **revision})
    except (TypeError, ValueError, ImportError) as error:
        raise DiverError(f"TRL refuses this recipe: {' '.join(str(error).split())}") from None


def _lora(recipe: Recipe) -> Any:
    fields = adapters(recipe)
    if fields is None:
        return None
    require("peft")
    from peft import LoraConfig

    return LoraConfig(**fields)


def _quantization(recipe: Recipe) -> BitsAndBytesConfig | None:
    bits = recipe.trl.quantization
    if bits == "none":
        return None
    nf4 = {"bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": torch.bfloat16}
    return BitsAndBytesConfig(load_in_4bit=True, **nf4) if bits == "4bit" else BitsAndBytesConfig(load_in_8bit=True)


def _rows(problems: Prompted, tokenizer: Any) -> list[dict[str, str]]:
    """The data set. TRL adds the tokenizer's special tokens, so a text may have to omit its begin token."""
    rows = []
    for problem, text in zip(problems.problems, problems.texts, strict=True):
        bare = text.removeprefix(tokenizer.bos_token or "")
        matches = [t for t in (text, bare) if list(tokenizer(text=t)["input_ids"]) == problems.ids[problem.id]]
        if not matches:
            raise DiverError(f"problem {problem.id!r}: TRL tokenizes its prompt otherwise than the other engines do")
        rows.append({"prompt": matches[0], "problem": problem.id})
    return rows
