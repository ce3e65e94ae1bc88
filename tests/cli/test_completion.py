"""What bash, zsh and fish complete, asked of the shells themselves."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys

import pytest

from .tool import dump_bytes, environment, kvzip

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


def run(desk, shell: str, code: str) -> list[str]:
    env = environment(PATH=f"{desk}/bin:{os.environ['PATH']}", HOME=str(desk), XDG_CONFIG_HOME=str(desk))
    source = os.environ.get("PYTHONPATH", "")
    root = str(__import__("kvzip").__path__[0]).rpartition("/")[0]
    env["PYTHONPATH"] = f"{root}:{source}"
    done = subprocess.run(
        [shell, "-c", code], cwd=desk, env=env, capture_output=True, text=True, timeout=60, check=False
    )
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
