"""A full disk, and whatever else the system refuses, is one line and leaves nothing behind."""

import errno
import io
import os
import re
import shutil
import subprocess
import sys

import pytest

from kvzip.errors import TargetError
from kvzip.files import DirectoryTarget, FileTarget

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX files")

WRITER = """
import sys
from kvzip.errors import KvzipError
from kvzip.files import DirectoryTarget, FileTarget
try:
    with FileTarget(sys.argv[1]) as target:
        target.file.write(bytes(5_000_000))
        target.commit()
except KvzipError as error:
    print(error)
try:
    with DirectoryTarget(sys.argv[1]) as target, target.create("a/b") as file:
        file.write(bytes(5_000_000))
except KvzipError as error:
    print(error)
"""
LIMIT = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
"""


def write(path, data=b"new", **options):
    with FileTarget(path, **options) as target:
        target.file.write(data)
        target.commit()


def write_tree(path, tree, **options):
    with DirectoryTarget(path, **options) as target:
        for name, data in tree.items():
            with target.create(name) as file:
                file.write(data)
        target.commit()


class TestFaults:
    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
    @pytest.mark.parametrize("call", ["write", "fsync"])
    def test_full_disk(self, folder, monkeypatch, code, call):
        def fail(*arguments):
            raise OSError(code, os.strerror(code))

        if call == "fsync":
            monkeypatch.setattr(os, "fsync", fail)
        else:
            monkeypatch.setattr(io, "FileIO", type("Full", (io.FileIO,), {"write": fail}))
        with pytest.raises(TargetError, match="nothing was left behind") as caught:
            write(folder / "out", b"x" * 5_000_000)
        assert "\n" not in str(caught.value)
        with pytest.raises(TargetError, match="nothing was left behind"):
            write_tree(folder / "tree", {"a": b"1", "b/c": b"x" * 5_000_000})
        assert os.listdir(folder) == []

    def test_file_system_without_fsync(self, folder, monkeypatch):
        def fail(*arguments):
            raise OSError(errno.EINVAL, "Invalid argument")

        monkeypatch.setattr(os, "fsync", fail)
        write(folder / "out")
        write_tree(folder / "tree", {"a": b"1"})

    @posix
    def test_size_limit_of_the_process(self, folder):
        command = [sys.executable, "-c", LIMIT + WRITER, folder / "out"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert re.fullmatch(r"(file too large: .*\n){2}", result.stdout), result
        assert os.listdir(folder) == []

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a tmpfs of its own")
    def test_a_disk_that_is_really_full(self, folder):
        mount = f"mount -t tmpfs -o size=256k none '{folder}'"
        tried = ["unshare", "-m", "sh", "-c", mount]
        if not shutil.which("unshare") or subprocess.run(tried, check=False).returncode:
            pytest.skip("may not mount")
        check = f"{mount} && \"$0\" -c \"$1\" '{folder}/out'; ls -A '{folder}'"
        command = ["unshare", "-m", "sh", "-c", check, sys.executable, WRITER]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert re.fullmatch(r"(disk full: .*\n){2}", result.stdout), result

    @posix
    def test_names_cannot_break_the_line(self, folder):
        path = folder / "a\nb\x1b[31m"
        path.write_bytes(b"")
        with pytest.raises(TargetError) as caught:
            write(path)
        assert str(caught.value).isprintable()
