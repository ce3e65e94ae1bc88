"""What several tensors are coded by, each in a record of its own: ropes, which tokens repeat, a trained prior.

    kind         u8          1 a rope (``predict.rope``), 2 tokens, 3 the prior that START names, right behind START,
                             4 the draft, right behind these
    tokens:      count varint | deflated u8 | length varint | inner, deflated if that is shorter
                 inner: for each token a varint, 0 if its row is new, else 1 + its id
    prior:       deflated u8 | length varint | inner, deflated if that is shorter: a file of ``predict.prior``
    draft:       count varint, then for each layer and kind: layer + 1 varint | kind u8 | heads varint |
                 tokens varint | channels varint | element type u8 | XXH3-128 of its values, head after head, 16 bytes

Records are numbered from 0 within their kind, over the whole container; a block names one by its number + 1.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, overload

from kvzip.container.inflating import inflate
from kvzip.errors import DraftError, PriorError, UnsupportedError
from kvzip.predict.rope import Rope
from kvzip.streams.extent import KINDS
from kvzip.wire import Cursor, put_varint

if TYPE_CHECKING:
    from kvzip.blocks.draft import DraftSource
    from kvzip.predict.prior import Prior
    from kvzip.predict.tokens import Ints, Occurrences

T = TypeVar("T")
ROPE, TOKENS, PRIOR, DRAFT = 1, 2, 3, 4
MOST_PARTS = 1 << 17  # of a draft
MAX_TOKENS = 1 << 22  # more than any context has; bounds the time that a hostile record takes


@dataclass(frozen=True)
class DraftPart:
    """What a draft must have: the values of a layer's kind, (heads, tokens, channels), by their digest."""

    layer: int
    kind: str
    heads: int
    tokens: int
    channels: int
    dtype: int  # its id
    digest: bytes


class TokenRecords(Sequence["Occurrences"]):
    """What the records of tokens say, worked out when it is asked for: a few bytes can say that there are millions.

    Those asked for last stay in memory, up to ``MAX_TOKENS`` tokens of several.
    """

    def __init__(self) -> None:
        self.ids: list[Callable[[], Ints]] = []
        self.held: dict[int, Occurrences] = {}
        self.lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.ids)

    def append(self, ids: Callable[[], Ints]) -> None:
        """Another record, by what gives its tokens' ids."""
        self.ids.append(ids)

    @overload
    def __getitem__(self, number: int) -> Occurrences: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Occurrences]: ...
    def __getitem__(self, number: int | slice) -> Occurrences | Sequence[Occurrences]:
        if isinstance(number, slice):
            return [self[n] for n in range(*number.indices(len(self)))]
        from kvzip.predict.tokens import Occurrences  # not at the top: listing a container needs no arrays

        number = range(len(self))[number]
        with self.lock:
            found = self.held.pop(number, None)
            if found is None:
                found = Occurrences.of(self.ids[number]())
            self.held[number] = found
            while len(self.held) > 1 and sum(len(held.slot) for held in self.held.values()) > MAX_TOKENS:
                del self.held[next(iter(self.held))]
        return found


class Met(Sequence[T]):
    """The first of what goes on growing: what was there when a chain began."""

    def __init__(self, whole: Sequence[T]) -> None:
        self.whole, self.size = whole, len(whole)

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, number: int) -> T: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[T]: ...
    def __getitem__(self, number: int | slice) -> T | Sequence[T]:
        if isinstance(number, slice):
            return self.whole[: self.size][number]
        return self.whole[range(self.size)[number]]


@dataclass
class Shared:
    """The shared records of a container so far; ``prior`` may also come from the user, None is the shipped one."""

    ropes: list[Rope] = field(default_factory=list)
    tokens: TokenRecords = field(default_factory=lambda: TokenRecords())
    prior: Prior | None = None
    needs: str = ""  # the identity of the prior that the container names
    draft: list[DraftPart] = field(default_factory=list)
    drafts: DraftSource | None = None  # the draft itself, if it was given
    begun: bool = False  # whether the records right behind START are over

    def add(self, payload: memoryview, where: str) -> None:
        """Take in a record. ContainerError or UnsupportedError if it makes no sense."""
        cursor = Cursor(payload, f"{where}: a shared record")
        kind = cursor.u8()
        if kind == ROPE:
            self.ropes.append(Rope.read_from(cursor))
            cursor.finish()
        elif kind == TOKENS:
            self.tokens.append(_ids_of(cursor))
        elif kind == PRIOR:
            prior = _read_prior(cursor)
            if self.prior is not None or prior.identity != self.needs:
                raise cursor.damaged("holds a prior that the container does not name")
            self.prior = prior
        elif kind == DRAFT:
            if self.begun or self.draft:
                raise cursor.damaged("names a draft out of place")
            self.draft = _read_parts(cursor)
        else:
            raise UnsupportedError(f"{cursor.where} is of a kind unknown here ({kind}); use a newer kvzip")

    def take_prior(self, prior: Prior | None, where: str) -> None:
        """Use the prior that the user gave. PriorError if it is not the one that the container names."""
        if prior is None:
            raise PriorError(f"{where}: needs the prior {self.needs}; give its file with --prior (in Python: prior=)")
        if prior.identity != self.needs:
            raise PriorError(
                f"{where}: needs the prior {self.needs}, the one given is {prior.identity}; "
                "give the right file with --prior"
            )
        self.prior = prior

    def take_draft(self, draft: DraftSource | None, where: str) -> None:
        """Use the draft that the user gave. DraftError if one is needed and this is not it."""
        if not self.draft:
            return
        if draft is None:
            raise DraftError(
                f"{where}: needs its draft; give the one it was made with by --draft (in Python: draft=)"
            )
        draft.require(self.draft, where)
        self.drafts = draft

    def leave_hole(self, kind: int) -> None:
        """Take a number for a lost record of this kind; what refers to it will not pass its check."""
        if kind == ROPE:
            self.ropes.append(Rope.of([], []))
        elif kind == TOKENS:
            self.tokens.append(_ids_of(Cursor(_NO_TOKENS, "")))


