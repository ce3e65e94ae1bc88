"""What a search tells on its way, and what it found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from kvzip.tuning.measure import Settings


@dataclass(frozen=True)
class Trial:
    """One measurement: ``what`` was changed at a level, and the size of the sample with it and at the defaults."""

    level: int
    what: str
    nbytes: int
    default_bytes: int
    sample_bytes: int

    @property
    def gain(self) -> float:
        """Share of the size that it saves."""
        return 1 - self.nbytes / max(1, self.default_bytes)


@dataclass(frozen=True)
class LevelFigures:
    """A level at its defaults on a sample; speeds are bytes of the dump a second."""

    level: int
    ratio: float
    compress_speed: float
    decompress_speed: float
    fast_enough: bool


@dataclass(frozen=True)
class Finding:
    """What a parameter alone is worth at the chosen level. ``near``: values that cost hardly more than the best.

    ``gain``: the share of the size that its best value saves, 0 if that is the default. ``acts``: whether it changes
    anything on this data. ``speed``: with the best value, of that with the default.
    """

    name: str
    default: str
    best: str
    gain: float
    bits_per_value: float
    near: tuple[str, ...]
    acts: bool = True
    speed: float = 1.0
    fast_enough: bool = True


@dataclass(frozen=True)
class Best:
    """The best so far, told whenever it changes."""

    level: int
    settings: Settings


Event = Trial | LevelFigures | Finding | Best
Watch = Callable[[Event], None]


@dataclass
class Tuning:
    """The settings that were found for some data, and what they do.

    ``settings``: options of ``compress`` beside ``level``; empty if the defaults are kept. Bytes are those of the
    check at the end, of ``checked_bytes`` of the data: with the level's defaults, with the settings, and with all
    defaults where the level was free. Speeds, bytes a second, are of a sample in memory.
    """

    level: int
    settings: Settings
    levels: list[LevelFigures] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    total_bytes: int = 0
    checked_bytes: int = 0
    checked_values: int = 0
    default_bytes: int = 0
    tuned_bytes: int = 0
    plain_bytes: int | None = None
    sample_gain: float = 0.0
    compress_speed: float = 0.0
    decompress_speed: float = 0.0
    usual_compress_speed: float = 0.0
    usual_decompress_speed: float = 0.0
    trials: int = 0
    seconds: float = 0.0
    complete: bool = True
    names: list[str] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, Any]:
        """Everything to give to ``compress``."""
        return {"level": self.level} | self.settings

    @property
    def gain(self) -> float:
        """Share of the size that the settings save against the level's defaults; never negative."""
        return 1 - self.tuned_bytes / max(1, self.default_bytes)

    @property
    def ratio(self) -> float:
        """Bytes of the dump for each byte of its container, as checked."""
        return self.checked_bytes / max(1, self.tuned_bytes)

    @property
    def whole(self) -> bool:
        """Whether the check was of all the data."""
        return self.checked_bytes == self.total_bytes

    def to_json(self) -> dict[str, Any]:
        """Stable keys for pipelines."""
        own = asdict(self)
        return own | {"gain": self.gain, "ratio": self.ratio, "whole": self.whole}
