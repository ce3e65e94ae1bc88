"""Where outputs go, what they may not overwrite, and which attributes they keep."""

from __future__ import annotations

import os
import stat
import subprocess

import pytest

from .tool import SHELL, Ran, at_once, environment, kvzip, umask


def test_each_direction_writes_beside_its_source_and_keeps_it(folder, dump, container):
    kvzip("compress", "a.safetensors", cwd=folder).quiet()
    assert (folder / "a.safetensors").read_bytes() == dump
    assert (folder / "a.safetensors.kvz").read_bytes() == container
    kvzip("decompress", "c.safetensors.kvz", cwd=folder).quiet()
    assert (folder / "c.safetensors").read_bytes() == dump
    assert (folder / "c.safetensors.kvz").read_bytes() == container


def test_output_option_names_a_file_or_standard_output(folder, dump, container):
    named, dash, short, long = at_once(
        ("compress", folder / "a.safetensors", "-o", folder / "named"),
        ("compress", folder / "a.safetensors", "-o", "-"),
        ("compress", "-c", folder / "a.safetensors"),
        ("decompress", "--stdout", folder / "c.safetensors.kvz"),
    )
    assert named.quiet().out == b""
    assert (folder / "named").read_bytes() == container
    assert dash.quiet().out == container
    assert short.quiet().out == container
    assert long.quiet().out == dump
    assert not (folder / "a.safetensors.kvz").exists()


def test_pipes_with_a_dash_and_without_any_argument(folder, dump, container):
    assert kvzip("compress", stdin=dump).quiet().out == container
    assert kvzip("decompress", "-", stdin=container).quiet().out == dump
    kvzip("compress", "-", "-o", folder / "p.kvz", stdin=dump).quiet()
    assert (folder / "p.kvz").read_bytes() == container
    line = f"cat a.safetensors | {SHELL} compress -1 | {SHELL} decompress | cmp - a.safetensors"
    subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=folder, check=True, env=environment(), timeout=60)


def test_a_redirected_file_is_read_from_where_it_stands(folder, dump, container):
    with open(folder / "a.safetensors", "rb") as source, open(folder / "out", "wb") as target:
        kvzip("compress", stdin=source, stdout=target).quiet()
    assert (folder / "out").read_bytes() == container


def test_options_that_leave_open_what_goes_where_are_usage_errors(folder, inside, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "b.safetensors").write_bytes(b"never read")
    inside("compress", "a.safetensors", "b.safetensors", "-o", "x").fails(2, "--output-dir")
    inside("compress", "a.safetensors", "b.safetensors", "-c").fails(2, "2 inputs")
    inside("compress", "-c", "-o", "x", "a.safetensors").fails(2, "-c", "-o")
    inside("compress", "-o", "x", "--output-dir", ".", "a.safetensors").fails(2, "--output-dir")
    inside("compress", "-", "--output-dir", "d").fails(2, "-o")
    inside("compress", "a.safetensors", "--output-dir", "b.safetensors").fails(2, "b.safetensors")
    inside("compress", "a.safetensors", "-o", ".").fails(2, "folder")
    inside("decompress", "a.safetensors").fails(2, ".kvz", "-o")
    (folder / "d").mkdir()
    (folder / "d" / "a.safetensors").write_bytes(b"never read")
    message = inside("compress", "a.safetensors", "d/a.safetensors", "--output-dir", "o").fails(2, "two inputs")
    assert "d/a.safetensors" in message.err
    assert sorted(p.name for p in folder.iterdir()) == ["a.safetensors", "b.safetensors", "c.safetensors.kvz", "d"]


def test_the_source_is_refused_as_target_under_any_name(folder, dump, container):
    os.link(folder / "a.safetensors", folder / "hard")
    os.symlink("a.safetensors", folder / "soft")
    os.link(folder / "c.safetensors.kvz", folder / "hard.kvz")
    for run in at_once(
        ("compress", folder / "a.safetensors", "-f", "-o", folder / "a.safetensors"),
        ("compress", folder / "a.safetensors", "-f", "-o", folder / "hard"),
        ("compress", folder / "a.safetensors", "-f", "-o", folder / "soft"),
        ("compress", folder / "soft", "-f", "-o", folder / "a.safetensors"),
        ("decompress", folder / "c.safetensors.kvz", "-f", "-o", folder / "hard.kvz"),
    ):
        run.fails(1, "same file", "-o")
    with open(folder / "a.safetensors", "rb") as source, open(folder / "hard", "r+b") as target:
        kvzip("compress", "-f", stdin=source, stdout=target).fails(1, "same file")
    assert (folder / "a.safetensors").read_bytes() == dump
    assert (folder / "c.safetensors.kvz").read_bytes() == container


