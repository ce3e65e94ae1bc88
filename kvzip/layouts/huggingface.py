"""Tensors of a Hugging Face transformers cache: ``[B, H, T, D]`` or ``[H, T, D]``, one per layer and kind.

The order of the axes is the library's own and is not guessed. ``K_layer3`` is read here only with four axes;
with three it is a research dump.
"""

from __future__ import annotations

import re

from kvzip.dumps.safetensors import TensorEntry
from kvzip.layouts.axes import Options, TensorLayout, axes, holds_floats

_KIND = r"(?P<kind>key|value|k|v)(?:s|_cache|_states)?"
_LAYER = r"(?P<layer>[0-9]{1,9})"
_BY_LAYER = (  # any prefix; at most three words between the layer and the kind, so that matching stays linear
    re.compile(rf"(?:^|\.)layers?\.{_LAYER}\.(?:\w+\.){{0,3}}{_KIND}\Z", re.IGNORECASE),
    re.compile(rf"(?:^|\.){_KIND}\.{_LAYER}\Z", re.IGNORECASE),
    re.compile(rf"(?:^|\.)past_key_values?\.{_LAYER}\.(?:decoder\.)?(?P<kind>key|value|0|1)s?\Z"),
)
_BATCHED = re.compile(rf"(?:^|\.)(?P<kind>key|value|k|v)_layer_?{_LAYER}\Z", re.IGNORECASE)
_SHAPES = {3: "head token channel", 4: "batch head token channel"}


class HuggingFace:
    """A transformers cache, saved tensor by tensor."""

    id = "huggingface"
    options: frozenset[str] = frozenset()

    def match(self, entry: TensorEntry, path: str, options: Options) -> TensorLayout | None:
        """A name with layer and kind, and three or four axes."""
        labels = _SHAPES.get(len(entry.shape))
        if labels is None or not holds_floats(entry):
            return None
        names = _BY_LAYER if len(entry.shape) == 3 else (*_BY_LAYER, _BATCHED)
        found = next((match for pattern in names if (match := pattern.search(entry.name))), None)
        if found is None:
            return None
        kind = "key" if found["kind"][0] in "kK0" else "value"
        return TensorLayout(self.id, axes(labels, entry.shape), int(found["layer"]), kind)
