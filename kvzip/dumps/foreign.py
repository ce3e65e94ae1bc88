"""Names the files that people hand over in place of a dump, from their first bytes.

Owns the signatures and what to do about each. It never decides that a file is a dump: it is asked only after
the dump reader has refused one.
"""

from __future__ import annotations

from typing import NamedTuple

SNIFF_BYTES = 512
"""How much of the start of a file :func:`identify` wants to see; the tar signature sits at byte 257."""


class Foreign(NamedTuple):
    """What a file is, and what to do to get a dump from it; both complete a one-line error."""

    what: str
    remedy: str


class _Signature(NamedTuple):
    magic: bytes
    foreign: Foreign
    offset: int = 0


_UNPACK = "unpack it and give kvzip the dump inside"
_RESAVE = "load it with the library that wrote it, then write the tensors with safetensors' save_file"
_LLAMA = "kvzip reads safetensors dumps only; export the cache as tensors first"
_LLAMA_STATE = Foreign("a llama.cpp state file, not a dump", _LLAMA)
_OLD_GGML = Foreign("a GGML model file, not a dump", _LLAMA)

_SIGNATURES = (
    _Signature(
        b"\x89KVZ\r\n\x1a\n", Foreign("already compressed by kvzip", "use `kvzip decompress` to get the dump")
    ),
    _Signature(
        b"version https://git-lfs",
        Foreign("a git-lfs pointer, not the file it points to", "fetch the file with `git lfs pull`"),
    ),
    _Signature(b"PK\x03\x04", Foreign("a zip archive (torch.save or .npz), not a dump", _RESAVE)),
    _Signature(b"PK\x05\x06", Foreign("an empty zip archive, not a dump", "write the dump again")),
    _Signature(b"\x93NUMPY", Foreign("a NumPy .npy file, not a dump", _RESAVE)),
    _Signature(b"\x89HDF\r\n\x1a\n", Foreign("an HDF5 file, not a dump", _RESAVE)),
    _Signature(b"GGUF", Foreign("a GGUF model file, not a dump", _LLAMA)),
    # llama.cpp writes 'ggsq', 'ggsn' and 'ggla' as 32-bit numbers: reversed on a little-endian machine.
    *(_Signature(magic, _LLAMA_STATE) for magic in (b"qsgg", b"ggsq", b"nsgg", b"ggsn", b"algg", b"ggla")),
    *(_Signature(magic, _OLD_GGML) for magic in (b"lmgg", b"fmgg", b"tjgg")),
    _Signature(b"\x1f\x8b", Foreign("a gzip file", _UNPACK)),
    _Signature(b"\x28\xb5\x2f\xfd", Foreign("a zstd file", _UNPACK)),
    _Signature(b"\xfd7zXZ\0", Foreign("an xz file", _UNPACK)),
    _Signature(b"\x04\x22\x4d\x18", Foreign("an lz4 file", _UNPACK)),
    _Signature(b"BZh", Foreign("a bzip2 file", _UNPACK)),
    _Signature(b"7z\xbc\xaf\x27\x1c", Foreign("a 7z archive", _UNPACK)),
    _Signature(b"ustar", Foreign("a tar archive", _UNPACK), offset=257),
    *(
        _Signature(bytes([0x80, protocol]), Foreign("a Python pickle, not a dump", _RESAVE))
        for protocol in range(2, 6)
    ),
)

_EMPTY = Foreign("an empty file", "write or fetch the dump again")
_HTML = Foreign("a web page or XML message, not a dump", "the download failed: fetch the file again")
_JSON = Foreign("JSON text, not a dump", "give kvzip the .safetensors file beside it")
_TEXT = Foreign("plain text, not a dump", "give kvzip a .safetensors file")
_PAGE = Foreign("bare numbers without a header, such as a raw cache page", "wrap them in a safetensors file first")

_MARKUP = (b"<!doctype", b"<html", b"<?xml", b"<error", b"<head", b"<body")
_PRINTABLE = bytes([9, 10, 13, *range(32, 127)])
_LEAST_PAGE_BYTES = 64
# The high half of a length field below 4 GiB and the first byte of JSON: some lengths look like a signature.
_DUMP_LIKE = {bytes(4) + first for first in (b"{", b" ", b"\t", b"\r", b"\n")}


def identify(head: bytes) -> Foreign | None:
    """Name a file that is no dump by its first SNIFF_BYTES bytes; None if it could be a broken dump."""
    if not head:
        return _EMPTY
    if head[4:9] in _DUMP_LIKE:
        return None
    for signature in _SIGNATURES:
        if head.startswith(signature.magic, signature.offset):
            return signature.foreign
    return _identify_text(head) or _identify_page(head)


def _identify_text(head: bytes) -> Foreign | None:
    text = head.lstrip().lower()
    if text.startswith(_MARKUP):
        return _HTML
    if len(head) < 8 or head.translate(None, _PRINTABLE):  # the length field of a dump always holds a NUL byte
        return None
    return _JSON if text.startswith((b"{", b"[")) else _TEXT


def _identify_page(head: bytes) -> Foreign | None:
    """A page of floats shows in the top byte of each: the sign and the high bits of the exponent."""
    if len(head) < _LEAST_PAGE_BYTES:
        return None
    if not any(head):
        return _PAGE
    f16, bf16, f32 = (
        range(0x14, 0x5D),
        range(0x36, 0x44),
        range(0x36, 0x44),
    )  # 2**-10..2**7, then 2**-19..2**8
    looks = ((2, f16), (2, bf16), (4, f32))
    return _PAGE if any(_share(head[width - 1 :: width], usual) >= 0.95 for width, usual in looks) else None


def _share(tops: bytes, usual: range) -> float:
    return sum(top & 0x7F in usual for top in tops) / len(tops)
