"""A directory's files are found in one order on every machine, and nothing is left out in silence."""

import os
import sys

import pytest

from kvzip.errors import DumpError
from kvzip.files.members import members, natural_order

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX files")


class TestMembers:
    def test_natural_order(self):
        names = ["layers.10", "layers.2", "layers.02", "a/10/x", "a/9/x", "a", "a.b", "B", "10", "9", ""]
        ordered = ["", "9", "10", "B", "a", "a/9/x", "a/10/x", "a.b", "layers.02", "layers.2", "layers.10"]
        assert sorted(names, key=natural_order) == ordered
        assert sorted(names, key=natural_order) == ordered

    def test_files_and_what_is_left_out(self, tmp_path):
        for name in (
            "layers.10",
            "layers.2",
            "sub/deep/x",
            "sub/.hidden",
            ".out.01234567.kvzip-tmp",
            "sub/y.kvz",
        ):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(b"")
        (tmp_path / "empty" / "inner").mkdir(parents=True)
        tree = members(tmp_path)
        assert [name for name, _ in tree.files] == [
            "layers.2",
            "layers.10",
            "sub/.hidden",
            "sub/deep/x",
            "sub/y.kvz",
        ]
        assert tree.files[3][1] == tmp_path / "sub" / "deep" / "x"
        assert tree.empty == ["empty/inner"]
        assert [name for name, _ in members(tmp_path, lambda name: name.endswith(".kvz")).files] == ["sub/y.kvz"]

    @posix
    def test_links(self, tmp_path):
        (tmp_path / "real").mkdir()
        (tmp_path / "real" / "x").write_bytes(b"")
        (tmp_path / "file").symlink_to("real/x")
        (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
        tree = members(tmp_path)
        assert [name for name, _ in tree.files] == ["file", "real/x"]
        assert tree.links == ["loop"]
        (tmp_path / "broken").symlink_to("absent")
        with pytest.raises(DumpError, match="broken link"):
            members(tmp_path)

    @posix
    def test_special_files(self, tmp_path):
        os.mkfifo(tmp_path / "fifo")
        with pytest.raises(DumpError, match="neither file nor folder"):
            members(tmp_path)
        assert members(tmp_path, lambda name: name != "fifo").files == []

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems refuse such names")
    def test_names_that_are_not_utf8(self, tmp_path):
        open(os.fsencode(tmp_path) + b"/bad\xff", "wb").close()
        with pytest.raises(DumpError, match="not UTF-8") as caught:
            members(tmp_path)
        assert str(caught.value).isprintable()
