"""How keys are rotated: the pairs of channels that turn, and by how much a token.

RoPE turns pair (a, b) of token t by the angle t * w:

    a' = a cos(tw) - b sin(tw)          half         pairs (0, n/2), (1, n/2 + 1), ...
    b' = b cos(tw) + a sin(tw)          interleaved  pairs (0, 1), (2, 3), ...

Only w matters to a predictor, not the position of the first token, so a `Rope` is cos w and sin w of each pair.
The decoder has no use for libm: the doubles stand in the container bit by bit, and angles come from multiplying
them up. Where rotations come from is not known here: from the user (`from_spec`) or from the keys
(`rope_search.find`).

On the wire: varint pairs; then per pair varint first, varint second, 8 bytes cos, 8 bytes sin (IEEE, little-endian).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from kvzip.errors import OptionError, meant
from kvzip.wire import Cursor, put_varint

MAX_CHANNELS = 1 << 16
KINDS = ("auto", "none", "half", "interleaved")
KEYS = ("theta", "dim", "start", "scaling")
UNIT_SLACK = 1e-6  # cos^2 + sin^2 may differ from 1 by this much
EXAMPLE = "write for example half:theta=500000 or interleaved:theta=1e4,dim=64,start=512"


@dataclass(frozen=True)
class Rope:
    """Pairs (first[i], second[i]) of channels that turn by w[i] a token; other channels stand still.

    cos[i] and sin[i] are those of w[i]. Channel numbers are distinct.
    """

    first: tuple[int, ...]
    second: tuple[int, ...]
    cos: tuple[float, ...]
    sin: tuple[float, ...]

    @classmethod
    def of(cls, pairs: Sequence[tuple[int, int]], angles: Sequence[float]) -> Rope:
        """The rope that turns each of ``pairs`` by its angle (radians a token)."""
        return cls(
            tuple(a for a, _ in pairs),
            tuple(b for _, b in pairs),
            tuple(math.cos(w) for w in angles),
            tuple(math.sin(w) for w in angles),
        )

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of channels, in order."""
        return list(zip(self.first, self.second, strict=True))

    @property
    def angles(self) -> list[float]:
        """Radians a token of each pair, from -pi to pi (for the encoder: not the same on every machine)."""
        return [math.atan2(s, c) for c, s in zip(self.cos, self.sin, strict=True)]

    def write_to(self, out: bytearray) -> None:
        """Append this rope."""
        put_varint(out, len(self.first))
        for a, b, c, s in zip(self.first, self.second, self.cos, self.sin, strict=True):
            put_varint(out, a)
            put_varint(out, b)
            out += struct.pack("<2d", c, s)

    @classmethod
    def read_from(cls, cursor: Cursor, channels: int = MAX_CHANNELS) -> Rope:
        """The rope at the cursor, for rows of ``channels`` channels; ContainerError if it is none."""
        firsts, seconds, cosines, sines = [], [], [], []
        for _ in range(cursor.varint(channels // 2)):
            firsts.append(cursor.varint(channels - 1))
            seconds.append(cursor.varint(channels - 1))
            c, s = struct.unpack("<2d", cursor.take(16))
            if not abs(c * c + s * s - 1) <= UNIT_SLACK:  # NaN compares false
                raise cursor.damaged("turns a pair of channels by no angle")
            cosines.append(c)
            sines.append(s)
        if len({*firsts, *seconds}) != 2 * len(firsts):
            raise cursor.damaged("turns a channel twice")
        return cls(tuple(firsts), tuple(seconds), tuple(cosines), tuple(sines))


@dataclass(frozen=True)
class Pairing:
    """Which channels form pairs: ``dim`` channels from ``start``, halves against each other or neighbours.

    ``heads`` such groups may follow each other, where a row holds several kv heads.
    """

    interleaved: bool
    start: int
    dim: int
    heads: int = 1

    @property
    def channels(self) -> int:
        """How many channels turn."""
        return self.dim * self.heads

    def pairs(self) -> list[tuple[int, int]]:
        """(first, second) of each pair, in each head fastest first."""
        apart, step = (1, 2) if self.interleaved else (self.dim // 2, 1)
        starts = range(self.start, self.start + self.channels, self.dim)
        return [(head + i * step, head + i * step + apart) for head in starts for i in range(self.dim // 2)]

    def angles(self, theta: float) -> list[float]:
        """theta^(-2i/dim) of pair i (Su et al., RoFormer)."""
        return [theta ** (-2 * i / self.dim) for i in range(self.dim // 2)] * self.heads


def from_spec(text: str, channels: int) -> Rope | None:
    """The rope that ``text`` describes for rows of ``channels`` channels; None for "none".

    half or interleaved, a colon, then theta=BASE and, if wanted, dim=CHANNELS that turn, start=FIRST of them, and
    scaling=linear:FACTOR or llama3:FACTOR:LOW:HIGH:ORIGINAL_TOKENS, by commas. OptionError for anything else.
    """
    if text == "none":
        return None
    kind, _, rest = text.partition(":")
    if kind not in ("half", "interleaved"):
        raise OptionError(f"unknown rope: {text!a}; {meant(kind, KINDS, f'{EXAMPLE}, or none')}")
    given: dict[str, str] = {}
    for item in rest.split(","):
        key, equals, value = item.partition("=")
        if key not in KEYS or not equals or key in given:
            hint = EXAMPLE if key in KEYS else meant(key, KEYS, EXAMPLE)
            raise OptionError(f"not understood: {item!a} in rope {text!a}; {hint}")
        given[key] = value
    if "theta" not in given:
        raise OptionError(f"no theta in rope {text!a}; {EXAMPLE}")
    theta = _number(given["theta"], "theta", text, above=1)
    start = _whole(given.get("start", "0"), "start", text)
    dim = _whole(given.get("dim", str((channels - start) // 2 * 2)), "dim", text)
    if dim < 2 or dim % 2 or start + dim > channels:
        raise OptionError(
            f"dim {dim} from channel {start} is not an even number of channels within {channels}: rope {text!a}; "
            "correct dim or start"
        )
    pairing = Pairing(kind == "interleaved", start, dim)
    angles = _scaled(pairing.angles(theta), given["scaling"], text) if "scaling" in given else pairing.angles(theta)
    return Rope.of(pairing.pairs(), angles)


def _scaled(angles: list[float], scaling: str, text: str) -> list[float]:
    """Angles slowed down for longer contexts (as transformers' modeling_rope_utils)."""
    kind, *given = scaling.split(":")
    if (kind, len(given)) not in (("linear", 1), ("llama3", 4)):
        raise OptionError(
            f"unknown scaling: {scaling!a} in rope {text!a}; write linear:FACTOR or llama3:FACTOR:LOW:HIGH:TOKENS"
        )
    factor, *rest = (_number(x, "scaling", text, above=0) for x in given)
    if kind == "linear":
        return [w / factor for w in angles]
    low, high, tokens = rest
    if low >= high:
        raise OptionError(f"scaling's LOW must be below its HIGH: rope {text!a}; llama3:8:1:4:8192 is Llama 3's")
    slowed = []
    for w in angles:
        share = min(max((tokens * w / (2 * math.pi) - low) / (high - low), 0.0), 1.0)
        slowed.append(share * w + (1 - share) * w / factor)
    return slowed


def _number(value: str, what: str, text: str, above: float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not above < number < math.inf:
        raise OptionError(f"{what} is no number above {above}: {value!a} in rope {text!a}; {EXAMPLE}")
    return number


def _whole(value: str, what: str, text: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 7):
        raise OptionError(f"{what} is no number of channels: {value!a} in rope {text!a}; {EXAMPLE}")
    return int(value)
