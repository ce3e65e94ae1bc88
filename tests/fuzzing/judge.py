"""What is done with one input, and what may come of it.

Everything that reads a container reads it: ``decompress`` into files and into memory, ``stats``, ``open`` and every
tensor, what ``list`` and what ``test`` do. Each either works or raises a KvzipError of one printable line. All else
is a ``Verdict``: another exception; output whose digest is not the one that the container states, or that is not what
was once compressed though the container says so; tensors that are not cut out of that output; two readers that
disagree; something written beside the target; more memory or time than the input has earned.

An input *earns* its own length, what its records say that they inflate to (if deflate can do that), 16 bytes for a
token in a record of tokens, and for a block the bytes of its extent, at most a slab; for a unit its bytes and at most
1152 more for each of its columns, which are 65536 at most (docs/format.md, section 12):

    memory  48 MiB + 64 x earned            of Python and NumPy objects at any time
    time    4 s + 1 s for each 256 KiB earned, on all cores together

A container may say that its header is so long, or its tensors so large: it gets nothing for it until bytes come, but
for room in memory that nobody touches, where there is no other target (``kvzip.api.MOST_ROOM``).
"""

from __future__ import annotations

import shutil
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import xxhash

import kvzip
from kvzip.api import MOST_ROOM
from kvzip.cli.check import check_container
from kvzip.cli.listing import listings
from kvzip.container import records
from kvzip.container.shared import holds_draft
from kvzip.container.structures import MAX_HEADER, SINGLE, Member, Start
from kvzip.container.unit import Unit, can_join
from kvzip.wire import Cursor

MEMORY, TIMES = 48 << 20, 64
SECONDS, SPEED = 4.0, 256 << 10
Known = dict[bytes, str]
"""XXH3-128 of a member, as its MEMBER_END has it -> SHA-256 of the file that was compressed."""


class Verdict(AssertionError):
    """What must not happen."""


@dataclass
class Needs:
    """What containers may ask for."""

    draft: bytes | None = None
    prior: bytes | None = None


@dataclass
class Claims:
    """What a container's records say, as far as they can be read; nothing is decoded."""

    source: int = 0
    drafted: bool = False
    trained: bool = False
    earned: int = 0
    digests: list[bytes] = field(default_factory=list)

    @classmethod
    def of(cls, blob: bytes) -> Claims:
        """The claims of a container, which may be anything."""
        claims = cls(earned=len(blob))
        at, member, slab = len(records.MAGIC), None, 0
        while at + 5 <= len(blob):
            kind, length = blob[at], int.from_bytes(blob[at + 1 : at + 5], "little")
            payload = memoryview(blob)[at + 5 : at + 5 + length]
            with suppress(kvzip.KvzipError):
                if kind == records.START and not slab:
                    start = Start.from_bytes(payload, "")
                    claims.source, claims.trained, slab = start.source, bool(start.needs), 1 << start.block_log2
                elif kind == records.MEMBER:
                    claims.earned += _inner(payload)
                    member = Member.from_bytes(payload, "")
                    left = sum(extent.nbytes for extent in member.extents)
                elif kind == records.SHARED:
                    claims.drafted |= holds_draft(payload)
                    claims.earned += 16 * _tokens(payload)
                elif kind == records.UNIT and member is not None:
                    claims.earned += _united(Unit.from_bytes(payload, ""), member)
                elif kind == records.BLOCK and member is not None:
                    claims.earned += min(left, slab)
                    left -= min(left, slab)
            if kind == records.MEMBER_END:
                claims.digests.append(bytes(payload))
            at += 9 + length
            if kind == records.INDEX:
                break
        return claims

    @property
    def memory(self) -> int:
        """Bytes."""
        return MEMORY + TIMES * self.earned

    @property
    def seconds(self) -> float:
        """Of processor time."""
        return SECONDS + self.earned / SPEED


