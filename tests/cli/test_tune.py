"""``kvzip tune``, and the ``--profile`` of compress and stats."""

from __future__ import annotations

import json
import re
import shlex
import signal
from pathlib import Path

import pytest

from .tool import dump_bytes, kvzip, start, terminal, tree

PROSE = Path(__file__).resolve().parents[2] / "fixtures/real/prose_bf16.safetensors"
KEYS = {
    "command", "command_line", "profile", "level", "settings", "levels", "findings", "total_bytes", "checked_bytes",
    "checked_values", "default_bytes", "tuned_bytes", "plain_bytes", "sample_gain", "compress_speed",
    "decompress_speed", "usual_compress_speed", "usual_decompress_speed", "trials", "seconds", "complete", "names",
    "digests", "gain", "ratio", "whole",
}  # fmt: skip


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A profile and the report of how it was made."""
    folder = tmp_path_factory.mktemp("tuned")
    (folder / "my dump.safetensors").write_bytes(PROSE.read_bytes())
    run = kvzip("tune", "-3", "-o", "our.toml", "--json", "--min-speed", "1kB/s", "my dump.safetensors", cwd=folder)
    return folder, run.quiet().json


def test_the_command_it_shows_does_what_it_says(tuned):
    folder, found = tuned
    words = shlex.split(found["command_line"])
    assert words[:4] == ["kvzip", "compress", "--level", "3"]
    assert set(found) == KEYS
    kvzip(*words[1:], "-o", "by-hand.kvz", cwd=folder).quiet()
    kvzip("compress", "--profile", "our.toml", "-o", "by-profile.kvz", "my dump.safetensors", cwd=folder).quiet()
    kvzip("compress", "-o", "plain.kvz", "my dump.safetensors", cwd=folder).quiet()
    made = {name: data for name, data in tree(folder).items() if name.endswith(".kvz")}
    assert made["by-hand.kvz"] == made["by-profile.kvz"]
    assert len(made["by-hand.kvz"]) == found["tuned_bytes"] <= found["default_bytes"] == len(made["plain.kvz"])


def test_the_profile_says_where_it_is_from(tuned):
    text = (tuned[0] / "our.toml").read_text()
    for word in ("[compress]", "level = 3", "[measured]", "kvzip = ", "date = ", "my dump.safetensors", "xxh3:"):
        assert word in text


def test_explicit_options_win_over_a_profile_and_that_over_the_environment(inside, folder):
    (folder / "p.toml").write_text("[compress]\nlevel = 1\nn-update = 99\nprior-weight = 7\nalpha = 0.9\n")

    def stats(*args):
        found = inside("stats", "--json", "a.safetensors", *args).quiet().json["files"][0]
        numbers = found["parameters"]
        return [found["level"], *(round(numbers[k], 3) for k in ("n_update", "prior_weight", "alpha"))]

    assert stats("--profile", "p.toml") == [1, 99, 7, 0.9]
    assert stats("--profile", "p.toml", "-2", "--n-update", "50") == [2, 50, 7, 0.9]
    assert stats("--profile", "p.toml", "--level", "3", "--prior", "none") == [3, 99, 0, 0.9]
    assert stats("--profile", "p.toml", "--preset", "classic") == [1, 128, 7, 0.97]
    run = kvzip("stats", "--json", "--profile", "p.toml", "a.safetensors", env={"KVZIP_LEVEL": "2"})
    assert run.quiet().json["files"][0]["level"] == 1


@pytest.mark.parametrize("command", ["compress", "stats"])
def test_wrong_profiles(inside, folder, command):
    (folder / "p.toml").write_text("[compress]\nn_update = 9\n")
    inside(command, "--profile", "p.toml", "a.safetensors").fails(2, "p.toml", "n_update", "did you mean n-update?")
    inside(command, "--profile", "q.toml", "a.safetensors").fails(2, "q.toml", "did you mean p.toml?")
    inside(command, "--profile", ".", "a.safetensors").fails(2, "folder")
    inside(command, "--profile", "a.safetensors", "a.safetensors").fails(2, "no profile")
    inside(command, "--profile", "", "a.safetensors").fails(2, "--profile")
    assert len(tree(folder)) == 3


def test_it_shows_what_it_found():
    text = terminal("tune", "-1", "--min-speed", "0B/s", "a.safetensors", err=False).err
    for word in ("parameter", "default", "best", "size", "bits/value", "speed", "nearly as good", "kvzip compress"):
        assert word in text
    assert "--profile FILE" in text
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    assert all(len(line) <= 80 for line in lines if not line.startswith("kvzip compress"))


def test_levels_to_choose_from(inside):
    run = inside("tune", "--level", "1-2,4", "--min-speed", "1B/s", "a.safetensors").quiet()
    assert [line.split()[0] for line in run.text.splitlines()[1:4]] == ["1", "2", "4"]
    assert run.text.count("chosen") == 1


def test_what_is_said_meanwhile():
    run = terminal("tune", "-1", "a.safetensors", out=False)
    assert "kvzip: level 1: " in run.err
    assert "kvzip: n-update: " in run.err
    assert "kvzip: level 1, n-update" not in run.err
    assert "\x1b" not in run.err
    run = kvzip("tune", "-1", "-v", "a.safetensors")
    assert "kvzip: level 1, n-update 64: " in run.err
    assert " trials in " in run.err
    assert kvzip("tune", "-1", "-q", "a.safetensors").quiet().out == b""


def test_a_profile_on_standard_output_and_a_dump_from_standard_input(inside):
    run = kvzip("tune", "-1", "-o", "-", "-", stdin=dump_bytes()).quiet()
    assert run.text.startswith("# Settings")
    assert "standard input" in run.text
    run = kvzip("tune", "-1", "-o", "-", "--json", stdin=dump_bytes())
    assert json.loads(run.err)["profile"] == "-"
    inside("tune", "-", "-").fails(2, "standard input", "twice")


def test_a_profile_is_whole_and_overwrites_only_when_told(inside, folder):
    (folder / "p.toml").write_text("old")
    inside("tune", "-1", "a.safetensors", "-o", "p.toml").fails(1, "p.toml", "-f")
    inside("tune", "-1", "a.safetensors", "-o", "a.safetensors", "-f").fails(1, "a.safetensors")
    inside("tune", "-1", "missing", "-f", "-o", "p.toml").fails(1, "missing")
    assert (folder / "p.toml").read_text() == "old"
    inside("tune", "-1", "a.safetensors", "-qf", "-o", "p.toml").quiet()
    assert (folder / "p.toml").read_text() != "old"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--min-speed", "fast"], ["--min-speed", "200MB/s"]),
        (["--min-speed", "-3MB/s"], ["--min-speed"]),
        (["--min-speed", "3 iB/s"], ["--min-speed"]),
        (["--seconds", "0"], ["--seconds"]),
        (["--seconds", "nan"], ["--seconds"]),
        (["--seconds", "x"], ["--seconds", "number"]),
        (["--level", "0-3"], ["--level", "1 to 9"]),
        (["--level", "3-1"], ["--level"]),
        (["--level", ""], ["--level"]),
        (["--layout", "x"], ["unknown layout"]),
        (["-T", "-1"], ["--threads"]),
        (["--min-speed", "90TB/s", "-1"], ["level 1 does not reach", "MB/s in"]),
        (["--min-speed", "90TB/s", "-l1-2"], ["no level reaches", "the fastest is level"]),
    ],
)
def test_wrong_usage(inside, args, words):
    inside("tune", "a.safetensors", *args).fails(2, *words)


def test_what_is_no_dump(inside, folder):
    (folder / "x").write_bytes(b"no dump at all")
    (folder / "none").mkdir()
    inside("tune", "x").fails(1, "x", "safetensors")
    inside("tune", "none").fails(1, "none", "holds no file")
    inside("tune", "b.safetensors").fails(1, "did you mean a.safetensors?")
    inside("tune", "c.safetensors.kvz").fails(1, "already compressed", "decompress")


@pytest.mark.parametrize(
    ("text", "rate"),
    [("200MB/s", 2e8), ("200 mb/s", 2e8), ("1.5GB/s", 1.5e9), ("64MiB/s", 64 << 20), ("7", 7), ("3k", 3000),
     ("2TB/s", 2e12), ("10KiBps", 10240)],
)  # fmt: skip
def test_rates(text, rate):
    from kvzip.cli.sizes import rate as parse

    assert parse("--min-speed", text) == rate


def test_an_interrupt_tells_the_best_so_far(folder):
    (folder / "big.safetensors").write_bytes(dump_bytes(layers=6, heads=4, tokens=1024, dim=128))
    with start("tune", "-v", "-1", "-o", "p.toml", "big.safetensors") as process:
        for line in process.stderr:
            if b"n-update" in line:
                break
        process.send_signal(signal.SIGINT)
        err = process.stderr.read().decode()
        code = process.wait(60)
    assert code == 130, err
    assert "the best so far, not checked: kvzip compress --level 1" in err
    assert "Traceback" not in err
    assert not (folder / "p.toml").exists()
