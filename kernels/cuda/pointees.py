"""Which tensors a pointer of CUDA C may point into: its type is in the source, and a launch passes an address alone."""

from __future__ import annotations

import re

import torch

_FLOATS = {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "__half": torch.float16,
    "nv_bfloat16": torch.bfloat16,
    "__nv_bfloat16": torch.bfloat16,
}
_OF_TWO = {"half2": "half", "__half2": "half", "nv_bfloat162": "nv_bfloat16", "__nv_bfloat162": "nv_bfloat16"}
_COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}
# By their bytes, the signed one first, which PyTorch has operators for.
_INTEGERS = {
    1: (torch.int8, torch.uint8, torch.bool),
    2: (torch.int16, torch.uint16),
    4: (torch.int32, torch.uint32),
    8: (torch.int64, torch.uint64),
}
_BYTES = (torch.uint8, torch.int8)
_VECTOR = re.compile(r"(u?(?:char|short|int|long|longlong)|float|double)[1-4]")
_C_NAMES = {torch.int64: "long long", torch.int32: "int", torch.float64: "double", torch.float32: "float"}
_C_NAMES |= {torch.int16: "short", torch.uint8: "unsigned char", torch.int8: "signed char", torch.bool: "bool"}
_C_NAMES |= {torch.float16: "__half", torch.bfloat16: "__nv_bfloat16"}


def dtypes_of(pointee: str) -> tuple[torch.dtype, ...]:
    """What a tensor's elements may be for a pointer to that type, the usual one first; () for whatever they are.

    Integers of one size pass for each other, and for their bits everything of that size passes for an unsigned one; bytes pass
    for all, and all for bytes.
    """
    pointee = _OF_TWO.get(pointee, pointee)
    if vector := _VECTOR.fullmatch(pointee):
        pointee = vector[1].replace("longlong", "long long")
        pointee = f"unsigned {pointee[1:]}" if pointee.startswith("u") else pointee
    if own := _FLOATS.get(pointee):
        return (own, *([_COMPLEX[own]] if own in _COMPLEX else []), *_BYTES)
    size = _size(pointee.split())
    if size in (0, 1):
        return ()
    own, *others = _INTEGERS[size]
    bits = [dtype for dtype in _FLOATS.values() if dtype.itemsize == size and pointee.startswith(("unsigned", "uint"))]
    return (own, *others, *bits, *_BYTES)


def _size(words: list[str]) -> int:
    """Bytes of an integer type; 0 if it is none."""
    if len(words) == 1 and (exact := re.fullmatch(r"u?int(8|16|32|64)_t", words[0])):
        return int(exact[1]) // 8
    if words == ["size_t"]:
        return 8
    if not words or not set(words) <= {"unsigned", "signed", "char", "short", "int", "long", "bool"}:
        return 0
    return 1 if {"char", "bool"} & set(words) else 2 if "short" in words else 8 if "long" in words else 4


def refuse_other_dtype(index: int, name: str, pointee: str, tensor: torch.Tensor) -> None:
    """TypeError where a tensor's elements are not what the pointer says."""
    allowed = dtypes_of(pointee)
    if not allowed or tensor.dtype in allowed:
        return
    own = _C_NAMES.get(tensor.dtype)
    called = name or f"argument_{index}"
    raise TypeError(
        f"argument {index} is a tensor of {tensor.dtype}, but the parameter {name or index} is {pointee}*, of {allowed[0]}: "
        f"pass {called}.to({allowed[0]})" + (f", or declare {own}* {called}" if own else "")
    )
