"""Disks that are really full, file systems that are really read-only, and users who really may not."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.faults.cases import OLD, dump, packed
from tests.faults.harness import Server, content, put

COMPRESS, DECOMPRESS = ("compress", "-1", "-f"), ("decompress", "-f")
MAKES = [(COMPRESS, "a.safetensors", packed), (DECOMPRESS, "a.kvz", dump)]
both = pytest.mark.parametrize(("args", "source", "whole"), MAKES, ids=["compress", "decompress"])
mounting = pytest.mark.skipif(
    not shutil.which("unshare")
    or subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode != 0,
    reason="may not mount",
)


def one_line(ran, *words):
    assert ran.code == 1, ran
    assert len(ran.err.splitlines()) == 1, ran
    assert any(word in ran.err for word in words), ran


@pytest.fixture(scope="module")
def mounted(tmp_path_factory):
    """A server that sees a disk of 160 KiB and one that is read-only, and how to look at them from here."""
    base = tmp_path_factory.mktemp("mounts")
    for name in ("small", "fixed"):
        (base / name).mkdir()
    put(base / "fixed", {"a.safetensors": dump(), "a.kvz": packed(), "out": OLD})
    script = (
        f"mount -t tmpfs -o size=160k none {base}/small && mount --bind {base}/fixed {base}/fixed && "
        f'mount -o remount,ro,bind {base}/fixed && exec "$@"'
    )
    with Server(inside=["unshare", "-m", "sh", "-c", script, "sh"]) as server:
        yield server, base, lambda path: f"/proc/{server.process.pid}/root{path}"


@mounting
@both
def test_a_small_disk(mounted, args, source, whole):
    """Filled up byte by byte: at every size the output is whole or the older one."""
    server, base, seen = mounted
    small = base / "small"
    (base / source).write_bytes(dump() if source == "a.safetensors" else packed())
    outcomes = set()
    for filling in range(0, 160 << 10, 16 << 10):
        from_here = os.path.join(seen(small), "")
        for name in os.listdir(from_here):
            os.unlink(from_here + name)
        with open(from_here + "out", "wb") as file:
            file.write(OLD)
        with open(from_here + "filling", "wb") as file:
            file.write(bytes(filling))
        ran = server.run(small, (*args, f"../{source}", "-o", "out"))
        with open(from_here + "out", "rb") as file:
            got = file.read()
        assert sorted(os.listdir(from_here)) == ["filling", "out"], ran
        if ran.code:
            one_line(ran, "disk full")
        assert got == (OLD if ran.code else whole()), ran
        outcomes.add(ran.code)
    assert outcomes == {0, 1}


@mounting
@both
def test_a_read_only_file_system(mounted, args, source, whole):
    server, base, _ = mounted
    before = content(base / "fixed")
    for more in (("-o", "out"), ("-o", "new"), ("--output-dir", "new")):
        ran = server.run(base / "fixed", (*args, source, *more))
        one_line(ran, "read-only file system")
    ran = server.run(base / "fixed", (*args, "--rm", source, "-o", str(base / "elsewhere")))
    one_line(ran, "cannot remove the source")
    assert content(base / "elsewhere") == whole()
    assert content(base / "fixed") == before


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="needs root, to become somebody else")
class TestPermission:
    """As nobody: root may do everything."""

    @pytest.fixture
    def folder(self):
        """Not below pytest's own folder, which is for root alone."""
        with tempfile.TemporaryDirectory() as above:
            os.chmod(above, 0o755)
            folder = Path(above, "work")
            put(folder, {"a.safetensors": dump(), "a.kvz": packed(), "open/.keep": b""})
            (folder / "open").chmod(0o777)
            yield folder

    @both
    def test_source(self, server, folder, args, source, whole):
        (folder / source).chmod(0o600)
        ran = server.run(folder, (*args, source, "-o", "open/out"), nobody=True)
        one_line(ran, "permission denied")
        assert os.listdir(folder / "open") == [".keep"]

    @both
    def test_target_folder(self, server, folder, args, source, whole):
        (folder / "out").write_bytes(OLD)
        (folder / "out").chmod(0o666)  # it could be overwritten, but not replaced
        for target in ("out", "new"):
            ran = server.run(folder, (*args, source, "-o", target), nobody=True)
            one_line(ran, "permission denied")
        assert content(folder / "out") == OLD
        ran = server.run(folder, (*args, source, "--output-dir", "new"), nobody=True)
        one_line(ran, "permission denied")
        assert not (folder / "new").exists()

    @both
    def test_target_of_somebody_else(self, server, folder, args, source, whole):
        """In a sticky folder, as /tmp is, nobody else's file can be replaced."""
        (folder / "open" / "out").write_bytes(OLD)
        (folder / "open").chmod(0o1777)
        ran = server.run(folder, (*args, source, "-o", "open/out"), nobody=True)
        one_line(ran, "permission denied")
        assert content(folder / "open" / "out") == OLD
        assert sorted(os.listdir(folder / "open")) == [".keep", "out"]

    @both
    def test_source_that_cannot_be_removed(self, server, folder, args, source, whole):
        ran = server.run(folder, (*args, "--rm", source, "-o", "open/out"), nobody=True)
        one_line(ran, "cannot remove the source")
        assert content(folder / "open" / "out") == whole()
        assert (folder / source).exists()

    @both
    def test_what_nobody_may_do(self, server, folder, args, source, whole):
        ran = server.run(folder, (*args, source, "-o", "open/out"), nobody=True)
        assert (ran.code, ran.err) == (0, "")
        assert content(folder / "open" / "out") == whole()
