"""``--rm`` and ``--verify``: a source goes only once its bytes are safe elsewhere."""

from __future__ import annotations

import os
import resource

import pytest

from .tool import dump_bytes, kvzip, tree


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def test_both_directions_remove_their_source_after_success(folder, inside, dump, container):
    inside("compress", "--rm", "a.safetensors").quiet()
    assert not (folder / "a.safetensors").exists()
    assert (folder / "a.safetensors.kvz").read_bytes() == container
    inside("decompress", "--rm", "a.safetensors.kvz").quiet()
    assert tree(folder) == {"a.safetensors": dump, "c.safetensors.kvz": container}
    inside("compress", "--rm", "--verify", "a.safetensors").quiet()
    assert tree(folder) == {"a.safetensors.kvz": container, "c.safetensors.kvz": container}


def test_never_with_standard_streams(folder, inside, dump, container):
    for args in (["-c"], ["-o", "-"]):
        inside("compress", "--rm", "a.safetensors", *args).fails(2, "--rm", "only copy")
        inside("decompress", "--rm", "c.safetensors.kvz", *args).fails(2, "--rm")
    kvzip("compress", "--rm", "-", "-o", "x", stdin=dump, cwd=folder).fails(2, "--rm")
    kvzip("decompress", "--rm", stdin=container, cwd=folder).fails(2, "--rm")
    assert tree(folder) == {"a.safetensors": dump, "c.safetensors.kvz": container}


def test_a_failure_removes_nothing(folder, inside, dump, container):
    (folder / "a.safetensors.kvz").write_bytes(b"old")
    inside("compress", "--rm", "a.safetensors").fails(1, "exists")
    inside("compress", "--rm", "a.safetensors", "-f", "-o", "a.safetensors").fails(1, "same file")
    (folder / "bad.kvz").write_bytes(container[:-9])
    inside("decompress", "--rm", "bad.kvz").fails(1)
    (folder / "bad.safetensors").write_bytes(dump[:-9])
    inside("compress", "--rm", "bad.safetensors").fails(1)
    inside("compress", "--rm", "c.safetensors.kvz")
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))}
    kvzip("compress", "--rm", "a.safetensors", "-o", "x", cwd=folder, **limit).fails(1)
    names = ["a.safetensors", "a.safetensors.kvz", "bad.kvz", "bad.safetensors", "c.safetensors.kvz"]
    assert sorted(os.listdir(folder)) == names
    assert (folder / "a.safetensors").read_bytes() == dump


def test_of_a_link_the_link_goes(folder, inside, dump, container):
    os.symlink("a.safetensors", "link")
    inside("compress", "--rm", "link").quiet()
    assert tree(folder) == {"a.safetensors": dump, "c.safetensors.kvz": container, "link.kvz": container}


def test_many_inputs_lose_only_what_was_done(folder, inside, dump):
    (folder / "b.safetensors").write_bytes(b"no dump")
    assert inside("compress", "--rm", "b.safetensors", "a.safetensors").code == 1
    assert sorted(os.listdir(folder)) == ["a.safetensors.kvz", "b.safetensors", "c.safetensors.kvz"]


def test_a_folder_goes_as_a_whole(folder, inside):
    (folder / "d" / "e").mkdir(parents=True)
    (folder / "d" / "e" / "x.safetensors").write_bytes(dump_bytes())
    (folder / "d" / "notes.txt").write_text("hello")
    before = tree(folder / "d")
    inside("compress", "--rm", "--verify", "d").quiet()
    assert not (folder / "d").exists()
    inside("decompress", "--rm", "d.kvz").quiet()
    assert tree(folder / "d") == before
    assert not (folder / "d.kvz").exists()


def test_what_a_folder_container_leaves_out_is_named(folder, inside):
    (folder / "d" / "empty").mkdir(parents=True)
    (folder / "d" / "x.safetensors").write_bytes(dump_bytes())
    os.symlink("..", folder / "d" / "up")
    run = inside("compress", "d").ok()
    assert len(run.lines) == 2
    assert all("left out" in line for line in run.lines)
    assert "d/empty" in run.err
    assert "d/up" in run.err


def test_a_target_called_dash_is_checked_as_a_file(folder, container):
    kvzip("compress", "--rm", "--verify", "a.safetensors", "-o", "./-", cwd=folder).quiet()
    assert tree(folder) == {"-": container, "c.safetensors.kvz": container}


def test_a_link_to_a_folder(folder, inside):
    (folder / "d").mkdir()
    (folder / "d" / "x.safetensors").write_bytes(dump_bytes())
    os.symlink("d", "d-link")
    run = inside("compress", "--rm", "d-link")
    assert "None" not in run.err
    assert run.code == 0
    assert (folder / "d" / "x.safetensors").exists()
    assert not os.path.lexists(folder / "d-link")


def test_a_file_that_came_meanwhile_stays(folder, inside, monkeypatch):
    (folder / "d").mkdir()
    (folder / "d" / "x.safetensors").write_bytes(dump_bytes())
    from kvzip.cli import work

    finish = work._finish

    def arrive(*args, **named):
        (folder / "d" / "late.safetensors").write_bytes(dump_bytes(seed=1))
        return finish(*args, **named)

    monkeypatch.setattr(work, "_finish", arrive)
    inside("compress", "--rm", "d")
    assert (folder / "d" / "late.safetensors").exists()
