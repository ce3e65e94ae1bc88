"""``kvzip bench``: what is measured and said, of levels, of other codecs that are there, absent or broken."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from kvzip.bench import peers
from kvzip.bench.measure import Spread
from kvzip.bench.peers import Codec, Entry
from kvzip.bench.rounds import Comparison, Unit
from kvzip.cli.bench import Result
from kvzip.version import __version__

from .tool import kvzip, terminal

REAL = Path(__file__).resolve().parents[2] / "fixtures" / "real" / "excerpt_bf16.safetensors"
QUICK = ("--seconds", "0.3")


def same(data: bytes, threads: int) -> bytes:
    return bytes(memoryview(data))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    shutil.copy(REAL, tmp_path / "d.safetensors")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("KVZIP_THREADS", raising=False)
    return tmp_path


@pytest.fixture
def registered(monkeypatch):
    """The only codec that is not kvzip: one that brings back what ``decompress`` makes of a copy."""

    def register(decompress=same, make=None):
        entry = Entry("kvzip", make or (lambda dtype: (same, decompress)), threaded=False)
        ours = {name: each for name, each in peers.REGISTRY.items() if each.level is not None}
        monkeypatch.setattr(peers, "REGISTRY", ours | {"copying": entry})

    return register


def test_the_tables(inside, registered):
    registered()
    seen = inside("bench", "-l", "1,3", "-T", "2", *QUICK, "d.safetensors").ok()
    assert seen.err == ""
    lines = seen.text.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("d.safetensors: 98.6 kB, mostly BF16; 2 threads on ")
    codecs = [line.split()[0] for line in lines[lines.index("") + 2 :][:3]]
    assert codecs == ["-1", "-3", "copying"]
    (ours,) = [line.split() for line in lines if line.startswith("-1 ")][:1]
    assert float(ours[1]) == pytest.approx(1.4, abs=0.3)
    titles = [line.split()[0] for line in lines if line.endswith("send") and "write" in line]
    assert titles == ["stages", "one"]
    assert sum(line.startswith("raw ") and line.count(">") == 3 for line in lines) == 2
    assert "With one thread, having no more: copying." in seen.text
    assert "rounds" not in lines
    more = inside("bench", "-v", "-l", "1", *QUICK, "d.safetensors").ok()
    assert re.search(rf"^-1 +{re.escape(__version__)} +98\.6 kB +\d+ +[\d.]+ \([\d.]+\.\.[\d.]+\)", more.text, re.M)


def test_json(inside, registered):
    registered()
    seen = inside("bench", "--json", "-l", "1-2", *QUICK, "d.safetensors", "d.safetensors").ok().json
    assert set(seen) == {"command", "machine", "threads", "seconds", "not_installed", "files"}
    assert (seen["command"], seen["seconds"], seen["not_installed"]) == ("bench", 0.3, [])
    first, second = seen["files"]
    assert first.keys() == second.keys()
    assert (first["name"], first["source_bytes"], first["measured_bytes"]) == ("d.safetensors", 98554, 98554)
    assert (first["dtype"], first["part"], first["left_out"]) == ("BF16", None, {})
    assert [each["codec"] for each in first["codecs"]] == ["kvzip-1", "kvzip-2", "copying"]
    ours = first["codecs"][0]
    assert (ours["level"], ours["estimated"], ours["part"]) == (1, False, None)
    assert ours["ratio"] == pytest.approx(98554 / ours["container_bytes"])
    assert set(ours["bits_per_value"]) == {"key", "value"}
    assert set(ours["in_bytes_per_second"]) == {"median", "least", "most", "rounds"}
    for way in ("in", "out"):
        rate = ours[f"{way}_bytes_per_second"]
        assert rate["least"] <= rate["median"] <= rate["most"]
    into = ours["in_bytes_per_second"]["median"]
    assert ours["pays_below"]["overlap"]["write"] == pytest.approx(into)
    assert ours["pays_below"]["in_turn"]["write"] == pytest.approx(into * (1 - 1 / ours["ratio"]))
    assert first["codecs"][2]["pays_below"]["overlap"] == {"write": 0, "read": 0, "send": 0}
    for mode in ("overlap", "in_turn"):
        for way in ("write", "read", "send"):
            bands = first["fastest"][mode][way]
            assert bands[0]["above"] == 0
            assert (bands[-1]["codec"], bands[-1]["below"]) == ("raw", None)
            assert [band["below"] for band in bands[:-1]] == [band["above"] for band in bands[1:]]


def test_a_container_is_decoded_first_and_a_pipe_will_do(here, inside):
    inside("compress", "-1", "d.safetensors").ok()
    of = [
        inside("bench", "--json", "-l", "1", "--peers", "none", *QUICK, name).ok().json["files"][0]
        for name in ("d.safetensors", "d.safetensors.kvz")
    ]
    piped = kvzip("bench", "--json", "-l1", "--peers=none", *QUICK, stdin=REAL.read_bytes()).ok().json["files"][0]
    assert {each["codecs"][0]["container_bytes"] for each in (*of, piped)} == {of[0]["codecs"][0]["container_bytes"]}
    assert piped["name"] == "standard input"


def test_what_is_not_installed_is_one_line(inside, registered, monkeypatch):
    def absent(dtype):
        raise ImportError("No module named 'none'")

    registered(make=absent)
    ours = peers.REGISTRY["copying"]
    monkeypatch.setitem(peers.REGISTRY, "other-1", ours)
    seen = inside("bench", "-l", "1", *QUICK, "d.safetensors", "d.safetensors").ok()
    assert seen.err == "kvzip: not installed: copying, other-1; pip install 'kvzip[bench]' brings them\n"
    assert "copying" not in seen.text
    seen = inside("bench", "-l", "1", "-q", "--json", *QUICK, "d.safetensors").quiet()
    assert seen.json["not_installed"] == ["copying", "other-1"]
    inside("bench", "-l", "1", "--peers", "none", *QUICK, "d.safetensors").quiet()


def test_a_codec_that_does_not_bring_it_back_is_left_out(inside, registered):
    registered(decompress=lambda data, threads: data[:-1])
    seen = inside("bench", "-l", "1", *QUICK, "d.safetensors").ok()
    assert seen.err.startswith("kvzip: left out: copying: not lossless")
    assert len(seen.lines) == 1
    assert "copying" not in seen.text


def test_peers_by_name_and_by_package(inside, registered):
    registered()
    seen = inside("bench", "-l", "1", "--peers", "copying", *QUICK, "--json", "d.safetensors").ok().json
    assert [each["codec"] for each in seen["files"][0]["codecs"]] == ["kvzip-1", "copying"]


def test_zstd_means_both_of_its_levels():
    from kvzip.cli.bench import Chosen

    assert Chosen.of("9", "zstd,lz4", 1, "60").names == ("kvzip-9", "zstd-1", "zstd-3", "lz4")
    assert len(Chosen.of(None, "all", 1, "60").names) == len(peers.REGISTRY)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--peers", "zst-1"], ["--peers zst-1", "did you mean zstd-1?"]),
        (["--peers", ""], ["choose from", "bigsmall", "none"]),
        (["--peers", "lz4,-"], ["'-'"]),
        (["-l", "0"], ["--level 0"]),
        (["--level", "3-1"], ["--level 3-1"]),
        (["--seconds", "0"], ["--seconds 0", "above 0"]),
        (["--seconds", "nan"], ["--seconds nan"]),
        (["--seconds", "long"], ["--seconds long", "a number"]),
        (["-T", "-1"], ["--threads -1"]),
    ],
)
def test_options_that_make_no_sense(inside, options, words):
    inside("bench", *options, "d.safetensors").fails(2, *words)


def test_what_is_no_dump_fails_and_the_others_are_done(here, inside):
    (here / "text").write_text("no dump at all")
    (here / "folder").mkdir()
    seen = inside("bench", "--json", "-l", "1", "--peers", "none", *QUICK, "text", "folder", "gone", "d.safetensors")
    assert seen.code == 1
    assert [line.split(":")[1].strip()[:20] for line in seen.lines] == [
        "plain text, not a du", "it is a folder", "no such file",
    ]  # fmt: skip
    assert [each["name"] for each in seen.json["files"]] == ["d.safetensors"]


def test_a_directory_in_a_container(here, inside):
    (here / "folder").mkdir()
    shutil.copy(REAL, here / "folder")
    inside("compress", "-q", "-o", "c.kvz", "folder").ok()
    inside("bench", "-l", "1", "c.kvz").fails(1, "holds a directory", "decompress it")


def test_a_container_that_needs_its_draft(here, inside):
    inside("compress", "-q", "--draft", "d.safetensors", "-o", "c.kvz", "d.safetensors").ok()
    inside("bench", "-l", "1", "c.kvz").fails(1, "prior or a draft", "decompress it")


def test_a_dump_without_tensors(here, inside):
    (here / "empty").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    assert inside("bench", "-l", "1", "--peers", "none", *QUICK, "empty").ok().text


def test_progress_says_what_is_measured_and_goes(here):
    run = terminal("bench", "-l", "1", "--peers", "none", *QUICK, "d.safetensors", cwd=here, plain=False).ok()
    for text in ("reading d.safetensors", "warming up kvzip-1", "round 1, kvzip-1"):
        assert text in run.err
    assert "round 1" not in terminal("bench", "-l1", "--peers=none", *QUICK, "d.safetensors").err
    assert "round 1" not in terminal("bench", "-ql1", "--peers=none", *QUICK, "d.safetensors", plain=False).err


def test_the_widest_figures_fit(capsys):
    """A processor ten times as fast, a codec with a long name, a part of a dump."""
    from kvzip.bench.dump import read_dump
    from kvzip.cli.show.bench import show_bench

    whole, _ = read_dump(str(REAL), 1)
    units = []
    for at, name in enumerate(["kvzip-9", "blosc2-bitshuffle", "lz4"]):
        seconds = whole_seconds(10.0 ** -(at + 9), len(whole.data))
        unit = Unit(
            Codec(name, "10.11.12", at < 2, False, same, same), 128, whole.cut(20_000), packed=5000 + at * 4000
        )
        unit.seconds = (seconds, seconds)
        unit.scale = 1.0001
        unit.bits = {"key": 10.12345, "value": 10.12345}
        units.append(unit)
    show_bench(Result("n" * 60, 10**12, Comparison(whole, units, [1e-6])), 256, every_round=True, first=False)
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "~" in text
    assert "blosc2-bitshuffle " in text


def whole_seconds(per_byte: float, size: int) -> list[float]:
    """Three rounds at a rate; they vary."""
    return [per_byte * size * factor for factor in (0.5, 1, 2)]


def test_rates_are_of_rounds():
    assert Spread.of(10, [1.0, 2.0, 5.0]) == Spread(5.0, 2.0, 10.0, 3)
