"""A sample is a dump of its own, with the structure of the whole."""

from __future__ import annotations

import io
from contextlib import ExitStack

import numpy as np
import pytest

import kvzip
from kvzip.dumps.safetensors import read_header
from kvzip.tuning import sample as sampling
from kvzip.tuning.data import Data, opened
from kvzip.tuning.sample import Wanted, sampled, spread

from .made import dump, numbered

TOKENS = 1500


def files(data: Data) -> dict[str, bytes]:
    found = {}
    with ExitStack() as held:
        for one in data.inputs():
            source = held.enter_context(one)
            found[source.name] = source.file.read()
    return found


def take(source, nbytes, layers=3, tokens=1024):
    with opened([source]) as (data,):
        found = sampled(data, Wanted(nbytes, layers, tokens))
        return found, files(found.data)


def tensors(raw: bytes):
    header = read_header(io.BytesIO(raw), "sample")
    data = raw[len(header.raw) :]
    return {e.name: (e, data[e.start : e.stop]) for e in header.entries}


def cache(layers=12, tokens=TOKENS):
    return dump(
        [(f"layers.{i}.{k}", "BF16", numbered((1, 2, tokens, 8))) for i in range(layers) for k in ("key", "value")],
        {"model": "x"},
    )


def test_small_data_is_its_own_sample():
    raw = cache(2, 40)
    found, got = take(raw, 1 << 20)
    assert found.whole
    assert got == {"": raw}
    assert found.values == 2 * 2 * 2 * 40 * 8


def test_some_layers_all_heads_first_tokens():
    found, got = take(cache(), 250_000)
    kept = tensors(got[""])
    layers = sorted({int(name.split(".")[1]) for name in kept})
    assert not found.whole
    assert layers[0] == 0
    assert len(layers) == found.layers >= 3
    assert {name.split(".")[2] for name in kept} == {"key", "value"}
    assert found.tokens == 1024
    whole = numbered((1, 2, TOKENS, 8))
    for entry, data in kept.values():
        assert entry.shape == (1, 2, 1024, 8)
        assert data == whole[:, :, :1024].tobytes()
    assert found.values == sum(int(np.prod(entry.shape)) for entry, _ in kept.values())
    assert kvzip.decompress(kvzip.compress(got[""])) == got[""]


@pytest.mark.parametrize(
    ("name", "shape", "kept"),
    [
        ("kv_cache", (2, TOKENS, 3 * 64), lambda a, n: a[:, :n]),
        ("kv_cache", (2, TOKENS, 3, 16), lambda a, n: a[:, :n]),
        ("kv_cache", (TOKENS, 3, 32), lambda a, n: a[:n]),
        ("K_layer3", (TOKENS, 3, 32), lambda a, n: a[:n]),
        ("layers.3.key", (3, TOKENS, 32), lambda a, n: a[:, :n]),
        ("layers.3.key", (2, 3, TOKENS, 32), lambda a, n: a[:, :, :n]),
    ],
)
def test_tokens_are_cut_in_every_layout(name, shape, kept):
    whole = numbered(shape)
    found, got = take(dump([(name, "BF16", whole)]), 1000)
    entry, data = tensors(got[""])[name]
    expected = kept(whole, found.tokens)
    assert found.tokens == 1024
    assert entry.shape == expected.shape
    assert data == np.ascontiguousarray(expected).tobytes()


def test_layers_of_one_tensor_are_chosen_too():
    whole = numbered((12, 2, TOKENS, 3, 16))  # layer, kind, token, head, channel
    raw = dump([("kv_chunk", "BF16", whole)])
    found, got = take(raw, 1 << 20)
    entry, data = tensors(got[""])["kv_chunk"]
    assert entry.shape[0] == found.layers < 12
    assert data == whole[sorted(spread(range(12), found.layers)), :, : found.tokens].tobytes()


def test_what_no_layout_knows_is_cut_to_a_share():
    raw = dump([("w", "F32", np.zeros((500, 999), "<u4")), ("i", "I64", np.zeros(7, "<u8"))])
    _, got = take(raw, 500_000)
    kept = tensors(got[""])
    assert 400_000 < len(kept["w"][1]) < 600_000
    assert len(kept["i"][1]) == 56


def test_a_folder_stays_one(tmp_path):
    for layer in range(9):
        raw = dump([("kv_cache", "BF16", numbered((2, TOKENS, 64)))])
        (tmp_path / f"model.layers.{layer}.self_attn.attn.safetensors").write_bytes(raw)
    (tmp_path / "notes.txt").write_bytes(b"x" * 100_000)
    found, got = take(str(tmp_path), 1 << 20)
    assert found.data.directory
    assert len(got["notes.txt"]) == sampling.LEAST_OPAQUE
    dumps = [name for name in got if name != "notes.txt"]
    assert any("layers.0." in name for name in dumps)
    assert 3 <= len(dumps) == found.layers < 9


def test_a_folder_of_very_many_chunks_is_thinned(tmp_path):
    for chunk in range(40):
        raw = dump([("layers.0.key", "BF16", numbered((1, 2, 256, 64)))])
        (tmp_path / f"chunk{chunk}.safetensors").write_bytes(raw)
    _, got = take(str(tmp_path), 300_000)
    assert 2 <= len(got) < 20


@pytest.mark.parametrize("total", [1, 2, 3, 8, 30, 80])
def test_layers_are_spread(total):
    for count in range(1, total + 2):
        chosen = spread(range(total), count)
        assert len(chosen) == min(count, total)
        assert 0 in chosen
    if total > 8:
        chosen = spread(range(total), 7)
        assert total - 1 in chosen
        assert any({n, n + 1} <= chosen for n in range(2, total))


def test_what_is_read_once_is_kept():
    raw = cache(2, 40)
    pipe = io.BytesIO(raw)
    with opened([pipe]) as (data,):
        assert files(data) == files(data) == {"": raw}
        assert data.nbytes == len(raw)


def test_containers_and_nothing_are_refused(tmp_path):
    packed = kvzip.compress(cache(1, 40))
    (tmp_path / "a.kvz").write_bytes(packed)
    (tmp_path / "none").mkdir()
    for source in (packed, str(tmp_path / "a.kvz")):
        with pytest.raises(kvzip.DumpError, match="already compressed"), opened([source]):
            pass
    with pytest.raises(kvzip.DumpError, match="holds no file"), opened([str(tmp_path / "none")]):
        pass
    with pytest.raises(kvzip.DumpError, match="nothing to tune on"), opened([]):
        pass
