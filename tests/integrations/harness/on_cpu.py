"""How tests start TRL, verl and vLLM on this machine's CPU: the environment, and a command under the reaper."""

import os
import subprocess
import sys
from pathlib import Path

from reaper import reaped

HARNESS = Path(__file__).parent
TESTS = HARNESS.parents[1]  # own_methods.py
HANGS_S = 3600  # ends a command that hangs: a worker of vLLM that fails leaves verl waiting
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    # verl, see verl_cpu
    "VERL_USE_EXTERNAL_MODULES": "verl_cpu",
    "VERL_PLATFORM": "cpu",
    "VERL_ENGINE_DEVICE": "cuda",  # the key under which verl keeps FSDP
    "HYDRA_FULL_ERROR": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_raylet_start_wait_time_s": "300",  # its 60 seconds are short where tests run side by side
    "RAY_worker_niceness": "0",  # Ray's 15 leaves its workers a thirtieth of the time that a test beside them has
    # vLLM: in one process, nothing compiled (a minute of g++), a GB for keys and values, no address but this machine's
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_CPU_CI_ENV": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_NO_USAGE_STATS": "1",
}


def environment(**extra: str) -> dict[str, str]:
    path = [str(HARNESS), str(TESTS), os.environ.get("PYTHONPATH", "")]
    # This Python's commands come first, for a script that names `diver`.
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, **ENVIRONMENT, "PYTHONPATH": os.pathsep.join(filter(None, path)), "PATH": programs, **extra}


def start(words: list[str], folder: Path, log: str = "log", **extra: str) -> subprocess.Popen:
    """The command in `folder`, in the background; what it says goes to the file `log` there."""
    with open(folder / log, "wb") as file:
        return subprocess.Popen(reaped(words), stdout=file, stderr=file, env=environment(**extra), cwd=folder)


def kill(process: subprocess.Popen) -> None:
    """With -9, every process that came of it: what a machine that is switched off leaves behind."""
    process.terminate()
    process.wait()


def run(words: list[str], folder: Path, log: str = "log", **extra: str) -> str:
    """The command to its end; what it said. RuntimeError if its exit code is not 0."""
    process = start(words, folder, log, **extra)
    try:
        process.wait(HANGS_S)
    finally:
        kill(process)
    said = (folder / log).read_text(errors="replace")
    if process.returncode:
        raise RuntimeError(f"{words[0]} ended with {process.returncode}:\n{said[-6000:]}")
    return said
