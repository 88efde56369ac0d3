"""The key-value cache of rows that begin and end at different times, as continuous sampling needs it.

Row i holds the keys and values of its own positions from column 0 on, without padding. So a new prompt takes the place
of an ended row at once, and a row never has more than its prompt and its limit. A decoding step writes one column of
each row and reads those up to the longest one; a mask leaves out what a row does not have.
"""

import itertools
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from diver.core.types import DiverError

ALIGNMENT = 16  # columns: what a GPU's attention kernels read is a multiple of it where the capacity allows
# On a CPU, the capacity grows by this many columns, or by an eighth if that is more. With a larger reserve, the rows
# lie far apart in memory and attention reads them half as fast. The eighth bounds how often a long cache is copied.
GROWTH = 32


class RowLayer(DynamicLayer):
    """Keys and values of one layer, [at least rows, heads, capacity, dim], written at the lengths of `cache`."""

    keys: Tensor
    values: Tensor

    def __init__(self, cache: "RowCache", keys: Tensor, values: Tensor) -> None:
        super().__init__()
        self.cache, self.is_initialized = cache, True
        self.keys, self.values = (x.new_empty(0, x.shape[1], 0, x.shape[3], dtype=cache.dtype) for x in (keys, values))

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        rows, lengths, width = self.cache.rows, self.cache.lengths, self.cache.width
        self.keys[rows, :, lengths] = key_states[:, :, 0].to(self.cache.dtype)
        self.values[rows, :, lengths] = value_states[:, :, 0].to(self.cache.dtype)
        return self.keys[: len(rows), :, :width], self.values[: len(rows), :, :width]

    def get_seq_length(self) -> int:
        return self.cache.width - 1


class RowCache(DynamicCache):
    """`lengths` int64 [rows] are the positions that each row has cached; `limit` is the most that one may have.

    On a CPU the capacity grows with what is used, up to `limit`: rows that end early cost no memory for their limit.
    """

    def __init__(self, model: Any, rows: int, limit: int) -> None:
        super().__init__()
        self.config, self.limit, self.width = model.config.get_text_config(), limit, 0
        # Under autocast the rotation leaves keys in float32, and a `DynamicCache` all it has.
        kind = model.device.type
        self.dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else model.dtype
        self.rows = torch.arange(rows, device=model.device)
        self.lengths = torch.zeros_like(self.rows)
        self.layers: list[Any] = []

    def reserve(self, columns: int) -> None:
        """Room for this many columns."""
        if columns <= self.layers[0].keys.shape[2]:
            return
        # On a GPU all at once: freed parts of other sizes would break its memory up.
        at_once = self.lengths.device.type != "cpu"
        capacity = self.limit if at_once else min(self.limit, columns + max(GROWTH, columns // 8))
        rows = len(self.lengths)
        for layer, name in itertools.product(self.layers, ("keys", "values")):
            old: Tensor = getattr(layer, name)[:rows]
            new = old.new_empty(rows, old.shape[1], capacity, old.shape[3])
            new[: len(old), :, : old.shape[2]] = old
            # A column without a token has no weight in the attention, but 0 times garbage may be NaN.
            new[len(old) :] = 0
            new[: len(old), :, old.shape[2] :] = 0
            setattr(layer, name, new)

    def write(self, rows: Tensor, prefill: Any, prompt: Tensor, lengths: Tensor) -> None:
        """Put prompt `prompt[i]` of a `DynamicCache`, which has `lengths[i]` positions, into row `rows[i]`."""
        if not self.layers:
            self.layers = [RowLayer(self, layer.keys, layer.values) for layer in prefill.layers]
        columns = int(lengths.max())
        self.reserve(columns)
        for own, filled in zip(self.layers, prefill.layers, strict=True):
            own.keys[rows, :, :columns] = filled.keys[prompt, :, :columns].to(self.dtype)
            own.values[rows, :, :columns] = filled.values[prompt, :, :columns].to(self.dtype)
        self.lengths[rows] = lengths

    def keep(self, rows: Tensor) -> None:
        """Row i becomes row `rows[i]`, which is i or beyond those that are kept; only the latter are copied."""
        moved = rows != self.rows[: len(rows)]
        columns = int(self.lengths.max())
        for layer in self.layers:
            for x in (layer.keys, layer.values):
                x[: len(rows), :, :columns][moved] = x[rows[moved], :, :columns]
        self.lengths, self.rows = self.lengths[rows], self.rows[: len(rows)]

    def masks(self, longest: int) -> Tensor | dict[str, Tensor]:
        """What each row attends to in a step that adds a column, `longest` being the longest row with it.

        In the form that the model's attention takes; layers of a sliding window have a mask of their own.
        """
        step = ALIGNMENT if self.lengths.device.type == "cuda" else 1
        self.width = min(-(-longest // step) * step, self.limit)
        self.reserve(self.width)
        self.lengths.clamp_(max=self.width - 1)  # a row that has ended may be longer
        column = torch.arange(self.width, device=self.lengths.device)
        last = self.lengths[:, None]
        seen = column <= last
        if "flash" in (self.config._attn_implementation or ""):
            return seen
        window, types = getattr(self.config, "sliding_window", None), getattr(self.config, "layer_types", None)
        masks = [seen]
        if window is not None and (not types or "sliding_attention" in types):
            masks.append(seen & (column > last - window))
        full, *sliding = (torch.where(mask, 0.0, -torch.inf).to(self.dtype)[:, None, None] for mask in masks)
        if not sliding:
            return full
        return {"full_attention": full, "sliding_attention": sliding[0]} if types else sliding[0]


def check_layers(model: Any) -> None:
    """DiverError if the model keeps anything between tokens but keys and values, or takes its masks in another form."""
    if model.config._attn_implementation == "flex_attention":
        raise DiverError(
            "model.attention 'flex_attention': its block masks are not supported; choose sdpa, "
            "eager or flash_attention_2"
        )
    layers = DynamicCache(config=model.config).layers
    if not all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers):
        raise DiverError(f"model type {model.config.model_type!r}: layers without a key-value cache are not supported")
    if "chunked_attention" in (getattr(model.config.get_text_config(), "layer_types", None) or ()):
        raise DiverError(f"model type {model.config.model_type!r}: chunked attention is not supported")
