"""Many inputs, trees and folder containers."""

from __future__ import annotations

import os

import pytest

from .tool import dump_bytes, kvzip, tree


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


@pytest.fixture
def dumps(folder):
    """A tree of dumps with names that collide when flattened, one container and one note."""
    for name in ("x.safetensors", "sub/x.safetensors", "sub/deep/layer[0].safetensors"):
        path = folder / "dumps" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(dump_bytes(seed=len(name)))
    return folder / "dumps"


def test_it_goes_on_after_a_failure_and_leaves_with_1(folder, inside, dump, container):
    (folder / "b.safetensors").write_bytes(b"no dump")
    (folder / "z.safetensors").write_bytes(dump)
    run = inside("compress", "b.safetensors", "a.safetensors", "none", "z.safetensors")
    assert run.code == 1
    assert len(run.lines) == 3
    assert all(line.startswith("kvzip: ") for line in run.lines)
    assert "2 failed" in run.lines[-1]
    assert (folder / "a.safetensors.kvz").read_bytes() == (folder / "z.safetensors.kvz").read_bytes() == container
    assert not (folder / "b.safetensors.kvz").exists()
    assert len(inside("compress", "-qf", "b.safetensors", "a.safetensors", "none").lines) == 2
    (folder / "bad.kvz").write_bytes(container[:99])
    run = inside("decompress", "bad.kvz", "z.safetensors.kvz", "-f")
    assert (run.code, len(run.lines)) == (1, 2)
    for command in ("test", "list", "stats"):
        run = inside(command, "bad.kvz", "none", "c.safetensors.kvz")
        assert (run.code, len(run.lines)) == (1, 2), command
        assert command == "test" or b"layer" in run.out


def test_json_of_many_inputs(folder, inside):
    (folder / "b.safetensors").write_bytes(b"no dump")
    run = inside("compress", "--json", "b.safetensors", "a.safetensors")
    assert run.code == 1
    assert run.json["failed"] == 1
    assert [(row["source"], row["error"] is None) for row in run.json["files"]] == [
        ("b.safetensors", False),
        ("a.safetensors", True),
    ]


def test_recursion_mirrors_the_tree_and_back(folder, inside, dumps):
    (dumps / "old.kvz").write_bytes(b"skipped by its name")
    before = {name: data for name, data in tree(dumps).items() if name != "old.kvz"}
    run = inside("compress", "-r", "dumps", "--output-dir", "out").ok()
    assert "already compressed" in run.err
    assert set(tree(folder / "out" / "dumps")) == {f"{name}.kvz" for name in before}
    inside("decompress", "-r", "out", "--output-dir", "back").ok()
    assert tree(folder / "back" / "out" / "dumps") == before
    assert {name for name in tree(dumps) if name.endswith(".kvz")} == {"old.kvz"}


def test_recursion_in_place(inside, dumps):
    before = tree(dumps)
    inside("compress", "-r", "dumps").ok()
    assert set(tree(dumps)) == set(before) | {f"{name}.kvz" for name in before}
    inside("compress", "-r", "--rm", "-f", "dumps").ok()
    assert set(tree(dumps)) == {f"{name}.kvz" for name in before}
    inside("decompress", "-r", "--rm", "dumps").ok()
    assert tree(dumps) == before


def test_recursion_with_one_output_is_a_usage_error(inside, dumps):
    for args in (["-o", "x"], ["-c"]):
        inside("compress", "-r", "dumps", *args).fails(2, "--output-dir")


def test_output_dir_takes_single_files_by_their_names(folder, inside, dumps, container):
    inside("compress", "dumps/sub/x.safetensors", "a.safetensors", "--output-dir", "new/er").ok()
    assert set(tree(folder / "new")) == {"er/x.safetensors.kvz", "er/a.safetensors.kvz"}
    inside("compress", "none", "--output-dir", "never").fails(1, "none")
    assert not (folder / "never").exists()


def test_links_are_followed_to_files_and_not_to_folders(folder, inside, dumps):
    os.symlink("../a.safetensors", dumps / "link.safetensors")
    os.symlink("..", dumps / "loop")
    run = inside("compress", "-r", "dumps", "--output-dir", "out").ok()
    assert "not followed" in run.err
    assert "dumps/link.safetensors.kvz" in tree(folder / "out")


def test_a_folder_becomes_one_container_and_comes_back_identical(folder, inside, dumps, container):
    (dumps / "notes \U0001f600[1].txt").write_text("hello")
    (dumps / "c.kvz").write_bytes(container)
    (dumps / "nothing").write_bytes(b"")
    before = tree(dumps)
    kvzip("compress", "dumps", cwd=folder).quiet()
    inside("test", "dumps.kvz").quiet()
    inside("decompress", "dumps.kvz", "-o", "back").quiet()
    assert tree(folder / "back") == before
    inside("decompress", "dumps.kvz").fails(1, "exists", "-f")
    assert tree(dumps) == before
    (dumps / "extra").write_text("goes with -f")
    inside("decompress", "-f", "dumps.kvz").quiet()
    assert tree(dumps) == before
    assert kvzip("compress", "-c", "dumps/", cwd=folder).ok().out == (folder / "dumps.kvz").read_bytes()


def test_folder_containers_in_list_stats_and_test(inside, dumps, folder):
    inside("compress", "dumps").quiet()
    files = inside("list", "--json", "dumps.kvz").json["files"]
    assert [row["member"] for row in files] == sorted(tree(dumps), key=lambda name: (name.count("/") == 0, name))
    assert [len(row["tensors"]) for row in inside("list", "--json", "dumps").json["files"]] == [4, 4, 4]
    sizes = [inside("stats", "--json", name).json["files"][0]["source_bytes"] for name in ("dumps", "dumps.kvz")]
    assert sizes == [sum(map(len, tree(dumps).values()))] * 2
    assert "layer[0].safetensors" in inside("list", "dumps.kvz").text


def test_a_folder_container_does_not_fit_standard_output(folder, inside, dumps):
    inside("compress", "dumps").quiet()
    inside("decompress", "-c", "dumps.kvz").fails(2, "directory", "-o")
    (folder / "file").write_bytes(b"old")
    inside("decompress", "-f", "dumps.kvz", "-o", "file").fails(1, "file", "-o")
    assert (folder / "file").read_bytes() == b"old"


def test_a_damaged_folder_container_leaves_no_folder(folder, inside, dumps):
    inside("compress", "dumps").quiet()
    data = bytearray((folder / "dumps.kvz").read_bytes())
    data[len(data) * 3 // 4] ^= 1
    (folder / "bad.kvz").write_bytes(data)
    inside("decompress", "bad.kvz").fails(1, "bad.kvz")
    assert not (folder / "bad").exists()


def test_the_output_may_not_lie_in_the_folder(inside, dumps):
    inside("compress", "dumps", "-o", "dumps/x.kvz").fails(2, "dumps/x.kvz", "-o")
    inside("compress", ".", "--output-dir", ".").fails(2, "-o")
    assert not (dumps / "x.kvz").exists()


def test_an_input_given_twice_counts_once(inside, dumps):
    run = inside("compress", "--json", "a.safetensors", "./a.safetensors")
    assert len(run.ok().json["files"]) == 1
