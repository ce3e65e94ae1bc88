"""``decompress --salvage`` and ``test`` of what is damaged: where it is, what is lost, and what is left."""

from __future__ import annotations

import json

import pytest

from .tool import dump_bytes, kvzip, start


def incomplete(*arguments, cwd):
    """A run that says in several lines what is lost."""
    result = kvzip(*arguments, cwd=cwd)
    assert result.code == 1, result
    assert all(line.startswith("kvzip: ") for line in result.lines)
    return result


@pytest.fixture
def damaged(folder, dump, container):
    """A container with a wrong byte in the middle."""
    (folder / "x.kvz").write_bytes(container)
    blob = bytearray(container)
    blob[len(blob) // 2] ^= 1
    (folder / "bad.kvz").write_bytes(blob)
    return folder


def test_test_says_which_block_of_which_tensor(damaged):
    result = incomplete("test", "--json", "x.kvz", "bad.kvz", cwd=damaged)
    rows = json.loads(result.text)["files"]
    assert [row["ok"] for row in rows] == [True, False]
    assert rows[0]["lost"] == []
    first = rows[1]["lost"][0]
    assert first["cause"] == "damaged"
    assert first["tensors"]
    lines = result.err.splitlines()
    assert "fails its check" in lines[0]
    assert f"block {first['blocks'][0]} of {first['tensors'][0]}" in lines[1]
    assert f"at byte {first['offset']}" in lines[1]


def test_what_is_left_is_restored_and_the_rest_marked(damaged, dump):
    result = incomplete("decompress", "--salvage", "--json", "bad.kvz", "-o", "out", cwd=damaged)
    (row,) = json.loads(result.text)["files"]
    got = (damaged / "out").read_bytes()
    wrong = sum(a != b for a, b in zip(got, dump, strict=True))
    lost = sum(one["bytes"] for one in row["lost"])
    assert 0 < wrong <= lost < len(dump)
    assert row["error"].startswith(f"bad.kvz: {lost} bytes")
    assert result.err.splitlines()[-1] == f"kvzip: {row['error']}"
    mark = json.loads((damaged / "out.lost.json").read_text())
    assert (mark["container"], mark["lost"]) == ("bad.kvz", row["lost"])
    again = ("decompress", "--salvage", "--skip-existing", "bad.kvz", "-o", "out")
    kvzip(*again, cwd=damaged).fails(1, "it exists")  # it is not taken for done


def test_by_a_pipe(damaged, dump):
    data = (damaged / "bad.kvz").read_bytes()
    process = start("decompress", "--salvage", cwd=damaged)
    out, err = process.communicate(data, timeout=60)
    assert process.returncode == 1
    assert len(out) == len(dump)
    assert b"are lost" in err
    assert not list(damaged.glob("*.lost.json"))


def test_what_is_whole_comes_back_whole(damaged, dump):
    kvzip("decompress", "--salvage", "x.kvz", cwd=damaged).quiet()
    assert (damaged / "x").read_bytes() == dump
    blob = (damaged / "x.kvz").read_bytes()
    (damaged / "cut.kvz").write_bytes(blob[:-1])
    result = kvzip("decompress", "--salvage", "cut.kvz", cwd=damaged)
    assert result.code == 0
    assert "damaged, but nothing is lost" in result.err
    assert (damaged / "cut").read_bytes() == dump
    assert not list(damaged.glob("*.lost.json"))


def test_what_cannot_be(damaged):
    (damaged / "no.kvz").write_bytes(dump_bytes())
    assert "no .kvz file" in kvzip("decompress", "--salvage", "no.kvz", cwd=damaged).fails(1).err
    assert "exclude each other" in kvzip("decompress", "--salvage", "--rm", "bad.kvz", cwd=damaged).fails(2).err
    (damaged / "bad").write_bytes(b"old")
    kvzip("decompress", "--salvage", "bad.kvz", cwd=damaged).fails(1)
    assert (damaged / "bad").read_bytes() == b"old"
    assert not list(damaged.glob("*.lost.json"))


def test_a_folder_lacks_no_file_that_is_whole(folder, dump):
    for name in ("a", "b", "c"):
        (folder / "tree").mkdir(exist_ok=True)
        (folder / "tree" / f"{name}.safetensors").write_bytes(dump)
    kvzip("compress", "tree", cwd=folder).quiet()
    blob = bytearray((folder / "tree.kvz").read_bytes())
    blob[len(blob) // 2] ^= 1
    (folder / "tree.kvz").write_bytes(blob)
    incomplete("decompress", "--salvage", "tree.kvz", "-o", "new", cwd=folder)
    same = [path.read_bytes() == dump for path in sorted((folder / "new").iterdir())]
    assert same == [True, False, True]
