"""The words in which a layout describes a tensor, and the questions that several layouts ask.

A layout sees names, types and shapes, never data. The rules for what a shape leaves open are here, in one
place:

- **Tokens or heads.** Of two axes that may be either, the longer one is the tokens: caches hold hundreds of
  tokens and seldom more than 64 heads. Equal axes are read in the producer's usual order.
- **Head dimension.** An axis that holds H * D channels is cut into heads of the first size in
  :data:`HEAD_DIMS` that divides it; see there for why.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Protocol

from kvzip.dtypes import DTYPES
from kvzip.dumps.safetensors import TensorEntry
from kvzip.errors import OptionError

HEAD_DIMS = (128, 64, 96, 80, 112, 120, 72, 48, 40, 32)
"""Head sizes in the order they are tried on H * D channels.

128 first, which Llama, Qwen, Mistral and Phi-4 have; 64 next, as in their small versions; the rest are for
widths that neither divides. Multiples of these (256 in Gemma, 192) cannot be told from more heads and are
cut. A wrong cut costs some ratio, never a bit, and the option ``head_dim`` overrides.
"""

Options = Mapping[str, int]


@dataclass(frozen=True)
class Axis:
    """One axis; ``label`` is batch, layer, kind, head, token or channel."""

    label: str
    size: int


@dataclass(frozen=True)
class TensorLayout:
    """How one tensor is laid out, as the layout with the id ``layout`` reads it.

    ``axes`` are in file order, outermost first; their sizes multiply to the number of elements. One is the
    token, one, the innermost, the channel; batch may occur several times. ``layer`` is None if it is an
    axis or unknown, and so is ``kind`` (key, value, latent, scale, bias). A kind axis has the key at 0 and
    the value at 1.
    """

    layout: str
    axes: tuple[Axis, ...]
    layer: int | None
    kind: str | None

    def size(self, label: str) -> int:
        """The size of the axis that is called so; 0 if there is none."""
        return next((axis.size for axis in self.axes if axis.label == label), 0)


class Layout(Protocol):
    """One producer's way of writing cache tensors."""

    @property
    def id(self) -> str:
        """The name for ``--layout``; it is never reused for another layout."""

    @property
    def options(self) -> frozenset[str]:
        """Names of the whole-number options that :meth:`match` understands."""

    def match(self, entry: TensorEntry, path: str, options: Options) -> TensorLayout | None:
        """Read one tensor that is not empty and has two axes or more; None if it is not of this layout.

        ``path`` is the file's, whose name may hold the layer.
        """


def axes(labels: str, sizes: tuple[int, ...]) -> tuple[Axis, ...]:
    """Axes from labels separated by spaces: ``axes("token channel", (48, 576))``."""
    return tuple(Axis(label, size) for label, size in zip(labels.split(), sizes, strict=True))


def holds_floats(entry: TensorEntry) -> bool:
    """Whether the elements are floats, or bytes: U8 is how several producers tag an fp8 cache."""
    return DTYPES[entry.dtype].is_float or entry.dtype == "U8"


def token_labels(first: int, second: int, usual: str) -> str:
    """Label two axes as "head token" or "token head"; ``usual`` decides between equal ones."""
    if first == second:
        return usual
    return "token head" if first > second else "head token"


def split_heads(entry: TensorEntry, width: int, options: Options) -> tuple[int, int]:
    """(H, D) of an axis that holds ``width`` channels; one head if no usual size divides it."""
    forced = options.get("head_dim")
    if forced is not None and width % forced:
        raise OptionError(f"head_dim {forced} does not divide {width} channels: tensor {entry.name!a}; use a divisor")
    dim = forced or next((dim for dim in HEAD_DIMS if width % dim == 0), width)
    return width // dim, dim


def layer_number(name: str, path: str) -> int | None:
    """The N of ``layers.N``, ``layer_N`` or ``layerN`` in a tensor's name, else in its file's."""
    found = _LAYER.search(name) or _LAYER.search(PurePath(path).name)
    return int(found[1]) if found else None


_LAYER = re.compile(r"(?:^|[^a-z])layers?[._]?([0-9]{1,9})(?![0-9])", re.IGNORECASE)
