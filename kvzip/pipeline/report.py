"""What a run did."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvzip.blocks.codec import Chain
from kvzip.streams.extent import Extent
from kvzip.streams.plan import Block


@dataclass
class ChainRecord:
    """What a finished chain leaves behind for the statistics."""

    member: int
    number: int  # of the extent in its member
    extent: Extent
    block: Block
    chain: Chain


@dataclass
class Report:
    """What a run did: bytes of the source, bytes of the container; chains if they were asked for."""

    source_bytes: int = 0
    container_bytes: int = 0
    members: int = 0
    chains: list[ChainRecord] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Source bytes per container byte."""
        return self.source_bytes / max(1, self.container_bytes)
