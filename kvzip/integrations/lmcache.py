"""A serde for LMCache, ``kvzip``: chunks on their way to the second tier become containers, and come back bit by bit.

    import kvzip.integrations.lmcache                       # registers it
    {"type": "fs", "base_path": "/cache", "serde": {"type": "kvzip", "level": 3}}

A serialized chunk is the container's length, 8 bytes, little-endian, and the container: buffers may be longer than
what is in them. Chunks of ``[2, layers, tokens, heads * channels]`` are described as the keys and values of layers,
which they are byte for byte, so that layers are predicted from each other at levels 7 to 9.

Written against ``lmcache.v1.distributed.serde`` of LMCache 0.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from lmcache.v1.distributed.serde import AsyncSerdeProcessor, Deserializer, Serializer, register_serde_factory

from kvzip.api_buffers import bound, compress_into, decompress_into, decompressed_size
from kvzip.dtypes import DTYPES
from kvzip.dumps.safetensors import header_bytes
from kvzip.errors import ContainerError, OptionError
from kvzip.integrations.bits import BY_NUMPY
from kvzip.layouts.axes import HEAD_DIMS

if TYPE_CHECKING:
    from lmcache.v1.distributed.api import MemoryLayoutDesc, ObjectKey
    from lmcache.v1.distributed.serde import SerdeProcessor
    from lmcache.v1.memory_management import MemoryObj

LENGTH_BYTES = 8
NAME = "kvzip"
Group = tuple[tuple[int, ...], str]
"""Shape and element type, by safetensors' name, of one of a chunk's tensors."""


class KvzipSerializer(Serializer):  # type: ignore[misc]
    """level: 1 to 9; threads: of one chunk; head_dim: channels of a head, guessed if it is 0."""

    def __init__(self, level: int = 3, threads: int = 1, head_dim: int = 0) -> None:
        self.level, self.threads, self.head_dim = level, threads, head_dim

    def serialize(self, src: MemoryObj, dst: MemoryObj, key: ObjectKey) -> int:
        """Compress a chunk into ``dst``; return the bytes that this takes."""
        header = self._header(_groups(src.get_shapes(), src.get_dtypes()))
        data = memoryview(src.byte_array).cast("B")
        dump = bytearray(header)
        dump += data
        out = memoryview(dst.byte_array).cast("B")
        size = compress_into(dump, out[LENGTH_BYTES:], level=self.level, threads=self.threads)
        out[:LENGTH_BYTES] = size.to_bytes(LENGTH_BYTES, "little")
        return LENGTH_BYTES + size

    def estimate_serialized_size(self, layout_desc: MemoryLayoutDesc) -> int:
        """The most that a chunk of this layout can take."""
        groups = _groups(layout_desc.shapes, layout_desc.dtypes)
        data = sum(prod(shape) * DTYPES[dtype].container_bytes for shape, dtype in groups)
        return LENGTH_BYTES + bound(len(self._header(groups)) + data)

    def _header(self, groups: Sequence[Group]) -> bytes:
        """The header of a dump whose data is the chunk's bytes."""
        tensors: list[tuple[str, str, tuple[int, ...], int]] = []
        layers = 0
        for number, (shape, dtype) in enumerate(groups):
            size = DTYPES[dtype].container_bytes
            if len(shape) == 4 and shape[0] == 2:
                dim = self.head_dim or next((dim for dim in HEAD_DIMS if shape[3] % dim == 0), shape[3])
                if shape[3] % dim:
                    raise OptionError(f"head_dim {dim} does not divide {shape[3]} channels; use a divisor")
                part = (shape[2], shape[3] // dim, dim)
                for kind in "KV":
                    for layer in range(layers, layers + shape[1]):
                        tensors.append((f"{kind}_layer{layer}", dtype, part, prod(part) * size))
                layers += shape[1]
            else:
                tensors.append(
                    ("kvcache" if len(groups) == 1 else f"group.{number}", dtype, shape, prod(shape) * size)
                )
        return header_bytes(tensors)


class KvzipDeserializer(Deserializer):  # type: ignore[misc]
    """threads: of one chunk."""

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads

    def deserialize(self, src: MemoryObj, dst: MemoryObj, key: ObjectKey) -> None:
        """Restore a chunk into ``dst``. ContainerError if it is damaged, or not as large as ``dst``."""
        data = memoryview(src.byte_array).cast("B")
        size = int.from_bytes(data[:LENGTH_BYTES], "little")
        if size > len(data) - LENGTH_BYTES:
            raise ContainerError("chunk: is cut short, or none that kvzip made; it must be computed again")
        container = data[LENGTH_BYTES : LENGTH_BYTES + size]
        out = memoryview(dst.byte_array).cast("B")
        dump = bytearray(decompressed_size(container))
        decompress_into(container, dump, threads=self.threads)
        start = LENGTH_BYTES + int.from_bytes(dump[:LENGTH_BYTES], "little")
        if len(dump) - start != len(out):
            raise ContainerError(
                f"chunk: has {len(dump) - start} bytes where {len(out)} are wanted; it is another one"
            )
        out[:] = memoryview(dump)[start:]


def _groups(shapes: Sequence[Any], dtypes: Sequence[Any]) -> list[Group]:
    """What a chunk holds. OptionError for element types that have no name in safetensors."""
    out = []
    for shape, dtype in zip(shapes, dtypes, strict=True):
        name = str(dtype).rpartition(".")[2]
        if name not in BY_NUMPY:
            raise OptionError(f"a chunk of {dtype}: no element type that kvzip knows")
        out.append((tuple(int(size) for size in shape), "U8" if name == "uint8" else BY_NUMPY[name]))
    return out


def create(options: dict[str, Any]) -> SerdeProcessor:
    """The processor for a configuration: level, threads, head_dim, and max_workers, how many chunks at once."""
    known = {"level": 3, "threads": 1, "head_dim": 0, "max_workers": 1}
    if unknown := set(options) - set(known):
        raise OptionError(f"serde kvzip: no option {min(unknown)}; it takes {', '.join(known)}")
    chosen = {name: int(options.get(name, default)) for name, default in known.items()}
    workers, threads = chosen.pop("max_workers"), chosen["threads"]
    return AsyncSerdeProcessor(KvzipSerializer(**chosen), KvzipDeserializer(threads), max_workers=workers)


register_serde_factory(NAME, create)
