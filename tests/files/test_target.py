"""A file or stream appears whole or not at all, and never at the cost of an input or of somebody's file."""

# ruff: noqa: PT012 - what happens inside the block of a target is the point

import errno
import io
import os
import stat
import subprocess
import sys
import threading

import pytest

from kvzip.errors import OptionError, TargetError
from kvzip.files.directory import DirectoryTarget
from kvzip.files.placement import is_temporary
from kvzip.files.target import FileTarget, StreamTarget

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX files")
unprivileged = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")


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


def temporaries(folder):
    return [name for name in os.listdir(folder) if is_temporary(name)]


def no_links(*arguments, **options):
    raise OSError(errno.EOPNOTSUPP, "Operation not supported")


class TestFile:
    def test_appears_only_at_commit(self, folder):
        path = folder / "out"
        with FileTarget(path) as target:
            target.file.write(b"a" * 3_000_000)
            assert not path.exists()
            assert len(temporaries(folder)) == 1
            assert target.file.tell() == 3_000_000
            target.commit()
            assert target.written == 3_000_000
        assert path.read_bytes() == b"a" * 3_000_000

    def test_nothing_without_commit(self, folder):
        with FileTarget(folder / "out") as target:
            target.file.write(b"x")
        assert os.listdir(folder) == []

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, BrokenPipeError])
    def test_nothing_after_an_exception_and_the_old_file_stays(self, folder, error):
        path = folder / "out"
        path.write_bytes(b"old")
        with pytest.raises(error), FileTarget(path, force=True) as target:
            target.file.write(b"x" * 10)
            raise error
        assert path.read_bytes() == b"old"

    def test_existing_needs_force(self, folder):
        path = folder / "out"
        path.write_bytes(b"old")
        with pytest.raises(TargetError, match="--force"):
            write(path)
        assert path.read_bytes() == b"old"
        write(path, force=True)
        assert path.read_bytes() == b"new"

    @pytest.mark.parametrize("links", [True, False])
    def test_a_file_that_appears_meanwhile_is_not_clobbered(self, folder, monkeypatch, links):
        if not links:
            monkeypatch.setattr(os, "link", no_links)
        path = folder / "out"
        with pytest.raises(TargetError, match="meanwhile"), FileTarget(path) as target:
            path.write_bytes(b"theirs")
            target.commit()
        assert path.read_bytes() == b"theirs"

    def test_file_system_without_links(self, folder, monkeypatch):
        monkeypatch.setattr(os, "link", no_links)
        write(folder / "out")
        assert (folder / "out").read_bytes() == b"new"

    @posix
    @pytest.mark.parametrize("kind", ["same", "hard", "symbolic", "dotted"])
    @pytest.mark.parametrize("given", [lambda path: path, os.stat])
    def test_an_input_is_never_the_output(self, folder, kind, given):
        source, path = folder / "source", folder / "link"
        source.write_bytes(b"precious")
        if kind == "same":
            path = source
        elif kind == "dotted":
            path = folder / ".." / folder.name / "source"
        else:
            (os.link if kind == "hard" else os.symlink)(source, path)
        with pytest.raises(TargetError, match="same file"):
            write(path, force=True, inputs=[folder / "absent", given(source)])
        assert source.read_bytes() == b"precious"

    def test_folders(self, folder):
        with pytest.raises(TargetError, match="it is a folder"):
            write(folder, force=True)
        with pytest.raises(TargetError, match="no such folder"):
            write(folder / "a" / "b" / "out")
        with pytest.raises(ZeroDivisionError), FileTarget(folder / "a" / "b" / "out", parents=True):
            assert (folder / "a" / "b").is_dir()
            raise ZeroDivisionError
        assert os.listdir(folder) == []
        write(folder / "a" / "b" / "out", parents=True)
        assert (folder / "a" / "b" / "out").read_bytes() == b"new"

    @posix
    def test_by_force_a_link_is_written_through(self, folder):
        real, link = folder / "sub" / "real", folder / "link"
        real.parent.mkdir()
        real.write_bytes(b"old")
        link.symlink_to(real)
        with pytest.raises(TargetError, match="--force"):
            write(link)
        write(link, force=True)
        assert link.is_symlink()
        assert real.read_bytes() == b"new"
        real.unlink()
        with pytest.raises(TargetError, match="--force"):
            write(link)
        write(link, force=True)
        assert real.read_bytes() == b"new"
        assert temporaries(real.parent) == []

    @posix
    @pytest.mark.parametrize("name", ["n" * 255, "é" * 127, "x" + "é" * 127, "€" * 85], ids=range(4))
    def test_longest_names(self, folder, name):
        write(folder / name)
        write_tree(folder / (name[:-1] + "d"), {"a": b"1"})
        assert (folder / name).read_bytes() == b"new"

    @posix
    def test_a_name_too_long_is_one_line_at_once(self, folder):
        with pytest.raises(TargetError, match=r"^name too long: [^\n]*$"), FileTarget(folder / ("n" * 256)):
            pytest.fail("it must not get this far")

    @posix
    def test_mode_and_time_of_the_source(self, folder):
        source = folder / "source"
        source.write_bytes(b"x")
        os.utime(source, ns=(1_600_000_000_123_456_789, 1_500_000_000_987_654_321))
        source.chmod(0o640)
        write(folder / "out", like=source.stat())
        info = (folder / "out").stat()
        assert stat.S_IMODE(info.st_mode) == 0o640
        assert info.st_mtime_ns == source.stat().st_mtime_ns

    @posix
    def test_a_private_source_is_private_at_every_moment(self, folder):
        source = folder / "source"
        source.write_bytes(b"x")
        source.chmod(0o600)
        with FileTarget(folder / "out", like=source.stat()) as target:
            (name,) = temporaries(folder)
            assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
            target.commit()

    @posix
    def test_a_group_that_cannot_be_kept_gains_nothing(self, folder, monkeypatch):
        def refuse(*arguments):
            raise PermissionError(errno.EPERM, "Operation not permitted")

        source = folder / "source"
        source.write_bytes(b"x")
        source.chmod(0o664)
        monkeypatch.setattr(os, "chown", refuse)
        write(folder / "out", like=source.stat())
        assert stat.S_IMODE((folder / "out").stat().st_mode) == 0o644

    @posix
    @pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
    def test_umask(self, folder, mask):
        before = os.umask(mask)
        try:
            write(folder / "out")
            write_tree(folder / "tree", {"a/b": b"1"})
        finally:
            os.umask(before)
        modes = [stat.S_IMODE((folder / name).stat().st_mode) for name in ("out", "tree/a/b", "tree", "tree/a")]
        assert modes == [0o666 & ~mask] * 2 + [0o777 & ~mask] * 2

    @posix
    def test_devices_and_fifos_are_written_directly(self, folder):
        write(os.devnull, inputs=[os.devnull])
        fifo = folder / "fifo"
        os.mkfifo(fifo)
        got = []
        reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()))
        reader.start()
        write(fifo, b"z" * 200_000)
        reader.join()
        assert got == [b"z" * 200_000]
        assert stat.S_ISFIFO(fifo.stat().st_mode)

    @unprivileged
    def test_permission(self, folder):
        locked = folder / "locked"
        locked.mkdir(mode=0o555)
        with pytest.raises(TargetError, match="permission denied"):
            write(locked / "out")


