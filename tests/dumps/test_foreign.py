"""A file that is no dump is named, with the way out, on one line."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import random
import struct
import tarfile
import zipfile

import numpy as np
import pytest

from kvzip.dumps.foreign import identify
from kvzip.dumps.safetensors import read_header
from kvzip.errors import DumpError


def saved(write):
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def tar(file):
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("dump.safetensors")
        member.size = 3
        archive.addfile(member, io.BytesIO(b"abc"))


def torch_zip(file):
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"x" * 100)


NORMAL = np.random.default_rng(7).normal(0, 1, 4000).astype(np.float32)
ARRAY = np.arange(12.0)
FOREIGN = {
    "empty": (b"", "an empty file"),
    "kvz": (b"\x89KVZ\r\n\x1a\n" + bytes(60), "already compressed.*kvzip decompress"),
    "lfs": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64,
        "git-lfs pointer.*git lfs pull",
    ),
    "zip": (saved(torch_zip), r"zip archive \(torch.save"),
    "zip with zeros": (b"PK\x03\x04" + bytes(60), "zip archive"),
    "npz": (saved(lambda file: np.savez(file, a=ARRAY)), r"\.npz"),
    "npy": (saved(lambda file: np.save(file, ARRAY)), r"NumPy \.npy"),
    **{f"pickle {p}": (pickle.dumps([1.5] * 99, p), "Python pickle.*save_file") for p in (2, 3, 4, 5)},
    "gguf": (b"GGUF\x03\0\0\0" + bytes(60), "GGUF"),
    "llama sequence": (struct.pack("<II", 0x67677371, 3) + bytes(60), "llama.cpp state"),
    "llama session": (struct.pack("<II", 0x6767736E, 9) + bytes(60), "llama.cpp state"),
    "llama, big-endian": (b"ggsq" + bytes(60), "llama.cpp state"),
    "ggml": (b"tjgg" + bytes(60), "GGML"),
    "html": (b"\n<!DOCTYPE html><html><body>404</body></html>", "web page.*again"),
    "s3 error": (b'<?xml version="1.0"?><Error><Code>NoSuchKey</Code></Error>', "web page or XML"),
    "gzip": (gzip.compress(b"x" * 99, mtime=0), "gzip file: file; unpack"),
    "bzip2": (bz2.compress(b"x" * 99), "bzip2 file"),
    "xz": (lzma.compress(b"x" * 99), "xz file"),
    "zstd": (b"\x28\xb5\x2f\xfd\x04\x58" + bytes(60), "zstd file"),
    "lz4": (b"\x04\x22\x4d\x18\x64\x40" + bytes(60), "lz4 file"),
    "tar": (saved(tar), "tar archive"),
    "index": (b'{"metadata": {"total_size": 1}, "weight_map": {}}', "JSON text.*beside"),
    "text": (b"See the README for how to fetch the dumps.\n", "plain text"),
    "page of zeros": (bytes(4096), "bare numbers"),
    "page of F32": (NORMAL.tobytes(), "bare numbers"),
    "page of F16": (NORMAL.astype(np.float16).tobytes(), "bare numbers"),
    "page of BF16": ((NORMAL.view(np.uint32) >> 16).astype(np.uint16).tobytes(), "bare numbers"),
}


@pytest.mark.parametrize(("blob", "message"), FOREIGN.values(), ids=FOREIGN.keys())
def test_named_on_one_line(blob, message):
    with pytest.raises(DumpError, match=message) as error:
        read_header(io.BytesIO(blob), "file")
    text = str(error.value)
    assert "\n" not in text
    assert ": file; " in text
    assert error.value.exit_code == 1


def test_noise_has_no_name():
    dice = random.Random(1)
    for size in (1, 7, 8, 100, 5000):
        noise = b"\x99" + dice.randbytes(size)
        assert identify(noise[:512]) is None
        with pytest.raises(DumpError, match=r"not a safetensors file|too short"):
            read_header(io.BytesIO(noise), "file")


@pytest.mark.parametrize("length", [0x088B1F, 0x0480, 0x04034B50, 0x685A42])
def test_a_broken_dump_whose_length_looks_like_a_signature_is_still_a_broken_dump(length):
    blob = struct.pack("<Q", length) + b'{"a": oops}'
    assert identify(blob) is None
    with pytest.raises(DumpError, match="header cut short"):
        read_header(io.BytesIO(blob), "file")
