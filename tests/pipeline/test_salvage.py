"""Damaged containers: what is not said to be lost is right to the bit, and no more is lost than must be."""

from __future__ import annotations

import io
import json
from functools import lru_cache

import made
import numpy as np
import pytest

import kvzip
from kvzip.container import records
from kvzip.container.scan import Scanner

LEVELS = (1, 3, 6, 9)
SHAPE = {"tokens": 700, "heads": 2, "channels": 32}
LAYERS = 4
IDS = ("ids", "I64", (700,), np.arange(700, dtype="<i8").tobytes())


@lru_cache
def dump():
    return made.dump([*made.tensors(range(LAYERS), **SHAPE), IDS])


@lru_cache
def draft():
    """The same cache with some noise, and fewer tokens."""
    noisy = []
    for name, dtype, shape, data in made.tensors(range(LAYERS), **SHAPE):
        bits = np.frombuffer(data, "<u2").reshape(shape)[:, :, :600]
        noisy.append((name, dtype, bits.shape, (bits ^ (bits % 3 == 0).astype("<u2")).tobytes()))
    return made.dump(noisy)


@lru_cache
def packed(level, drafted=False):
    """Blocks of 4 KiB at the levels that code tensors by themselves: chains of 11."""
    return kvzip.compress(dump(), level=level, threads=1, block_log2=12, draft=draft() if drafted else None)


def salvage(blob, **options):
    out = io.BytesIO()
    losses = kvzip.salvage(blob, out, threads=2, **options)
    return out.getvalue(), losses


def lost_bytes(losses):
    """A mask over the dump's bytes: what is said to be lost."""
    whole = dump()
    header = int.from_bytes(whole[:8], "little")
    table = json.loads(whole[8 : 8 + header])
    mask = np.zeros(len(whole), bool)
    for damage in losses.damages:
        for name in damage.tensors:
            start, stop = (8 + header + at for at in table[name]["data_offsets"])
            part = mask[start:stop]
            if damage.tokens is None:
                part[:] = True
                continue
            box = part.reshape(SHAPE["heads"], SHAPE["tokens"], -1)
            box[list(damage.heads), damage.tokens[0] : damage.tokens[1]] = True
    return mask


def judge(blob, **options):
    """Salvage, and hold every byte to what is said of it; return the losses."""
    got, losses = salvage(blob, **options)
    assert len(got) == len(dump())
    wrong = np.frombuffer(got, np.uint8) != np.frombuffer(dump(), np.uint8)
    said = lost_bytes(losses)
    assert not (wrong & ~said).any()
    assert losses.nbytes <= said.sum()
    assert bool(losses) == bool(losses.damages)
    return losses


def places(blob, kind):
    """The records of a type, with what comes before and after their payloads."""
    scan = Scanner(io.BytesIO(blob)).scan()
    return [found for run in scan.runs for found in run if found.type == kind]


def flipped(blob, *offsets):
    out = bytearray(blob)
    for at in offsets:
        out[at] ^= 0x55
    return bytes(out)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("drafted", [False, True])
def test_a_whole_container_loses_nothing(level, drafted):
    got, losses = salvage(packed(level, drafted), draft=draft() if drafted else None)
    assert got == dump()
    assert not losses
    assert losses.faults == 0


