"""mlx-lm prompt caches: ``{layer}.0`` keys and ``{layer}.1`` values, ``[B, H, T, D]``.

A quantised layer has three tensors for each: ``{layer}.{0,1}.0`` packed words of 32 bits, ``.1`` scales and
``.2`` biases, all ``[B, H, T, *]``. Packed words are as they lie: the channel axis counts words, not
elements. Layers of both sorts stand side by side, and states that are no cache (three axes) stay opaque.
"""

from __future__ import annotations

import re

from kvzip.dumps.safetensors import TensorEntry
from kvzip.layouts.axes import Options, TensorLayout, axes, holds_floats

_NAMES = re.compile(r"(?P<layer>[0-9]{1,9})\.(?P<kind>[01])(?:\.(?P<part>[012]))?")
_KINDS = {"0": "key", "1": "value"}
_PARTS = {"1": "scale", "2": "bias"}


class Mlx:
    """mlx-lm's ``save_prompt_cache``, quantised or not."""

    id = "mlx"
    options: frozenset[str] = frozenset()

    def match(self, entry: TensorEntry, path: str, options: Options) -> TensorLayout | None:
        """A name of two or three numbers, four axes, and packed words exactly where they belong."""
        found = _NAMES.fullmatch(entry.name)
        if not found or len(entry.shape) != 4:
            return None
        packed = found["part"] == "0"
        if entry.dtype != "U32" if packed else not holds_floats(entry):
            return None
        kind = _PARTS.get(found["part"], _KINDS[found["kind"]])
        return TensorLayout(self.id, axes("batch head token channel", entry.shape), int(found["layer"]), kind)
