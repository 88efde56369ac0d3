"""How the tests start stock verl on this machine's CPU: the bundled policy,
Countdown problems in verl's layout, the command."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import on_cpu
import pandas as pd

from diver.integrations.verl.config import overrides
from diver.methods import Method
from diver.recipe.data import Countdown
from diver.tasks import countdown
from diver.tasks.testbeds import policy_folder

TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"  # the policy knows no roles
PROMPTS, GROUP, LIMIT = 8, 4, 40

OPTIONS = {
    # one CPU, one process of each kind
    "trainer.device": "cpu",
    "trainer.use_v1": True,
    "trainer.n_gpus_per_node": 1,
    "trainer.nnodes": 1,
    "trainer.logger": "[console,file]",
    "+ray_kwargs.ray_init.num_gpus": 1,  # which is not there
    "ray_kwargs.ray_init.num_cpus": 16,
    "+ray_kwargs.ray_init.include_dashboard": False,
    "+ray_kwargs.ray_init.object_store_memory": 300_000_000,
    "reward.num_workers": 1,
    "data.dataloader_num_workers": 0,
    "actor_rollout_ref.rollout.agent.num_workers": 1,
    "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
    "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
    # float32, without what needs a GPU
    "actor_rollout_ref.actor.strategy": "fsdp2",
    "actor_rollout_ref.actor.use_torch_compile": False,
    "actor_rollout_ref.actor.fsdp_config.use_torch_compile": False,
    "+actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype": "fp32",
    "+actor_rollout_ref.actor.fsdp_config.mixed_precision.reduce_dtype": "fp32",
    "+actor_rollout_ref.actor.fsdp_config.mixed_precision.buffer_dtype": "fp32",
    "actor_rollout_ref.model.use_remove_padding": False,
    "actor_rollout_ref.model.enable_gradient_checkpointing": False,
    "+actor_rollout_ref.model.override_config.attn_implementation": "sdpa",
    "actor_rollout_ref.rollout.free_cache_engine": False,
    "actor_rollout_ref.rollout.load_format": "auto",
    # the run
    "trainer.total_epochs": 100,
    "trainer.val_before_train": False,
    "trainer.test_freq": -1,
    "trainer.save_freq": -1,
    "trainer.resume_mode": "disable",
    "data.train_batch_size": PROMPTS,
    "data.max_prompt_length": 24,
    "data.max_response_length": LIMIT,
    "data.shuffle": False,
    "actor_rollout_ref.rollout.name": "transformers",
    "actor_rollout_ref.rollout.n": GROUP,
    "actor_rollout_ref.rollout.calculate_log_probs": True,
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": 16,
    "actor_rollout_ref.actor.ppo_mini_batch_size": PROMPTS // 2,
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 16,
    "actor_rollout_ref.actor.optim.lr": 1e-4,
}

MACHINE = (
    "device",
    "ray",
    "num_workers",
    "num_data_storage",
    "strategy",
    "compile",
    "mixed_precision",
    "free_cache",
    "load_format",
)
"""Words in the keys of the options that this machine needs, whatever is trained."""


def prepare(folder: Path, problems: int = 64, **how) -> None:
    """The bundled policy with a chat template, and Countdown problems: folder/policy, folder/problems.parquet."""
    policy = folder / "policy"
    shutil.copytree(policy_folder(), policy)
    (policy / "chat_template.jinja").write_text(TEMPLATE)
    rows = [
        {
            "prompt": [{"role": "user", "content": problem.prompt}],
            "data_source": problem.source,
            "reward_model": {"style": "rule", "ground_truth": problem.answer},
            "extra_info": {"index": i, "id": problem.id, "verifier": problem.verifier, **problem.meta},
        }
        for i, problem in enumerate(countdown.problems(Countdown(**how), problems, held_out=False))
    ]
    pd.DataFrame(rows).to_parquet(folder / "problems.parquet")


def command(folder: Path, method: Method, steps: int, setting: dict | None = None, **options: object) -> list[str]:
    """verl's own command. Options by their dotted keys, `setting` instead of the method's name in algorithm.diver."""
    tables = {"method": {"name": method.name}} if setting is None else setting
    given = {
        **OPTIONS,
        **overrides(method),
        **{f"+algorithm.diver.{section}": f"'{json.dumps(table)}'" for section, table in tables.items()},
        "actor_rollout_ref.model.path": folder / "policy",
        "data.train_files": folder / "problems.parquet",
        "data.val_files": folder / "problems.parquet",
        "trainer.default_local_dir": folder / "checkpoints",
        "trainer.rollout_data_dir": folder / "rollouts",
        "trainer.total_training_steps": steps,
        **options,
    }
    told = (
        f"{key}={str(value).lower() if isinstance(value, bool) else value}"
        for key, value in given.items()
        if value != ""
    )
    return [sys.executable, "-m", "verl.trainer.main_ppo", *told]


def verb(recipe: str, **options: object) -> list[str]:
    """`diver train --engine verl` as users give it, with what a machine without a GPU adds."""
    machine = {key: value for key, value in OPTIONS.items() if any(word in key for word in MACHINE)}
    given = {**machine, "trainer.logger": "[console,file]", "actor_rollout_ref.rollout.name": "transformers", **options}
    words = [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in given.items()]
    return [
        sys.executable,
        "-c",
        "from diver.cli import main; main()",
        "train",
        recipe,
        "--engine",
        "verl",
        "--",
        *words,
    ]


def start(folder: Path, arguments: list[str], **extra: str) -> subprocess.Popen:
    return on_cpu.start(arguments, folder, **{"VERL_FILE_LOGGER_PATH": str(folder / "metrics.jsonl"), **extra})


def finished(folder: Path, step: int) -> bool:
    """Whether verl has saved, dumped and logged that step: the dump and the log come after the checkpoint."""
    try:
        return step in metrics(folder) and len(dump(folder, step)) == PROMPTS * GROUP
    except (FileNotFoundError, json.JSONDecodeError):  # not written, or not to its end
        return False


def started(folder: Path, arguments: list[str], steps: int) -> int:
    """The run, killed with -9 once that many steps are finished; the step of the last checkpoint."""
    process = start(folder, arguments)
    try:
        while not finished(folder, steps):
            assert process.poll() is None, (folder / "log").read_text()[-6000:]
            time.sleep(0.2)
    finally:
        on_cpu.kill(process)
    return int((folder / "checkpoints" / "latest_checkpointed_iteration.txt").read_text())


def run(folder: Path, arguments: list[str], **extra: str) -> str:
    """Run to the end; what it said."""
    return on_cpu.run(arguments, folder, **{"VERL_FILE_LOGGER_PATH": str(folder / "metrics.jsonl"), **extra})


def metrics(folder: Path, name: str = "metrics.jsonl") -> dict[int, dict[str, float]]:
    """What verl logged, by step."""
    return {row["step"]: row["data"] for row in map(json.loads, (folder / name).read_text().splitlines())}


def dump(folder: Path, step: int) -> list[dict]:
    """verl's rollout dump of a step."""
    return [json.loads(line) for line in (folder / "rollouts" / f"{step}.jsonl").read_text().splitlines()]
