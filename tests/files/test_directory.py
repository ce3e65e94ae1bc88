"""A folder appears whole or not at all, and holds nothing that its container should not reach."""

# ruff: noqa: PT012 - what happens inside the block of a target is the point

import errno
import os
import sys

import pytest

from kvzip.errors import ContainerError, KvzipError, TargetError
from kvzip.files import placement
from kvzip.files.directory import DirectoryTarget
from kvzip.files.members import member_parts


def write_tree(path, tree, **options):
    with DirectoryTarget(path, **options) as target:
        for name, data in tree.items():
            with target.create(name) as file:
                file.write(data)
        target.commit()


class TestDirectory:
    def test_appears_only_at_commit(self, folder):
        path = folder / "tree"
        with DirectoryTarget(path) as target:
            with target.create("a/b/c") as file:
                file.write(b"123")
            with target.create("a/d") as file:
                file.write(b"45")
            assert not path.exists()
            assert target.written == 5
            target.commit()
        assert (path / "a" / "b" / "c").read_bytes() == b"123"
        assert (path / "a" / "d").read_bytes() == b"45"

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
    @pytest.mark.parametrize("force", [False, True])
    def test_nothing_after_an_exception(self, folder, error, force):
        path = folder / "x" / "tree"
        with pytest.raises(error), DirectoryTarget(path, parents=True, force=force) as target:
            with target.create("a/b") as file:
                file.write(b"1")
            with target.create("c") as file:
                file.write(b"1")
                raise error
        assert os.listdir(folder) == []

    @pytest.mark.parametrize(
        "name",
        [
            "",
            "/",
            "/etc/x",
            "..",
            "../x",
            "a/../x",
            "a/..",
            "a//b",
            "a/",
            ".",
            "./a",
            "a/./b",
            "a\0b",
            "\udcff",
        ],
    )
    def test_unsafe_names(self, folder, name):
        with DirectoryTarget(folder / "tree") as target, pytest.raises(ContainerError) as caught:
            target.create(name).__enter__()
        assert str(caught.value).isprintable()
        assert os.listdir(folder) == []

    @pytest.mark.parametrize(
        "name",
        [
            "a\\b",
            "..\\x",
            "C:x",
            "C:/x",
            "a:stream",
            "CON",
            "con.txt",
            "a/NUL",
            "nul .x",
            "COM1",
            "lpt¹",
            "a.",
            "a ",
            "a?",
        ],
    )
    def test_names_unsafe_on_windows_alone(self, name):
        with pytest.raises(ContainerError):
            member_parts(name, windows=True)
        assert member_parts(name, windows=False) == name.split("/")

    @pytest.mark.parametrize("name", ["layer_0.safetensors", "a/b/c", "console", "..a", "a..b", "é/日本", "com10"])
    def test_safe_names(self, name):
        assert member_parts(name, windows=True) == name.split("/")

    @pytest.mark.parametrize(("first", "second"), [("a", "a"), ("a", "a/b"), ("a/b", "a"), ("a/b", "a/b/c")])
    def test_colliding_names(self, folder, first, second):
        with DirectoryTarget(folder / "tree") as target:
            with target.create(first) as file:
                file.write(b"first")
            with pytest.raises(KvzipError), target.create(second):
                pytest.fail("it must not get this far")

    def test_existing_needs_force_which_replaces_all(self, folder):
        path = folder / "tree"
        write_tree(path, {"old/a": b"1"})
        with pytest.raises(TargetError, match="--force"):
            write_tree(path, {"new": b"2"})
        assert os.listdir(path) == ["old"]
        write_tree(path, {"new": b"2"}, force=True)
        assert os.listdir(path) == ["new"]

    def test_without_an_exchange_the_old_one_goes_aside(self, folder, monkeypatch):
        path = folder / "tree"
        monkeypatch.setattr(placement, "exchange", lambda first, second: False)
        write_tree(path, {"old/a": b"1"})
        write_tree(path, {"new": b"2"}, force=True)
        assert os.listdir(path) == ["new"]

    @pytest.mark.parametrize("failing", [{2}, {2, 3}])
    def test_the_old_one_comes_back_if_the_new_one_cannot_take_its_place(self, tmp_path, monkeypatch, failing):
        """Or the line says where it is, if it cannot."""
        path, rename, calls = tmp_path / "tree", os.rename, []

        def fail(source, target):
            calls.append(source)
            if len(calls) in failing:
                raise OSError(errno.EIO, "Input/output error")
            rename(source, target)

        write_tree(path, {"old": b"1"})
        monkeypatch.setattr(placement, "exchange", lambda first, second: False)
        monkeypatch.setattr(os, "rename", fail)
        with pytest.raises(TargetError) as caught:
            write_tree(path, {"new": b"2"}, force=True)
        (left,) = tmp_path.iterdir()
        assert os.listdir(left) == ["old"]
        assert (left == path) == (3 not in failing)
        assert left == path or str(left) in str(caught.value)

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs renameat2")
    def test_exchange(self, folder):
        (folder / "a").write_bytes(b"1")
        (folder / "b").mkdir()
        if not placement.exchange(folder / "a", folder / "b"):
            pytest.skip("not offered here")
        assert (folder / "a").is_dir()
        assert (folder / "b").read_bytes() == b"1"
        with pytest.raises(FileNotFoundError):
            placement.exchange(folder / "a", folder / "none")

    def test_one_that_appears_meanwhile_is_not_clobbered(self, folder):
        path = folder / "tree"
        with pytest.raises(TargetError, match="meanwhile"), DirectoryTarget(path) as target:
            path.mkdir()
            target.commit()

    def test_an_input_inside_is_never_deleted(self, folder):
        path = folder / "tree"
        write_tree(path, {"a/in.kvz": b"1"})
        with pytest.raises(TargetError, match="holds an input"):
            write_tree(path, {"new": b"2"}, force=True, inputs=[path / "a" / "in.kvz"])
        assert (path / "a" / "in.kvz").read_bytes() == b"1"

    def test_a_file_is_never_replaced_by_a_folder(self, folder):
        (folder / "tree").write_bytes(b"1")
        with pytest.raises(TargetError, match="not a folder"):
            write_tree(folder / "tree", {"a": b"1"}, force=True)
