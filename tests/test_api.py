"""The Python interface: memory, paths and files give the same bytes; errors say what and leave nothing behind."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys

import numpy as np
import pytest

import kvzip


def make(seed=0):
    """A small dump."""
    data = np.random.default_rng(seed).normal(0, 1, 2 * 50 * 16).astype("<f2").tobytes()
    entry = {"dtype": "F16", "shape": [1, 2, 50, 16], "data_offsets": [0, len(data)]}
    raw = json.dumps({"layers.0.key": entry}).encode()
    return struct.pack("<Q", len(raw)) + raw + data


DATA = make()
PACKED = kvzip.compress(DATA)


@pytest.fixture
def dump(tmp_path):
    path = tmp_path / "dump.safetensors"
    path.write_bytes(DATA)
    return path


def test_every_public_name_is_there():
    for name in kvzip.__all__:
        assert getattr(kvzip, name) is not None
    assert callable(kvzip.fleet.compress)
    with pytest.raises(AttributeError):
        _ = kvzip.no_such_name


class ReadOnly:
    """A file object that can do nothing but read."""

    def __init__(self, data):
        self.inner = io.BytesIO(data)

    def read(self, count=-1):
        return self.inner.read(count)


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, io.BytesIO, ReadOnly], ids=lambda w: w.__name__)
def test_every_kind_of_source_gives_the_same(wrap):
    assert kvzip.compress(wrap(DATA)) == PACKED
    assert kvzip.decompress(wrap(PACKED)) == DATA


def test_wide_memory_is_taken_as_bytes():
    padded = DATA + bytes(-len(DATA) % 2)
    with pytest.raises(kvzip.DumpError):
        kvzip.compress(memoryview(bytes(7)))
    if len(padded) == len(DATA):
        assert kvzip.compress(memoryview(np.frombuffer(padded, "<u2"))) == PACKED


@pytest.mark.parametrize("kind", [str, os.fspath, lambda p: p], ids=["str", "fspath", "path"])
def test_paths(dump, tmp_path, kind):
    report = kvzip.compress(kind(dump), kind(tmp_path / "out.kvz"))
    assert (tmp_path / "out.kvz").read_bytes() == PACKED
    assert (report.source_bytes, report.container_bytes, report.members) == (len(DATA), len(PACKED), 1)
    assert report.ratio == pytest.approx(len(DATA) / len(PACKED))
    back = kvzip.decompress(kind(tmp_path / "out.kvz"), kind(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == DATA
    assert (back.source_bytes, back.container_bytes) == (len(DATA), len(PACKED))


def test_paths_to_memory_and_files_to_files(dump):
    assert kvzip.compress(dump) == PACKED
    out, back = io.BytesIO(), io.BytesIO()
    kvzip.compress(io.BytesIO(DATA), out)
    assert out.getvalue() == PACKED
    kvzip.decompress(io.BytesIO(PACKED), back)
    assert back.getvalue() == DATA


def test_a_target_that_is_there_is_kept_unless_forced(dump, tmp_path):
    target = tmp_path / "out.kvz"
    target.write_bytes(b"mine")
    with pytest.raises(kvzip.TargetError):
        kvzip.compress(dump, target)
    assert target.read_bytes() == b"mine"
    kvzip.compress(dump, target, force=True)
    assert target.read_bytes() == PACKED


def test_an_input_is_never_its_own_output(dump):
    for force in (False, True):
        with pytest.raises(kvzip.TargetError):
            kvzip.compress(dump, dump, force=force)
    assert dump.read_bytes() == DATA


@pytest.mark.parametrize("broken", [PACKED[:-1], PACKED[:100], PACKED + b"\0"])
def test_nothing_is_left_of_a_failure(tmp_path, broken):
    source = tmp_path / "broken.kvz"
    source.write_bytes(broken)
    with pytest.raises(kvzip.ContainerError):
        kvzip.decompress(source, tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["broken.kvz"]


def test_a_directory_comes_back(tmp_path):
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    files = {"a.safetensors": DATA, "sub/b.pt": make(1), "sub/c.txt": b"text", "empty": b""}
    for name, data in files.items():
        (source / name).write_bytes(data)
    report = kvzip.compress(source, tmp_path / "all.kvz")
    assert report.members == 4
    kvzip.decompress(tmp_path / "all.kvz", tmp_path / "copy")
    found = {
        p.relative_to(tmp_path / "copy").as_posix(): p.read_bytes()
        for p in (tmp_path / "copy").rglob("*")
        if p.is_file()
    }
    assert found == files
    with pytest.raises(kvzip.OptionError, match="directory"):
        kvzip.decompress(tmp_path / "all.kvz")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"level": 0}, "--level 0: must be from 1 to 9"),
        ({"level": 10}, "--level 10"),
        ({"threads": -1}, "--threads -1: must be from 0"),
        ({"preset": "x"}, "--preset x"),
        ({"layout": "x"}, "layout"),
        ({"block_log2": 11}, "--block-size"),
        ({"alpha": 1.5}, "--alpha 1.5: must be from 0.5 to 1"),
        ({"n_update": 0}, "--n-update 0: must be a whole number from 1 to 65536"),
        ({"classes": 3}, "--classes 3: must be 1, 2, 4, 8 or 16"),
    ],
)
def test_bad_options_are_named_with_their_range(tmp_path, options, text):
    with pytest.raises(kvzip.OptionError, match=text) as caught:
        kvzip.compress(DATA, tmp_path / "out", **options)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_option_is_named():
    with pytest.raises((kvzip.OptionError, TypeError), match="alhpa"):
        kvzip.compress(DATA, alhpa=0.9)


def test_open_reads_tensors_and_closes_what_it_opened(tmp_path):
    path = tmp_path / "x.kvz"
    path.write_bytes(PACKED)
    with kvzip.open(path) as reader:
        assert reader.tensor("layers.0.key").bits.tobytes() == DATA[-3200:]
    assert reader.file.closed
    memory = io.BytesIO(PACKED)
    with kvzip.open(memory) as reader:
        assert reader.names() == ["layers.0.key"]
    assert not memory.closed


def test_the_exit_codes_are_the_errors():
    codes = {name: getattr(kvzip, name).exit_code for name in kvzip.__all__ if name.endswith("Error")}
    assert codes.pop("OptionError") == 2
    assert set(codes.values()) == {1}


def test_everything_named_is_there_and_importing_costs_nothing():
    for name in kvzip.__all__:
        assert getattr(kvzip, name) is not None
    code = "import sys, kvzip; print(sorted({'numpy', 'numba', 'rich', 'typer'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    with pytest.raises(AttributeError):
        _ = kvzip.nothing