@pytest.mark.parametrize("level", LEVELS)
def test_a_damaged_block_costs_itself_and_what_is_coded_by_it(level):
    blob = packed(level)
    blocks = places(blob, records.BLOCK)
    for found in blocks[:: max(1, len(blocks) // 5)]:
        losses = judge(flipped(blob, found.offset + 20))
        first = losses.damages[0]
        assert first.cause == "damaged"
        assert first.offset == found.offset
        assert {damage.cause for damage in losses.damages[1:]} <= {"damaged", "depends"}
        assert losses.faults == 1
        if level < 4 or first.tokens is None:
            assert len({damage.tensors for damage in losses.damages}) == 1
        else:
            assert min(damage.tokens[0] for damage in losses.damages) == first.tokens[0]


@pytest.mark.parametrize("level", LEVELS)
def test_any_damage_is_told_and_the_rest_is_right(level):
    source = np.random.default_rng(level)
    blob = packed(level)
    for _ in range(12):
        out = bytearray(blob)
        at = int(source.integers(len(packed(level)) // 50, len(out)))
        size = int(source.integers(1, 5000))
        what = source.integers(0, 5)
        if what == 0:
            out[at : at + size] = bytes(len(out[at : at + size]))
        elif what == 1:
            out[at : at + size] = source.bytes(len(out[at : at + size]))
        elif what == 2:
            del out[at : at + size]
        elif what == 3:
            out[at:at] = source.bytes(size)
        else:
            del out[at:]
        try:
            judge(bytes(out))
        except kvzip.ContainerError as error:
            raise AssertionError((at, size, what)) from error


@pytest.mark.parametrize("level", [3, 9])
def test_damage_in_two_places(level):
    blob = packed(level)
    blocks = places(blob, records.BLOCK)
    losses = judge(flipped(blob, blocks[2].offset + 1, blocks[-2].offset + 15))
    assert losses.faults == 2
    assert {blocks[2].offset, blocks[-2].offset} <= {damage.offset for damage in losses.damages}


@pytest.mark.parametrize("kind", [records.SHARED, records.UNIT, records.MEMBER_END, records.INDEX])
@pytest.mark.parametrize("level", LEVELS)
def test_any_other_record_may_be_lost(level, kind):
    blob = packed(level)
    for found in places(blob, kind):
        for at in (found.offset, found.offset + 2, found.offset + 5, found.stop - 1):
            losses = judge(flipped(blob, at))
            if kind in (records.MEMBER_END, records.INDEX):
                assert not losses
            assert losses.faults == 1


@pytest.mark.parametrize("level", LEVELS)
def test_without_its_end(level):
    blob = packed(level)
    assert not judge(blob[:-3])
    losses = judge(blob[: len(blob) * 2 // 3])
    assert losses
    assert losses.faults == 1
    assert losses.nbytes < len(dump()) * 0.6
    assert not judge(blob + b"more")


@pytest.mark.parametrize("kind", [records.START, records.MEMBER])
def test_without_its_beginning_nothing_is_left(kind):
    (found,) = places(packed(3), kind)
    blob = flipped(packed(3), found.offset + 7)
    if kind == records.START:
        with pytest.raises(kvzip.ContainerError, match="nothing can be restored"):
            salvage(blob)
    else:
        got, losses = salvage(blob)
        assert (got, losses.members, bool(losses)) == (b"", 1, True)


@pytest.mark.parametrize("level", LEVELS)
def test_a_damaged_magic_costs_nothing(level):
    assert not judge(flipped(packed(level), 1))


@pytest.mark.parametrize("level", [3, 6])
def test_with_a_draft(level):
    blob = packed(level, True)
    blocks = places(blob, records.BLOCK)
    for found in blocks[:: max(1, len(blocks) // 4)]:
        assert judge(flipped(blob, found.offset + 20), draft=draft()).damages[0].offset == found.offset
    with pytest.raises(kvzip.DraftError):
        salvage(flipped(blob, blocks[0].offset + 20))
    (named, *_) = places(blob, records.SHARED)
    assert not judge(flipped(blob, named.offset + 9), draft=draft())


def test_stored_blocks_stand_alone():
    noise = np.random.default_rng(3).bytes(64 << 10)
    whole = made.dump([("x", "I32", (16 << 10,), noise)])
    blob = kvzip.compress(whole, threads=1, block_log2=12)
    blocks = places(blob, records.BLOCK)
    got, losses = salvage(flipped(blob, blocks[3].offset + 30))
    assert losses.nbytes == 4096
    at = len(whole) - len(noise) + 3 * 4096
    assert got == whole[:at] + bytes(4096) + whole[at + 4096 :]


class TestDirectories:
    @pytest.fixture
    def folder(self, tmp_path):
        """Three files; the second holds a container in an opaque file."""
        folder = tmp_path / "dumps"
        folder.mkdir()
        inner = kvzip.compress(made.dump(made.tensors(range(1), **SHAPE)), threads=1, block_log2=12)
        (folder / "a.safetensors").write_bytes(dump())
        (folder / "b.bin").write_bytes(inner * 3)
        (folder / "c.safetensors").write_bytes(dump())
        return folder

    def contents(self, folder):
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    def restore(self, blob, target):
        losses = kvzip.salvage(blob, target)
        mark = target.with_name(target.name + ".lost.json")
        assert mark.exists() == bool(losses)
        if losses:
            said = json.loads(mark.read_text())
            assert said["lost_bytes"] == losses.nbytes
            assert said["lost_files"] == losses.members
        return losses, self.contents(target)

    def pack(self, folder):
        out = io.BytesIO()
        kvzip.compress(folder, out, threads=1, block_log2=12)
        return out.getvalue()

    def test_whole(self, folder, tmp_path):
        losses, got = self.restore(self.pack(folder), tmp_path / "out")
        assert not losses
        assert got == self.contents(folder)

    def test_a_file_whose_record_is_lost_takes_no_other_with_it(self, folder, tmp_path):
        blob, want = self.pack(folder), self.contents(folder)
        for number, found in enumerate(places(blob, records.MEMBER)):
            losses, got = self.restore(flipped(blob, found.offset + 8), tmp_path / f"out{number}")
            assert losses.members == 1
            name = sorted(want)[number]
            assert got == {kept: data for kept, data in want.items() if kept != name}

    def test_a_container_inside_is_not_taken_for_ours(self, folder, tmp_path):
        """Framing lost inside the file that holds containers: their records are whole, but none of ours."""
        blob, want = self.pack(folder), self.contents(folder)
        inside = next(f for f in places(blob, records.BLOCK) if f.length > 4000)
        for number, cut in enumerate((slice(0, 0), slice(-40, None))):
            out = bytearray(blob)
            out[inside.offset + 1 : inside.offset + 5] = b"\xff" * 4
            if cut != slice(0, 0):
                del out[cut]
            losses, got = self.restore(bytes(out), tmp_path / f"out{number}")
            assert losses
            assert got["a.safetensors"] == want["a.safetensors"]
            assert got["b.bin"] != want["b.bin"]
            assert len(got["b.bin"]) == len(want["b.bin"])
            assert any(damage.file == "b.bin" for damage in losses.damages)

    def test_cut_short_it_tells_that_files_may_be_missing(self, folder, tmp_path):
        blob = self.pack(folder)
        last = places(blob, records.MEMBER)[-1]
        losses, got = self.restore(blob[: last.offset], tmp_path / "out")
        assert losses.members is None
        assert sorted(got) == ["a.safetensors", "b.bin"]


def test_a_mark_goes_with_what_it_marked(tmp_path):
    target, mark = tmp_path / "x.safetensors", tmp_path / "x.safetensors.lost.json"
    blob = packed(3)
    assert kvzip.salvage(flipped(blob, len(blob) // 2), target)
    assert mark.exists()
    with pytest.raises(kvzip.TargetError):
        kvzip.salvage(blob, target)
    assert mark.exists()
    assert not kvzip.salvage(blob, target, force=True)
    assert not mark.exists()
    assert target.read_bytes() == dump()
