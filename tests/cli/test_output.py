"""What is said, how much, and how wide."""

from __future__ import annotations

import re

import pytest

from .tool import at_once, dump_bytes, kvzip, terminal

NAMES = [
    "[red]bold[/red]",
    "line\nbreak",
    "tab\there",
    "\U0001f600\U0001f600",
    "\x1b[31m",
    "x" * 300,
    "[/]",
    ":smile:",
]


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.delenv("COLUMNS", raising=False)


def test_a_pipe_hears_nothing_but_the_news(inside):
    for args in (["compress", "a.safetensors"], ["test", "c.safetensors.kvz"], ["decompress", "c.safetensors.kvz"]):
        assert inside(*args).quiet().out == b""


def test_verbose_adds_a_line_with_sizes_ratio_and_rate(inside):
    for args in (["compress", "-v", "a.safetensors"], ["decompress", "-v", "c.safetensors.kvz"]):
        run = inside(*args).fails(0, args[-1], "->", "x)", "B/s")
        assert run.out == b""
    inside("test", "-v", "c.safetensors.kvz").fails(0, "c.safetensors.kvz", "ok", "B/s")
    inside("compress", "-fv", "a.safetensors", "-q").quiet()


def test_quiet_leaves_errors(inside):
    inside("compress", "-q", "none").fails(1, "none")
    inside("test", "-q", "a.safetensors").fails(1, "a.safetensors")


def test_verify_is_silent_too(inside):
    inside("compress", "--verify", "a.safetensors").quiet()


def test_no_run_gives_a_success_with_nothing_written(folder, inside):
    (folder / "void").write_bytes(b"")
    inside("compress", "void").fails(1, "empty")
    inside("decompress", "void", "-o", "x").fails(1)
    assert not (folder / "void.kvz").exists()


def test_tables_fit_80_columns(folder, inside, monkeypatch):
    (folder / "b.safetensors").write_bytes(dump_bytes(layers=40, heads=2, tokens=8, dim=32))
    inside("compress", "b.safetensors").quiet()
    for command in (["list"], ["stats"], ["stats", "-v"]):
        for name in ("b.safetensors", "b.safetensors.kvz"):
            for columns in ("", "80", "40"):
                monkeypatch.setenv("COLUMNS", columns)
                run = inside(*command, name).ok()
                assert max(map(len, run.text.splitlines())) <= 80, (command, name, columns)
                assert "…" not in run.text
                assert "\x1b" not in run.text


def test_large_counts_fit_80_columns():
    from kvzip.cli.sizes import compact

    for count in (0, 999_999, 10**6, 123_456_789, 10**9, 987_654_321_000):
        assert len(compact(count)) <= 6, count


def test_wide_names_fold_and_lose_nothing(folder, inside):
    name = "model.layers.0.self_attn." + "abcdefghij" * 12 + ".key_cache"
    (folder / "w").write_bytes(dump_bytes(names=[name]))
    text = inside("list", "w").ok().text
    assert max(map(len, text.splitlines())) <= 80
    body = text.splitlines()[2:]
    assert "".join(line.split()[0] for line in body) == name


def test_names_do_not_break_the_tables(folder, inside):
    (folder / "[bold]n[x].safetensors").write_bytes(dump_bytes(names=NAMES))
    inside("compress", "[bold]n[x].safetensors").quiet()
    for name in ("[bold]n[x].safetensors", "[bold]n[x].safetensors.kvz"):
        text = inside("list", name).ok().text
        assert all(shown in text for shown in ("[red]bold[/red]", r"line\nbreak", r"tab\there", r"\x1b[31m", "[/]"))
        assert "\U0001f600\U0001f600" in text
        assert ":smile:" in text
        assert "\x1b" not in text
        assert text.startswith("[bold]n[x].safetensors")
        assert inside("stats", name).ok().text.startswith("[bold]n[x].safetensors")
        (row,) = inside("list", "--json", name).json["files"]
        assert [tensor["name"] for tensor in row["tensors"]] == NAMES


def test_sizes_are_for_people_in_tables_and_exact_in_json(inside, dump):
    assert re.search(r"8\.57 kB", inside("list", "a.safetensors").text)
    assert inside("list", "--json", "a.safetensors").json["files"][0]["source_bytes"] == len(dump)


def test_help_and_version():
    whole, short, each, bare, version, letter = at_once(
        ("--help",), ("-h",), ("compress", "--help"), (), ("--version",), ("-V",)
    )
    assert whole.quiet().out == short.quiet().out
    for command in ("compress", "decompress", "test", "list", "stats"):
        assert re.search(rf"^ +{command} ", whole.text, re.MULTILINE)
    for option in ("--alpha", "--beta", "--theta-low", "--theta-new", "--n-update", "--symbol-bits", "--prior"):
        assert option in each.quiet().text
    assert bare.code in (0, 2)
    assert "Usage" in bare.text + bare.err
    assert re.fullmatch(r"kvzip \d+\.\d+\.\d+\S*\n", version.quiet().text)
    assert letter.out == version.out


def test_a_locale_without_unicode(folder):
    (folder / "u.safetensors").write_bytes(dump_bytes(names=["\U0001f600"]))
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    run = kvzip("list", "u.safetensors", cwd=folder, env=env)
    assert run.code == 0, run
    assert b"1 tensor" in run.out


def test_a_name_with_a_line_break_stays_on_one_line(folder, inside, container):
    (folder / "x\n\x1b[31m.kvz").write_bytes(container)
    run = inside("test", "-v", "x\n\x1b[31m.kvz").fails(0, "ok")
    assert "\x1b" not in run.err


def test_a_narrow_terminal_cuts_no_numbers(folder):
    assert "…" not in terminal("stats", "a.safetensors", cwd=folder, columns=40).ok().err
