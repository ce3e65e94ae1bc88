"""``prior train`` and ``prior show``."""

from __future__ import annotations

import json as json_module
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvzip.cli.sizes import human
from kvzip.cli.voice import Voice
from kvzip.container import records
from kvzip.container.records import RecordReader, starts_container
from kvzip.container.shared import Shared, holds_prior
from kvzip.container.structures import RESIDUALS, Start
from kvzip.files import FileSource, FileTarget, StreamTarget
from kvzip.files.faults import shown

if TYPE_CHECKING:
    from kvzip.predict.prior import Prior

BUILTIN = "builtin"


def train(
    inputs: Sequence[str],
    output: str,
    name: str | None,
    choices: dict[str, Any],
    *,
    force: bool,
    quiet: bool,
    verbose: bool,
    json: bool,
) -> None:
    """Train a prior on the inputs and write its file."""
    from kvzip.api import train_prior
    from kvzip.predict.prior import Prior

    voice = Voice(quiet, verbose)
    began = time.perf_counter()
    with _target(output, force, inputs) as target:
        voice.announce_compilation("compress")
        with voice.progress(shown(output), None) as progress:
            called = Path(output).stem if name is None else name
            data = train_prior(inputs, name=called, progress=progress, **choices)
        target.file.write(data)
        target.commit()
    voice.remember_compilation("compress")
    seconds = time.perf_counter() - began
    item = describe(Prior.from_bytes(data, output), output)
    if json:
        row = item.to_json() | {"command": "prior train", "seconds": round(seconds, 6)}
        print(json_module.dumps(row))
    line = f"{shown(output)}: {item.identity}, {human(len(data))}, for {item.types} in {seconds:.2f} s"
    voice.say(line, detail=True)
    if not json and not verbose:
        voice.say(line, only_terminal=True)


def _target(output: str, force: bool, inputs: Sequence[str]) -> AbstractContextManager[Any]:
    if output == "-":
        return StreamTarget(force=force, inputs=inputs)
    return FileTarget(output, force=force, inputs=inputs)


@dataclass(frozen=True)
class Grid:
    """The rows for some types: entropy in bits of a symbol for each class of predictions, and where they begin."""

    types: list[str]
    trained: bool
    contexts: int
    entropies: list[float]

    @property
    def starts(self) -> list[float]:
        """Where each class begins: how many standard deviations the prediction is away from 0."""
        return [0.0, *(2 ** ((k - 3) / 2) for k in range(1, len(self.entropies)))]


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


def show(name: str, *, json: bool) -> None:
    """Show a prior file, or what a container says of its prior."""
    item = _builtin(BUILTIN) if name == BUILTIN else _read(name)
    if json:
        print(json_module.dumps({"command": "prior show"} | item.to_json()))
        return
    from kvzip.cli.render import show_prior

    show_prior(item)


def _read(name: str) -> Description:
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
        return _builtin(source.name, False)
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


def _builtin(file: str, embedded: bool | None = None) -> Description:
    return Description(file, RESIDUALS, embedded, grids=_grids(None))


def _grids(prior: Prior | None) -> tuple[Grid, ...]:
    from kvzip.predict.prior import MANTISSAS, asset, contexts_of, entropies, types_of

    return tuple(
        Grid(
            types_of(mantissa),
            prior is not None and mantissa in prior.rows,
            contexts_of(mantissa),
            entropies(prior.of(mantissa) if prior else asset()[mantissa], mantissa),
        )
        for mantissa in MANTISSAS
    )
