"""The encoder's choices for a dump, and the shared records that they call for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.blocks.prediction import Choice
from kvzip.blocks.united import can_turn
from kvzip.container.shared import Shared, rope_payload, tokens_payload
from kvzip.dumps.safetensors import TensorEntry
from kvzip.pipeline.options import PREDICTING, Options
from kvzip.pipeline.source import MemberInput
from kvzip.pipeline.survey import (
    BYTES_SAMPLE,
    accepts_tokens,
    rope_given,
    rope_of,
    token_source,
    tokens_of,
    type_of_bytes,
)
from kvzip.predict.grid import grid_of
from kvzip.predict.rope import Rope
from kvzip.streams.extent import Extent

BARS = ((7, 0.8), (4, 0.85), (3, 0.9), (0, 0.98))  # by the least level
LOWEST = 0.85  # in the lowest layer, where tokens repeat
Emit = Callable[[bytes], None]
"""Takes the payload of a SHARED record that must precede the blocks submitted next."""


class Chooser:
    """What is known of a container's dumps so far."""

    def __init__(self, options: Options, known: Shared, emit: Emit) -> None:
        self.options, self.known, self.emit = options, known, emit
        self.lowest = -1  # the layer of that extent
        self.unique: int | None = None  # the extent of the member whose rows are the tokens themselves

    def type_of_bytes(self, source: MemberInput, entry: TensorEntry | None) -> str:
        """What the bytes of a U8 cache are, by a sample of the tensor ``entry``."""
        if entry is None:
            return "F8_E4M3"
        ahead = source.look(entry.start, min(entry.stop, entry.start + BYTES_SAMPLE))
        return "F8_E4M3" if ahead is None else type_of_bytes(np.frombuffer(ahead, np.uint8))

    def find_tokens(self, source: MemberInput, extents: tuple[Extent, ...]) -> None:
        """Look ahead to the extent of a member that tells its tokens."""
        number = token_source(extents) if self.options.recalls else None
        self.unique = None
        if number is None:
            return
        extent = extents[number]
        start = sum(before.nbytes for before in extents[:number])
        data = source.look(start, start + extent.nbytes)
        if data is None:
            return
        ids, whole = tokens_of(extent, data)
        if ids is not None:
            self.known.tokens.append(lambda: ids)
            self.emit(tokens_payload(ids))
            self.lowest = extent.layer
            self.unique = number if whole and extent.dtype.name != "F32" else None

    def choose(self, number: int, extent: Extent, values: NDArray[Any], kinds: tuple[str, ...]) -> Choice | None:
        """How to predict extent ``number`` of a member, from ``values`` (streams, tokens, channels) at its start."""
        if not self.options.predicts or extent.opaque or grid_of(extent.dtype) is None:
            return None
        rope, fast = None, self.options.level < PREDICTING
        if not fast:  # else only what is left of a draft is predicted, and hardly turns
            if self.options.rope is None:
                rope = rope_of(extent, values, kinds, self.known.ropes)
            elif any(kind != "value" for kind in kinds):
                rope = rope_given(self.options.rope, extent)
        tokens = len(self.known.tokens)
        if not tokens or not accepts_tokens(extent, len(self.known.tokens[-1].slot)):
            tokens = 0
        return Choice(
            self._rope_number(rope),
            tokens,
            unique=bool(tokens) and number == self.unique,
            energy=0 if fast else 1,
            near=fast,
            bar=self._bar(number, extent, tokens),
        )

    def _bar(self, number: int, extent: Extent, tokens: int) -> float:
        """How much smaller a draft must make a sample, which knows of neither repeated tokens nor other columns: both
        are worth less where there is a draft, and most in the lowest layer, whose values repeat with the token."""
        bar = next(bar for level, bar in BARS if self.options.level >= level)
        if tokens and number == self.unique:
            fresh = float(np.mean(self.known.tokens[-1].times == 0))
            return bar * fresh / (fresh + (1 - fresh) / 4)  # what a draft leaves repeats as well
        return bar * LOWEST if tokens and extent.layer == self.lowest else bar

    def choose_together(self, extents: tuple[Extent, ...], values: list[NDArray[Any]]) -> Choice:
        """How to predict a unit's extents: by the rope of one that has any."""
        found = [
            self.choose(-1, extent, part, extent.kinds(tuple(range(len(part)))))
            for extent, part in zip(extents, values, strict=True)
        ]
        choices = [choice for choice in found if choice is not None] or [Choice()]
        choice = next((choice for choice in choices if choice.rope), choices[0])
        if choice.rope and not can_turn(extents, self.known.ropes[choice.rope - 1]):
            return replace(choice, rope=0)
        return choice

    def _rope_number(self, rope: Rope | None) -> int:
        """1 + the number of a rope's record, made now if there is none; 0 for no rope."""
        if rope is None or not rope.first:
            return 0
        if rope not in self.known.ropes:
            self.known.ropes.append(rope)
            self.emit(rope_payload(rope))
        return self.known.ropes.index(rope) + 1
