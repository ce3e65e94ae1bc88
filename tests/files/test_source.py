"""A source gives its bytes, or one line that says which file and what next."""

import errno
import io
import os
import socket
import subprocess
import sys
import threading

import pytest

from kvzip.errors import DumpError, KvzipError, OptionError
from kvzip.files.source import FileSource

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX files")
DATA = bytes(range(256)) * 20_000


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "dump.safetensors"
    path.write_bytes(DATA)
    return path


class TestFile:
    def test_reads_counts_and_peeks(self, path):
        with FileSource(path) as source:
            assert source.size == len(DATA)
            assert source.file.peek(4)[:4] == DATA[:4]
            assert source.file.read(100) == DATA[:100]
            rest = bytearray(len(DATA))
            assert source.file.readinto(rest) == len(DATA) - 100
            assert source.file.read() == b""
            assert source.count == len(DATA)
            assert source.name == str(path)
            assert source.stat.st_size == len(DATA)
            source.check_unchanged()
        assert rest[:-100] == DATA[100:]

    def test_seeks(self, path):
        with FileSource(path) as source:
            source.file.seek(-10, os.SEEK_END)
            assert source.file.read() == DATA[-10:]
            source.file.seek(5)
            assert source.file.read(3) == DATA[5:8]
            source.check_unchanged()

    @posix
    def test_fifo(self, tmp_path):
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        writer = threading.Thread(target=lambda: fifo.write_bytes(DATA))
        writer.start()
        with FileSource(fifo) as source:
            assert source.size is None
            got = bytearray(len(DATA))
            assert source.file.readinto(got) == len(DATA)
            assert source.file.tell() == len(DATA)
            assert source.file.read() == b""
            source.check_unchanged()
        writer.join()
        assert got == DATA

    def test_missing_names_the_nearest(self, path):
        with pytest.raises(DumpError, match=r"no such file: .*dmup.safetensors; did you mean .*dump.safetensors\?$"):
            FileSource(path.with_name("dmup.safetensors"))
        with pytest.raises(DumpError, match="check the name"):
            FileSource(path.with_name("0"))
        with pytest.raises(DumpError, match="no such folder"):
            FileSource(path.parent / "absent" / "x")

    def test_folder(self, tmp_path):
        with pytest.raises(DumpError, match="add -r"):
            FileSource(tmp_path)

    @posix
    def test_socket(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("s")
            with pytest.raises(KvzipError, match="socket"):
                FileSource("s")

    @posix
    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
    def test_permission(self, path):
        path.chmod(0)
        with pytest.raises(KvzipError, match="permission denied"):
            FileSource(path)

    def test_a_failing_disk_is_one_line_with_the_offset(self, path, monkeypatch):
        class Failing(io.FileIO):
            def readinto(self, buffer):
                if self.tell() > 0:
                    raise OSError(errno.EIO, "Input/output error")
                return super().readinto(buffer)

        monkeypatch.setattr(io, "FileIO", Failing)
        with (
            FileSource(path) as source,
            pytest.raises(KvzipError, match=r"dump\.safetensors at byte \d{6,}: "),
        ):
            source.file.read()


class TestChange:
    def append(self):
        with open(self, "ab") as file:
            file.write(b"x")

    def truncate(self):
        os.truncate(self, 10)

    def touch(self):
        os.utime(self, ns=(1, 1))

    def replace(self):
        info = self.stat()
        other = self.with_name("other")
        other.write_bytes(DATA)
        os.utime(other, ns=(info.st_atime_ns, info.st_mtime_ns))
        os.replace(other, self)

    @posix
    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            (append, "grew"),
            (truncate, "shrank"),
            (touch, "written"),
            (replace, "took its name"),
            (os.unlink, "name"),
        ],
    )
    def test_is_told(self, path, change, problem):
        with FileSource(path) as source:
            source.file.read(10)
            change(path)
            with pytest.raises(DumpError, match=problem):
                source.check_unchanged()

    def test_an_early_end_is_told_even_if_the_status_is_the_same(self, path, monkeypatch):
        class Short(io.FileIO):
            def readinto(self, buffer):
                return super().readinto(buffer) if self.tell() == 0 else 0

        monkeypatch.setattr(io, "FileIO", Short)
        with FileSource(path) as source:
            source.file.read()
            with pytest.raises(DumpError, match="shrank"):
                source.check_unchanged()


class TestStandardInput:
    PROGRAM = """
import sys
from kvzip.files import FileSource
with FileSource("-") as source:
    print(source.size, len(source.file.read()), source.name)
    source.check_unchanged()
"""

    def run(self, **options):
        command = [sys.executable, "-c", self.PROGRAM]
        return subprocess.run(command, capture_output=True, check=True, **options).stdout.decode().strip()

    def test_pipe(self):
        assert self.run(input=DATA) == f"None {len(DATA)} standard input"

    def test_file_from_where_it_stands(self, path):
        with open(path, "rb", buffering=0) as file:
            file.seek(1000)
            assert self.run(stdin=file) == f"{len(DATA) - 1000} {len(DATA) - 1000} standard input"

    def test_stand_in(self, monkeypatch):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(DATA)))
        with FileSource("-") as source:
            assert source.file.read() == DATA
            source.check_unchanged()
        assert not sys.stdin.closed

    @posix
    def test_terminal(self, monkeypatch):
        master, slave = os.openpty()
        with open(slave, encoding="ascii") as terminal:
            monkeypatch.setattr(sys, "stdin", terminal)
            with pytest.raises(OptionError, match="terminal"):
                FileSource("-")
        os.close(master)
