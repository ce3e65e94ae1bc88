"""Containers of directories whose members are named to get out of the folder: they do not, whatever the platform."""

from __future__ import annotations

import io
import os
from dataclasses import replace

import pytest
from apart import put_together, take_apart

import kvzip
from kvzip.container import records
from kvzip.container.structures import Member
from kvzip.files.members import member_parts

from .tool import dump_bytes, tree

ESCAPES = [
    "", ".", "..", "../x", "../../x", "/etc/kvzip-test", "a/../../x", "a/..", "a//x", "a/", "./x", "a/./x", "x\0y",
    "\0", "..\0", "/",
]  # fmt: skip
WINDOWS = [
    "CON", "nul", "aux.txt", "COM1", "lpt9.safetensors", "a/prn", "C:x", "C:/x", "C:\\x", "..\\x", "\\\\host\\x",
    "a\\..\\..\\x", "x:stream", "x.", "x ", "a?", "conin$",
]  # fmt: skip


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The records of a directory container with two members."""
    folder = tmp_path_factory.mktemp("packed")
    (folder / "0.safetensors").write_bytes(dump_bytes(layers=1))
    (folder / "1.txt").write_bytes(b"beside it")
    out = io.BytesIO()
    kvzip.compress(folder, out, threads=1)
    return take_apart(out.getvalue())


def named(parts, *names):
    """The container with its members called so."""
    left = list(names)
    out = []
    for kind, payload in parts:
        if kind == records.MEMBER:
            member = Member.from_bytes(memoryview(payload), "")
            payload = replace(member, name=left.pop(0) if left else member.name).to_bytes()
        out.append((kind, payload))
    return put_together(out)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder to work in, in an otherwise empty one, with something that must stay."""
    (tmp_path / "stays").write_bytes(b"as it was")
    inner = tmp_path / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    return inner


def untouched(place):
    return tree(place.parent) == {"stays": b"as it was", "inner/in.kvz": (place / "in.kvz").read_bytes()}


@pytest.mark.parametrize("force", [[], ["-f"]], ids=["", "force"])
@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("name", ESCAPES, ids=ascii)
def test_names_that_lead_out_are_refused(place, packed, inside, name, at, force):
    (place / "in.kvz").write_bytes(named(packed, *["ok.safetensors"] * at, name))
    found = inside("decompress", *force, "in.kvz", "-o", "out").fails(1, "member name")
    assert found.err.rstrip("\n").isprintable()
    assert untouched(place)
    assert not os.path.lexists("/etc/kvzip-test")


@pytest.mark.parametrize("name", WINDOWS, ids=ascii)
def test_names_that_windows_reserves_are_refused_there_and_stay_inside_elsewhere(
    place, packed, inside, name, monkeypatch
):
    (place / "in.kvz").write_bytes(named(packed, name))
    if os.name != "nt":
        assert inside("decompress", "in.kvz", "-o", "out").code == 0
        assert set(tree(place)) == {"in.kvz", f"out/{name}", "out/1.txt"}
        monkeypatch.setattr(member_parts, "__kwdefaults__", {"windows": True})
    inside("decompress", "in.kvz", "-o", "there").fails(1, "Windows")
    assert not os.path.lexists("there")


@pytest.mark.parametrize(
    "names",
    [("x", "x"), ("x", "x/y"), ("x/y", "x"), ("x" * 256,), ("x" * 65536,), ("ok", "é" * 200), ("a/" * 3000 + "x",),
     ("a/" * 128 + "x",), ("a/" * 127 + "x", "/x")],
    ids=["twice", "file as folder", "folder as file", "256", "65536", "two bytes each", "deep", "129", "128"],
)  # fmt: skip
def test_names_that_cannot_be_are_one_line_and_leave_nothing(place, packed, inside, names):
    (place / "in.kvz").write_bytes(named(packed, *names))
    inside("decompress", "in.kvz", "-o", "out").fails(1)
    assert untouched(place)


@pytest.mark.parametrize(("one", "other"), [("A", "a"), ("\u00e9", "e\u0301")], ids=["case", "Unicode form"])
def test_names_that_are_alike_are_two_files_or_an_error(place, packed, inside, one, other):
    (place / "in.kvz").write_bytes(named(packed, one, other))
    found = inside("decompress", "in.kvz", "-o", "out")
    if found.code == 0:
        assert len(os.listdir(place / "out")) == 2
        assert (place / "out" / other).read_bytes() == b"beside it"
    else:
        found.fails(1, "another member")
        assert untouched(place)


def test_a_link_in_the_target_is_not_followed(place, packed, inside):
    """The folder is made anew beside the old one, so what the old one has leads nowhere."""
    (place / "in.kvz").write_bytes(named(packed, "link/0.safetensors", "file"))
    outside = place.parent / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(b"kept")
    (place / "in").mkdir()
    (place / "in" / "link").symlink_to(outside, target_is_directory=True)
    (place / "in" / "file").symlink_to(outside / "kept")
    inside("decompress", "in.kvz", "--output-dir", ".").fails(1)
    assert inside("decompress", "-f", "in.kvz", "--output-dir", ".").code == 0
    assert tree(outside) == {"kept": b"kept"}
    assert not (place / "in" / "link").is_symlink()
    assert (place / "in" / "file").read_bytes() == b"beside it"


def test_the_name_of_a_single_dump_is_not_used(place, inside):
    """A container of one file says nothing of where it goes."""
    parts = take_apart(kvzip.compress(dump_bytes(layers=1), threads=1))
    (place / "in.kvz").write_bytes(named(parts, "../../escaped"))
    assert inside("decompress", "in.kvz", "-o", "out").code == 0
    assert set(tree(place.parent)) == {"stays", "inner/in.kvz", "inner/out"}


@pytest.mark.parametrize("command", ["list", "test", "stats"])
def test_names_are_shown_without_what_a_terminal_would_obey(place, packed, inside, command):
    (place / "in.kvz").write_bytes(named(packed, "\x1b[31mred\x07\n../x", "\u202egnp.exe"))
    found = inside(command, "in.kvz")
    assert found.code == 0
    assert not {"\x1b", "\x07"} & set(found.text + found.err)
