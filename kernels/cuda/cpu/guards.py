"""Which tensors of a launch are copied to where no one else's memory is near (runtime/guards.cpp)."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any

import torch

from kernels.cuda.source import Source, blanked

_GUARDED = struct.Struct("@QQII")  # `kernels::Guarded` of runtime/guards.h
# As there. What is larger is not copied, which would take long beside the launch.
_MOST_BYTES, _MOST_STORAGES = 1 << 20, 16
_LOWEST_ADDRESS = 1 << 20
# A variable of the source that may hold a pointer, a pointer to pointers, a pointer as an integer.
_POINTERS = re.compile(
    r"\b__(?:device|managed|constant)__\b[^;{}()]*\*[^;{}()]*[;=]|\*\s*(?:const\s*)?\*|\buintptr_t\b"
)


def keeps_pointers(source: Source) -> bool:
    """Whether a launch may leave a pointer for the next, or find one, which must not be one into a copy."""
    return bool(_POINTERS.search(blanked(source.code)))


def guarded(args: Sequence[Any], offsets: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
    """A row of the runtime's table for each tensor; none if they are many or large, or if a number may be an address."""
    rows: list[bytes] = []
    storages: dict[int, int] = {}
    total = 0
    for arg, offset, size in zip(args, offsets, sizes, strict=False):
        if isinstance(arg, torch.Tensor):
            storage = arg.untyped_storage()
            if count := storage.nbytes():
                at = storage.data_ptr()
                if at not in storages:
                    total += count
                rows.append(_GUARDED.pack(at, count, offset, storages.setdefault(at, len(storages))))
        elif size == 8 and type(arg) is int and arg >= _LOWEST_ADDRESS:
            return []
    return rows if total <= _MOST_BYTES and len(storages) <= _MOST_STORAGES else []
