"""``--draft`` of the commands: what it says, what it never writes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .tool import tree

REAL = Path(__file__).resolve().parents[2] / "fixtures/real"
NAME = "chat.safetensors.kvz"


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    shutil.copy(REAL / "chat_bf16.safetensors", folder / "chat.safetensors")
    shutil.copy(REAL / "chat_bf16_draft-int8.safetensors", folder / "d.safetensors")
    shutil.copy(REAL / "prose_bf16.safetensors", folder / "other.safetensors")
    monkeypatch.chdir(folder)


def test_there_and_back(folder, inside):
    inside("compress", "chat.safetensors", "--draft", "d.safetensors").quiet()
    assert (folder / NAME).stat().st_size < 0.31 * (folder / "chat.safetensors").stat().st_size
    inside("decompress", NAME, "-o", "b", "--draft", "d.safetensors").quiet()
    assert (folder / "b").read_bytes() == (folder / "chat.safetensors").read_bytes()
    inside("test", NAME, "c.safetensors.kvz", "--draft", "d.safetensors").quiet()


def test_without_the_draft_or_with_another_there_is_one_line_and_nothing_is_written(folder, inside):
    inside("compress", "chat.safetensors", "--draft", "d.safetensors").quiet()
    (folder / "there").write_bytes(b"before")
    before = tree(folder)
    for command in (["decompress", NAME, "-o", "new"], ["decompress", NAME, "-f", "-o", "there"], ["test", NAME],
                    ["decompress", "-c", NAME], ["stats", NAME]):  # fmt: skip
        inside(*command).fails(1, NAME, "--draft")
        inside(*command, "--draft", "other.safetensors").fails(1, "other.safetensors", "is not the draft", NAME)
        inside(*command, "--draft", "missing").fails(1, "missing")
    assert tree(folder) == before


def test_a_draft_is_never_written_to(folder, inside):
    inside("compress", "chat.safetensors", "--draft", "d.safetensors", "-f", "-o", "d.safetensors").fails(
        1, "same file"
    )
    inside("compress", "chat.safetensors", "--draft", "d.safetensors").quiet()
    inside("decompress", NAME, "--draft", "d.safetensors", "-f", "-o", "d.safetensors").fails(1, "same file")


def test_a_folder_and_a_container_as_drafts(folder, inside):
    (folder / "drafts").mkdir()
    shutil.copy("d.safetensors", folder / "drafts")
    inside("compress", "d.safetensors", "-o", "d.kvz").quiet()
    inside("compress", "chat.safetensors", "--draft", "drafts").quiet()
    for draft in ("drafts", "d.kvz", "d.safetensors"):
        inside("decompress", NAME, "-f", "-o", "b", "--draft", draft).quiet()
        assert (folder / "b").read_bytes() == (folder / "chat.safetensors").read_bytes()
    inside("compress", "-f", "chat.safetensors", "--draft", NAME).fails(1, NAME, "needs a draft itself")


def test_verified_and_removed(folder, inside):
    inside("compress", "--rm", "--verify", "chat.safetensors", "--draft", "d.safetensors").quiet()
    assert not (folder / "chat.safetensors").exists()


def test_list_names_it_and_stats_say_what_it_was_worth(inside):
    inside("compress", "chat.safetensors", "--draft", "d.safetensors").quiet()
    digest = inside("list", "--json", NAME).quiet().json["files"][0]["draft"]
    assert len(digest) == 32
    assert f"draft xxh3:{digest}" in inside("list", NAME).text
    assert inside("list", "--json", "c.safetensors.kvz").json["files"][0]["draft"] is None
    seen = []
    for source in ("chat.safetensors", NAME):
        found = inside("stats", "--json", source, "--draft", "d.safetensors").quiet().json["files"][0]
        total = found["total"]
        assert found["draft"] == "d.safetensors"
        assert found["undrafted_bytes"] > 1.8 * found["container_bytes"]
        assert total["drafted"] == total["values"]
        assert 0.05 < total["exact"] / total["values"] < 0.2
        seen.append((found["undrafted_bytes"], total["exact"]))
    assert seen[0] == seen[1]
    assert "bits/value with it" in inside("stats", NAME, "--draft", "d.safetensors").text
    plain = inside("stats", "--json", "chat.safetensors").json["files"][0]
    assert (plain["draft"], plain["undrafted_bytes"], plain["total"]["drafted"]) == (None, None, 0)
