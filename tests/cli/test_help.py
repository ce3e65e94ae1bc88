"""Help, the man page, and what is said to a word that there is not."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest
import typer.main

from kvzip.cli.app import app
from kvzip.cli.man import escaped, page
from kvzip.cli.outline import examples, walk
from kvzip.cli.shorthand import expand

ROOT = typer.main.get_command(app)
COMMANDS = {path.removeprefix("kvzip").strip(): command for path, command in walk("kvzip", ROOT)}
LEAVES = {path: command for path, command in COMMANDS.items() if not hasattr(command, "commands")}


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


@pytest.mark.parametrize("path", COMMANDS)
@pytest.mark.parametrize("columns", ["80", "200"])
def test_help_fits_and_shows_every_option(inside, monkeypatch, path, columns):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERMINAL_WIDTH", columns)
    text = inside(*path.split(), "--help").ok().text
    assert all(len(line) <= (80 if columns == "80" else 100) for line in text.splitlines())
    for option in COMMANDS[path].params:
        assert all(name in text for name in option.opts if name.startswith("-")), option.opts
    for line in examples(COMMANDS[path]):
        assert f"  {line}\n" in text


@pytest.mark.parametrize("path", LEAVES)
def test_examples_can_be_parsed(path):
    """Two or more for each command; every option in them exists, and no argument is too much."""
    lines = examples(LEAVES[path])
    assert len(lines) >= 2
    for line in lines:
        words = shlex.split(line, comments=True)
        assert "kvzip" in words
        own = words[words.index("kvzip") + 1 :]
        ends = ("|", "&&", "||", ">", "<", "2>", ";")
        stop = next((i for i, word in enumerate(own) if word in ends), len(own))
        own = expand(own[:stop])
        called = next(path for path in (" ".join(own[:2]), own[0]) if path in LEAVES)
        command = COMMANDS[called]
        command.make_context(called, own[len(called.split()) :], resilient_parsing=False)


@pytest.mark.skipif(not shutil.which("groff"), reason="no groff")
def test_the_man_page_is_clean(inside):
    text = inside("man").quiet().text
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8"], input=text, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    for path in COMMANDS:
        assert f"kvzip {path}".strip() in done.stdout
    assert "--threads" in done.stdout


def test_the_man_page_has_every_command_and_option():
    text = page(ROOT)
    for path, command in COMMANDS.items():
        assert escaped(f"kvzip {path}".strip()) in text
        for option in command.params:
            if path:
                assert all(escaped(name) in text for name in option.opts if name.startswith("-")), option.opts


@pytest.mark.parametrize(
    ("words", "line"),
    [(".TH", "\\&.TH"), ("'x", "\\&\\(aqx"), ("a-b\\c", "a\\-b\\ec"), ("é", "\\[u00E9]")],
)
def test_what_roff_would_take_for_its_own(words, line):
    from kvzip.cli.man import text

    assert text(words) == [line]


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["comprss", "x"], 2, ["comprss", "did you mean compress?"]),
        (["compress", "--thread", "2", "a.safetensors"], 2, ["--thread", "did you mean --threads?"]),
        (["prior", "trian"], 2, ["trian", "did you mean train?"]),
        (["compress", "A.safetensors"], 1, ["A.safetensors", "did you mean a.safetensors?"]),
        (["compress", "a"], 1, ["did you mean a.safetensors?"]),
        (["decompress", "c.safetensor.kvz"], 1, ["did you mean c.safetensors.kvz?"]),
        (["compress", "--layout", "vlm", "a.safetensors"], 2, ["vlm", "vllm"]),
        (["compress", "--preset", "clasic", "a.safetensors"], 2, ["clasic", "classic"]),
        (["compress", "--level", "3x", "a.safetensors"], 2, ["3x"]),
    ],
)
def test_the_nearest_is_suggested(inside, args, code, words):
    inside(*args).fails(code, *words)
