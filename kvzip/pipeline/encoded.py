"""A coded block on its way into the container."""

from __future__ import annotations

from dataclasses import dataclass

from kvzip.container.structures import BlockHead
from kvzip.container.unit import Unit
from kvzip.container.writer import ContainerWriter


@dataclass(frozen=True)
class Encoded:
    """A block of ``nbytes`` of values. Records ``before`` it go first: they keep their place among the blocks
    whatever the number of threads. ``unit`` is the unit that it is of, if any."""

    head: BlockHead
    payload: bytes
    nbytes: int
    before: tuple[bytes, ...] = ()
    unit: Unit | None = None

    def write(self, writer: ContainerWriter) -> None:
        """Append the records."""
        for payload in self.before:
            writer.shared(payload)
        if self.unit is not None and self.head.number == 0:
            writer.unit(self.unit)
        writer.block(self.head, self.payload, self.unit is not None)
