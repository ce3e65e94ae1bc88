"""The tutorials' commands show what they print; see ``test_readme`` for links."""

from __future__ import annotations

import re
import shutil

import pytest

from .readme import README, TUTORIALS, blocks, commands, comparable, prepare, shell
from .test_readme import command_options


@pytest.mark.skipif(not shutil.which("bash"), reason="the commands are written for a Unix shell")
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_commands_show_what_they_print(page, tmp_path):
    prepare(tmp_path)
    found = blocks(page.read_text("utf-8"), "console")
    assert found
    for block in found:
        for command, shown in commands(block.body):
            assert comparable(shell(command, tmp_path)) == comparable(shown), command


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_options_exist(page):
    real = set().union(*command_options().values())
    text = page.read_text("utf-8")
    ours = [part for line in text.splitlines() for part in re.split("[|;&]", line) if re.search(r"\bkvzip \w", part)]
    named = {option for part in ours for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", part)}
    assert named, "a tutorial without an option is hardly one"
    assert named <= real, named - real


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_it_is_linked_from_the_readme(page):
    assert f"(docs/{page.name})" in README.read_text("utf-8")
