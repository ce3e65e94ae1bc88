"""Rounds over codecs made up for it: what scribbles, fails, is slow, or does not bring everything back."""

from __future__ import annotations

import ctypes
import sys
import time
from pathlib import Path

import pytest

from kvzip.bench import peers
from kvzip.bench.dump import Dump, read_dump
from kvzip.bench.measure import NotLosslessError, once
from kvzip.bench.peers import Codec
from kvzip.bench.rounds import MOST_ROUNDS, compare

from .made import cache, dump_of

REAL = Path(__file__).resolve().parents[2] / "fixtures" / "real"


@pytest.fixture(scope="module")
def dump() -> Dump:
    return read_dump(str(REAL / "prose_bf16.safetensors"), 1)[0]


def codec(name="same", compress=None, decompress=None, **more) -> Codec:
    def same(data, threads):
        return bytes(memoryview(data))

    kinds = {"version": "1", "threaded": False, "slow": False} | more
    return Codec(name, compress=compress or same, decompress=decompress or same, **kinds)


def scribble(data: bytes, threads: int) -> bytes:
    """As zipnn does: through an immutable object."""
    kept = bytes(memoryview(data))
    ctypes.memset(id(data) + sys.getsizeof(b"") - 1, 0xFF, 4)
    return kept


def test_a_codec_may_scribble_on_its_input(dump):
    data = bytes(memoryview(dump.data))
    assert once(codec(compress=scribble), data, 1, "d").packed == dump.data
    assert data == dump.data


@pytest.mark.parametrize("broken", [lambda data: data[:-1], lambda data: data[:-1] + bytes([data[-1] ^ 1])])
def test_what_is_not_lossless_is_found(dump, broken):
    with pytest.raises(NotLosslessError, match="lossy, 1 threads, d"):
        once(codec("lossy", decompress=lambda data, threads: broken(data)), dump.data, 1, "d")


def test_another_codec_that_fails_is_left_out_and_the_rest_goes_on(dump):
    def refuse(data, threads):
        raise ValueError("no such\n thing")

    lossy = codec("lossy", decompress=lambda data, threads: data[:-1])
    found = compare(dump, [codec("bad", compress=refuse), codec(), lossy], 1, 0.2, lambda text: None)
    assert [unit.codec.name for unit in found.units] == ["same"]
    assert found.left_out["bad"] == "ValueError: no such thing"
    assert "not lossless" in found.left_out["lossy"]


def test_a_level_that_is_not_lossless_is_an_error(dump):
    with pytest.raises(NotLosslessError):
        compare(dump, [codec("kvzip-1", decompress=lambda data, threads: b"", level=1)], 1, 1, lambda text: None)


def test_turns_and_rounds(dump):
    said: list[str] = []
    found = compare(dump, [codec("a"), codec("b")], 1, 5, said.append)
    turns = [text for text in said if text.startswith("round")]
    assert turns[:4] == ["round 1, a", "round 1, b", "round 2, a", "round 2, b"]
    assert [unit.rates()[0].rounds for unit in found.units] == [MOST_ROUNDS, MOST_ROUNDS]
    assert len(found.copies) == MOST_ROUNDS


def slowly(per_byte: float):
    def work(data, threads):
        time.sleep(len(data) * per_byte)
        return bytes(memoryview(data))

    return work


@pytest.fixture(scope="module")
def large() -> Dump:
    """60 layers of noise, 12 MB."""
    return dump_of(**cache(60, tokens=6400))


def test_slow_codecs_go_over_a_part_if_time_is_short(large):
    slow = codec("slow", compress=slowly(2e-6), slow=True)  # all: 24 s
    began = time.perf_counter()
    found = compare(large, [codec(), slow, peers.make("kvzip-1", "F16")], 1, 10, lambda text: None)
    assert time.perf_counter() - began < 60
    quick, part, level = found.units
    assert quick.dump is level.dump is large
    assert quick.scale is None
    assert part.dump is not large
    assert "layers" in part.dump.part
    assert part.scale is not None
    assert part.ratio == pytest.approx(1, abs=0.1)  # all layers are alike


def test_everything_goes_over_the_whole_if_there_is_time(large):
    found = compare(large, [codec(), codec("slow", slow=True)], 1, 60, lambda text: None)
    assert all(unit.dump is large and unit.scale is None for unit in found.units)


def test_bits_are_those_of_the_statistics(dump):
    import kvzip

    (unit,) = compare(dump, [peers.make("kvzip-1", "BF16")], 1, 0.1, lambda text: None).units
    real = kvzip.stats(kvzip.compress(dump.data, level=1)).kinds
    assert unit.bits == {kind: totals.bits_per_value for kind, totals in real.items()}
    assert unit.ratio == len(dump.data) / len(kvzip.compress(dump.data, level=1))
