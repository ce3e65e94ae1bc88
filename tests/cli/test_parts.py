"""``cat`` and ``diff`` as a user runs them."""

from __future__ import annotations

import json

import pytest
from safetensors import safe_open

from .tool import dump_bytes, kvzip, terminal


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def test_cat_writes_a_dump_that_the_library_opens(folder, inside):
    inside("cat", "c.safetensors.kvz", "--layer", "1", "--kind", "key", "-o", "out.safetensors").quiet()
    with safe_open(folder / "out.safetensors", "numpy") as found:
        assert list(found.keys()) == ["layers.1.key"]
    inside("cat", "a.safetensors", "--tensor", "layers.1.key", "-o", "again.safetensors").quiet()
    inside("diff", "out.safetensors", "again.safetensors").quiet()
    inside("cat", "c.safetensors.kvz", "-o", "out.safetensors").fails(1, "exists", "-f")
    inside("cat", "c.safetensors.kvz", "-f", "-o", "out.safetensors").quiet()
    run = inside("diff", "out.safetensors", "a.safetensors")
    assert (run.code, run.err) == (1, "")
    assert "0 of 4 tensors differ" in run.text
    assert "header" in run.text


def test_cat_through_pipes(folder, dump, container):
    for data in (dump, container):
        out = kvzip("cat", "--tensor", "layers.0.value", "--raw", cwd=folder, stdin=data).quiet().out
        assert out == dump[8 + int.from_bytes(dump[:8], "little") :][2048 : 2 * 2048]
        listed = kvzip("list", "--json", stdin=kvzip("cat", "--kind", "key", stdin=data).ok().out)
        assert [row["name"] for row in listed.json["files"][0]["tensors"]] == ["layers.0.key", "layers.1.key"]


def test_cat_refuses(folder, inside):
    inside("cat", "c.safetensors.kvz", "--tensor", "layers.0.keys", "-o", "x").fails(1, "did you mean layers.0.key")
    inside("cat", "c.safetensors.kvz", "--layer", "0", "--raw", "-o", "x").fails(2, "--raw", "2 are named")
    inside("cat", "c.safetensors.kvz", "--layer", "two", "-o", "x").fails(2, "--layer two")
    inside("cat", "none.kvz", "-o", "x").fails(1, "none.kvz")
    assert not (folder / "x").exists()
    terminal("cat", "c.safetensors.kvz", cwd=folder).fails(2, "terminal", "-o")
    inside("cat", "a.safetensors", "-f", "-o", "a.safetensors").fails(1, "a.safetensors")


def test_cat_json_goes_where_the_data_does_not(folder, inside):
    row = inside("cat", "--json", "c.safetensors.kvz", "--layer", "0", "-o", "x").ok().json
    assert row["tensors"] == ["layers.0.key", "layers.0.value"]
    assert row["target_bytes"] == (folder / "x").stat().st_size
    run = kvzip("cat", "--json", "c.safetensors.kvz", "--layer", "0", cwd=folder).ok()
    assert json.loads(run.err)["target"] == "-"


def test_diff_says_the_same_by_its_exit_code(inside):
    inside("diff", "a.safetensors", "c.safetensors.kvz").quiet()
    assert "the same" in inside("diff", "-v", "a.safetensors", "c.safetensors.kvz").ok().err
    assert inside("diff", "--json", "a.safetensors", "c.safetensors.kvz").ok().json["same"] is True
    inside("diff", "--by-layer", "a.safetensors", "c.safetensors.kvz").quiet()


def test_diff_shows_where(folder, inside):
    (folder / "b.safetensors").write_bytes(dump_bytes(seed=1))
    run = inside("diff", "a.safetensors", "b.safetensors")
    assert (run.code, run.err) == (1, "")
    assert "4 of 4 tensors differ" in run.text
    assert all(len(line) <= 80 for line in run.text.splitlines())
    assert (inside("diff", "-q", "a.safetensors", "b.safetensors").out) == b""
    rows = inside("diff", "--json", "a.safetensors", "b.safetensors").json["tensors"]
    assert [row["what"] for row in rows] == ["values"] * 4


def test_diff_of_lengths(folder, inside):
    (folder / "b.safetensors").write_bytes(dump_bytes(tokens=48))
    run = inside("diff", "--by-layer", "a.safetensors", "b.safetensors")
    assert run.code == 1
    assert "32 and 48 tokens" in run.text
    assert "shape: 1x1x32x32 and 1x1x48x32" in inside("diff", "a.safetensors", "b.safetensors").text


def test_diff_trouble_is_2(folder, inside, container):
    inside("diff", "a.safetensors", "none").fails(2, "none")
    (folder / "bad.kvz").write_bytes(container[:-1])
    inside("diff", "bad.kvz", "a.safetensors").fails(2, "bad.kvz")
    inside("diff", "-", "-").fails(2, "standard input")
    (folder / "dir").mkdir()
    for name, layer in (("x", 0), ("y", 1)):
        inside("cat", "a.safetensors", "--layer", str(layer), "-o", f"dir/{name}.safetensors").quiet()
    inside("diff", "a.safetensors", "dir").fails(2, "--by-layer")
    inside("diff", "--by-layer", "a.safetensors", "dir").quiet()
    inside("diff", "a.safetensors").fails(2, "--help")


def test_diff_reads_standard_input(folder, dump, container):
    kvzip("diff", "-", "c.safetensors.kvz", cwd=folder, stdin=dump).quiet()
    kvzip("diff", "a.safetensors", "-", cwd=folder, stdin=container).quiet()
