"""``pack`` and ``unpack``, and archives for ``list``, ``test`` and the others."""

from __future__ import annotations

import pytest

from .tool import dump_bytes, kvzip, start


@pytest.fixture
def packed(folder, dump):
    """Two dumps of one prompt and another one, and their archive."""
    (folder / "b.safetensors").write_bytes(dump)
    (folder / "sub").mkdir()
    (folder / "sub" / "other.safetensors").write_bytes(dump_bytes(layers=2))
    names = ("a.safetensors", "b.safetensors", "sub/other.safetensors")
    kvzip("pack", *names, "-o", "x.kva", cwd=folder).quiet()
    return folder


def test_there_and_back(packed, dump):
    kvzip("unpack", "x.kva", "--output-dir", "out", cwd=packed).quiet()
    assert (packed / "out" / "a.safetensors").read_bytes() == dump
    assert (packed / "out" / "sub" / "other.safetensors").read_bytes() == dump_bytes(layers=2)
    kvzip("unpack", "x.kva", "--output-dir", "out", cwd=packed).fails(1, "it exists")
    kvzip("unpack", "-f", "x.kva", "b*", "--output-dir", "out", cwd=packed).quiet()
    assert kvzip("unpack", "-c", "x.kva", "b.safetensors", cwd=packed).ok().out == dump
    row = kvzip("pack", "--json", "-f", "a.safetensors", "b.safetensors", "-o", "x.kva", cwd=packed).ok().json
    assert [one["draft"] for one in row["files"]] == [None, "a.safetensors"]
    assert row["files"][1]["container_bytes"] < 0.3 * row["files"][0]["container_bytes"]


def test_by_pipes(packed, dump):
    process = start("pack", "a.safetensors", "b.safetensors", cwd=packed)
    archive, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert archive[:4] == b"\x89KVP"
    process = start("unpack", "-c", "-", "b.safetensors", cwd=packed)
    out, err = process.communicate(archive, timeout=60)
    assert (process.returncode, err, out) == (0, b"", dump)


def test_what_is_in_it_and_whether_it_is_whole(packed):
    rows = kvzip("list", "--json", "x.kva", cwd=packed).ok().json["files"]
    assert [row["member"] for row in rows] == ["a.safetensors", "b.safetensors", "sub/other.safetensors"]
    assert [bool(row["draft"]) for row in rows[:2]] == [False, True]
    kvzip("test", "x.kva", cwd=packed).quiet()
    data = bytearray((packed / "x.kva").read_bytes())
    data[len(data) // 3] ^= 1
    (packed / "x.kva").write_bytes(data)
    kvzip("test", "x.kva", cwd=packed).fails(1, "x.kva", "damaged")


def test_a_folder(packed):
    kvzip("pack", "-r", "sub", "-o", "y.kva", cwd=packed).quiet()
    rows = kvzip("list", "--json", "y.kva", cwd=packed).ok().json["files"]
    assert [row["member"] for row in rows] == ["sub/other.safetensors"]


def test_what_cannot_be(packed):
    kvzip("unpack", "x.kva", "c.safetensors", cwd=packed).fails(1, "did you mean")
    kvzip("unpack", "-c", "x.kva", cwd=packed).fails(2, "3 are meant")
    kvzip("unpack", "-c", "x.kva", "a*", "--output-dir", "out", cwd=packed).fails(2, "exclude each other")
    kvzip("pack", "-", "-o", "y.kva", cwd=packed).fails(2, "not standard input")
    kvzip("pack", "a.safetensors", "-o", "a.safetensors", "-f", cwd=packed).fails(1, "same file")
    kvzip("pack", "a.safetensors", "-o", "x.kva", cwd=packed).fails(1, "it exists")
    kvzip("decompress", "x.kva", "-o", "y", cwd=packed).fails(1, "kvzip unpack")
    kvzip("unpack", "c.safetensors.kvz", cwd=packed).fails(1, "kvzip pack")
