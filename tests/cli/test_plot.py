"""``stats --plot``: which files it writes, and what it refuses before it measures anything."""

from __future__ import annotations

import os
import sys

import pytest

from .tool import dump_bytes, kvzip, temporaries, terminal


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def starts(path, words: bytes) -> bool:
    return path.read_bytes().startswith(words)


def test_the_suffix_chooses(folder, inside):
    inside("stats", "--plot", "r.html", "a.safetensors").quiet()
    assert starts(folder / "r.html", b"<!DOCTYPE html>")
    pytest.importorskip("matplotlib")
    inside("stats", "--plot", "p.SVG", "a.safetensors").quiet()
    assert starts(folder / "p.SVG", b"<?xml")
    inside("stats", "--plot", "p.png", "c.safetensors.kvz").quiet()
    assert starts(folder / "p.png", b"\x89PNG")


def test_tables_and_json_are_shown_all_the_same(folder, inside):
    assert "bits/value" in inside("stats", "--plot", "1.html", "a.safetensors").quiet().text
    assert inside("stats", "--json", "--plot", "2.html", "a.safetensors").quiet().json["files"]
    assert "░" in inside("stats", "--heatmap", "--plot", "3.html", "a.safetensors").quiet().text
    for name in ("1.html", "2.html", "3.html"):
        assert "a.safetensors" in (folder / name).read_text("utf-8")


@pytest.mark.parametrize("name", ["x.jpg", "x", "-", "x.html.bak", ".svg"])
def test_another_suffix_is_a_usage_error(folder, inside, name):
    inside("stats", "--plot", name, "none").fails(2, ".svg", ".png", ".html")


def test_without_matplotlib(folder, inside):
    (folder / "sitecustomize.py").write_text("import sys; sys.modules['matplotlib'] = None")
    env = {"PYTHONPATH": os.pathsep.join((str(folder), os.environ.get("PYTHONPATH", "")))}
    for name in ("x.svg", "x.png"):
        run = kvzip("stats", "--plot", name, "none", env=env)
        run.fails(1, "matplotlib", "pip install", ".html")
        assert run.out == b""
    kvzip("stats", "--plot", "x.html", "a.safetensors", env=env).quiet()


def test_an_existing_file_is_kept_without_force(folder, inside):
    (folder / "r.html").write_text("mine")
    run = inside("stats", "--plot", "r.html", "a.safetensors").fails(1, "r.html", "-f/--force", "--plot")
    assert run.out == b""  # it did not measure first
    assert (folder / "r.html").read_text() == "mine"
    inside("stats", "-f", "--plot", "r.html", "a.safetensors").quiet()
    assert starts(folder / "r.html", b"<!DOCTYPE html>")
    assert not temporaries(folder)


def test_an_input_is_never_written_over(folder, inside):
    (folder / "a.html").write_bytes(dump := (folder / "a.safetensors").read_bytes())
    inside("stats", "-f", "--plot", "a.html", "a.html").fails(1, "same file")
    assert (folder / "a.html").read_bytes() == dump


def test_where_nothing_can_be_written(folder, inside):
    inside("stats", "--plot", "none/r.html", "a.safetensors").fails(1, "no such folder", "--plot")
    (folder / "d.html").mkdir()
    inside("stats", "-f", "--plot", "d.html", "a.safetensors").fails(1, "d.html", "folder")


def test_a_picture_is_of_one_file_and_a_report_of_all(folder, inside):
    inside("stats", "--plot", "x.svg", "a.safetensors", "c.safetensors.kvz").fails(2, "x.svg", ".html")
    inside("stats", "--plot", "x.html", "a.safetensors", "c.safetensors.kvz").quiet()
    text = (folder / "x.html").read_text("utf-8")
    assert text.count("<section") == 2


def test_what_failed_is_left_out(folder, inside):
    inside("stats", "--plot", "x.html", "none", "a.safetensors").fails(1, "none")
    assert "a.safetensors" in (folder / "x.html").read_text("utf-8")
    inside("stats", "--plot", "y.html", "none").fails(1, "none")
    assert not (folder / "y.html").exists()


def test_a_folder_may_hold_its_own_report(folder, inside):
    (folder / "tree").mkdir()
    (folder / "tree" / "a.safetensors").write_bytes(dump_bytes())
    inside("stats", "--plot", "tree/r.html", "tree").quiet()
    assert (folder / "tree" / "r.html").exists()


@pytest.mark.skipif(sys.platform == "darwin", reason="HFS+ has no such names")
def test_a_hostile_name_is_text(folder, inside):
    name = "<script>alert(1)<|script>&\"'\x1b[31m\udcff.safetensors"
    (folder / name).write_bytes(dump_bytes())
    inside("stats", "--plot", "x.html", name).quiet()
    text = (folder / "x.html").read_text("utf-8")
    assert text.count("<script>") == 1
    assert "\x1b" not in text
    assert "&lt;script&gt;alert(1)" in text


def test_a_terminal_is_told(folder):
    run = terminal("stats", "--plot", "x.html", "a.safetensors", cwd=folder, out=False)
    assert "x.html" in run.ok().err
