"""Which commands need more than the core."""

from __future__ import annotations

from importlib.util import find_spec

from diver.types import DiverError


def need_torch(purpose: str) -> None:
    """Raises DiverError, with the way to install them, where torch or transformers is missing."""
    missing = [name for name in ("torch", "transformers") if find_spec(name) is None]
    if missing:
        raise DiverError(
            f"{' and '.join(missing)}: not installed, but {purpose} needs them: pip install 'diver-rl[train]'"
        )
