"""``test``, ``list`` and ``stats`` of dumps, containers and pipes; the keys of their JSON, which scripts rely on."""

from __future__ import annotations

import json

import pytest

from kvzip.windows.parameters import SETTINGS

from .tool import dump_bytes, kvzip

LIST_FILE = {"file", "member", "source_bytes", "container_bytes", "level", "prior", "draft", "metadata", "tensors"}
LIST_TENSOR = {"name", "dtype", "shape", "bytes", "layout", "packed_bytes", "needs"}
STATS = {
    "name", "source_bytes", "container_bytes", "ratio", "level", "parameters", "direction", "seconds",
    "bytes_per_second", "draft", "undrafted_bytes", "total", "kinds", "layers", "streams",
}  # fmt: skip
TOTALS = {
    "values", "source_bits", "bits", "entropy", "spent", "updates", "rebuilds", "resets", "escapes",
    "bits_per_value", "ratio", "drafted", "exact",
}  # fmt: skip
STREAM = (TOTALS - {"ratio"}) | {"member", "extent", "layer", "kind", "head", "dtype"}
DONE = {"source", "target", "source_bytes", "target_bytes", "seconds", "skipped", "error", "lost"}
TENSORS = ["layers.0.key", "layers.0.value", "layers.1.key", "layers.1.value"]


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


def test_keys_of_compress_and_decompress(folder, inside, dump, container):
    run = inside("compress", "--json", "a.safetensors").quiet()
    assert set(run.json) == {"command", "files", "failed"}
    row = run.json["files"][0]
    assert set(row) == DONE
    assert (row["source"], row["target"]) == ("a.safetensors", "a.safetensors.kvz")
    assert (row["source_bytes"], row["target_bytes"]) == (len(dump), len(container))
    assert (run.json["command"], run.json["failed"], row["skipped"]) == ("compress", 0, None)
    row = inside("decompress", "--json", "c.safetensors.kvz").quiet().json["files"][0]
    assert set(row) == DONE
    assert (row["source_bytes"], row["target_bytes"]) == (len(container), len(dump))


def test_json_makes_way_for_data_on_standard_output(folder, dump, container):
    run = kvzip("compress", "--json", "-c", "a.safetensors", cwd=folder)
    assert run.out == container
    assert json.loads(run.err)["files"][0]["source_bytes"] == len(dump)
    run = kvzip("decompress", "--json", stdin=container)
    assert run.out == dump
    assert json.loads(run.err)["files"][0]["source"] == "-"


def test_keys_of_test(inside, dump, container):
    run = inside("test", "--json", "c.safetensors.kvz").quiet()
    row = {"file": "c.safetensors.kvz", "ok": True, "container_bytes": len(container), "source_bytes": len(dump)}
    row |= {"error": None, "lost": []}
    assert run.json == {"command": "test", "files": [row]}
    run = inside("test", "--json", "c.safetensors.kvz", "none")
    assert run.code == 1
    assert [row["ok"] for row in run.json["files"]] == [True, False]
    assert [set(row) for row in run.json["files"]] == [
        {"file", "ok", "container_bytes", "source_bytes", "error", "lost"}
    ] * 2


def test_keys_of_list(inside, dump, container):
    for name, packed in (("a.safetensors", False), ("c.safetensors.kvz", True)):
        run = inside("list", "--json", name).quiet()
        assert set(run.json) == {"command", "files"}
        (row,) = run.json["files"]
        assert set(row) == LIST_FILE
        assert (row["file"], row["member"], row["source_bytes"]) == (name, None, len(dump))
        assert row["level"] == (3 if packed else None)
        assert [tensor["name"] for tensor in row["tensors"]] == TENSORS
        for tensor in row["tensors"]:
            assert set(tensor) == LIST_TENSOR
            assert (tensor["dtype"], tensor["shape"], tensor["bytes"]) == ("BF16", [1, 1, 32, 32], 2048)
            assert tensor["layout"] == "huggingface"
            assert (tensor["packed_bytes"] is not None) == packed
        if packed:
            assert sum(tensor["packed_bytes"] for tensor in row["tensors"]) < row["container_bytes"] <= len(container)


@pytest.mark.parametrize("name", ["a.safetensors", "c.safetensors.kvz"])
def test_keys_of_stats(inside, dump, container, name):
    found = inside("stats", "--json", name).quiet().json["files"][0]
    assert set(found) == STATS
    assert (found["name"], found["source_bytes"], found["container_bytes"]) == (name, len(dump), len(container))
    assert found["direction"] == ("compress" if name == "a.safetensors" else "decompress")
    assert set(found["parameters"]) == {setting.name for setting in SETTINGS}
    assert set(found["kinds"]) == {"key", "value"}
    for totals in (found["total"], *found["kinds"].values()):
        assert set(totals) == TOTALS
        assert set(totals["entropy"]) == {"sign", "exponent", "mantissa"}
        assert set(totals["updates"]) == {"periodic", "confidence", "novelty"}
    assert [set(row) for row in found["layers"]] == [TOTALS | {"layer", "kind"}] * 4
    assert [set(row) for row in found["streams"]] == [STREAM] * 4
    assert sum(row["values"] for row in found["streams"]) == found["total"]["values"] == 4 * 1024
    assert found["total"]["bits"] <= 8 * len(container)


def test_a_dump_and_its_container_have_the_same_statistics(inside):
    raw, packed = (
        inside("stats", "--json", name).json["files"][0] for name in ("a.safetensors", "c.safetensors.kvz")
    )
    for key in ("ratio", "total", "kinds", "layers", "streams"):
        assert raw[key] == packed[key], key


def test_many_inputs_give_a_list(inside):
    assert len(inside("stats", "--json", "a.safetensors", "c.safetensors.kvz").json["files"]) == 2
    assert len(inside("list", "--json", "a.safetensors", "c.safetensors.kvz").json["files"]) == 2


def test_from_pipes(dump, container):
    for data in (dump, container):
        assert kvzip("stats", "--json", stdin=data).ok().json["files"][0]["source_bytes"] == len(dump)
        (row,) = kvzip("list", "--json", "-", stdin=data).quiet().json["files"]
        assert [tensor["name"] for tensor in row["tensors"]] == TENSORS
    assert kvzip("test", "--json", stdin=container).quiet().json["files"][0]["source_bytes"] == len(dump)


def test_tables_say_what_the_json_says(inside):
    text = inside("list", "c.safetensors.kvz").text
    assert all(name in text for name in (*TENSORS, "BF16", "1x1x32x32", "huggingface", "2048", "level 3"))
    text = inside("stats", "a.safetensors").text
    found = inside("stats", "--json", "a.safetensors").json["files"][0]
    assert f"{found['ratio']:.4f}x" in text
    for kind in ("key", "value"):
        assert f"{found['kinds'][kind]['bits_per_value']:.4f}" in text
    assert "head" in inside("stats", "-v", "a.safetensors").text


def test_an_opaque_dump_has_one_kind(folder, inside):
    (folder / "o").write_bytes(dump_bytes(names=["whatever"]))
    found = inside("stats", "--json", "--layout", "opaque", "o").ok().json["files"][0]
    assert set(found["kinds"]) == {"opaque"}
    assert "opaque" in inside("stats", "--layout", "opaque", "o").ok().text


def test_json_is_one_line_of_plain_numbers(inside):
    for args in (["list"], ["stats"], ["compress", "-f"]):
        run = inside(*args, "--json", "a.safetensors").quiet()
        assert run.text.count("\n") == 1
        assert "NaN" not in run.text
        assert "Infinity" not in run.text
