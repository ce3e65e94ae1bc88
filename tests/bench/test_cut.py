"""A part of a dump is a dump, of about the size asked for, and holds what its label says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kvzip.bench.dump import read_dump
from kvzip.errors import DumpError

from .made import CHANNELS, TOKENS, cache, dump_of, tensors

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def test_layers_are_the_lowest_and_a_run_from_the_middle():
    whole = dump_of(**cache(20), ids=np.arange(9))
    part = whole.cut(len(whole.data) * 5 // 20)
    found, all_of = tensors(part), tensors(whole)
    assert sorted({int(name.split(".")[1]) for name in found}) == [0, 8, 9, 10, 11]
    assert all(np.array_equal(found[name], all_of[name]) for name in found)
    assert "5 of 20 layers" in part.part
    assert "tokens" not in part.part


def test_few_layers_are_cut_along_the_tokens():
    whole = dump_of(**cache(20, tokens=1024))
    part = whole.cut(len(whole.data) // 20)
    found, all_of = tensors(part), tensors(whole)
    assert len(found) == 8
    length = next(iter(found.values())).shape[2]
    assert all(np.array_equal(found[name], all_of[name][:, :, :length]) for name in found)
    assert part.part.endswith(f"the first {length} of 1024 tokens")
    assert 0.8 < len(part.data) / (len(whole.data) / 20) < 1.2


def test_layers_that_are_an_axis():
    """LMCache has all layers in one tensor, with kinds outside or inside."""
    draw = np.random.default_rng(0)
    for shape, axis in (((12, 2, TOKENS, 2, CHANNELS), 0), ((2, 12, TOKENS, 2 * 32), 1)):
        name = "kv_chunk" if axis == 0 else "kvcache"
        whole = dump_of(**{name: draw.normal(size=shape).astype(np.float16)})
        (found,) = tensors(whole.cut(len(whole.data) * 6 // 12)).values()
        (all_of,) = tensors(whole).values()
        kept = [0, *range(3, 8)]
        assert np.array_equal(found, np.take(all_of, kept, axis)), name


def test_one_layer_is_cut_along_the_tokens():
    whole = dump_of(kv_cache=np.random.default_rng(0).normal(size=(2, 512, 2, CHANNELS)).astype(np.float16))
    (found,) = tensors(whole.cut(len(whole.data) // 2)).values()
    assert np.array_equal(found, tensors(whole)["kv_cache"][:, : found.shape[1]])
    assert found.shape[1] < 300


def test_what_no_layout_knows_is_cut_flat():
    whole = dump_of(abc=np.arange(1000, dtype=np.int64), other=np.arange(5000, dtype=np.uint8))
    part = whole.cut(9000)
    found = tensors(part)
    assert found["abc"].shape == (1000,)
    assert np.array_equal(found["other"], np.arange(5000, dtype=np.uint8)[: found["other"].size])
    assert 0 < found["other"].size < 1001
    assert "MB" in part.part


def test_a_dump_that_is_small_enough_is_itself():
    whole = dump_of(**cache(2))
    assert whole.cut(len(whole.data)) is whole


@pytest.mark.parametrize("path", sorted((FIXTURES / "real").glob("*.safetensors")), ids=lambda path: path.stem)
def test_parts_of_real_dumps_are_dumps(path):
    whole, size = read_dump(str(path), 1)
    assert size == len(whole.data) == path.stat().st_size
    part = whole.cut(size // 3)
    assert size // 10 < len(part.data) < size
    assert part.dtype == whole.dtype


def test_a_large_dump_is_held_in_part(tmp_path):
    """What is read of a file is what would be cut out of it."""
    whole = dump_of(**cache(20), ids=np.arange(9))
    (tmp_path / "d").write_bytes(whole.data)
    held, size = read_dump(str(tmp_path / "d"), 1, most=len(whole.data) // 2)
    assert size == len(whole.data)
    assert held.data == whole.cut(len(whole.data) // 2).data
    assert "of 20 layers" in held.part


@pytest.mark.parametrize("most", [1 << 20, 20_000])
def test_a_dump_cut_short_or_too_long(tmp_path, most):
    data = dump_of(**cache(20)).data
    (tmp_path / "d").write_bytes(data[:-100_000])
    with pytest.raises(DumpError, match="incomplete"):
        read_dump(str(tmp_path / "d"), 1, most=most)
    (tmp_path / "d").write_bytes(data + b"x")
    with pytest.raises(DumpError, match="more bytes"):
        read_dump(str(tmp_path / "d"), 1)