def test_an_existing_target_stays_until_forced(folder, dump, container):
    (folder / "a.safetensors.kvz").write_bytes(b"old")
    (folder / "c.safetensors").write_bytes(b"old")
    for run in at_once(
        ("compress", folder / "a.safetensors"),
        ("compress", folder / "a.safetensors", "-o", folder / "c.safetensors"),
        ("decompress", folder / "c.safetensors.kvz"),
    ):
        run.fails(1, "exists", "-f")
    assert (folder / "a.safetensors.kvz").read_bytes() == (folder / "c.safetensors").read_bytes() == b"old"
    for run in at_once(
        ("compress", "-f", folder / "a.safetensors"),
        ("decompress", "--force", folder / "c.safetensors.kvz"),
    ):
        run.quiet()
    assert (folder / "a.safetensors.kvz").read_bytes() == container
    assert (folder / "c.safetensors").read_bytes() == dump


def test_a_bad_source_costs_no_existing_target(folder, container):
    (folder / "a.safetensors").write_bytes(b"no dump at all")
    (folder / "bad.kvz").write_bytes(container[:-100])
    (folder / "old").write_bytes(b"old")
    for run in at_once(
        ("compress", "-f", folder / "a.safetensors", "-o", folder / "old"),
        ("decompress", "-f", folder / "bad.kvz", "-o", folder / "old"),
    ):
        run.fails(1)
    assert (folder / "old").read_bytes() == b"old"


def test_mode_and_time_are_the_sources_also_through_a_link(folder):
    os.chmod(folder / "a.safetensors", 0o640)
    os.utime(folder / "a.safetensors", ns=(10**18, 10**18 + 7))
    os.symlink("a.safetensors", folder / "link")
    kvzip("compress", "link", cwd=folder).quiet()
    made = os.stat(folder / "link.kvz")
    assert (stat.S_IMODE(made.st_mode), made.st_mtime_ns) == (0o640, 10**18 + 7)
    assert not os.path.islink(folder / "link.kvz")
    kvzip("decompress", "link.kvz", "-o", "back", cwd=folder).quiet()
    made = os.stat(folder / "back")
    assert (stat.S_IMODE(made.st_mode), made.st_mtime_ns) == (0o640, 10**18 + 7)


def test_a_target_without_a_source_file_honours_the_umask(folder, dump):
    for mask, mode in ((0o027, 0o640), (0o077, 0o600)):
        with umask(mask):
            kvzip("compress", "-o", folder / oct(mask), stdin=dump).quiet()
        assert stat.S_IMODE(os.stat(folder / oct(mask)).st_mode) == mode


def test_devices_are_written_to_and_not_replaced(folder):
    kvzip("compress", folder / "a.safetensors", "-o", "/dev/null").quiet()
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_missing_folder_is_named(folder):
    kvzip("compress", folder / "a.safetensors", "-o", folder / "none" / "x").fails(1, "no such folder", "none")
    assert not (folder / "none").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_one_line(folder):
    os.chmod(folder, 0o500)
    try:
        kvzip("compress", folder / "a.safetensors").fails(1, "permission denied")
    finally:
        os.chmod(folder, 0o700)


def test_a_closed_input_is_one_line():
    _bash(f"{SHELL} compress <&-").fails(2, "standard input is closed")


def test_a_closed_output_is_one_line(folder):
    _bash(f"{SHELL} compress < {folder}/a.safetensors >&-").fails(1, "standard output is closed")


def _bash(line: str) -> Ran:
    done = subprocess.run(["bash", "-c", line], env=environment(), capture_output=True, timeout=60, check=False)
    return Ran(done.returncode, done.stdout, done.stderr.decode())
