"""What bash, zsh and fish complete, asked of the shells themselves."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer.main

import kvzip as package
from kvzip.cli.app import app
from kvzip.cli.complete import Answer, complete
from kvzip.cli.outline import metavar, takes_value, walk

from .tool import TIMEOUT, dump_bytes, environment, kvzip

NAMES = ["layers.0.key", "a b", "x:y", "q[0]"]


@pytest.fixture
def desk(folder):
    """A folder with some files, and a kvzip that is found by its name."""
    (folder / "odd.safetensors").write_bytes(dump_bytes(names=NAMES))
    (folder / "notes.txt").write_text("no dump")
    (folder / "sub").mkdir()
    (folder / "bin").mkdir()
    program = folder / "bin" / "kvzip"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m kvzip "$@"\n')
    program.chmod(0o755)
    for shell in ("bash", "zsh", "fish"):
        (folder / "bin" / f"script.{shell}").write_text(kvzip("completion", shell).quiet().text)
    return folder


def surroundings(desk) -> dict[str, str]:
    """An environment in which the desk's kvzip is this one."""
    source = os.pathsep.join((str(Path(package.__file__).parents[1]), os.environ.get("PYTHONPATH", "")))
    home = {name: str(desk) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "ZDOTDIR")}
    return environment(PATH=f"{desk}/bin:{os.environ['PATH']}", PYTHONPATH=source, **home)


