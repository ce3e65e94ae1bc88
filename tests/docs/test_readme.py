"""README's commands, code, tables and links are as it says; ``python -m tests.docs.update_readme`` renews outputs."""

from __future__ import annotations

import re
import shutil
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import typer.main

import kvzip
from kvzip.cli.app import app
from kvzip.dtypes import DTYPES
from kvzip.layouts.registry import LAYOUTS
from kvzip.windows.parameters import LEVELS, PRESETS, SETTINGS, parameters_for

from .readme import FIXTURE, README, ROOT, blocks, commands, comparable, prepare, python, run, shell

TEXT = README.read_text("utf-8")
PAGES = [page for page in (*ROOT.glob("*.md"), *ROOT.glob("*/*.md")) if ".venv" not in page.parts]
CODE = re.compile(r"`([^`\n]+)`")
OURS = sorted((ROOT / "kvzip").rglob("*.py"))


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below the line that starts with ``heading``."""
    table = TEXT[TEXT.index(f"\n{heading}") :].split("\n\n|", 1)[1].split("\n\n")[0]
    lines = ("|" + table).splitlines()[2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines]


def command_options() -> dict[str, set[str]]:
    """Every option of every command."""
    root = typer.main.get_command(app)
    help_options = set(root.context_settings["help_option_names"])
    found = {"": {name for option in root.params for name in option.opts} | help_options}
    groups = {name: command.commands for name, command in root.commands.items() if hasattr(command, "commands")}
    below = {f"{group} {name}": command for group, commands in groups.items() for name, command in commands.items()}
    for name, command in (root.commands | below).items():
        found[name] = {o for option in command.params for o in option.opts if o.startswith("-")} | help_options
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("readme")
    prepare(made)
    return made


@pytest.mark.skipif(not shutil.which("bash"), reason="the commands are written for a Unix shell")
def test_commands_and_python_show_what_they_print(folder):
    for block in blocks(TEXT, "console"):
        for command, shown in commands(block.body):
            assert comparable(shell(command, folder)) == comparable(shown), command
    for code, shown in zip(blocks(TEXT, "python"), blocks(TEXT, "text"), strict=True):
        assert comparable(python(code.body, folder)) == comparable(shown.body)


def test_levels_table():
    assert [row[0] for row in rows("## Levels")][: len(LEVELS)] == [f"`-{level}`" for level in LEVELS]


def test_each_level_is_smaller_than_the_one_before():
    dump = (ROOT / FIXTURE).read_bytes()
    sizes = [len(kvzip.compress(dump, level=level)) for level in LEVELS]
    for level, (before, size) in enumerate(pairwise(sizes), 2):
        # the dump's layers lie too far apart for levels 7 and 9 to gain by them
        assert size < (before * 1.0005 if level in (7, 9) else before), f"level {level}"


def test_measured_figures_are_those_of_the_run_that_is_kept():
    run([sys.executable, str(ROOT / "benchmarks" / "publish.py"), "--check"], ROOT)


def test_every_option_is_there_and_exists():
    real = set().union(*command_options().values())
    named = set(
        re.findall(r"(?<![\w-])--?[a-z][a-z-]*|(?<![\w-])-0(?![\d.])", " ".join(CODE.findall(TEXT)), re.IGNORECASE)
    )
    assert named <= real, f"no such option: {named - real}"
    assert real <= named, f"README lacks {real - named}"


def test_estimator_table_has_the_ranges_and_defaults_of_the_settings():
    default = parameters_for(3).shown()
    table = {cells[0].strip("`"): cells[1:] for cells in rows("The estimator, for")}
    only_python = set(re.findall(r"`(\w+)`", re.search(r"from Python only: (.*?)\.", TEXT, re.DOTALL)[1]))
    for setting in SETTINGS:
        option = "--" + setting.name.replace("_", "-")
        if setting.name in only_python:
            assert option not in command_options()["compress"]
            continue
        span, at_default = table.pop(option)[:2]
        assert span == f"{setting.low:g}..{setting.high:g}", option
        assert at_default == f"{default[setting.name]:g}", option
    assert set(table) == {"--prior", *(f"--preset {name}" for name in PRESETS)}


def test_preset():
    said = next(row for row in rows("The estimator, for") if row[0] == "`--preset classic`")[3]
    for name, value in PRESETS["classic"].items():
        if name != "sampling":
            assert f"{name.replace('_', '-')} {value}" in said


def test_every_layout_is_there():
    assert {row[0] for row in rows("## What it reads")} == {*LAYOUTS, "opaque"}


def test_every_environment_variable_is_there_and_exists():
    sources = "\n".join(path.read_text("utf-8") for path in OURS)
    read = set(re.findall(r"""(?:envvar=|environ\.get\(|environ\[)"(\w+)\"""", sources))
    read |= set(re.findall(r'"(\w+)" in os\.environ', sources))
    named = set(re.findall(r"`([A-Z]+_[A-Z_]+|COLUMNS)`", TEXT)) - set(DTYPES)
    assert read == named


def test_errors_named_exist():
    for name in re.findall(r"`(?:kvzip\.)?(\w+Error)`", TEXT):
        assert issubclass(getattr(kvzip, name), kvzip.KvzipError)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"(?<!`)\[[^\]\n]*\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = Path(page.parent, path) if path else page
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", linked.read_text("utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs, target
