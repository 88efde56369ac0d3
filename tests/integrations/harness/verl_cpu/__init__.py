"""Stock verl on a CPU, for tests: a platform, a rollout by transformers, two repairs that a machine with GPUs has no
need of, and one for TRL in the same environment.

verl imports this in every process: VERL_USE_EXTERNAL_MODULES=verl_cpu.
"""

import sys

import torch.distributed
import torch.distributed.fsdp
from verl.models.transformers import monkey_patch
from verl.workers.rollout.base import _ROLLOUT_REGISTRY
from verl.workers.rollout.replica import RolloutReplicaRegistry

from verl_cpu import platform  # noqa: F401


def _replica():
    from verl_cpu.rollout import Replica

    return Replica


# verl imports vLLM by this module, in each process, before the module finds that this machine has no NPU.
sys.modules["verl.checkpoint_engine.hccl_checkpoint_engine"] = None

_ROLLOUT_REGISTRY["transformers", "async"] = "verl_cpu.rollout.Adapter"
RolloutReplicaRegistry.register("transformers", _replica)

# verl asks for a backend for the CPU and one for the device; where both are the CPU, torch refuses "cpu:gloo,cpu:gloo".
_init_process_group = torch.distributed.init_process_group


def init_process_group(backend=None, *args, **kwargs):
    if isinstance(backend, str):
        backend = ",".join(dict.fromkeys(backend.split(",")))
    return _init_process_group(backend, *args, **kwargs)


torch.distributed.init_process_group = init_process_group


# Memory is pinned for the sake of an accelerator, and without one torch refuses.
class Unpinned(torch.distributed.fsdp.CPUOffloadPolicy):
    def __init__(self, pin_memory: bool = False) -> None:
        super().__init__(pin_memory=False)


torch.distributed.fsdp.CPUOffloadPolicy = Unpinned

# Where TRL is installed, verl patches a class with a value head, which TRL has removed.
monkey_patch.is_trl_available = lambda: False
