"""Every number that steers the estimator: its range, its fixed-point unit, what a level and a preset set it to.

A container stores the integers of ``Parameters`` in the order of ``SETTINGS``; nothing that encoder and decoder must
agree on lives anywhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING

from kvzip.errors import OptionError, UnsupportedError, meant
from kvzip.wire import Cursor, put_varint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Setting:
    """One parameter: ``scale`` turns the user's number into the stored integer; the range is in user's numbers."""

    name: str
    scale: int
    low: float
    high: float
    what: str
    zero_is_off: bool = False

    def store(self, value: float) -> int:
        """The stored integer for ``value``, or an OptionError that states the range."""
        off = self.zero_is_off and value == 0
        if not (off or self.low <= value <= self.high) or (self.scale == 1 and value != int(value)):
            zero = "0 (off) or " if self.zero_is_off else ""
            kind = "a whole number " if self.scale == 1 else ""
            option = "--" + self.name.replace("_", "-")
            raise OptionError(f"{option} {value:g}: must be {zero}{kind}from {self.low:g} to {self.high:g}")
        return round(value * self.scale)

    def check(self, stored: int) -> bool:
        """Whether a stored integer is in range."""
        off = self.zero_is_off and stored == 0
        return off or self.low * self.scale - 0.5 <= stored <= self.high * self.scale + 0.5


SETTINGS = (
    Setting("alpha", 65536, 0.5, 1.0, "what a count keeps from one token to the next"),
    Setting("beta", 65536, 0.0, 0.999, "what a probability keeps at an update"),
    Setting("theta_low", 65536, 0.0, 0.5, "update when a symbol was less likely than this; 0 never"),
    Setting("theta_new", 65536, 0.0, 0.999, "update when this share of symbols was unknown; 0 never"),
    Setting("n_update", 1, 1, 65536, "update after this many tokens"),
    Setting("warmup", 1, 0, 65535, "tokens coded by the prior alone before the first update"),
    Setting("drift", 256, 1.01, 16.0, "reset when recent code length passes this times the usual one", True),
    Setting("drift_keep", 256, 0.0, 1.0, "what counts keep at a reset; the rest comes from the prior"),
    Setting("sampling", 1, 0, 6, "of long streams every 2^n-th token is counted"),
    Setting("table_bits", 1, 10, 14, "frequencies of a table sum to two to this power"),
    Setting("classes", 1, 1, 16, "windows of a stream, each for a class of channels: 1, 2, 4, 8 or 16"),
    Setting("prior_weight", 1, 0, 4096, "weight of the prior in tokens; 0 starts empty"),
    Setting("symbol_bits", 1, 8, 16, "bits of a value that are modelled; 0 takes exponent and sign", True),
)
BY_NAME = {setting.name: setting for setting in SETTINGS}


@dataclass(frozen=True)
class Parameters:
    """The stored integers, one for each of SETTINGS, in its order and units. Build them with ``of`` or a level."""

    alpha: int = 65536
    beta: int = 0
    theta_low: int = 0
    theta_new: int = 0
    n_update: int = 256
    warmup: int = 0
    drift: int = 0
    drift_keep: int = 64
    sampling: int = 3
    table_bits: int = 12
    classes: int = 4
    prior_weight: int = 64
    symbol_bits: int = 0

    def of(self, **values: float | None) -> Parameters:
        """A copy with the user's numbers in; None leaves a parameter as it is."""
        for name in values:
            if name not in BY_NAME:
                hint = meant(name, BY_NAME, f"known are {', '.join(BY_NAME)}")
                raise OptionError(f"unknown option {name!r}; {hint}")
        stored = {name: BY_NAME[name].store(value) for name, value in values.items() if value is not None}
        changed = replace(self, **stored)
        if changed.classes & (changed.classes - 1):
            raise OptionError(f"--classes {changed.classes}: must be 1, 2, 4, 8 or 16")
        return changed

    def shown(self) -> dict[str, float]:
        """The user's numbers by name."""
        return {s.name: round(getattr(self, s.name) / s.scale, 6) for s in SETTINGS}

    @cached_property
    def vector(self) -> NDArray[np.int64]:
        """What the coding loop reads, not to be written to; the slots are named in ``windows.triggers``."""
        import numpy as np  # not at the top: commands that code nothing start faster without

        return np.array(
            [
                (1 << 32) // self.alpha,
                self.beta,
                self.theta_low,
                self.theta_new,
                self.n_update,
                self.warmup,
                self.drift,
                self.drift_keep,
                self.sampling,
                self.table_bits,
            ],
            np.int64,
        )

    def write_to(self, out: bytearray) -> None:
        """Append the count of parameters and each as a varint."""
        put_varint(out, len(SETTINGS))
        for setting in SETTINGS:
            put_varint(out, getattr(self, setting.name))

    @classmethod
    def read_from(cls, cursor: Cursor) -> Parameters:
        """Read and check what ``write_to`` wrote."""
        count = cursor.varint(1 << 10)
        if count != len(SETTINGS):
            raise UnsupportedError(
                f"{cursor.where} has {count} parameters, this kvzip knows {len(SETTINGS)}; use a newer kvzip"
            )
        stored = {setting.name: cursor.varint() for setting in SETTINGS}
        for setting in SETTINGS:
            if not setting.check(stored[setting.name]):
                raise cursor.damaged(f"holds {setting.name} out of range")
        if stored["classes"] & (stored["classes"] - 1):
            raise cursor.damaged("holds classes out of range")
        return cls(**stored)


assert tuple(f.name for f in fields(Parameters)) == tuple(s.name for s in SETTINGS)

LEVELS = {
    1: Parameters(symbol_bits=8, table_bits=11),
    2: Parameters(sampling=2, table_bits=11, n_update=512, prior_weight=192),
    3: Parameters(sampling=3, n_update=1024, prior_weight=192),
}
for _level in range(4, 10):  # of what is not coded by linear prediction
    LEVELS[_level] = Parameters(sampling=0, classes=8, n_update=64, table_bits=13, prior_weight=128)
DEFAULT_LEVEL = 3
PRESETS = {
    "classic": {
        "alpha": 0.97,
        "beta": 0.9,
        "theta_low": 0.02,
        "n_update": 128,
        "sampling": 0,
    }
}


def parameters_for(level: int, preset: str | None = None, **values: float | None) -> Parameters:
    """A level's parameters, with a preset's and then the user's own numbers laid over them."""
    if level not in LEVELS:
        raise OptionError(f"--level {level}: must be from 1 to 9")
    if preset is not None and preset not in PRESETS:
        hint = meant(preset, PRESETS, f"must be one of {', '.join(PRESETS)}")
        raise OptionError(f"--preset {preset}: {hint}")
    return LEVELS[level].of(**PRESETS.get(preset or "", {})).of(**values)
