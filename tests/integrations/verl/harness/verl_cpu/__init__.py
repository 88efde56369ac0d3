"""Stock verl on a CPU, for tests: a platform, a rollout by transformers, and three repairs that a machine with GPUs has
no need of. verl imports this in every process: VERL_USE_EXTERNAL_MODULES=verl_cpu.
"""

import sys

import torch.distributed
import torch.distributed.fsdp
from verl.workers.rollout.base import _ROLLOUT_REGISTRY
from verl.workers.rollout.replica import RolloutReplicaRegistry

from verl_cpu import platform  # noqa: F401


def _replica():
    from verl_cpu.rollout import Replica

    return Replica


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

# vLLM packs the weights of linear layers for its CPU kernels; verl's update in place needs them as they are. verl is
# imported by vLLM's worker before the model is built.
if "vllm" in sys.modules:
    import torch.nn.functional
    import vllm.model_executor.layers.utils

    def plain(layer, remove_weight):
        layer.cpu_linear = torch.nn.functional.linear

    vllm.model_executor.layers.utils.dispatch_cpu_unquantized_gemm = plain
