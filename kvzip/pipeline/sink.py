"""Where a member's bytes go: its digest, the report, and the file if there is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import xxhash

from kvzip.pipeline.options import Progress
from kvzip.pipeline.report import Report


@dataclass
class Sink:
    """Takes a member's bytes in order. ``packed`` says how much of the container is read."""

    out: BinaryIO | None
    report: Report
    progress: Progress | None
    packed: Callable[[], int]
    digest: Any = field(default_factory=xxhash.xxh3_128)

    def write(self, data: bytes | memoryview) -> None:
        """Take ``data``."""
        self.digest.update(data)
        if self.out is not None:
            self.out.write(data)
        self.report.source_bytes += len(data)
        if self.progress:
            self.progress(self.report.source_bytes, self.packed())