class TestStream:
    def test_writes_at_commit_and_never_closes(self):
        stream = io.BytesIO()
        with StreamTarget(stream) as target:
            target.file.write(b"abc")
            target.commit()
            assert target.written == 3
        assert stream.getvalue() == b"abc"

    def test_what_was_not_committed_is_dropped(self):
        stream = io.BytesIO()
        with pytest.raises(ValueError, match="x"), StreamTarget(stream) as target:
            target.file.write(b"abc")
            raise ValueError("x")
        assert stream.getvalue() == b""

    @posix
    def test_terminal(self):
        master, slave = os.openpty()
        try:
            with open(slave, "wb", buffering=0) as terminal:
                with pytest.raises(OptionError, match=r"-o.*-c.*-f") as caught, StreamTarget(terminal):
                    pytest.fail("it must not get this far")
                assert caught.value.exit_code == 2
                with pytest.raises(OptionError), FileTarget(os.ttyname(slave)):
                    pytest.fail("it must not get this far")
                with StreamTarget(terminal, force=True) as target:
                    target.file.write(b"x")
                    target.commit()
                assert os.read(master, 10) == b"x"
        finally:
            os.close(master)

    def test_redirected_onto_the_input(self, folder):
        path = folder / "source"
        path.write_bytes(b"precious")
        with open(path, "ab") as stream, pytest.raises(TargetError, match="same file"):
            StreamTarget(stream, inputs=[path]).__enter__()
        assert path.read_bytes() == b"precious"

    @posix
    def test_broken_pipe_passes_through(self):
        ends = os.pipe()
        os.close(ends[0])
        with open(ends[1], "wb", buffering=0) as stream, StreamTarget(stream) as target:
            target.file.write(b"x")
            with pytest.raises(BrokenPipeError):
                target.commit()

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
    def test_full_disk_below_standard_output_is_one_line(self):
        program = """
import sys
from kvzip.files import StreamTarget
from kvzip.errors import KvzipError
try:
    with StreamTarget() as target:
        target.file.write(b"x")
        target.commit()
except KvzipError as error:
    sys.exit(str(error))
"""
        with open("/dev/full", "wb") as full:
            result = subprocess.run(
                [sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
        assert result.returncode == 1
        assert result.stderr.startswith("disk full: standard output; the output is incomplete")
        assert result.stderr.count("\n") == 1


def test_a_failing_target_does_not_take_the_folder_from_another(tmp_path):
    """Many targets in one new folder at once, every second of which fails."""
    from concurrent.futures import ThreadPoolExecutor

    def one(number):
        try:
            with FileTarget(tmp_path / "new" / "er" / f"{number}", parents=True) as target:
                if number % 2:
                    raise ValueError
                target.file.write(b"x")
                target.commit()
        except ValueError:
            return 0
        return 1

    for _ in range(20):
        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(one, range(32))) == 16
        for path in (tmp_path / "new" / "er").iterdir():
            path.unlink()
        (tmp_path / "new" / "er").rmdir()
        (tmp_path / "new").rmdir()
