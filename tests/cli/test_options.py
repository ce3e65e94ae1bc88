"""Levels, threads, environment and the estimator's parameters: what is accepted, and what the refusal says."""

from __future__ import annotations

import pytest

from kvzip.windows.parameters import SETTINGS

from .tool import environment, kvzip

LEVELS = range(1, 10)
OPTIONS = {s.name: s for s in SETTINGS if s.name not in ("drift_keep", "sampling", "table_bits")}


def level_of(inside, *args: str) -> int:
    assert inside("compress", "a.safetensors", "-f", "-o", "x.kvz", *args).code == 0
    return inside("list", "--json", "x.kvz").json["files"][0]["level"]


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for name in ("KVZIP_LEVEL", "KVZIP_THREADS"):
        monkeypatch.delenv(name, raising=False)


def test_every_way_to_give_a_level(inside):
    assert [level_of(inside, f"-{level}") for level in LEVELS] == list(LEVELS)
    assert level_of(inside) == 3
    assert [level_of(inside, *args) for args in (["-l", "4"], ["-l4"], ["--level=4"], ["--level", "4"])] == [4] * 4
    assert inside("stats", "--json", "-2", "a.safetensors").json["files"][0]["level"] == 2


def test_a_bare_level_from_a_shell(folder):
    kvzip("compress", "-9", "-T", "1", "a.safetensors", cwd=folder).quiet()
    assert kvzip("list", "--json", "a.safetensors.kvz", cwd=folder).json["files"][0]["level"] == 9


def test_a_bare_level_is_a_name_after_two_dashes(folder, inside, dump):
    (folder / "-3").write_bytes(dump)
    inside("compress", "--", "-3").quiet()
    assert (folder / "-3.kvz").exists()
    inside("compress", "-f", "-o", "-5", "a.safetensors").quiet()
    assert (folder / "-5").exists()


@pytest.mark.parametrize("cluster", ["-9f", "-f9", "-9fv"])
def test_a_level_among_other_letters(inside, cluster):
    inside("compress", cluster, "a.safetensors").ok()
    assert inside("list", "--json", "a.safetensors.kvz").json["files"][0]["level"] == 9


def test_the_last_level_wins(inside):
    assert level_of(inside, "-1", "-l", "6") == 6
    assert level_of(inside, "-l", "6", "-1") == 1


def test_the_environment_sets_level_and_threads_and_flags_win(inside, monkeypatch):
    monkeypatch.setenv("KVZIP_LEVEL", "7")
    monkeypatch.setenv("KVZIP_THREADS", "2")
    assert level_of(inside) == 7
    assert level_of(inside, "-1") == 1
    monkeypatch.setenv("KVZIP_LEVEL", "no")
    monkeypatch.setenv("KVZIP_THREADS", "-1")
    assert level_of(inside, "-2", "-T", "0") == 2
    assert inside("decompress", "c.safetensors.kvz", "-o", "y").fails(2, "--threads", "1024")
    monkeypatch.setenv("KVZIP_LEVEL", "")
    monkeypatch.setenv("KVZIP_THREADS", "")
    assert level_of(inside) == 3


@pytest.mark.parametrize("value", ["0", "10", "-1"])
def test_bad_levels(inside, monkeypatch, value):
    inside("compress", "a.safetensors", f"--level={value}").fails(2, f"--level {value}", "1 to 9")
    monkeypatch.setenv("KVZIP_LEVEL", value)
    inside("stats", "a.safetensors").fails(2, "level", "1 to 9")


@pytest.mark.parametrize("value", ["-1", "1025", "999999999999"])
def test_bad_threads(inside, monkeypatch, value):
    inside("compress", "a.safetensors", f"-T{value}").fails(2, f"--threads {value}", "0", "1024")
    for command in ("compress", "decompress", "stats"):
        monkeypatch.setenv("KVZIP_THREADS", value)
        inside(command, "c.safetensors.kvz").fails(2, "--threads")


