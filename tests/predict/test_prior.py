"""Prior files: what is read back, what is refused, and what training makes of counts."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as some

import kvzip
from kvzip.container import records
from kvzip.container.shared import Shared, prior_payload
from kvzip.container.structures import RESIDUALS, Start
from kvzip.pipeline.train import TRUST, blend
from kvzip.predict.grid import K_ABOVE, Grid, first_phase
from kvzip.predict.prior import (
    MANTISSAS,
    MASS_LOG2,
    Prior,
    asset,
    class_starts,
    contexts_of,
    entropies,
    fill,
    types_of,
)

DUMPS = Path(__file__).resolve().parents[2] / "fixtures/real"
PROSE = DUMPS / "prose_bf16.safetensors"


def made(*mantissas, name="one"):
    """A prior whose rows are the shipped ones turned round, but for the escape."""
    rows = {m: np.concatenate([asset()[m][:, 127::-1], asset()[m][:, 128:]], axis=1) for m in mantissas or (7,)}
    return Prior.make(name, rows)


def checked(body):
    """A file with the right check at its end."""
    return bytes(body) + xxhash.xxh3_64_intdigest(bytes(body)).to_bytes(8, "little")


@pytest.mark.parametrize("mantissas", [(2,), (3, 10), MANTISSAS])
def test_a_file_comes_back(mantissas):
    prior = made(*mantissas, name="näme")
    again = Prior.from_bytes(prior.data, "x")
    assert (again.name, again.identity, list(again.rows)) == ("näme", prior.identity, list(mantissas))
    assert len(prior.data) <= 1 << 16
    for mantissa in MANTISSAS:
        assert np.array_equal(again.of(mantissa), prior.of(mantissa))
        assert np.array_equal(again.of(mantissa), asset()[mantissa]) == (mantissa not in mantissas)


@given(some.data())
def test_any_change_or_cut_is_found(data):
    whole = made().data
    at = data.draw(some.integers(0, len(whole) - 1))
    broken = bytearray(whole)
    broken[at] ^= data.draw(some.integers(1, 255))
    for bad in (bytes(broken), whole[:at], whole + whole[:at] + b"x"):
        with pytest.raises(kvzip.PriorError):
            Prior.from_bytes(bad, "x")


def test_what_is_wrong_behind_a_right_check():
    body = made(3, 7).data[:-8]
    start = len("\x89KVP\r\n\x1a\n") + 1 + 1 + len("one")
    row = bytearray(body)
    row[start + 2] ^= 1
    same_grid_twice = bytearray(body)
    same_grid_twice[start + 1 + 1 + 2 * 129 * contexts_of(3)] = 3
    unknown_grid = bytearray(body)
    unknown_grid[start + 1] = 4
    not_utf8 = bytearray(body)
    not_utf8[start - 1] = 0xFF
    none = bytearray(body[: start + 1])
    none[start] = 0
    for bad in (row, same_grid_twice, unknown_grid, not_utf8, none, body + b"\0", body[:-1]):
        with pytest.raises(kvzip.PriorError, match="damaged"):
            Prior.from_bytes(checked(bad), "x")
    newer = bytearray(body)
    newer[8] = 2
    with pytest.raises(kvzip.UnsupportedError, match="newer kvzip"):
        Prior.from_bytes(checked(newer), "x")


@pytest.mark.parametrize("mantissa", MANTISSAS)
def test_shipped_rows_and_what_is_told_of_them(mantissa):
    rows = asset()[mantissa]
    assert (rows.sum(axis=1) == 1 << MASS_LOG2).all()
    assert rows.shape == (contexts_of(mantissa), 129) == (Grid(mantissa, 8, 127).contexts, 129)
    told, starts = entropies(rows, mantissa), class_starts(mantissa)
    assert len(told) == len(starts) == first_phase(mantissa) + K_ABOVE + 1
    assert all(0 < bits < 7 for bits in told)
    assert starts == sorted(starts)
    assert types_of(7) == ["BF16", "F32"]


def test_fill():
    grid, prior = Grid(7, 8, 127), made(7)
    counts = np.zeros((1, grid.contexts, 257), np.int64)
    fill(counts, grid, 0, prior)
    assert not counts.any()
    fill(counts, grid, 64, prior)
    assert (counts.sum(axis=2) == 64 * 16 << 16).all()
    shipped = np.zeros_like(counts)
    fill(shipped, grid, 64)
    assert np.array_equal(counts[:, :, 127::-1], shipped[:, :, :128])


def test_blend_trusts_what_it_saw_often():
    counts = np.zeros((contexts_of(7), 129), np.int64)
    counts[1, 5] = TRUST
    counts[2, 5] = 1000 * TRUST
    rows = blend(counts, 7)
    assert (rows.sum(axis=1) == 1 << MASS_LOG2).all()
    assert np.array_equal(rows[0], asset()[7][0])
    assert abs(rows[1, 5] - (1 << 14) - asset()[7][1, 5] // 2) < 129
    assert rows[2, 5] > 32700


@pytest.fixture(scope="module")
def trained():
    return kvzip.train_prior([PROSE], name="prose")


def test_training_is_deterministic(trained):
    assert kvzip.train_prior([PROSE.read_bytes()], name="prose", threads=1) == trained
    prior = Prior.from_bytes(trained, "x")
    assert (prior.name, list(prior.rows)) == ("prose", [7])


def test_training_refuses():
    with pytest.raises(kvzip.DumpError, match="nothing in these dumps"):
        kvzip.train_prior([b"\x02\0\0\0\0\0\0\0{}"])
    with pytest.raises(kvzip.OptionError, match="64"):
        kvzip.train_prior([PROSE], name="x" * 65)


def test_a_trained_prior_helps_and_is_needed(trained):
    source = PROSE.read_bytes()
    plain, packed = kvzip.compress(source), kvzip.compress(source, prior=trained)
    assert len(packed) < len(plain)
    assert kvzip.decompress(packed, prior=trained) == source
    assert kvzip.decompress(plain, prior=trained) == source, "one that is not needed does no harm"
    identity = Prior.from_bytes(trained, "x").identity
    with pytest.raises(kvzip.PriorError, match=f"{identity}; give its file"):
        kvzip.decompress(packed)
    with pytest.raises(kvzip.PriorError, match=f"{identity}, the one given is {made().identity}"):
        kvzip.decompress(packed, prior=made().data)
    with kvzip.open(io.BytesIO(packed), prior=trained) as container:
        key = container.tensor("layers.7.key").bits
    with kvzip.open(io.BytesIO(plain)) as container:
        assert np.array_equal(container.tensor("layers.7.key").bits, key)
    with pytest.raises(kvzip.PriorError):
        kvzip.open(io.BytesIO(packed))
    assert kvzip.stats(packed, prior=trained).source_bytes == len(source)


@pytest.mark.parametrize("level", [2, 3, 4])
def test_embedded(trained, level):
    source = PROSE.read_bytes()
    packed = kvzip.compress(source, level=level, prior=trained, embed_prior=True)
    assert kvzip.decompress(packed) == kvzip.decompress(packed, prior=made().data) == source
    with kvzip.open(io.BytesIO(packed)) as container:
        assert container.tensor("layers.7.value").bits.shape == (1, 3, 256, 64)
    assert kvzip.stats(packed).container_bytes == len(packed)


def test_options_that_exclude_each_other(trained):
    for options in ({"embed_prior": True}, {"prior": "none", "prior_weight": 9}, {"prior": trained, "level": 1}):
        with pytest.raises(kvzip.OptionError):
            kvzip.compress(PROSE, **options)
    assert kvzip.compress(PROSE, prior="builtin") == kvzip.compress(PROSE)
    assert kvzip.compress(PROSE, prior="none") == kvzip.compress(PROSE, prior_weight=0)


def test_start_names_it():
    prior = made()
    start = Start(residuals=prior.identity)
    assert Start.from_bytes(memoryview(start.to_bytes()), "x") == start
    assert (start.needs, Start().needs, Start().residuals) == (prior.identity, "", RESIDUALS)
    for name in ("residuals-2", prior.identity.upper(), prior.identity[:-1], prior.identity + "0"):
        with pytest.raises(kvzip.UnsupportedError, match="prior"):
            Start.from_bytes(memoryview(Start(residuals=name).to_bytes()), "x")
    old = Start(version=1)
    assert Start.from_bytes(memoryview(old.to_bytes()), "x") == old


def test_a_record_of_another_prior_is_damage():
    payload = memoryview(prior_payload(made()))
    known = Shared(needs=made().identity)
    known.add(payload, "x")
    assert known.prior is not None
    for shared in (known, Shared(), Shared(needs=made(2).identity)):
        with pytest.raises(kvzip.ContainerError, match="does not name"):
            shared.add(payload, "x")
    with pytest.raises(kvzip.ContainerError, match="no prior file"):
        Shared(needs=made().identity).add(memoryview(bytes((3, 0, 3)) + b"abc"), "x")


def test_the_record_comes_right_behind_start(trained):
    packed = kvzip.compress(PROSE, prior=trained, embed_prior=True)
    reader = records.RecordReader(io.BytesIO(packed), "x")
    assert [reader.next().type for _ in range(3)] == [records.START, records.SHARED, records.MEMBER]
