"""TRL's GRPOTrainer on the bundled policy for three steps, by one method after another: FOLDER METHOD...

Started by torchrun, with groups of 8 split over processes of 12 rows. For each method, FOLDER/METHOD gets TRL's own
table of completions and `rank_N.json`: what the reward function was given and gave back at every call.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import torch
from accelerate import PartialState
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from diver.core.types import DiverError
from diver.integrations.trl import GroupAdvantage, config
from diver.integrations.trl.objective import installed
from diver.methods import Method, method_named
from diver.recipe.data import Countdown
from diver.tasks.countdown import problems
from diver.tasks.testbeds import policy_folder

STEPS = 3


class Recorded(GroupAdvantage):
    def __call__(self, prompts, completions, completion_ids, **given):
        result = super().__call__(prompts, completions, completion_ids, **given)
        state = given["trainer_state"]
        at = {"global_step": state.global_step, "max_steps": state.max_steps}
        columns = {k: given[k] for k in ("answer", "meta")} | {"prompts": prompts, "completions": completions}
        self.calls = [
            *getattr(self, "calls", []),
            {**at, **columns, "completion_ids": completion_ids, "result": result},
        ]
        return result


class Table(TrainerCallback):
    """Writes the table of completions that an older TRL only prints."""

    trainer: GRPOTrainer

    def on_step_end(self, args, state, control, **_):
        folder = Path(args.output_dir, "completions")
        folder.mkdir(exist_ok=True)
        columns = {"completion": "completion", "advantage": "advantages"}
        table = {column: list(self.trainer._logs[name]) for column, name in columns.items()}
        pd.DataFrame(table).to_parquet(folder / f"completions_{state.global_step:05d}.parquet")


def carried(name: str) -> Method:
    """The method, where an older TRL normalises several optimizer steps a rollout otherwise with a loss
    that it does not."""
    changed = {"loss": {"aggregation": "sequence-mean"}} if installed() < (1, 10) else {}
    return method_named(name, **changed)


def train(folder: Path, name: str) -> None:
    method = carried(name)
    args = GRPOConfig(
        str(folder),
        **config(method),
        num_generations=8,
        per_device_train_batch_size=6,
        gradient_accumulation_steps=1,
        steps_per_generation=2,  # so an optimizer step is half a rollout step
        max_completion_length=28,
        learning_rate=1e-3,
        max_steps=STEPS,
        logging_steps=1,
        log_completions=True,
        num_completions_to_print=0,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        disable_tqdm=True,
    )
    tokenizer = AutoTokenizer.from_pretrained(policy_folder())
    model = AutoModelForCausalLM.from_pretrained(policy_folder(), dtype=torch.float32)
    before = model.lm_head.weight.detach().clone()
    reward = Recorded(method, args, tokenizer, verifier="countdown")
    rows = [
        {"prompt": p.prompt, "answer": p.answer, "meta": dict(p.meta)}
        for p in problems(Countdown(), 16, held_out=False)
    ]
    trainer = GRPOTrainer(model, reward, args=args, train_dataset=Dataset.from_list(rows), processing_class=tokenizer)
    if installed() < (1, 0) and PartialState().is_main_process:
        table = Table()
        table.trainer = trainer
        trainer.add_callback(table)
    trainer.train()
    told = {
        "calls": reward.calls,
        "processes": PartialState().num_processes,
        "steps": trainer.state.global_step,
        "moved": float((model.lm_head.weight.detach() - before).abs().max()),
        "log": trainer.state.log_history,
    }
    (folder / f"rank_{PartialState().process_index}.json").write_text(json.dumps(told))


def fail_on_one(folder: Path) -> None:
    """A reward function that fails on the second process: what is raised on each, in FOLDER/failed_N."""
    rank = PartialState().process_index

    def outcome(completions, **_):
        if rank == 1:
            raise KeyError("gold")
        return [1.0] * len(completions)

    args = GRPOConfig(str(folder), num_generations=2, use_cpu=True, bf16=False, report_to="none", **config("grpo"))
    reward = GroupAdvantage("grpo", args, AutoTokenizer.from_pretrained(policy_folder()), outcome=outcome)
    try:
        reward(["a", "a"], ["x", "y"], [[1], [2]], trainer_state=SimpleNamespace(global_step=0, max_steps=3))
    except (DiverError, KeyError) as error:
        (folder / f"failed_{rank}").write_text(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[2:]:
        train(Path(sys.argv[1], name), name)
    fail_on_one(Path(sys.argv[1]))
    PartialState().destroy_process_group()  # its threads may abort a process that exits without this
