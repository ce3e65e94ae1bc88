"""Some of the tensors that an input holds, as a safetensors dump of their own.

| N: 8 bytes | JSON, padded with spaces to a multiple of 8 | tensors, in the order of the input |
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import BinaryIO

from kvzip.dumps.safetensors import HEADER_SIZES, LENGTH_BYTES, header_bytes
from kvzip.errors import KvzipError, OptionError, meant
from kvzip.files.faults import shown
from kvzip.pipeline.tensors import Held, Tensors
from kvzip.streams import extent

KINDS = tuple(kind for kind in extent.KINDS if kind)
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


@dataclass(frozen=True)
class Wanted:
    """What of an input is wanted: tensors by name or pattern, of some layers, of some kinds; nothing said is all."""

    names: tuple[str, ...] = ()
    layers: tuple[tuple[int, int], ...] = ()  # from and to, both included
    kinds: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: Sequence[str] = (), layers: Sequence[str] = (), kinds: Sequence[str] = ()) -> Wanted:
        """From what a user writes: layers as ``3``, ``0-7`` or ``0-3,8``; OptionError for what is none."""
        spans = []
        for part in (part for text in layers for part in text.split(",")):
            found = _RANGE.fullmatch(part.strip())
            first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
            if first > last:
                raise OptionError(f"--layer {part}: must be a number or a range of them, like 3 or 0-7")
            spans.append((first, last))
        for kind in kinds:
            if kind not in KINDS:
                hint = meant(kind, KINDS, f"one of {', '.join(KINDS)}")
                raise OptionError(f"--kind {kind}: no such kind; {hint}")
        return cls(tuple(names), tuple(spans), tuple(kinds))

    def pick(self, tensors: Tensors) -> list[Held]:
        """The tensors that are wanted, in the input's order. KvzipError for a name or a layer that it lacks."""
        held = tensors.tensors
        found = [tensor for tensor in held if self._fits(tensor)]
        for name in self.names:
            if not any(_is_called(tensor, name) for tensor in held):
                raise KvzipError(f"{tensors.where}: has no tensor {shown(name)}; {_nearest(name, held)}")
        known = sorted({tensor.layer for tensor in held if tensor.layer is not None})
        for first, last in self.layers:
            if not any(first <= layer <= last for layer in known):
                span = str(first) if first == last else f"{first}-{last}"
                inside = any("layer" in tensor.labels for tensor in held)
                hint = (
                    "its layers are in one tensor: take that with --tensor" if inside and not known else _spans(known)
                )
                raise KvzipError(f"{tensors.where}: has no layer {span}; {hint}")
        if not found:
            raise KvzipError(f"{tensors.where}: has no tensor that is all of this; `kvzip list` shows what there is")
        return found

    def _fits(self, tensor: Held) -> bool:
        layer = tensor.layer
        return (
            (not self.names or any(_is_called(tensor, name) for name in self.names))
            and (not self.layers or any(layer is not None and a <= layer <= b for a, b in self.layers))
            and (not self.kinds or tensor.kind in self.kinds)
        )


def _is_called(tensor: Held, name: str) -> bool:
    """Whether a name or pattern is a tensor's, with its file's or without."""
    own = (tensor.entry.name, tensor.full_name)
    return name in own or any(fnmatchcase(one, name) for one in own)


def _nearest(name: str, held: list[Held]) -> str:
    names = [tensor.full_name for tensor in held]
    near = get_close_matches(name, [*names, *(tensor.entry.name for tensor in held)], 3, 0.5)
    if near:
        return f"did you mean {' or '.join(shown(one) for one in dict.fromkeys(near))}?"
    return "`kvzip list` shows the names"


def _spans(layers: list[int]) -> str:
    """What layers there are, as a hint."""
    if not layers:
        return "no tensor has a layer that is known; take them by name with --tensor"
    spans: list[list[int]] = []
    for layer in layers:
        if spans and spans[-1][1] == layer - 1:
            spans[-1][1] = layer
        else:
            spans.append([layer, layer])
    return "it has " + ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans[:8])


def header_of(found: list[Held], tensors: Tensors) -> bytes:
    """The header of a dump of these tensors, length field included.

    Names are kept; where files of a directory use the same ones they become ``member:name``. Metadata is that of the
    only file that tensors are from; of several files there is none.
    """
    repeated = Counter(tensor.entry.name for tensor in found).most_common(1)[0][1] > 1
    origins = {tensor.member for tensor in found}
    file = next(file.header for file in tensors.files if file.member in origins)
    metadata = file.metadata if len(origins) == 1 and file is not None else None
    named = ((tensor.full_name if repeated else tensor.entry.name, tensor) for tensor in found)
    header = header_bytes(((name, t.entry.dtype, t.entry.shape, t.nbytes) for name, t in named), metadata)
    length = len(header) - LENGTH_BYTES
    if length not in HEADER_SIZES:
        raise KvzipError(f"{tensors.where}: the header would have {length} bytes, too many; take fewer tensors")
    return header


def write_parts(
    found: list[Held], tensors: Tensors, out: BinaryIO, progress: Callable[[int, int], None] | None = None
) -> int:
    """Write these tensors as a dump, one in memory at a time; return its bytes."""
    head = header_of(found, tensors)
    out.write(head)
    done = len(head)
    for tensor in found:
        data = tensor.load()
        out.write(data)
        done += len(data)
        if progress:
            progress(done, done)
    return done
