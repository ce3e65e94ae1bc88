"""What is tried: for each parameter a few values, in order, and what a set of values is called.

Values are those that a user may give to ``compress``. Every level has its own defaults, which are tried too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kvzip.pipeline.options import PREDICTING
from kvzip.predict.rope import Rope, from_spec
from kvzip.predict.rope_search import KNOWN
from kvzip.tuning.measure import Settings
from kvzip.windows.parameters import BY_NAME, PRESETS, Parameters, parameters_for

LADDERS: dict[str, tuple[float, ...]] = {
    "n_update": (32, 64, 128, 256, 512, 1024, 2048, 4096),
    "prior_weight": (0, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024),
    "alpha": (0.97, 0.99, 0.995, 0.998, 0.999, 0.9995, 1),
    "beta": (0, 0.25, 0.5, 0.75, 0.9),
    "theta_low": (0, 0.0005, 0.002, 0.01),
    "theta_new": (0, 0.01, 0.05, 0.2),
    "drift": (0, 1.02, 1.05, 1.1, 1.25, 1.5),
    "warmup": (0, 16, 64, 256),
    "classes": (1, 2, 4, 8, 16),
    "symbol_bits": (0, 8, 9, 10, 11, 12, 13),
}
PRESET, ROPE = "preset", "rope"
ORDER = (ROPE, PRESET, *LADDERS)
PROBE: Settings = {"alpha": 0.98, "n_update": 100, "prior_weight": 7, "classes": 2, "symbol_bits": 11}
"""Settings so different from every level's that data which they leave alone cares for none of the windows."""


@dataclass(frozen=True)
class Candidate:
    """One value of a parameter: how it is shown, and the options that make it, laid over others."""

    label: str
    changes: tuple[tuple[str, Any], ...]


def default_of(level: int, name: str) -> str:
    """How a level's own value is shown."""
    if name in (ROPE, PRESET):
        return "auto" if name == ROPE else "none"
    return f"{parameters_for(level).shown()[name]:g}"


def candidates(level: int, name: str, around: Settings, ropes: Sequence[str]) -> list[Candidate]:
    """The values of a parameter in order, the default among them; ``around``: the settings they are laid over."""
    if name == ROPE:
        specs = ["none", *ropes] if level >= PREDICTING else []
        return [Candidate("auto", ((ROPE, None),)), *(Candidate(spec, ((ROPE, spec),)) for spec in specs)]
    if name == PRESET:
        return _presets(level, around)
    own = parameters_for(level).shown()[name]
    values = sorted({*LADDERS[name], own})
    return [Candidate(f"{value:g}", ((name, value),)) for value in values]


def _presets(level: int, around: Settings) -> list[Candidate]:
    """None, each preset as it is, and each with the numbers that hold so far: what no option of its own can set."""
    out = [Candidate("none", ((PRESET, None),))]
    for preset, numbers in PRESETS.items():
        options = [name for name in numbers if name in LADDERS]
        plain = {PRESET: preset} | dict.fromkeys(options)
        holding = _holding(level, around)
        pinned = {PRESET: preset} | {name: holding[name] for name in options}
        out.append(Candidate(preset, tuple(plain.items())))
        if laid_over(level, around, tuple(pinned.items())) != laid_over(level, around, ()):
            out.append(Candidate(f"{preset}, part", tuple(pinned.items())))
    return out


def laid_over(level: int, settings: Settings, changes: Sequence[tuple[str, Any]]) -> Settings:
    """``settings`` with ``changes``, in the fewest words: without what is the level's or the preset's own anyway."""
    merged = {name: value for name, value in (settings | dict(changes)).items() if value is not None}
    rope = {ROPE: merged[ROPE]} if merged.get(ROPE, "auto") != "auto" else {}
    wanted = parameters_for(level, merged.get(PRESET), **_numbers(merged))
    numbers = _holding(level, merged)
    forms = [_shortest(level, preset, numbers, wanted) for preset in (None, merged.get(PRESET))]
    return rope | min((form for form in forms if form is not None), key=len)


def _shortest(level: int, preset: str | None, numbers: Settings, wanted: Parameters) -> Settings | None:
    """The fewest of ``numbers`` that make ``wanted`` of a level and a preset; None if all do not."""
    if parameters_for(level, preset, **numbers) != wanted:
        return None
    for name in list(numbers):
        fewer = {other: value for other, value in numbers.items() if other != name}
        if parameters_for(level, preset, **fewer) == wanted:
            numbers = fewer
    return numbers if preset is None else {PRESET: preset} | numbers


def _holding(level: int, settings: Settings) -> Settings:
    """Every number of the ladders that holds with ``settings``, as it was given."""
    given = PRESETS.get(settings.get(PRESET) or "", {}) | _numbers(settings)
    level_own = parameters_for(level).shown()
    return _numbers({name: given.get(name, level_own[name]) for name in LADDERS})


def _numbers(settings: Settings) -> dict[str, float]:
    """The estimator's numbers among settings; whole ones where nothing else is allowed."""
    given = ((name, value) for name, value in settings.items() if name in BY_NAME and value is not None)
    return {name: int(value) if BY_NAME[name].scale == 1 else float(value) for name, value in given}


def spec_of(rope: Rope) -> str | None:
    """What ``--rope`` must be told to turn pairs as ``rope`` does; None if it cannot say it."""
    if not rope.first:
        return None
    pairs = rope.pairs
    start, dim = min(a for a, _ in pairs), 2 * len(pairs)
    kind = "half" if len(pairs) == 1 or pairs[0][1] - pairs[0][0] > 1 else "interleaved"
    angle = rope.angles[-1]
    if len(pairs) < 2 or not 0 < angle < 1:
        return None
    base = math.exp(-math.log(angle) * dim / (dim - 2))
    theta = min(KNOWN, key=lambda known: abs(math.log(known / base)))
    theta = theta if abs(math.log(theta / base)) < 1e-3 else base
    spec = f"{kind}:theta={theta:.9g},dim={dim}" + (f",start={start}" if start else "")
    again = from_spec(spec, start + dim)
    same = again is not None and again.pairs == pairs
    near = again is not None and all(abs(a - b) < 1e-6 for a, b in zip(again.angles, rope.angles, strict=True))
    return spec if same and near else None
