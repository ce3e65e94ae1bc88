"""What can be set: how much is predicted from how much, and how fast it is forgotten."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvzip.dtypes import Dtype


@dataclass(frozen=True)
class Settings:
    """The defaults are for a layer alone."""

    most_rows: int = 0  # rows of L that predict; 0 for all
    most_base: int = 0  # columns of the base that are used, evenly spaced
    two: bool = False  # a second recursion without the base, mixed with the first
    repeats: bool = True
    slots: int = 4096  # rows that are remembered for repeated tokens
    keep: float = 0.998  # what the recursion keeps from token to token
    keep_base: float = 0.999
    delta: float = 12.0  # what a residual's energy starts at
    delta_base: float = 8.0
    rate: float = 1 / 150  # of the deviations
    weight_floor: float = 0.15  # a token's weight is 1 over its energy, within these
    weight_ceiling: float = 6.0
    energy_start: int = 4
    energy_memory: int = 64
    surprise: float = 1.0  # how far the base's surprise is taken to be the token's own
    count_every: int = 1  # tokens, of which one adapts the distributions
    layers_back: int = 1  # layers that make up the base (the caller joins them, the nearest one first)
    coarse: bool = False  # values tell intervals, see ``posterior``
    parts: bool = False  # with ``two``: each part of the prediction has its weight; rows count by their energy
    delta_far: float = 1.0  # times ``delta_base``: of the base's layers behind the nearest one
    delta_own: float = 1.0  # times ``delta_base``: of own columns behind a base

    def bounded(self) -> Settings:
        """The same within what kernels can stand, whatever a container says."""
        return Settings(
            most_rows=min(max(self.most_rows, 0), 1 << 14),
            most_base=min(max(self.most_base, 0), 1 << 13),
            two=bool(self.two) and not self.most_rows,  # the first one's rows end the sweep of both
            repeats=bool(self.repeats),
            slots=min(max(self.slots, 1), 1 << 16),
            keep=min(max(self.keep, 0.5), 1.0),
            keep_base=min(max(self.keep_base, 0.5), 1.0),
            delta=min(max(self.delta, 1e-2), 1e6),
            delta_base=min(max(self.delta_base, 1e-2), 1e6),
            rate=min(max(self.rate, 1e-6), 0.5),
            weight_floor=min(max(self.weight_floor, 1e-3), 1e3),
            weight_ceiling=min(max(self.weight_ceiling, 1e-3), 1e3),
            energy_start=min(max(self.energy_start, 1), 1 << 16),
            energy_memory=min(max(self.energy_memory, 1), 1 << 16),
            surprise=min(max(self.surprise, 0.0), 1.0),
            count_every=min(max(self.count_every, 1), 1 << 16),
            layers_back=self.layers_back,
            coarse=bool(self.coarse),
            parts=bool(self.parts) and bool(self.two) and not self.most_rows,
            delta_far=min(max(self.delta_far, 1e-2), 1e2),
            delta_own=min(max(self.delta_own, 1e-2), 1e2),
        )


LEVELS = {
    4: Settings(most_rows=96, count_every=4),
    5: Settings(most_rows=192, count_every=4),
    6: Settings(count_every=2),
    7: Settings(most_base=192),
    8: Settings(most_base=384, two=True),
    9: Settings(
        most_base=768,
        two=True,
        delta_base=10.0,
        rate=1 / 110,
        weight_floor=0.08,
        layers_back=2,
        parts=True,
        delta_far=3.2,
        delta_own=0.1,
    ),
}


def drafted(settings: Settings, dtype: Dtype) -> Settings:
    """What suits values relative to a draft: residuals are smaller and nearly noise, so less is learnt from each.

    Numbers of 8 bits are coarse against them. Tuned on two prompts with drafts of int8 and fp8 weights.
    """
    if dtype.bits == 8:
        return replace(settings, delta=150.0, delta_base=150.0, coarse=True)
    return replace(settings, delta=60.0, delta_base=40.0)