_NO_TOKENS = bytes(3)  # of a record: a count of 0, not deflated, nothing inside


def rope_payload(rope: Rope) -> bytes:
    """A rope's record."""
    out = bytearray((ROPE,))
    rope.write_to(out)
    return bytes(out)


def tokens_payload(ids: Ints) -> bytes:
    """The record of a dump's token ids, numbered by first appearance."""
    inner = bytearray()
    known = 0
    for token in ids.tolist():
        put_varint(inner, 0 if token == known else token + 1)
        known += token == known
    out = bytearray((TOKENS,))
    put_varint(out, len(ids))
    _put_inner(out, bytes(inner))
    return bytes(out)


def prior_payload(prior: Prior) -> bytes:
    """The record of a trained prior: its file."""
    out = bytearray((PRIOR,))
    _put_inner(out, prior.data)
    return bytes(out)


def draft_payload(parts: list[DraftPart]) -> bytes:
    """The record of what a draft must have."""
    out = bytearray((DRAFT,))
    put_varint(out, len(parts))
    for part in parts:
        put_varint(out, part.layer + 1)
        out.append(KINDS.index(part.kind))
        for number in (part.heads, part.tokens, part.channels):
            put_varint(out, number)
        out.append(part.dtype)
        out += part.digest
    return bytes(out)


def _read_parts(cursor: Cursor) -> list[DraftPart]:
    parts = []
    for _ in range(cursor.varint(MOST_PARTS)):
        layer, kind = cursor.varint(1 << 32) - 1, cursor.u8()
        heads, tokens, channels = (cursor.varint() for _ in range(3))
        if kind >= len(KINDS):
            raise cursor.damaged("describes a draft of an unknown kind")
        dtype = cursor.u8()
        parts.append(DraftPart(layer, KINDS[kind], heads, tokens, channels, dtype, bytes(cursor.take(16))))
    cursor.finish()
    if not parts:
        raise cursor.damaged("describes no draft")
    return parts


def holds_draft(payload: memoryview) -> bool:
    """Whether a shared record is a draft's."""
    return payload[:1] == bytes((DRAFT,))


def holds_prior(payload: memoryview) -> bool:
    """Whether a shared record is a prior's."""
    return payload[:1] == bytes((PRIOR,))


def _put_inner(out: bytearray, inner: bytes) -> None:
    packed = zlib.compress(inner, 9)
    out.append(int(len(packed) < len(inner)))
    put_varint(out, len(inner))
    out += packed if len(packed) < len(inner) else inner


def _read_prior(cursor: Cursor) -> Prior:
    from kvzip.predict.prior import MOST_BYTES, Prior

    deflated, length = cursor.u8(), cursor.varint(MOST_BYTES)
    try:
        return Prior.from_bytes(bytes(inflate(cursor, deflated, length)), cursor.where)
    except PriorError:
        raise cursor.damaged("holds no prior file") from None


def _ids_of(cursor: Cursor) -> Callable[[], Ints]:
    """What reads a record's ids: its numbers are looked at now, its ids when they are wanted."""
    count, deflated, length = cursor.varint(MAX_TOKENS), cursor.u8(), cursor.varint(1 << 28)
    if length < count or deflated > 1:
        raise cursor.damaged("does not add up")
    rest = bytes(cursor.take(cursor.left))
    return lambda: _read_ids(Cursor(rest, cursor.where), count, deflated, length)


def _read_ids(cursor: Cursor, count: int, deflated: int, length: int) -> Ints:
    import numpy as np  # not at the top either

    inner = Cursor(inflate(cursor, deflated, length), cursor.where)
    ids = np.empty(count, np.int32)
    known = 0
    for at, said in enumerate(inner.varints(count)):
        if said > known:
            raise cursor.damaged(f"holds a number out of range ({said})")
        ids[at] = said - 1 if said else known
        known += not said
    inner.finish()
    return ids
