"""A CPU as verl's device, chosen by VERL_PLATFORM=cpu. Ray is told of one GPU that does not exist."""

import contextlib
import types

import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry


def nothing(*_, **__):
    return None


def zero(*_, **__):
    return 0


device_module = types.ModuleType("verl_cpu.device")
device_module.__dict__.update({name: value for name, value in vars(torch.cpu).items() if not name.startswith("__")})
device_module.__dict__.update(
    dict.fromkeys(["empty_cache", "ipc_collect", "synchronize", "set_device", "reset_peak_memory_stats"], nothing),
    **dict.fromkeys(["memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"], zero),
    current_device=zero,
    device_count=lambda: 1,
    is_available=lambda: True,
    mem_get_info=lambda *_: (8 << 30, 16 << 30),
    get_device_name=lambda *_: "CPU",
    manual_seed=torch.manual_seed,
    manual_seed_all=torch.manual_seed,
    get_rng_state=lambda *_: torch.get_rng_state(),
    set_rng_state=lambda state, *_: torch.set_rng_state(state),
)


@PlatformRegistry.register(platform="cpu")
class CPU(PlatformBase):
    device_name = vendor_name = "cpu"
    device_module = device_module
    set_device = synchronize = set_allocator_settings = empty_cache = profiler_start = profiler_stop = cudart = nothing

    def is_available(self):
        return True

    def current_device(self):
        return torch.device("cpu")

    def device_count(self):
        return 1

    def manual_seed(self, seed):
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def get_device_capability(self, device_index=0):
        return None, None

    def communication_backend_name(self):
        return "gloo"

    def visible_devices_envvar(self):
        return "CUDA_VISIBLE_DEVICES"

    def nvtx_range(self, msg):
        return contextlib.nullcontext()

    def ray_resource_name(self):
        return "GPU"

    def ray_noset_envvars(self):
        return []

    def is_ipc_supported(self):
        return False
