"""At the edge: readers that leave, full disks, read-only homes, and what start-up may import."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from .tool import SHELL, at_once, dump_bytes, environment, kvzip, temporaries


def shell(line: str, cwd) -> tuple[list[int], str]:
    """Exit codes of the parts of a pipeline, and its stderr."""
    line += '; echo "${PIPESTATUS[@]}"'
    done = subprocess.run(
        ["bash", "-c", line], cwd=cwd, env=environment(), capture_output=True, timeout=90, check=False
    )
    return [int(code) for code in done.stdout.split()], done.stderr.decode()


@pytest.fixture
def big(folder):
    (folder / "big.safetensors").write_bytes(dump_bytes(layers=4, heads=2, tokens=256, dim=128))
    return "big.safetensors"


@pytest.mark.parametrize("command", ["compress -c", "list", "stats --json"])
def test_a_broken_pipe_is_silent(folder, big, command):
    (code, _), err = shell(f"{SHELL} {command} {big} | head -c 10 > /dev/null", folder)
    assert err == ""
    assert code in (0, 141)


def test_a_broken_pipe_of_decompression_is_silent(folder, big):
    kvzip("compress", big, cwd=folder).quiet()
    (code, _), err = shell(f"{SHELL} decompress -c {big}.kvz | head -c 10 > /dev/null", folder)
    assert err == ""
    assert code == 141


def test_a_full_disk_is_one_line_and_leaves_nothing(folder, big, dump):
    kvzip("compress", big, cwd=folder).quiet()
    (folder / "old").write_bytes(b"old")
    before = sorted(os.listdir(folder))

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    for command, name in (("compress", big), ("decompress", f"{big}.kvz")):
        run = kvzip(command, name, "-f", "-o", "old", cwd=folder, preexec_fn=small)
        run.fails(1, "file too large: old", "nothing was left behind", "-o")
    assert (folder / "old").read_bytes() == b"old"
    assert sorted(os.listdir(folder)) == before


def test_full_standard_output_is_one_line(folder, big):
    with open("/dev/full", "wb") as full:
        kvzip("compress", "-c", big, cwd=folder, stdout=full).fails(1, "disk full", "standard output", "incomplete")
        kvzip("decompress", "-c", "c.safetensors.kvz", cwd=folder, stdout=full).fails(1, "disk full")
        kvzip("--version", stdout=full).fails(1, "standard output")
        kvzip("list", "--json", "a.safetensors", cwd=folder, stdout=full).fails(1, "standard output")
    kvzip("compress", big, "-o", "/dev/full", cwd=folder).fails(1, "disk full", "/dev/full")


@pytest.mark.parametrize("args", [["list", "a.safetensors"], ["stats", "a.safetensors"], ["--help"]], ids=" ".join)
def test_full_standard_output_of_tables_is_one_line(folder, args):
    with open("/dev/full", "wb") as full:
        kvzip(*args, cwd=folder, stdout=full).fails(1, "standard output")


def test_full_standard_output_that_is_not_buffered(folder):
    with open("/dev/full", "wb") as full:
        kvzip("--version", stdout=full, env={"PYTHONUNBUFFERED": "1"}).fails(1, "standard output")


def loaded_by(folder, *args) -> list[str]:
    """The modules that a run has imported at its end."""
    code = "import sys; from kvzip.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, *args], cwd=folder, env=environment(), capture_output=True, check=True
    )
    loaded = done.stderr.decode().split()
    assert "kvzip.cli.app" in loaded
    return loaded


def test_start_up_imports_no_numba(folder):
    for args in (
        ["--help"],
        ["--version"],
        ["list", "a.safetensors"],
        ["list", "c.safetensors.kvz"],
        ["compress", "-h"],
    ):
        assert not {"numba", "llvmlite"} & set(loaded_by(folder, *args)), args


def test_a_run_imports_no_more_than_it_needs(folder):
    """Options that are right cost no pydantic, and levels without units not their coder."""
    for args in (
        ["compress", "-l", "3", "-T", "1", "--alpha", "0.99", "a.safetensors"],
        ["decompress", "-c", "c.safetensors.kvz", "-o", "-"],
        ["test", "c.safetensors.kvz"],
    ):
        loaded = set(loaded_by(folder, *args))
        assert "kvzip.blocks.predicted" in loaded, args
        assert not {"pydantic", "kvzip.linear.loop", "kvzip.linear.group"} & loaded, args


def test_a_cold_cache_is_announced_once_and_filled(folder, container):
    home = folder / "cache"
    env = {"XDG_CACHE_HOME": str(home), "NUMBA_CACHE_DIR": None}
    run = kvzip("compress", "a.safetensors", cwd=folder, env=env).fails(0, "compiling", "once")
    assert (folder / "a.safetensors.kvz").read_bytes() == container
    assert list(home.rglob("*.nbi")), run
    kvzip("compress", "-f", "a.safetensors", cwd=folder, env=env).quiet()
    read_only(folder)
    numba_cache_dir(folder, home)


def test_a_cold_cache_is_not_announced_where_nothing_is_compiled(folder):
    env = {"XDG_CACHE_HOME": str(folder / "cold"), "NUMBA_CACHE_DIR": None}
    kvzip("compress", "none", cwd=folder, env=env).fails(1, "none")


@pytest.mark.parametrize("command", ["test", "stats"])
def test_a_cold_cache_is_announced_by_every_command(folder, inside, monkeypatch, command):
    monkeypatch.setattr("kvzip.coder.jit.is_cold", lambda job: True)
    assert "compiling" in inside(command, str(folder / "c.safetensors.kvz")).ok().err


def read_only(folder):
    """A private folder that goes with the process takes the place of a cache that cannot be made."""
    env = {"XDG_CACHE_HOME": "/proc/none", "NUMBA_CACHE_DIR": None, "TMPDIR": str(folder)}
    code = "from kvzip.coder import jit; print(jit.config.CACHE_DIR)"
    done = subprocess.run([sys.executable, "-c", code], env=environment(**env), capture_output=True, check=True)
    place = done.stdout.decode().strip()
    assert place.startswith(f"{folder}/kvzip-")
    assert not os.path.exists(place)


def numba_cache_dir(folder, home):
    """NUMBA_CACHE_DIR takes the place of XDG_CACHE_HOME; here it is the one just filled, so nothing is compiled."""
    env = {"XDG_CACHE_HOME": str(folder / "unused"), "NUMBA_CACHE_DIR": str(home)}
    kvzip("compress", "-f", "a.safetensors", cwd=folder, env=env).quiet()
    assert not (folder / "unused").exists()


def test_two_runs_at_once_do_not_disturb_each_other(folder, container):
    runs = at_once(*[("compress", folder / "a.safetensors", "-o", folder / "one.kvz")] * 2)
    assert sorted(run.code for run in runs) in ([0, 1], [0, 0]) or any("appeared" in run.err for run in runs)
    assert (folder / "one.kvz").read_bytes() == container
    assert temporaries(folder) == []
