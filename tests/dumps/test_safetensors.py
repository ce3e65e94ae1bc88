"""The header reader accepts and refuses what the safetensors library does, and says what it read."""

from __future__ import annotations

import io
import json
import re
import struct
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
import safetensors
from hypothesis import given, settings
from hypothesis import strategies as some

from kvzip.dtypes import DTYPES
from kvzip.dumps.safetensors import ALIASES, TensorEntry, element_count, parse_header, read_header
from kvzip.errors import DumpError

ENTRY = '{"dtype":"F16","shape":[2],"data_offsets":[0,4]}'
SAMPLES = Path(__file__).parent / "../../../shared/data/small"  # beside the checkout, if there at all


def build(header, data=b"", pad=0):
    """A safetensors file; header is a dict, or its JSON as text or bytes."""
    if isinstance(header, dict):
        header = json.dumps(header, separators=(",", ":"))
    raw = (header.encode() if isinstance(header, str) else header).ljust(pad)
    return struct.pack("<Q", len(raw)) + raw + data


def entry(dtype, shape, start, size):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, start + size]}


def field(data=4, **changes):
    """A one-tensor header with some fields as the given JSON text, and extra ones."""
    fields = {"dtype": '"F16"', "shape": "[2]", "data_offsets": f"[0,{data}]", **changes}
    return '{"a":{' + ",".join(f'"{key}":{value}' for key, value in fields.items()) + "}}"


def library_accepts(blob):
    try:
        safetensors.deserialize(blob)
    except safetensors.SafetensorError:
        return False
    return True


def kvzip_accepts(blob):
    """As the library: the header and exactly the data it promises."""
    file = io.BytesIO(blob)
    try:
        header = read_header(file, "file")
    except DumpError as error:
        return not re.fullmatch("[^\n]+: file[^\n]*; [^\n]+", str(error))
    assert header.raw == blob[: file.tell()]
    return len(blob) - file.tell() == header.data_size