def test_bad_threads_of_test(inside):
    inside("test", "-T", "-1", "c.safetensors.kvz").fails(2, "--threads")


def test_words_for_numbers_leave_with_2(inside):
    for args in (["-l", "x"], ["-T", "x"], ["--alpha", "x"], ["--n-update", "1.5"], ["-0"], ["--nonsense"]):
        run = inside("compress", "a.safetensors", *args)
        assert run.code == 2
        assert args[0] in run.err
    assert inside("nonsense").code == 2
    assert kvzip("compress", "-l", "x", env={"KVZIP_THREADS": "x"}).code == 2


@pytest.mark.parametrize("args", [["-l", "x"], ["-0"], ["--nonsense"], ["-o"]], ids=" ".join)
def test_usage_errors_are_one_line(inside, args):
    inside("compress", "a.safetensors", *args).fails(2, args[0])


def test_a_word_in_the_environment_is_one_line(inside, monkeypatch):
    monkeypatch.setenv("KVZIP_LEVEL", "x")
    inside("compress", "a.safetensors").fails(2, "KVZIP_LEVEL")


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_of_the_estimator(inside, name):
    setting = OPTIONS[name]
    option = "--" + name.replace("_", "-")
    for value in (setting.low, setting.high, *([0] if setting.zero_is_off else [])):
        run = inside("compress", "-f", "a.safetensors", "-o", "x.kvz", option, f"{value:g}")
        assert (run.code, run.err) == (0, ""), option
        shown = inside("stats", "--json", "x.kvz").json["files"][0]["parameters"][name]
        assert shown == pytest.approx(value, abs=1 / setting.scale)
        assert inside("decompress", "-f", "x.kvz", "-o", "y").code == 0
    for value in (setting.low - 0.25 if setting.scale > 1 else setting.low - 1, setting.high + 1):
        if value == 0 and setting.zero_is_off:
            continue
        for command in ("compress", "stats"):
            inside(command, "a.safetensors", option, f"{value:g}").fails(
                2, f"{option} {value:g}", f"{setting.low:g}", f"{setting.high:g}"
            )


def test_options_with_words(inside):
    inside("compress", "-f", "a.safetensors", "--prior", "none").quiet()
    inside("compress", "-f", "a.safetensors", "--prior", "builtin", "--preset", "classic", "--alpha", "0.9").quiet()
    assert inside("stats", "--json", "a.safetensors.kvz").json["files"][0]["parameters"]["alpha"] == pytest.approx(
        0.9, abs=1e-4
    )
    inside("compress", "-f", "a.safetensors", "--layout", "opaque", "--block-size", "4K").quiet()
    for size in ("3K", "2K", "128M", "x", "-4K", "0", ""):
        inside("compress", "a.safetensors", f"--block-size={size}").fails(2, "--block-size", "4K", "64M")
    inside("compress", "a.safetensors", "--prior", "x").fails(1, "--prior", "no such file: x")
    inside("compress", "a.safetensors", "--prior", "none", "--prior-weight", "9").fails(2, "--prior-weight")
    inside("compress", "a.safetensors", "--preset", "x").fails(2, "--preset x", "classic")
    inside("compress", "a.safetensors", "--layout", "x").fails(2, "layout", "'x'", "huggingface", "opaque")
    inside("compress", "a.safetensors", "--classes", "3").fails(2, "--classes 3", "1, 2, 4, 8 or 16")


def test_the_container_is_the_same_for_any_number_of_threads(folder, container):
    for threads in ("1", "2", "7"):
        kvzip("compress", "-f", "a.safetensors", cwd=folder, env={"KVZIP_THREADS": threads}).quiet()
        assert (folder / "a.safetensors.kvz").read_bytes() == container


def test_the_environment_of_these_tests_is_clean():
    assert not any(name.startswith("KVZIP_") for name in environment())
