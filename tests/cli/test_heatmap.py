"""``stats --heatmap``: it fits, it says the same in colour and without, and it never takes a name for markup."""

from __future__ import annotations

import io
import re
import sys

import numpy as np
import pytest
from pictures.made import course, stats, stream

from kvzip.cli.show import heatmap

from .tool import dump_bytes, kvzip, terminal

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
GROUND = re.compile(r"\x1b\[48;2;\d+;\d+;\d+m")


class Output(io.StringIO):
    """Standard output with an encoding of its own."""

    encoding = "utf-8"


def drawn(monkeypatch, found, encoding="utf-8", **env) -> list[str]:
    out = Output()
    monkeypatch.setattr(Output, "encoding", encoding)
    monkeypatch.setattr(sys, "stdout", out)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"TERM": "xterm", "COLUMNS": "80"} | env).items():
        monkeypatch.setenv(name, value)
    heatmap.show_heatmap(found)
    return out.getvalue().splitlines()


def rows(lines: list[str], layer: int) -> list[str]:
    return [line for line in lines if line.startswith(f"{layer:>5}  ")]


@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (32, 8), (4, 36), (4, 37), (4, 64), (2, 200)])
@pytest.mark.parametrize("env", [{}, {"FORCE_COLOR": "1", "COLORTERM": "truecolor"}])
def test_it_fits_80_columns_and_shows_every_cell(monkeypatch, layers, heads, env):
    lines = drawn(monkeypatch, stats(layers=layers, heads=heads), **env)
    assert max(len(ESCAPE.sub("", line)) for line in lines) <= 80
    assert bool(GROUND.search("".join(lines))) == bool(env)
    beside = 2 * heads + 3 <= 73
    assert len(rows([ESCAPE.sub("", line) for line in lines], 0)) == (1 if beside else 2 * -(-heads // 73))


def test_shades_are_the_darker_the_more_bits(monkeypatch):
    streams = [stream(layer, "key", 0, bits) for layer, bits in enumerate((2, 4, 6, 8, 10))]
    lines = drawn(monkeypatch, stats(streams))
    assert [rows(lines, layer)[0].split("  ")[-1].strip() for layer in range(5)] == ["0", "░░2", "▒▒5", "▓▓7", "██9"]


def test_digits_where_the_encoding_has_no_blocks(monkeypatch):
    lines = drawn(monkeypatch, stats(), encoding="ascii")
    text = "\n".join(lines)
    text.encode("ascii")
    assert rows(lines, 0)[0].split() == ["0", "0", "0", "1", "2"]


def test_what_is_missing_is_a_dot(monkeypatch):
    lines = drawn(monkeypatch, stats([stream(0, "key"), stream(1, "value", bits=9)]))
    assert rows(lines, 0)[0].rstrip().endswith(".")


def test_a_line_along_the_tokens_rises_where_it_costs_more(monkeypatch):
    events = {"resets": np.array([0, 0, 0, 3])}
    lines = drawn(monkeypatch, stats([stream(along=course([2, 4, 6, 9], events=events))]))
    at = next(number for number, line in enumerate(lines) if line.startswith("Bits along the tokens"))
    assert "keys 2.00 to 9.00" in lines[at]
    assert lines[at + 1].split()[1] == "▁" * 18 + "▃" * 18 + "▅" * 18 + "█" * 18
    assert lines[at + 2].split() == ["0", "4", "8"]
    assert lines[at + 3].split() == ["█"]
    assert lines[at + 4].split() == ["drift", "resets:", "keys", "3"]


def test_bars_have_a_letter_for_each_part(monkeypatch):
    text = "\n".join(drawn(monkeypatch, stats()))
    legend = dict(re.findall(r"(\w): (\w[\w ]*?)(?:  |$|\n)", text[text.index("Where the bits go") :]))
    assert {"sign", "exponent", "mantissa", "symbols", "side"} <= set(legend.values())
    bar = re.search(r"keys: order-0 entropy  (\S+)", text)[1]
    assert set(bar) == {"s", "e", "m", "."}


def test_only_what_is_known_is_drawn(monkeypatch):
    assert "No layout" in "\n".join(drawn(monkeypatch, stats([stream(-1, "")])))
    bare = stats([stream()])
    bare.streams[0].course = None
    assert "not measured" in "\n".join(drawn(monkeypatch, bare))
    assert drawn(monkeypatch, stats([]))[-1] == "It holds no values."


def test_names_are_text(monkeypatch):
    assert "[red]x[/red]" in drawn(monkeypatch, stats(name="[red]x[/red]"))[0]


@pytest.fixture
def named(folder):
    (folder / "n.safetensors").write_bytes(dump_bytes(layers=3, heads=2, tokens=40))
    return folder


def test_colour_in_a_terminal_and_none_elsewhere(named):
    coloured = {"COLORTERM": "truecolor"}
    run = terminal("stats", "--heatmap", "n.safetensors", cwd=named, env=coloured).ok()
    assert GROUND.search(run.err)
    run = terminal("stats", "--heatmap", "n.safetensors", cwd=named, env=coloured | {"NO_COLOR": "1"}).ok()
    assert "\x1b[48" not in run.err
    assert "░" in run.err
    run = kvzip("stats", "--heatmap", "n.safetensors", cwd=named).quiet()
    assert "\x1b" not in run.text
    assert "░" in run.text


def test_a_wide_terminal_is_used(named):
    run = terminal("stats", "--heatmap", "n.safetensors", cwd=named, columns=200, env={"NO_COLOR": "1"}).ok()
    assert 150 < max(map(len, run.err.splitlines())) <= 200


def test_it_takes_no_json(named):
    kvzip("stats", "--heatmap", "--json", "n.safetensors", cwd=named).fails(2, "--json", "--heatmap")
