"""Which extents of a dump are coded together, and which earlier ones their prediction uses."""

from __future__ import annotations

from dataclasses import dataclass

from kvzip.blocks.draft import UnitDraft
from kvzip.blocks.united import UnitShape, Values
from kvzip.container.unit import MOST_EXTENTS, can_join
from kvzip.linear.settings import Settings
from kvzip.streams.extent import Extent

STEP_BYTES = 1 << 20  # a block of a unit is about so large
STEP_TOKENS = 512  # or has so many tokens
PART_BYTES = 1 << 18  # the same where units wait for each other's blocks: a decoder's threads follow each other
PART_TOKENS = 256
FAR = 3  # layers further apart tell little of each other: a little, mixed; nothing, unmixed
MOST_KEPT_BYTES = 512 << 20  # units that later ones refer to, in memory at once


@dataclass
class PlannedUnit:
    """Extents ``first .. first + count - 1``; ``keep`` is how many units further on this one is used."""

    first: int
    count: int
    layer: int
    kinds: frozenset[str]
    tokens: int
    nbytes: int
    waits: bool = False  # whether it may be predicted from others
    keep: int = 0

    @property
    def step(self) -> int:
        """Tokens of a block."""
        nbytes, tokens = (PART_BYTES, PART_TOKENS) if self.waits else (STEP_BYTES, STEP_TOKENS)
        return max(tokens, min(1 << 14, self.tokens * nbytes // self.nbytes))


def plan_units(extents: tuple[Extent, ...], settings: Settings, alone: int | None = None) -> list[PlannedUnit]:
    """The units of a member, in file order; extents in none, and number ``alone``, are coded by themselves."""
    units: list[PlannedUnit] = []
    at = 0
    while at < len(extents):
        stop = at + 1
        if at == alone or not can_join(extents[at:stop]):
            at = stop
            continue
        while stop not in (len(extents), alone) and stop - at < MOST_EXTENTS and can_join(extents[at : stop + 1]):
            stop += 1
        joined = extents[at:stop]
        kinds = frozenset(kind for e in joined for kind in (("key", "value") if _has_kinds(e) else (e.kind,)))
        size = sum(e.nbytes for e in joined)
        waits = settings.most_base > 0
        units.append(PlannedUnit(at, stop - at, joined[0].layer, kinds, joined[0].tokens, size, waits))
        at = stop
    if settings.most_base:
        _keep_bases(units, settings)
    return units


def _has_kinds(extent: Extent) -> bool:
    return any(label == "kind" for label, _ in extent.axes)


def _keep_bases(units: list[PlannedUnit], settings: Settings) -> None:
    """Keep each unit as long as ``nearest`` will want it for a later one, memory allowing."""
    for number, unit in enumerate(units):
        earlier = [n for n in range(number) if units[n].tokens == unit.tokens]
        earlier.sort(key=lambda n: (_distance(units[n], unit), number - n))
        chosen = [n for n in earlier if _useful(units[n], unit, settings)][: settings.layers_back]
        for base in chosen:
            if _kept_bytes(units, base, number) <= MOST_KEPT_BYTES:
                units[base].keep = max(units[base].keep, number - base)


def _distance(base: PlannedUnit, unit: PlannedUnit) -> tuple[int, bool]:
    return abs(base.layer - unit.layer), base.layer > unit.layer


def _useful(base: PlannedUnit, unit: PlannedUnit, settings: Settings) -> bool:
    """Keys tell values of their own layer, a layer another of the same kinds; mixing takes out a useless one."""
    if base.layer == unit.layer:
        return True
    return (settings.two or abs(base.layer - unit.layer) <= FAR) and bool(base.kinds & unit.kinds)


def _kept_bytes(units: list[PlannedUnit], base: int, number: int) -> int:
    """The most that is held at once between ``base`` and ``number`` if ``base`` is kept so long."""
    most = 0
    for at in range(base, number + 1):
        held = [n for n in range(at) if n + units[n].keep >= at or n == base]
        most = max(most, sum(units[n].nbytes for n in held))
    return most


@dataclass
class KeptUnit:
    """A unit that was read or restored and that the ``keep`` next ones may refer to."""

    planned: PlannedUnit
    shape: UnitShape
    values: Values
    keep: int
    draft: UnitDraft | None = None


def nearest(kept: dict[int, KeptUnit], unit: PlannedUnit, settings: Settings) -> list[int]:
    """The numbers of the kept units that tell most of ``unit``, the nearest first."""
    if not settings.most_base:
        return []
    fitting = [n for n in kept if kept[n].planned.tokens == unit.tokens and _useful(kept[n].planned, unit, settings)]
    fitting.sort(key=lambda n: (_distance(kept[n].planned, unit), -n))
    return fitting[: settings.layers_back]


def forget(kept: dict[int, KeptUnit], number: int) -> None:
    """Drop what unit ``number`` and those after it will not refer to."""
    for old in [n for n in kept if n + kept[n].keep < number]:
        del kept[old]
