"""What can be set: how much is predicted from how much, and how fast it is forgotten."""

from __future__ import annotations

from dataclasses import dataclass


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


LEVELS = {
    4: Settings(most_rows=112, count_every=4),
    5: Settings(count_every=2),
    6: Settings(most_base=96, count_every=2),
    7: Settings(most_base=192),
    8: Settings(most_base=384, two=True),
    9: Settings(most_base=768, two=True, layers_back=2),
}
