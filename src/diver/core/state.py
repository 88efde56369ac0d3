"""What a method keeps from step to step (`State`), in the folder of a checkpoint:
JSON, and its arrays in a file beside it."""

from pathlib import Path
from typing import Any

import numpy as np

from diver.core.files import write_parts, write_text
from diver.core.jsonl import read_json, to_json
from diver.core.types import DiverError, State

STATE, ARRAYS = "method.json", "method.bin"
"""The values; and the arrays, int32, one after another."""


def write_state(path: Path, state: State) -> None:
    """Write the state into the folder `path`."""
    values, arrays = without_arrays(state)
    if arrays:
        write_parts(path / ARRAYS, (np.ascontiguousarray(array, "<i4").tobytes() for array in arrays))
    write_text(path / STATE, to_json(values))


def without_arrays(state: State) -> tuple[State, list[np.ndarray]]:
    """The state with {ARRAYS: length} in the place of each array, and the arrays in order."""
    arrays: list[np.ndarray] = []

    def replaced(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays.append(value)
            return {ARRAYS: len(value)}
        return {key: replaced(v) for key, v in value.items()} if isinstance(value, dict) else value

    return replaced(state), arrays


def read_state(path: Path) -> State:
    """The state in the folder `path`; empty where the method had kept nothing."""
    if not (path / STATE).is_file():
        return {}
    found = np.fromfile(path / ARRAYS, "<i4") if (path / ARRAYS).is_file() else np.empty(0, np.int32)
    start = 0

    def restored(value: Any) -> Any:
        nonlocal start
        if isinstance(value, dict) and value.keys() == {ARRAYS}:
            start += value[ARRAYS]
            return found[start - value[ARRAYS] : start].copy()  # a view would keep all of them in memory
        return {key: restored(v) for key, v in value.items()} if isinstance(value, dict) else value

    state = dict(restored(read_json(path / STATE)))
    if start != len(found):
        raise DiverError(f"{path / ARRAYS}: has {len(found)} values where {STATE} has {start}; delete this checkpoint")
    return state