def _united(unit: Unit, member: Member) -> int:
    """What the values of a unit take, and the state of its prediction, which is bounded."""
    extents = member.extents[unit.first : unit.first + unit.count]
    if not extents or not can_join(extents):
        return 0
    columns = sum(extent.streams * extent.axes[-1][1] for extent in extents)
    return sum(extent.nbytes for extent in extents) + columns * (128 + unit.settings.bounded().most_base // 8)


def _inner(payload: memoryview) -> int:
    """What a MEMBER record says it inflates to."""
    cursor = Cursor(payload, "")
    cursor.bytes(1 << 16)
    cursor.u8()
    cursor.varint()
    deflated, length = cursor.u8(), cursor.varint(2 * MAX_HEADER)
    return length if deflated and length <= 1032 * cursor.left + 64 else 0  # deflate does not do more


def _tokens(payload: memoryview) -> int:
    """How many tokens a SHARED record has."""
    cursor = Cursor(payload, "")
    if cursor.u8() != 2:
        return 0
    count, _, length = cursor.varint(1 << 22), cursor.u8(), cursor.varint(1 << 28)
    return count if count <= length <= 1032 * cursor.left + 64 else 0


def judge(
    blob: bytes,
    known: Known,
    needs: Needs | None = None,
    *,
    measured: bool = True,
    right: bool = True,
    patience: float = 1.0,
) -> dict[str, str]:
    """Have everything read an input: for each reader "" or the name of its error. Verdict for what must not be.

    measured: whether memory is traced, which takes as long again. right: whether what comes out is judged.
    patience: how many times as long as is earned it may take.
    """
    claims = Claims.of(blob)
    given = _given(claims, needs or Needs())
    with _sandbox(blob) as (folder, path):
        outputs: dict[str, bytes] = {}
        readers: dict[str, Callable[[], Any]] = {
            "decompress": lambda: outputs.update(_restored(path, folder / "out", claims, given)),
            "test": lambda: _tested(path, given),
            "stats": lambda: kvzip.stats(path, threads=1, **given),
            "open": lambda: _opened(path, given),
            "list": lambda: listings(str(path)),
        }
        if claims.source == SINGLE:  # else a target is needed
            readers["memory"] = lambda: kvzip.decompress(blob, threads=1, **given)
        found, results = {}, {}
        for name, reader in readers.items():
            with _limits(name, claims, measured, patience):
                found[name], results[name] = _outcome(name, reader)
            _require_nothing_beside(name, folder, whole=found["decompress"] == "")
    if found["decompress"] == "" and right:
        _require_right(outputs, claims, known)
        if "memory" in found and results["memory"] != outputs[""]:
            raise Verdict("memory and file differ")
        if found["open"] == "":
            _require_cut_from(results["open"], outputs)
    differ = any(found[name] != found["decompress"] for name in ("test", "memory") if name in found)
    if differ and (claims.source == SINGLE or found["decompress"] == ""):  # test allows more names of files
        raise Verdict(f"readers disagree: {found}")
    return found


def _given(claims: Claims, needs: Needs) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if claims.drafted and needs.draft is not None:
        given["draft"] = needs.draft
    if claims.trained and needs.prior is not None:
        given["prior"] = needs.prior
    return given


# ---- the readers


def _restored(path: Path, target: Path, claims: Claims, given: dict[str, Any]) -> dict[str, bytes]:
    """The files of a container by name; ``""`` of a single one."""
    kvzip.decompress(path, target, threads=1, **given)
    if target.is_dir():
        files = {p.relative_to(target).as_posix(): p for p in sorted(target.rglob("*")) if p.is_file()}
        return {name: p.read_bytes() for name, p in files.items()}
    return {"": target.read_bytes()}


def _tested(path: Path, given: dict[str, Any]) -> None:
    from kvzip.api import opened_draft
    from kvzip.pipeline.prior_file import read_prior

    prior = read_prior(given["prior"]) if "prior" in given else None
    with opened_draft(given.get("draft"), 1, prior) as draft:
        check_container(path, 1, (prior, draft))


def _opened(path: Path, given: dict[str, Any]) -> list[tuple[str, int, int, bytes]]:
    """Every tensor's bytes with its member and place in the data."""
    with kvzip.open(path, threads=1, **given) as reader:
        names = reader.names()
        if len(names) != len(reader.infos()):
            raise Verdict("names and tensors differ")
        for name in names[:3]:
            reader.tensor(name)
        list(reader.layers())
        members = [member.name for member in reader.members]
        return [
            (members[info.member], len(reader.members[info.member].header) + info.entry.start, info.entry.stop,
             bytes(reader.data(info)))
            for info in reader.infos()
        ]  # fmt: skip


# ---- what may come of it


def _outcome(name: str, reader: Callable[[], Any]) -> tuple[str, Any]:
    try:
        return "", reader()
    except kvzip.KvzipError as error:
        line = str(error)
        if not line or not line.isprintable():
            raise Verdict(f"{name}: an error that is no line: {line!r}") from error
        return type(error).__name__, None
    except Verdict:
        raise
    except Exception as error:
        raise Verdict(f"{name}: {type(error).__name__}: {error}") from error


def _require_right(outputs: dict[str, bytes], claims: Claims, known: Known) -> None:
    """What came out has the digests that the container states, and is what was once compressed if these are known."""
    found = sorted(xxhash.xxh3_128_digest(data) for data in outputs.values())
    if found != sorted(claims.digests):
        raise Verdict(f"output of digests {[d.hex() for d in found]} was accepted")
    for data in outputs.values():
        original = known.get(xxhash.xxh3_128_digest(data))
        if original is not None and sha256(data).hexdigest() != original:
            raise Verdict("output that is not what was compressed was accepted")


def _require_cut_from(tensors: list[tuple[str, int, int, bytes]], outputs: dict[str, bytes]) -> None:
    for member, at, _, data in tensors:
        whole = outputs[member] if member in outputs else outputs[""]
        if whole[at : at + len(data)] != data:
            raise Verdict(f"a tensor at byte {at} of {member!r} is not what decompress gives")


def _require_nothing_beside(name: str, folder: Path, whole: bool) -> None:
    allowed = {"in.kvz", "out"} if whole else {"in.kvz"}
    there = {p.name for p in folder.iterdir()}
    beside = {p.name for p in folder.parent.iterdir()} - {folder.name}
    if not there <= allowed or beside:
        raise Verdict(f"{name}: left {sorted(there - allowed | beside)}")


@contextmanager
def _limits(name: str, claims: Claims, measured: bool, patience: float) -> Iterator[None]:
    """Verdict if more memory or time is used than was earned."""
    if measured:
        tracemalloc.start()
    began = time.process_time()
    try:
        yield
        took = time.process_time() - began
        peak = tracemalloc.get_traced_memory()[1] if measured else 0
    finally:
        if measured:
            tracemalloc.stop()
    if peak > claims.memory + MOST_ROOM * (name == "memory"):
        raise Verdict(f"{name}: {peak >> 20} MiB, {claims.memory >> 20} MiB were earned")
    if took > claims.seconds * patience:
        raise Verdict(f"{name}: {took:.1f} s, {claims.seconds:.1f} s were earned")


@contextmanager
def _sandbox(blob: bytes) -> Iterator[tuple[Path, Path]]:
    """A folder in an otherwise empty one, and in it the container."""
    outside = Path(tempfile.mkdtemp(prefix="kvzip-judge-"))
    try:
        folder = outside / "inside"
        folder.mkdir()
        (folder / "in.kvz").write_bytes(blob)
        yield folder, folder / "in.kvz"
    finally:
        shutil.rmtree(outside)
