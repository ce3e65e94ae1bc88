"""Which layouts there are, in the order they are tried, and the choice between them.

A new layout is one file and one line in :data:`LAYOUTS`. Each tensor is matched on its own, so a file may mix
layouts; a tensor that none knows is left out and stays opaque.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvzip.dumps.safetensors import TensorEntry
from kvzip.errors import OptionError, meant
from kvzip.layouts.axes import Axis, Layout, Options, TensorLayout
from kvzip.layouts.generic import Generic
from kvzip.layouts.huggingface import HuggingFace
from kvzip.layouts.lmcache import Lmcache
from kvzip.layouts.mla import Mla
from kvzip.layouts.mlx import Mlx
from kvzip.layouts.omlx import Omlx
from kvzip.layouts.research import Research
from kvzip.layouts.vllm import Vllm

__all__ = ["LAYOUTS", "OPAQUE", "Axis", "Layout", "TensorLayout", "recognise"]

OPAQUE = "opaque"
"""The id that forces every tensor to be taken as bytes."""

_NUMBER = re.compile("[1-9][0-9]{0,8}")
_LONGEST_NAME = 1000  # no producer comes near; bounds the time that matching a hostile name takes

# mla before vllm, whose names it shares; generic last, as it takes whatever is left.
_ORDER: tuple[Layout, ...] = (
    HuggingFace(),
    Mlx(),
    Mla(),
    Vllm(),
    Lmcache(),
    Omlx(),
    Research(),
    Generic(),
)

LAYOUTS: dict[str, Layout] = {layout.id: layout for layout in _ORDER}


def recognise(entries: Sequence[TensorEntry], path: str, layout: str | None = None) -> dict[str, TensorLayout]:
    """The layout of each tensor that has one, by name; ``path`` is the file's, whose name may hold the layer.

    ``layout`` limits the choice to one: an id of :data:`LAYOUTS`, options after a colon
    (``vllm:head_dim=64``), or ``opaque``. :class:`OptionError` if there is no such layout or option.
    """
    candidates, options = (tuple(LAYOUTS.values()), {}) if layout is None else _parse(layout)
    found: dict[str, TensorLayout] = {}
    for entry in entries:
        if len(entry.shape) < 2 or entry.start == entry.stop or len(entry.name) > _LONGEST_NAME:
            continue
        for candidate in candidates:
            if match := candidate.match(entry, path, options):
                found[entry.name] = match
                break
    return found


def _parse(text: str) -> tuple[tuple[Layout, ...], Options]:
    """``id`` or ``id:option=number,...`` as a layout and its options."""
    name, _, tail = text.partition(":")
    if text == OPAQUE:
        return (), {}
    if name not in LAYOUTS:
        known = (*LAYOUTS, OPAQUE)
        hint = meant(name, known, f"choose one of {', '.join(known)}")
        raise OptionError(f"unknown layout: {name!a}; {hint}")
    layout = LAYOUTS[name]
    options: dict[str, int] = {}
    for item in tail.split(",") if tail else ():
        key, _, number = item.partition("=")
        if key not in layout.options:
            hint = meant(key, layout.options, f"it knows {', '.join(sorted(layout.options)) or 'none'}")
            raise OptionError(f"unknown option of layout {name}: {key!a}; {hint}")
        if not _NUMBER.fullmatch(number):
            raise OptionError(f"no whole number above 0: layout option {item!a}; write {name}:{key}=64")
        options[key] = int(number)
    return (layout,), options