ONE = {"a": entry("F16", [2], 0, 4)}
TWO = b"12345678"
DEEP = {depth: field(x="[" * depth + "]" * depth) for depth in (60, 125, 126, 500, 100_000)}
ACCEPTED = {
    "unpadded": build(ONE, b"1234"),
    "padded": build(ONE, b"1234", pad=4088),
    "metadata null": build({"__metadata__": None, **ONE}, b"1234"),
    "metadata empty": build({"__metadata__": {}, **ONE}, b"1234"),
    "metadata last": build({**ONE, "__metadata__": {"x": "1"}}, b"1234"),
    "metadata key twice": build('{"__metadata__":{"x":"1","x":"2"},"a":' + ENTRY + "}", b"1234"),
    "metadata only": build({"__metadata__": {"crc": "12"}}),
    "no tensors": build({}),
    "name twice": build(f'{{"a":{ENTRY},"a":{ENTRY}}}', b"1234"),
    "name twice, other dtype": build(f'{{"a":{ENTRY},"\\u0061":{ENTRY.replace("F16", "I16")}}}', b"1234"),
    "name twice, first out of place": build(f'{{"a":{ENTRY.replace("[0,4]", "[9,1]")},"a":{ENTRY}}}', b"1234"),
    "extra keys": build({"kv": {**entry("BF16", [2], 0, 4), "fmt": 1, "__metadata__": {"v": "1"}}}, b"1234"),
    "extra key twice": build(field(x="1", **{'x","x': "2"}).replace('"x","x"', '"x":1,"x"'), b"1234"),
    "deep": build(DEEP[60], b"1234"),
    "deep as can be": build(DEEP[125], b"1234"),
    "whitespace around": build(" \t\r\n" + field() + "\n ", b"1234"),
    "header order": build({"b": entry("F16", [2], 4, 4), "a": entry("F16", [2], 0, 4)}, TWO),
    "odd alignment": build({"a": entry("U8", [1], 0, 1), "b": entry("F32", [1], 1, 4)}, b"12345"),
    "empty tensor between": build(
        {"a": entry("F16", [2], 0, 4), "z": entry("F16", [1, 0], 4, 0), "b": entry("F16", [2], 4, 4)}, TWO
    ),
    "empty tensors": build({"a": entry("F16", [0], 0, 0), "b": entry("F32", [0, 3], 0, 0)}),
    "scalar": build({"a": entry("F32", [], 0, 4)}, b"1234"),
    "empty name": build({"": entry("F16", [2], 0, 4)}, b"1234"),
    "odd names": build({"a/b\n\0c": entry("F16", [2], 0, 4), "层🔑[bold]": entry("F16", [2], 4, 4)}, TWO),
    "surrogate pair": build('{"\\ud83d\\ude00":' + ENTRY + "}", b"1234"),
    "escaped backslash": build('{"\\\\ud83d":' + ENTRY + "}", b"1234"),
    "entry as array": build('{"a":["F16",[2],[0,4]]}', b"1234"),
    "dtype as object": build(field(dtype='{"F16":null}'), b"1234"),
    "large numbers aside": build(field(x="[1e308,-1e-999,99999999999999999999999,-0]"), b"1234"),
    "size 0 beside 2**64-1": build(field(0, shape="[0,18446744073709551615,2]")),
    **{
        f"dtype {dtype.name}": build({"a": entry(dtype.name, [8], 0, dtype.bits)}, bytes(dtype.bits))
        for dtype in DTYPES.values()
    },
}
REFUSED = {
    "empty": b"",
    "seven bytes": b"\0" * 7,
    "length 0": bytes(8),
    "cut in header": build(ONE, b"1234")[:40],
    "huge length": struct.pack("<Q", 1 << 63) + b"{}",
    "length above the limit": struct.pack("<Q", 100_000_001) + b"{}",
    "lying length": struct.pack("<Q", 100_000_000) + b"{}",
    "cut in data": build(ONE, b"123"),
    "trailing bytes": build(ONE, b"12345"),
    "hole": build({"a": entry("F16", [2], 0, 4), "b": entry("F16", [2], 8, 4)}, bytes(12)),
    "hole at the start": build({"a": entry("F16", [2], 1, 4)}, bytes(5)),
    "overlap": build({"a": entry("F16", [2], 0, 4), "b": entry("F16", [2], 2, 4)}, bytes(6)),
    "same offsets": build({"a": entry("F16", [2], 0, 4), "b": entry("F16", [2], 0, 4)}, bytes(4)),
    "empty tensor inside": build({"a": entry("F16", [2], 0, 4), "z": entry("F16", [0], 2, 0)}, bytes(4)),
    "backwards": build(field(data_offsets="[4,0]"), b"1234"),
    "shape too small": build(field(shape="[1]"), b"1234"),
    "negative size": build(field(shape="[-2]"), b"1234"),
    "float size": build(field(shape="[2.0]"), b"1234"),
    "exponent size": build(field(shape="[2e0]"), b"1234"),
    "minus zero": build(field(0, shape="[-0]")),
    "true size": build(field(shape="[true,2]"), b"1234"),
    "text size": build(field(shape='["2"]'), b"1234"),
    "size 2**64": build(field(0, shape="[18446744073709551616,0]")),
    "shape overflows": build(field(0, shape="[18446744073709551615,2,0]")),
    "shape huge": build({"a": entry("F16", [1 << 40, 1 << 40], 0, 4)}, b"1234"),
    "half a byte": build({"a": entry("F4", [3], 0, 2)}, b"12"),
    "three offsets": build(field(data_offsets="[0,4,4]"), b"1234"),
    "no dtype": build('{"a":{"shape":[2],"data_offsets":[0,4]}}', b"1234"),
    "unknown dtype": build(field(dtype='"F17"'), b"1234"),
    "dtype twice as object": build(field(dtype='{"F16":null,"F32":null}'), b"1234"),
    "dtype list": build(field(dtype='["F16"]'), b"1234"),
    "field twice": build(f'{{"a":{ENTRY.replace("{", chr(123) + chr(34) + "shape" + chr(34) + ":[2],")}}}', b"1234"),
    "name twice, first no dtype": build(f'{{"a":{ENTRY.replace("F16", "F17")},"a":{ENTRY}}}', b"1234"),
    "name twice, last out of place": build(f'{{"a":{ENTRY},"a":{ENTRY.replace("[0,4]", "[4,8]")}}}', TWO),
    "entry null": build('{"a":null}'),
    "entry array of four": build('{"a":["F16",[2],[0,4],1]}', b"1234"),
    "metadata twice": build('{"__metadata__":null,"__metadata__":null,"a":' + ENTRY + "}", b"1234"),
    "metadata number": build({"__metadata__": {"a": 1}}),
    "metadata number, then text": build('{"__metadata__":{"a":1,"a":"x"}}'),
    "metadata list": build({"__metadata__": []}),
    "a list": build("[]"),
    "null": build("null"),
    "nothing": build(""),
    "whitespace only": build("   "),
    "BOM": build("\ufeff" + field(), b"1234"),
    "NUL padding": build(field() + "\0\0", b"1234"),
    "vertical tab": build(field() + "\v", b"1234"),
    "junk after": build(field() + "x", b"1234"),
    "trailing comma": build('{"a":' + ENTRY + ",}", b"1234"),
    "NaN": build(field(x="NaN"), b"1234"),
    "minus Infinity": build(field(x="-Infinity"), b"1234"),
    "number too large": build(field(x="1" + "0" * 5000), b"1234"),
    "half a surrogate pair": build(field(x='"\\ud800"'), b"1234"),
    "pair the wrong way": build('{"\\ude00\\ud83d":' + ENTRY + "}", b"1234"),
    "bad UTF-8": build(b'{"\xff":' + ENTRY.encode() + b"}", b"1234"),
    "surrogate in UTF-8": build(b'{"\xed\xa0\x80":' + ENTRY.encode() + b"}", b"1234"),
    "raw newline in a name": build('{"a\n":' + ENTRY + "}", b"1234"),
    "too deep by one": build(DEEP[126], b"1234"),
    "too deep": build(DEEP[500], b"1234"),
    "far too deep": build(DEEP[100_000], b"1234"),
    "deep and cut": build('{"a":' + "[" * 100_000),
}


