"""What ``prior show`` tells of a prior file, of the builtin prior, or of the one that a container needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvzip.container import records
from kvzip.container.records import RecordReader, starts_container
from kvzip.container.shared import Shared, holds_prior
from kvzip.container.structures import RESIDUALS, Start
from kvzip.files import FileSource

if TYPE_CHECKING:
    from kvzip.predict.prior import Prior


@dataclass(frozen=True)
class Grid:
    """The rows for some types: for each class of predictions, from how many standard deviations away from 0 on it
    is, and the entropy of its symbols in bits."""

    types: list[str]
    trained: bool
    contexts: int
    starts: list[float]
    entropies: list[float]


@dataclass(frozen=True)
class Description:
    """What ``show`` tells: of a container it may be only which prior it needs."""

    file: str
    identity: str
    embedded: bool | None  # None if the file is no container
    name: str = ""
    nbytes: int | None = None
    grids: tuple[Grid, ...] = ()

    @property
    def types(self) -> str:
        """The types that the prior has rows of its own for."""
        return ", ".join(name for grid in self.grids if grid.trained for name in grid.types)

    def to_json(self) -> dict[str, Any]:
        """Stable keys for pipelines."""
        return {
            "file": self.file,
            "identity": self.identity,
            "embedded": self.embedded,
            "name": self.name or None,
            "bytes": self.nbytes,
            "grids": [
                {
                    "types": grid.types,
                    "trained": grid.trained,
                    "contexts": grid.contexts,
                    "classes": [
                        {"from_sigma": round(start, 6), "entropy": round(bits, 6)}
                        for start, bits in zip(grid.starts, grid.entropies, strict=True)
                    ],
                }
                for grid in self.grids
            ],
        }


def read(name: str) -> Description:
    """The prior of a file, be it a prior file or a container."""
    with FileSource(name) as source:
        if starts_container(source.file):
            return _of_container(source)
    from kvzip.pipeline.prior_file import read_prior

    return describe(read_prior(name), name)


def _of_container(source: FileSource) -> Description:
    reader = RecordReader(source.file, source.name)
    first = reader.next()
    if first.type != records.START:
        raise reader.damaged(first.offset, "should be the first one")
    start = Start.from_bytes(first.payload, source.name)
    if not start.needs:
        return builtin(source.name, False)
    record = reader.next()
    if record.type != records.SHARED or not holds_prior(record.payload):
        return Description(source.name, start.needs, False)
    known = Shared(needs=start.needs)
    known.add(record.payload, source.name)
    assert known.prior is not None
    return describe(known.prior, source.name, True)


def describe(prior: Prior, file: str, embedded: bool | None = None) -> Description:
    """A trained prior."""
    return Description(file, prior.identity, embedded, prior.name, len(prior.data), _grids(prior))


def builtin(file: str, embedded: bool | None = None) -> Description:
    """The shipped prior."""
    return Description(file, RESIDUALS, embedded, grids=_grids(None))


def _grids(prior: Prior | None) -> tuple[Grid, ...]:
    from kvzip.predict.prior import MANTISSAS, asset, class_starts, contexts_of, entropies, types_of

    return tuple(
        Grid(
            types_of(mantissa),
            prior is not None and mantissa in prior.rows,
            contexts_of(mantissa),
            class_starts(mantissa),
            entropies(prior.of(mantissa) if prior else asset()[mantissa], mantissa),
        )
        for mantissa in MANTISSAS
    )
