"""docs/json.md says what commands print: its tables are the schema, and every command's output is held to it."""

from __future__ import annotations

import json
import re

import pytest
import typer.main

from kvzip.cli.app import app
from kvzip.cli.outline import walk

from .readme import ROOT, prepare, shell

PAGE = (ROOT / "docs" / "json.md").read_text("utf-8")
EXTENDS = {"LAYER": ("SUMS", ()), "STREAM": ("SUMS", ("ratio",)), "prior train": ("prior show", ())}
SIMPLE = {"integer": int, "number": (int, float), "string": str, "boolean": bool}
NO_JSON = {"completion", "man"}


def schema() -> dict[str, dict[str, str]]:
    """Types by key, for each object of the page."""
    found: dict[str, dict[str, str]] = {}
    for part in re.split(r"^##+ ", PAGE, flags=re.MULTILINE)[1:]:
        name = part.partition("\n")[0].strip()
        rows = re.findall(r"^\| (\w+) \| ([^|]+) \|", part, re.MULTILINE)
        found[name] = {key: kind.strip() for key, kind in rows if key != "key"}
    for name, (base, without) in EXTENDS.items():
        found[name] = {key: kind for key, kind in found[base].items() if key not in without} | found[name]
    found["decompress"] = found["compress"]
    return found


SCHEMA = schema()


def check(value, kind: str, where: str) -> None:
    if kind.endswith(" or null"):
        if value is not None:
            check(value, kind.removesuffix(" or null"), where)
    elif kind.startswith("array of "):
        assert isinstance(value, list), where
        for number, one in enumerate(value):
            check(one, kind.removeprefix("array of "), f"{where}[{number}]")
    elif kind.startswith("map of "):
        assert isinstance(value, dict), where
        for key, one in value.items():
            check(one, kind.removeprefix("map of "), f"{where}.{key}")
    elif " or " in kind:
        assert any(isinstance(value, SIMPLE[one]) for one in kind.split(" or ")), (where, value)
    elif kind in SIMPLE:
        assert isinstance(value, SIMPLE[kind]), (where, value)
        assert kind == "boolean" or not isinstance(value, bool), where
    else:
        keys = SCHEMA[kind]
        assert set(value) == set(keys), f"{where}: {set(value) ^ set(keys)}"
        for key, of in keys.items():
            check(value[key], of, f"{where}.{key}")


def test_the_checker_checks():
    for value, kind in ((1.5, "integer"), (None, "string"), ({"count": 1}, "ROWS"), ([1], "array of string")):
        with pytest.raises(AssertionError):
            check(value, kind, "x")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("json")
    prepare(made)
    shell("cp fixtures/real/*.safetensors . && mkdir two && cp *_bf16.safetensors two", made)
    shell("kvzip compress -q prose_bf16.safetensors && kvzip compress -q -8 two && printf x > bad.safetensors", made)
    shell("kvzip prior train -q prose_bf16.safetensors -o ours.kvp", made)
    return made


RUNS = [
    ("compress", "-f prose_bf16.safetensors chat_bf16.safetensors bad.safetensors", 1),
    ("compress", "--skip-existing prose_bf16.safetensors", 0),
    ("decompress", "-f prose_bf16.safetensors.kvz", 0),
    ("test", "prose_bf16.safetensors.kvz bad.safetensors", 1),
    ("list", "prose_bf16.safetensors prose_bf16.safetensors.kvz two.kvz", 0),
    ("stats", "prose_bf16.safetensors two.kvz", 0),
    ("stats", "--draft chat_bf16_draft-int8.safetensors chat_bf16.safetensors", 0),
    ("cat", "two.kvz --layer 0 -o part.safetensors", 0),
    ("pack", "-f two/*.safetensors -o two.kva", 0),
    ("unpack", "-f two.kva --output-dir again", 0),
    ("list", "two.kva", 0),
    ("diff", "prose_bf16.safetensors prose_bf16.safetensors.kvz", 0),
    ("diff", "prose_bf16.safetensors chat_bf16.safetensors", 1),
    ("diff", "--by-layer prose_bf16.safetensors chat_bf16.safetensors", 1),
    ("tune", "--level 1 --seconds 2 prose_bf16.safetensors", 0),
    ("bench", "-l 1 --peers none --seconds 2 prose_bf16.safetensors", 0),
    ("warmup", "--level 1", 0),
    ("prior show", "ours.kvp", 0),
    ("prior show", "", 0),
    ("prior train", "-f prose_bf16.safetensors -o again.kvp", 0),
]


@pytest.mark.parametrize(("command", "arguments", "code"), RUNS, ids=lambda value: str(value)[:30])
def test_output_is_as_the_page_says(folder, command, arguments, code):
    out = shell(f"kvzip {command} --json {arguments} 2>/dev/null || test $? = {code}", folder)
    value = json.loads(out)
    assert value["command"] == command
    check(value, command, command)


def test_every_command_is_there():
    """Commands that say something about files have --json, a section here, and a run above."""
    leaves = {
        path.removeprefix("kvzip").strip(): command
        for path, command in walk("kvzip", typer.main.get_command(app))
        if not hasattr(command, "commands")
    }
    with_json = {path for path, command in leaves.items() if any("--json" in p.opts for p in command.params)}
    assert set(leaves) - with_json == NO_JSON
    assert with_json == {command for command, *_ in RUNS} <= set(SCHEMA)
