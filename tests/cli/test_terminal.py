"""What only happens in a terminal: a refusal of binary data, progress, and no colour where none is wanted."""

from __future__ import annotations

import re

from .tool import dump_bytes, kvzip, terminal

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def test_binary_data_is_refused_unless_forced(folder):
    run = terminal("compress", "-c", "a.safetensors", cwd=folder).fails(2, "terminal", "-o", "-c", "-f")
    assert "KVZ" not in run.err
    terminal("decompress", "-c", "c.safetensors.kvz", cwd=folder).fails(2, "-o", "-c")
    assert "KVZ" in terminal("compress", "-cf", "a.safetensors", cwd=folder).ok().err


def test_piped_input_with_output_to_a_terminal_is_refused(dump):
    terminal("compress", stdin=dump).fails(2, "-o", "-c")


def test_a_terminal_as_input_is_refused(folder):
    import os
    import pty

    leader, follower = pty.openpty()
    try:
        for command in ("compress", "decompress", "test", "list", "stats"):
            kvzip(command, stdin=follower).fails(2, "standard input is a terminal", "name a file")
    finally:
        os.close(leader)
        os.close(follower)


def test_progress_shows_bytes_rate_and_ratio_on_one_line_and_goes(folder):
    (folder / "big.safetensors").write_bytes(dump_bytes(layers=8, heads=4, tokens=512, dim=128))
    run = terminal("compress", "big.safetensors", cwd=folder, columns=100).ok()
    assert re.search(r"big\.safetensors .*B of 8\.4 MB \(\d+ %\).*B/s .*x .*s left", run.err), run
    last = ESCAPES.sub("", run.err).rstrip("\n").splitlines()[-1]
    assert re.fullmatch(r"kvzip: big\.safetensors: 8\.4 MB -> .*x\) in .* s, .*B/s", last.split("\r")[-1]), run
    quiet = terminal("compress", "-fq", "big.safetensors", cwd=folder)
    assert quiet.quiet()
    narrow = terminal("test", "big.safetensors.kvz", cwd=folder, columns=40).ok()
    shown = ESCAPES.sub("", narrow.err).replace("\r", "\n").splitlines()
    assert max(map(len, shown)) <= 40, narrow
    plain = terminal("compress", "-f", "big.safetensors", cwd=folder, env={"NO_COLOR": "1"}).ok()
    assert not COLOURS.search(plain.err), plain


def test_no_progress_in_a_pipe_or_a_log(folder):
    kvzip("compress", "a.safetensors", cwd=folder).quiet()
    seen = terminal("compress", "-f", "a.safetensors", cwd=folder, err=False).quiet()
    assert seen.err == ""


def test_tables_have_colour_only_where_it_is_wanted(folder):
    coloured = terminal("list", "a.safetensors", cwd=folder).ok()
    plain = terminal("list", "a.safetensors", cwd=folder, env={"NO_COLOR": "1"}).ok()
    assert COLOURS.sub("", coloured.err) == COLOURS.sub("", plain.err)
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", plain.err)
    for command in ("list", "stats"):
        seen = terminal(command, "a.safetensors", cwd=folder, env={"NO_COLOR": "1"}).ok()
        assert "\x1b" not in seen.err, command
        assert b"\x1b" not in kvzip(command, "a.safetensors", cwd=folder).ok().out


def test_a_name_cannot_steer_the_terminal(folder, dump):
    (folder / "\x1b[31mred[bold]\n.safetensors").write_bytes(dump_bytes(names=["\x1b[2J[red]x[/red]\n"]))
    for command in ("list", "stats", "compress"):
        seen = terminal(command, "\x1b[31mred[bold]\n.safetensors", cwd=folder, env={"NO_COLOR": "1"}).ok().err
        assert "\x1b[31mred" not in seen, command
        assert "\x1b[2J" not in seen, command