def run(desk, shell: str, code: str) -> list[str]:
    done = subprocess.run(
        [shell, "-c", code],
        cwd=desk, env=surroundings(desk), capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.splitlines()


def bash(desk, line: str) -> list[str]:
    """What bash would offer at the end of ``line``."""
    return run(
        desk,
        "bash",
        f"source bin/script.bash; COMP_LINE={shlex.quote(line)}; COMP_POINT=${{#COMP_LINE}}; "
        'compopt() { :; }; _kvzip kvzip; printf "%s\\n" "${COMPREPLY[@]}"',
    )


def fish(desk, line: str) -> list[str]:
    code = f"source bin/script.fish; complete -C {shlex.quote(line)}"
    return [one.partition("\t")[0] for one in run(desk, "fish", code)]


SHELLS = [
    pytest.param(bash, id="bash", marks=pytest.mark.skipif(not shutil.which("bash"), reason="no bash")),
    pytest.param(fish, id="fish", marks=pytest.mark.skipif(not shutil.which("fish"), reason="no fish")),
]


@pytest.mark.parametrize("ask", SHELLS)
def test_commands_options_and_values(desk, ask):
    assert {"compress", "cat", "diff", "tune"} <= {word.strip() for word in ask(desk, "kvzip ")}
    assert {word.strip() for word in ask(desk, "kvzip comp")} == {"compress", "completion"}
    assert "--threads" in [word.strip() for word in ask(desk, "kvzip compress --th")]
    assert {str(level) for level in range(1, 10)} <= {word.strip() for word in ask(desk, "kvzip compress --level ")}
    assert "classic" in [word.strip() for word in ask(desk, "kvzip compress --preset ")]
    assert "vllm" in [word.strip() for word in ask(desk, "kvzip compress --layout v")]
    assert "train" in [word.strip() for word in ask(desk, "kvzip prior ")]


@pytest.mark.parametrize("ask", SHELLS)
def test_files_that_fit(desk, ask):
    found = {word.strip() for word in ask(desk, "kvzip decompress ")}
    assert "c.safetensors.kvz" in found
    assert "a.safetensors" not in found
    found = {word.strip() for word in ask(desk, "kvzip compress ")}
    assert {"a.safetensors", "sub/"} <= found
    assert "notes.txt" not in found


@pytest.mark.parametrize("ask", SHELLS)
def test_tensors_and_layers_of_the_file_on_the_line(desk, ask):
    for name in ("a.safetensors", "c.safetensors.kvz"):
        found = [word.strip() for word in ask(desk, f"kvzip cat {name} --tensor layers.1")]
        assert found == ["layers.1.key", "layers.1.value"]
        assert [word.strip() for word in ask(desk, f"kvzip cat {name} --layer ")] == ["0", "1"]


@pytest.mark.parametrize("ask", SHELLS)
def test_names_that_shells_stumble_over(desk, ask):
    """Each is one word that means the name."""
    found = ask(desk, "kvzip cat odd.safetensors --tensor ")
    if ask is fish:  # which quotes what it puts into the line by itself
        assert set(found) == set(NAMES)
        return
    assert {shlex.split(word)[0] for word in found} == set(NAMES)
    assert all(len(shlex.split(word)) == 1 for word in found)


@pytest.mark.parametrize("ask", SHELLS)
def test_nothing_is_said_where_nothing_is_known(desk, ask):
    (desk / "bad.kvz").write_bytes((desk / "c.safetensors.kvz").read_bytes()[:100])
    for line in (
        "kvzip cat bad.kvz --tensor ",
        "kvzip cat none --tensor ",
        "kvzip nonsense ",
        "kvzip compress --level=x",
    ):
        assert [word for word in ask(desk, line) if word] == [], line


@pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh")
def test_zsh_takes_its_script(desk):
    """zsh completes only at a terminal; here it reads the script, and what the script asks is answered."""
    run(desk, "zsh", "autoload -Uz compinit; compinit -u -d zcompdump; source bin/script.zsh")
    lines = run(desk, "zsh", "kvzip completion zsh -- 'kvzip' 'cat' 'a.safetensors' '--tensor' 'layers.0'")
    assert "whole\tlayers.0.key" in lines


NUMBERS = {"ADDRESS", "N", "P", "X", "SIZE", "RATE", "N,N-M", "0.5..1", "0..0.999"}
NAMED_FREELY = {"NAME", "NAMES"}
OF_A_FILE = {"TENSOR", "LAYER"}


def test_every_value_is_completed_unless_it_is_a_number_or_free():
    """By its metavar; an option with a new one is either given something to complete or listed here."""
    root = typer.main.get_command(app)
    for path, command in walk("kvzip", root):
        for option in command.params:
            called = metavar(option)
            if not called or option.param_type_name == "argument" or not takes_value(option):
                continue
            found = complete(root, [*path.split()[1:], option.opts[-1]], "")
            assert (found != Answer()) == (called not in NUMBERS | NAMED_FREELY | OF_A_FILE), (path, option.opts)


def test_what_is_given_is_not_offered_again_unless_it_may_be():
    root = typer.main.get_command(app)
    again = {
        c.value for c in complete(root, ["cat", "x", "-T2", "--json", "--tensor", "a", "-fo", "y"], "--").candidates
    }
    assert "--tensor" in again
    assert not {"--threads", "--json", "--force", "--output"} & again
    assert complete(root, ["cat", "x", "-fo"], "").suffixes == ()
    assert complete(root, ["compress", "--"], "--l").candidates == []
    assert complete(root, ["compress", "-9"], "").suffixes == (".safetensors",)


def test_scripts_of_other_shells(inside):
    inside("completion", "tcsh").fails(2, "tcsh")


def test_it_needs_neither_numpy_nor_numba(desk):
    code = "import sys; from kvzip.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    line = ["completion", "bash", "--", "kvzip cat a.safetensors --tensor l", " "]
    done = subprocess.run(
        [sys.executable, "-c", code, *line], cwd=desk, env=environment(), capture_output=True, text=True, check=True
    )
    assert "layers.0.key" in done.stdout
    assert not {"numpy", "numba", "pydantic"} & set(done.stderr.split())


# -- at a terminal, with a key

ZSH_START = "PS1='% '; autoload -Uz compinit; compinit -u -d zcompdump; source bin/script.zsh"
START = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "PS1='% '; source bin/script.bash"),
    "zsh": (["zsh", "-f", "-i"], ZSH_START),
    "fish": (["fish", "--private", "-i"], "source bin/script.fish"),
}
KEYS = [  # what is typed before the key, and the words that the command then gets
    ("kvzip compre", ["compress"]),
    ("kvzip compress --preset=cl", ["compress", "--preset=classic"]),
    ("kvzip compress a", ["compress", "a.safetensors"]),
    ("kvzip list my\\ d", ["list", "my dump.safetensors"]),
    ("kvzip list 'my d", ["list", "my dump.safetensors"]),
    ("kvzip list co", ["list", "co:lon.safetensors"]),
    ("kvzip list ~/my\\ d", ["list", "HOME/my dump.safetensors"]),
    ("kvzip stats --draft=co", ["stats", "--draft=co:lon.safetensors"]),
    ("kvzip cat odd.safetensors --tensor a", ["cat", "odd.safetensors", "--tensor", "a b"]),
    ("kvzip cat odd.safetensors --tensor 'a", ["cat", "odd.safetensors", "--tensor", "a b"]),
    ("kvzip cat odd.safetensors --tensor=x:", ["cat", "odd.safetensors", "--tensor=x:y"]),
    ("kvzip cat odd.safetensors --tensor q", ["cat", "odd.safetensors", "--tensor", "q[0]"]),
    ("kvzip cat odd.safetensors --tensor d", ["cat", "odd.safetensors", "--tensor", "d$x'y"]),
    ("kvzip cat ~/odd.safetensors --tensor lay", ["cat", "HOME/odd.safetensors", "--tensor", "layers.0.key"]),
]