@pytest.mark.parametrize("blob", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepted_as_by_the_library(blob):
    assert library_accepts(blob)
    assert kvzip_accepts(blob)


@pytest.mark.parametrize("blob", REFUSED.values(), ids=REFUSED.keys())
def test_refused_as_by_the_library(blob):
    assert not library_accepts(blob)
    assert not kvzip_accepts(blob)


# --- mutations: the same verdict on what nobody thought of

TOKENS = some.one_of(
    some.sampled_from('{}[],:"04-. \n'),
    some.sampled_from(["e9", "null", "true", "NaN", "\\u0061", "\\ud800", "18446744073709551616", "{}", "[]"]),
    some.sampled_from(['"a"', '"dtype"', '"shape"', '"data_offsets"', '"__metadata__"', '"F16"', '"U8"', '"F4"']),
    some.sampled_from(["[0,4]", "[4,4]", "[4,8]", "[2]", "[8]", ENTRY, f'"a":{ENTRY},', '"x":1,']),
)
SEEDS = some.sampled_from(
    [
        field(),
        f'{{"__metadata__":{{"x":"1"}},"b":{ENTRY.replace("[0,4]", "[4,8]")},"a":{ENTRY}}}',
        f'{{"a":{ENTRY},"z":{{"dtype":"F4","shape":[0],"data_offsets":[4,4],"x":[1,{{"y":2}}]}}}}',
    ]
)


@settings(max_examples=1500, deadline=None)
@given(
    SEEDS,
    some.lists(some.tuples(some.integers(0, 10**6), some.integers(0, 12), TOKENS), max_size=3),
    some.data(),
)
def test_mutated_headers_get_the_verdict_of_the_library(text, edits, data):
    for at, cut, token in edits:
        at %= len(text) + 1
        text = text[:at] + token + text[at + cut :]
    blob = build(text, b"12345678"[: data.draw(some.sampled_from([0, 4, 8]))])
    assert kvzip_accepts(blob) == library_accepts(blob)


JUNK = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text(max_size=4),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
SIZES = some.lists(some.integers(0, 5), max_size=3)
ENTRIES = some.fixed_dictionaries(
    {"dtype": some.sampled_from([*DTYPES, "F17"]), "shape": SIZES, "data_offsets": some.just([0, 0])},
    optional={"x": JUNK},
)


@settings(max_examples=500, deadline=None)
@given(some.dictionaries(some.text(max_size=3), ENTRIES, max_size=4), JUNK, some.booleans(), some.integers(-1, 1))
def test_generated_headers_get_the_verdict_of_the_library(entries, metadata, good_metadata, slip):
    at = 0
    for tensor in entries.values():
        bits = DTYPES[tensor["dtype"]].bits if tensor["dtype"] in DTYPES else 8
        for size in tensor["shape"]:
            bits *= size
        tensor["data_offsets"] = [at, at := at + bits // 8]
    header = {**entries, "__metadata__": {"k": "v"} if good_metadata else metadata}
    blob = build(header, bytes(max(0, at + slip)))
    assert kvzip_accepts(blob) == library_accepts(blob)


# --- what was read


def test_entries_are_in_offset_order_and_ties_in_header_order():
    header = parse_header(
        build(
            {
                "c": entry("U8", [3], 1, 3),
                "y": entry("F32", [0], 1, 0),
                "b": entry("I8", [1], 0, 1),
                "x": entry("F16", [0], 1, 0),
            }
        ),
        "file",
    )
    assert [tensor.name for tensor in header.entries] == ["b", "y", "x", "c"]
    assert header.entries[-1] == TensorEntry("c", "U8", (3,), 1, 4)
    assert header.data_size == 4


def test_a_name_twice_counts_once_with_its_last_entry():
    (tensor,) = parse_header(ACCEPTED["name twice, other dtype"][:-4], "file").entries
    assert (tensor.name, tensor.dtype) == ("a", "I16")


@pytest.mark.parametrize(
    ("json_text", "metadata"),
    [
        ("{}", None),
        ('{"__metadata__":null}', None),
        ('{"__metadata__":{"b":"2","a":"1","b":"3"}}', {"b": "3", "a": "1"}),
    ],
)
def test_metadata(json_text, metadata):
    assert parse_header(build(json_text), "file").metadata == metadata


@pytest.mark.parametrize(("shape", "count"), [((), 1), ((2, 0, 3), 0), ((2, 3, 4), 24)])
def test_element_count(shape, count):
    assert element_count(TensorEntry("a", "U8", shape, 0, count)) == count


@pytest.mark.parametrize("alias", ALIASES)
def test_float_types_that_only_producers_know_are_read_as_what_they_mean(alias):
    blob = build({"kvcache": {**entry(alias, [4], 0, 4), "fmt": 1}}, b"1234", pad=4088)
    assert not library_accepts(blob)
    assert parse_header(blob[:-4], "file").entries[0].dtype == ALIASES[alias]
    assert ALIASES[alias] in DTYPES


def test_errors_name_file_tensor_and_remedy():
    with pytest.raises(
        DumpError, match=r"^shape needs 6 bytes, data_offsets give 4: dump\.st, tensor 'a\\nb'; write"
    ):
        parse_header(build({"a\nb": entry("F16", [3], 0, 4)}), "dump.st")
    with pytest.raises(DumpError, match=r"^unknown dtype 'F17': dump\.st, tensor 'x{77}\.\.\.'; write"):
        parse_header(build({"x" * 5000: entry("F17", [3], 0, 4)}), "dump.st")
    with pytest.raises(DumpError, match=r"^header cut short, 99999998 bytes missing: dump\.st; copy"):
        read_header(io.BytesIO(REFUSED["lying length"]), "dump.st")


class Trickle(io.RawIOBase):
    """A pipe that gives a few bytes at a time."""

    def __init__(self, blob):
        self.blob = io.BytesIO(blob)

    def read(self, size=-1):
        return self.blob.read(min(size, 3))


def test_short_reads_are_no_end_and_the_data_stays_unread():
    blob = build(ONE, b"1234")
    file = Trickle(blob)
    assert read_header(file, "pipe").raw == blob[:-4]
    assert file.blob.read() == b"1234"


def test_every_cut_of_the_header_is_refused():
    blob = build(ONE)
    for cut in range(len(blob)):
        assert not kvzip_accepts(blob[:cut])


def test_a_lying_length_allocates_nothing():
    tracemalloc.start()
    with pytest.raises(DumpError, match="cut short"):
        read_header(io.BytesIO(REFUSED["lying length"]), "file")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


def test_twenty_thousand_tensors_are_quick():
    blob = build({f"t{i}": entry("I16", [1], 2 * i, 2) for i in range(20_000)})
    times = []
    for _ in range(3):
        start = time.process_time()
        assert len(parse_header(blob, "file").entries) == 20_000
        times.append(time.process_time() - start)
    assert min(times) < 1  # takes 0.1 s


def test_reading_headers_imports_neither_numpy_nor_the_library():
    probe = "import sys, kvzip.dumps.safetensors, kvzip.layouts.registry; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "safetensors", "numba"} & set(modules)


@pytest.mark.skipif(not SAMPLES.exists(), reason="sample dumps are not part of the package")
def test_sample_dumps():
    paths = sorted(SAMPLES.rglob("*.safetensors"))
    assert paths
    for path in paths:
        with path.open("rb") as file:
            header = read_header(file, str(path))
        assert len(header.raw) + header.data_size == path.stat().st_size
        with safetensors.safe_open(path, "numpy") as dump:
            assert {tensor.name for tensor in header.entries} == set(dump.keys())
            assert header.metadata == dump.metadata()
