"""Floats as integers and back, bit for bit."""

from __future__ import annotations

import struct
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def _float_bits(typingctx: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.int32(types.float32), codegen


def _slow_bits(value: Any) -> int:
    number: int = struct.unpack("<i", struct.pack("<f", value))[0]
    return number


_config: Any = numba.config
float_bits: Any = _slow_bits if _config.DISABLE_JIT else _float_bits
