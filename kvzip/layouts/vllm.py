"""vLLM's Example/SharedStorageConnector: one file per layer, one tensor ``kv_cache`` with both kinds.

- ``[2, T, H*D]``: the two kinds one after the other; the last axis is cut into heads (see
  ``axes.HEAD_DIMS``).
- ``[2, T, H, D]``: the same with heads kept apart.
- ``[T, H, 2*D]``: newest; each head's key, then its value, on the last axis.

A first axis of 2 always means the kinds: T is a multiple of the block size, so it is never 2. The layer
stands in the file's name, ``model.layers.3.self_attn.attn.safetensors``.
"""

from __future__ import annotations

from kvzip.dumps.safetensors import TensorEntry
from kvzip.layouts.axes import Axis, Options, TensorLayout, axes, holds_floats, layer_number, split_heads


class Vllm:
    """vLLM's connectors that write safetensors."""

    id = "vllm"
    options = frozenset({"head_dim"})

    def match(self, entry: TensorEntry, path: str, options: Options) -> TensorLayout | None:
        """``kv_cache``, alone or at the end of a dotted name."""
        if entry.name.rpartition(".")[2] != "kv_cache" or not holds_floats(entry):
            return None
        found = _read_shape(entry, options)
        if found is None:
            return None
        return TensorLayout(self.id, found, layer_number(entry.name, path), None)


def _read_shape(entry: TensorEntry, options: Options) -> tuple[Axis, ...] | None:
    shape = entry.shape
    if len(shape) == 4 and shape[0] == 2:
        return axes("kind token head channel", shape)
    if len(shape) != 3:
        return None
    if shape[0] == 2:
        return axes("kind token head channel", (*shape[:2], *split_heads(entry, shape[2], options)))
    if shape[2] % 2:
        return None
    return axes("token head kind channel", (*shape[:2], 2, shape[2] // 2))
