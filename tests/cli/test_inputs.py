"""What is no dump and no container, what is already compressed, what is damaged: one line, nothing written."""

from __future__ import annotations

import os
import pickle
import random

import pytest

from .tool import at_once, dump_bytes, kvzip, tree


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def test_compressed_files_are_skipped_with_a_warning(folder, inside, dump, container):
    inside("compress", "c.safetensors.kvz").fails(0, "already compressed", "-f")
    (folder / "renamed").write_bytes(container)
    inside("compress", "renamed").fails(0, "already compressed")
    inside("compress", "-q", "renamed").quiet()
    assert kvzip("compress", stdin=container).fails(1, "already compressed").out == b""
    run = inside("compress", "--json", "c.safetensors.kvz")
    assert run.json["files"][0]["skipped"] == "already compressed"
    assert tree(folder) == {"a.safetensors": dump, "c.safetensors.kvz": container, "renamed": container}


def test_force_compresses_a_container_again(folder, inside, container):
    inside("compress", "-f", "c.safetensors.kvz").ok()
    inside("decompress", "-f", "c.safetensors.kvz.kvz", "-o", "back").ok()
    assert (folder / "back").read_bytes() == container


def test_an_unknown_suffix_needs_an_output(folder, inside, dump, container):
    (folder / "x.bin").write_bytes(container)
    inside("decompress", "x.bin").fails(2, "x.bin", "-o")
    inside("decompress", "x.bin", "-o", "y").quiet()
    assert (folder / "y").read_bytes() == dump
    inside("decompress", "a.safetensors", "-o", "z").fails(1, "not a .kvz file", "a.safetensors")
    (folder / "UP.KVZ").write_bytes(container)
    inside("decompress", "UP.KVZ").quiet()
    assert (folder / "UP").read_bytes() == dump


def test_missing_files_and_near_misses(inside):
    for command in ("compress", "test", "list", "stats"):
        inside(command, "a.safetensor").fails(1, "no such file: a.safetensor;", "did you mean a.safetensors?")
    inside("decompress", "c.safetensors.kv").fails(1, "no such file", "did you mean c.safetensors.kvz?")
    inside("compress", "none/x").fails(1, "no such folder: none;")


def test_an_empty_name_is_no_folder(folder, inside):
    (folder / "here").mkdir()
    os.chdir(folder / "here")
    run = inside("compress", "")
    assert run.code != 0
    assert not (folder / "here.kvz").exists()


FOREIGN = {
    "GGUF": b"GGUF\x03\0\0\0" + bytes(64),
    "pickle": pickle.dumps({"a": 1}, 4),
    "zip": b"PK\x03\x04" + bytes(64),
    "NumPy": b"\x93NUMPY\x01\0" + bytes(64),
    "HDF5": b"\x89HDF\r\n\x1a\n" + bytes(64),
    "llama.cpp": b"qsgg\x02\0\0\0" + bytes(64),
    "gzip": b"\x1f\x8b\x08" + bytes(64),
    "zstd": b"\x28\xb5\x2f\xfd" + bytes(64),
    "git-lfs": b"version https://git-lfs.github.com/spec/v1\n",
    "empty": b"",
    "JSON": b'{"a": [1, 2, 3, 4, 5]}',
    "text": b"hello, here is some plain text\n",
    "web page": b"<!DOCTYPE html><html></html>",
    "bare numbers": bytes(512),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_other_files_are_named(folder, inside, what):
    (folder / "it").write_bytes(FOREIGN[what])
    for command in ("compress", "list", "stats"):
        run = inside(command, "it").fails(1, "it", what, ";")
        assert run.out == b""
    inside("decompress", "it", "-o", "out").fails(1, "it")
    inside("test", "it").fails(1, "it")
    assert sorted(p.name for p in folder.iterdir()) == ["a.safetensors", "c.safetensors.kvz", "it"]


def test_the_same_from_a_pipe():
    for run in at_once(("compress", "/dev/null"), ("decompress", "/dev/null", "-o", "-")):
        assert run.fails(1).out == b""
    assert "standard input" in kvzip("list", stdin=FOREIGN["GGUF"]).fails(1, "GGUF").err


def test_folders_where_files_are_wanted(folder, inside):
    (folder / "d").mkdir()
    inside("decompress", "d").fails(2, "folder", "-r")
    inside("test", "d").fails(1, "folder")


def test_the_advice_for_a_folder_is_possible(folder, inside):
    (folder / "d").mkdir()
    assert "-r" not in inside("test", "d").fails(1, "folder").err


def damaged(container: bytes):
    """Cuts and single bits everywhere, seldom enough to be quick."""
    dice = random.Random(1)
    for cut in (0, 1, 7, 8, 9, 40, len(container) // 2, len(container) - 1):
        yield f"cut at {cut}", container[:cut]
    for at in (0, 8, 9, 30, len(container) - 1, *(dice.randrange(len(container)) for _ in range(30))):
        flipped = bytearray(container)
        flipped[at] ^= 1 << dice.randrange(8)
        yield f"bit at {at}", bytes(flipped)
    yield "one byte more", container + b"\0"
    yield "twice", container + container


def test_damage_is_one_line_and_leaves_nothing(folder, inside, container, capfd):
    for what, data in damaged(container):
        (folder / "bad.kvz").write_bytes(data)
        tested = inside("test", "bad.kvz")  # a line for it, and one for each place that is damaged
        assert tested.code == 1
        assert all(line.startswith("kvzip: bad.kvz: ") for line in tested.lines)
        inside("decompress", "bad.kvz", "-o", "out").fails(1, "bad.kvz")
        assert not (folder / "out").exists(), what
        assert inside("list", "bad.kvz").code in (0, 1), what


def test_damage_to_a_pipe_gives_no_wrong_success(container):
    broken = bytearray(container)
    broken[len(broken) * 2 // 3] ^= 16
    kvzip("decompress", stdin=bytes(broken)).fails(1, "standard input", "another copy")


def test_a_changing_source_is_noticed(folder, inside, monkeypatch):
    from kvzip.files import FileSource

    check = FileSource.check_unchanged

    def grow(source):
        with open("a.safetensors", "ab") as file:
            file.write(b"more")
        check(source)

    monkeypatch.setattr(FileSource, "check_unchanged", grow)
    inside("compress", "--rm", "a.safetensors").fails(1, "changed while it was read")
    assert sorted(p.name for p in folder.iterdir()) == ["a.safetensors", "c.safetensors.kvz"]


def test_odd_but_valid_dumps_survive(folder, inside):
    (folder / "odd").mkdir()
    odd = {
        "no-tensors": (2).to_bytes(8, "little") + b"{}",
        "empty-name": dump_bytes(names=[""]),
        "emoji": dump_bytes(names=["\U0001f600[b]\n", "a\0b", "/"], metadata={"k": "v" * 500, "": "\U0001f600"}),
    }
    for name, data in odd.items():
        (folder / "odd" / name).write_bytes(data)
        inside("compress", f"odd/{name}").quiet()
        inside("decompress", f"odd/{name}.kvz", "-o", "back").quiet()
        assert (folder / "back").read_bytes() == data
        (folder / "back").unlink()
        for target in (f"odd/{name}", f"odd/{name}.kvz"):
            inside("list", target).quiet()
            inside("stats", target).quiet()
