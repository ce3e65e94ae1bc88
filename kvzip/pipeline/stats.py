"""Statistics of a dump or a container: what every stream costs, why, and what its windows did.

Bits of a stream are its share of its blocks' payloads: the code length of its symbols, its raw bits, and an equal
share of what its chain spent on lane states, classes and priors ("side"). Headers, framing and index are the file's.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from kvzip.blocks.course import Course
from kvzip.blocks.tally import COUNTERS, TRIGGERS
from kvzip.container.structures import Start
from kvzip.pipeline.report import ChainRecord, Report


@dataclass
class StreamStats:
    """One stream: (member, extent) say where, layer, kind and head say which; bits are of the container."""

    member: int
    extent: int
    layer: int
    kind: str
    head: int
    dtype: str
    values: int
    source_bits: int
    bits: float
    entropy: dict[str, float]  # order-0, bits per value of sign, exponent, mantissa
    spent: dict[str, float]  # bits per value of each plane, and "side"
    updates: dict[str, int]  # by trigger
    rebuilds: int
    resets: int
    escapes: int
    drafted: int = 0  # values that the draft reached
    exact: int = 0  # values that it had
    course: Course | None = None  # if it was asked for

    @property
    def bits_per_value(self) -> float:
        """What a value takes in the container."""
        return self.bits / max(1, self.values)

    def to_json(self) -> dict[str, Any]:
        """Stable keys for pipelines."""
        own = {name: value for name, value in vars(self).items() if name != "course"}
        return own | {"bits_per_value": self.bits_per_value}


@dataclass
class Totals:
    """Streams added up."""

    values: int = 0
    source_bits: int = 0
    bits: float = 0.0
    entropy: dict[str, float] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    updates: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TRIGGERS, 0))
    rebuilds: int = 0
    resets: int = 0
    escapes: int = 0
    drafted: int = 0
    exact: int = 0

    @property
    def bits_per_value(self) -> float:
        """What a value takes in the container."""
        return self.bits / max(1, self.values)

    @property
    def ratio(self) -> float:
        """Source bits per container bit."""
        return self.source_bits / max(1.0, self.bits)

    @classmethod
    def of(cls, streams: Iterable[StreamStats | Totals]) -> Totals:
        """Add streams up, or totals of some; entropies and spending are averaged over their values."""
        out = cls()
        for stream in streams:
            out.values += stream.values
            out.source_bits += stream.source_bits
            out.bits += stream.bits
            for into, what in ((out.entropy, stream.entropy), (out.spent, stream.spent)):
                for name, bits in what.items():
                    into[name] = into.get(name, 0.0) + bits * stream.values
            for name, count in stream.updates.items():
                out.updates[name] += count
            out.rebuilds += stream.rebuilds
            out.resets += stream.resets
            out.escapes += stream.escapes
            out.drafted += stream.drafted
            out.exact += stream.exact
        for sums in (out.entropy, out.spent):
            for name in sums:
                sums[name] /= max(1, out.values)
        return out

    def to_json(self) -> dict[str, Any]:
        """Stable keys for pipelines."""
        return asdict(self) | {"bits_per_value": self.bits_per_value, "ratio": self.ratio}


@dataclass
class Stats:
    """Everything about one file: sizes in bytes, parameters, streams in file order."""

    name: str
    source_bytes: int
    container_bytes: int
    level: int
    parameters: dict[str, float]
    seconds: float
    was_container: bool
    members: int
    streams: list[StreamStats]
    draft: str = ""  # what it is predicted from
    undrafted_bytes: int | None = None  # what the container would take without the draft, if that was measured

    @property
    def ratio(self) -> float:
        """Source bytes per container byte."""
        return self.source_bytes / max(1, self.container_bytes)

    @property
    def total(self) -> Totals:
        """All streams together."""
        return Totals.of(self.streams)

    @property
    def kinds(self) -> dict[str, Totals]:
        """Totals of keys, values and whatever else there is, by kind; "" is data that no layout knows."""
        kinds = sorted({stream.kind for stream in self.streams}, key=lambda kind: (kind == "", kind))
        return {kind: Totals.of(s for s in self.streams if s.kind == kind) for kind in kinds}

    @property
    def layers(self) -> dict[tuple[int, str], Totals]:
        """Totals by (layer, kind); layer -1 where there is none."""
        groups: dict[tuple[int, str], list[StreamStats]] = {}
        for stream in self.streams:
            groups.setdefault((stream.layer, stream.kind), []).append(stream)
        return {key: Totals.of(groups[key]) for key in sorted(groups)}

    def to_json(self) -> dict[str, Any]:
        """Stable keys for pipelines; sizes in bytes, rates in bytes per second."""
        return {
            "name": self.name,
            "source_bytes": self.source_bytes,
            "container_bytes": self.container_bytes,
            "ratio": self.ratio,
            "level": self.level,
            "parameters": self.parameters,
            "direction": "decompress" if self.was_container else "compress",
            "seconds": self.seconds,
            "bytes_per_second": self.source_bytes / max(1e-9, self.seconds),
            "draft": self.draft or None,
            "undrafted_bytes": self.undrafted_bytes,
            "total": self.total.to_json(),
            "kinds": {kind or "opaque": totals.to_json() for kind, totals in self.kinds.items()},
            "layers": [
                {"layer": layer, "kind": kind or "opaque"} | totals.to_json()
                for (layer, kind), totals in self.layers.items()
            ],
            "streams": [s.to_json() for s in self.streams],
        }


def summarise(name: str, report: Report, start: Start, began: float, was_container: bool) -> Stats:
    """Statistics of an observed run that began at ``time.perf_counter()`` == ``began``."""
    streams = [stream for record in report.chains for stream in _streams(record)]
    seconds = time.perf_counter() - began
    shown = start.parameters.shown()
    sizes = (report.source_bytes, report.container_bytes)
    return Stats(name, *sizes, start.level, shown, seconds, was_container, report.members, streams)


def _streams(record: ChainRecord) -> Iterable[StreamStats]:
    """The streams of a finished chain."""
    tally = record.chain.finish()
    count = len(tally.parts)
    planes = [_plane_name(plane.fields, record.extent.dtype.is_float) for plane in record.chain.planar.planes]
    exact = {
        number: [float(row[COUNTERS.index("length")]) / 256 for row in counters]
        for number, counters in tally.windows.items()
    }
    known = sum(map(sum, exact.values())) + 8 * tally.stored
    known += sum(float(bits.sum()) for bits in tally.spent.values())
    known += sum(symbols * record.chain.planar.planes[number].width for number, symbols in tally.raw.items())
    side = (8 * tally.payload - known) / max(1, count)
    for at, part in enumerate(tally.parts):
        name = None if record.extent.opaque else record.extent.stream_name(record.block.names[at])
        reached, had = tally.drafted[at].tolist() if tally.drafted is not None else (0, 0)
        bits = {"side": side, "stored": 8 * tally.stored / count}
        for number, label in enumerate(planes):
            own = exact[number][at] if number in exact else 0.0
            own += tally.raw.get(number, 0) * record.chain.planar.planes[number].width / count
            bits[label] = bits.get(label, 0.0) + own
        for label, spent in tally.spent.items():
            bits[label] = bits.get(label, 0.0) + float(spent[at])
        rows = [counters[at] for counters in tally.windows.values()]
        total = {name: int(sum(row[i] for row in rows)) for i, name in enumerate(COUNTERS)}
        yield StreamStats(
            record.member,
            record.number,
            name.layer if name else -1,
            name.kind if name else "",
            name.head if name else 0,
            record.extent.dtype.name,
            part.values,
            part.values * 8 * record.extent.itemsize,
            sum(bits.values()),
            part.entropies(),
            {label: value / max(1, part.values) for label, value in bits.items() if value},
            {trigger: total[trigger] for trigger in TRIGGERS},
            total["rebuilds"],
            total["resets"],
            total["escapes"],
            reached,
            had,
            tally.courses.of(at) if tally.courses is not None else None,
        )


def _plane_name(fields: Any, is_float: bool) -> str:
    """What a plane holds: exponent, sign, mantissa, joined by + where it holds several."""
    if not is_float:
        return "bytes"
    held = [("exponent", fields.exponent), ("sign", fields.sign), ("mantissa", fields.rest)]
    return "+".join(name for name, width in held if width)
