"""LMCache's chunks, all layers in one tensor.

- ``kv_chunk`` (disk): ``[L, 2, T, H, D]``, or ``[L, 2, H, T, D]``; the longer of the two is the tokens, 256
  but in the last chunk.
- ``kvcache`` (GDS): ``[2, L, T, H*D]``, also ``[L, 2, T, H*D]``; the last axis is cut into heads (see
  ``axes.HEAD_DIMS``). ``[1, L, T, C]`` is the latent of MLA.
"""

from __future__ import annotations

from kvzip.dumps.safetensors import TensorEntry
from kvzip.layouts.axes import Options, TensorLayout, axes, holds_floats, split_heads, token_labels


class Lmcache:
    """LMCache's disk and GDS backends."""

    id = "lmcache"
    options = frozenset({"head_dim"})

    def match(self, entry: TensorEntry, path: str, options: Options) -> TensorLayout | None:
        """The two fixed names, each with its number of axes."""
        if not holds_floats(entry):
            return None
        shape = entry.shape
        if entry.name == "kv_chunk" and len(shape) == 5 and shape[1] == 2:
            inner = token_labels(shape[2], shape[3], usual="token head")
            return TensorLayout(self.id, axes(f"layer kind {inner} channel", shape), None, None)
        if entry.name == "kvcache" and len(shape) == 4:
            return self._match_gds(entry, options)
        return None

    def _match_gds(self, entry: TensorEntry, options: Options) -> TensorLayout | None:
        shape = entry.shape
        if 2 in shape[:2]:
            outer = "kind layer" if shape[0] == 2 else "layer kind"
            split = (*shape[:3], *split_heads(entry, shape[3], options))
            return TensorLayout(self.id, axes(f"{outer} token head channel", split), None, None)
        if shape[0] == 1:
            return TensorLayout(self.id, axes("batch layer token channel", shape), None, "latent")
        return None