class Terminal:
    """A shell at a terminal; its output is read up to what is waited for."""

    def __init__(self, argv: list[str], folder: Path) -> None:
        env = surroundings(folder) | {"TERM": "xterm", "LC_ALL": "C.UTF-8", "COLUMNS": "200", "LINES": "40"}
        self.child, self.leader = pty.fork()
        if self.child == 0:
            os.chdir(folder)
            os.execvpe(argv[0], argv, env)

    def send(self, keys: str) -> None:
        os.write(self.leader, keys.encode())

    def until(self, pattern: str) -> str:
        """All that is printed until ``pattern`` is in it."""
        seen, deadline = "", time.monotonic() + TIMEOUT
        while not re.search(pattern, seen):
            assert time.monotonic() < deadline, seen
            if select.select([self.leader], [], [], 0.1)[0]:
                part = os.read(self.leader, 65536).decode(errors="replace")
                if "\x1b[6n" in part or "\x1b[c" in part:  # where is the cursor, and who are you
                    self.send("\x1b[1;1R\x1b[?1;2c")
                seen += part
        return seen

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child, signal.SIGKILL)
        os.close(self.leader)
        os.waitpid(self.child, 0)


@pytest.mark.parametrize("shell", START)
def test_a_key_at_a_terminal(desk, shell):
    """The line is completed by the shell itself, then ``show`` is put before it and prints the words it gets."""
    if not shutil.which(shell):
        pytest.skip(f"no {shell}")
    (desk / "odd.safetensors").write_bytes(dump_bytes(names=[*NAMES, "d$x'y"]))
    for name in ("my dump.safetensors", "co:lon.safetensors"):
        (desk / name).write_bytes(dump_bytes())
    show = desk / "bin" / "show"
    show.write_text("#!/bin/sh\nfor word; do printf '<%s>' \"$word\"; done\necho '<end>'\n")
    show.chmod(0o755)
    argv, start = START[shell]
    terminal = Terminal(argv, desk)
    try:
        terminal.send(f"{start}; show ready\n")
        terminal.until("<ready><end>")
        for line, words in KEYS:
            terminal.send(f"{line}\t")
            terminal.send("\x01show \x05\r")
            found = re.findall(r"<([^<>\n]*)>", terminal.until("<end>").split("<kvzip>")[-1])
            assert found == [*(word.replace("HOME", str(desk)) for word in words), "end"], line
    finally:
        terminal.close()


@pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh")
def test_zsh_loads_its_script_from_a_folder_of_functions(desk):
    (desk / "functions").mkdir()
    shutil.copy(desk / "bin" / "script.zsh", desk / "functions" / "_kvzip")
    terminal = Terminal(["zsh", "-f", "-i"], desk)
    try:
        terminal.send("fpath=(~/functions $fpath); autoload -Uz compinit; compinit -u -d zcompdump; echo r''eady\n")
        terminal.until("ready")
        terminal.send("kvzip decompress c\t")
        terminal.until(r"c\.safetensors\.kvz")
    finally:
        terminal.close()


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash")
def test_bash_gets_one_slash_after_a_folder(desk):
    """Readline puts it there itself where a quote is open."""
    assert bash(desk, "kvzip list su") == ["sub/"]
    assert bash(desk, "kvzip list 'su") == ["sub"]
