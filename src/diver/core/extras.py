"""The extras of the package: which of them brings what is missing, and the command that installs it."""

from importlib.util import find_spec

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
    "verl": ("verl", "transfer_queue", "ray", "tensordict", "omegaconf"),
}
"""By the names by which they are imported; `train`, `endpoint`, ... also bring verify,
report and data (pyproject.toml)."""
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
