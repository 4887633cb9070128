"""What the lens is given before a launch: `Given` of cpu/launch.cpp."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

from kernels.lens.buffers import Buffer
from kernels.lens.instrumented import Instrumented

SPACES = ("global", "shared", "constant")  # `Space` of cpu/events.h


class Region(NamedTuple):
    """Memory that a kernel may use. Addresses of shared memory are from `kernels::self`, and wrap."""

    name: str
    begin: int
    end: int
    zone_begin: int
    zone_end: int
    space: str
    argument: int  # the first that lies in it, else -1


def regions(loaded: Instrumented, buffers: Sequence[Buffer], names: Sequence[str]) -> list[Region]:
    """The tensors' copies and the variables of a kernel. `names`: of its parameters, "" where one is not known."""
    found = []
    for number, begin, end, zone_begin, zone_end in buffers:
        name = names[number] if number < len(names) and names[number] else f"argument {number}"
        found.append(Region(name, begin, end, zone_begin, zone_end, "global", number))
    for name, space, begin, size in loaded.variables:
        begin, end = begin % 2**64, (begin + size) % 2**64
        found.append(Region(name, begin, end, begin, end, space, -1))
    return found


class _Region(ctypes.Structure):
    """`RegionGiven` of cpu/launch.cpp."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("begin", "end", "zone_begin", "zone_end")),
        *((name, ctypes.c_uint32) for name in ("space", "of_thread")),
    ]


class Given(ctypes.Structure):
    _fields_ = [
        ("kernel", ctypes.c_void_p),
        ("library", ctypes.c_uint64),
        ("threads", ctypes.c_uint32),
        ("dynamic_shared_bytes", ctypes.c_uint32),
        ("polls", ctypes.c_uint32),
        ("regions", ctypes.c_uint64),
        ("sampled", ctypes.c_uint64),
        ("region", ctypes.POINTER(_Region)),
        ("sample", ctypes.POINTER(ctypes.c_uint64)),
    ]


def given(
    loaded: Instrumented,
    threads: int,
    shared_mem: int,
    regions: Sequence[Region],
    sample: Sequence[int],
    polls: bool,
) -> Given:
    """threads: of a block. sample: the numbers of the blocks to run, ascending; all, if empty. polls: the text waits for
    memory to change."""
    table = (_Region * len(regions))()
    for row, one in zip(table, regions, strict=True):
        row.begin, row.end, row.zone_begin, row.zone_end = one.begin, one.end, one.zone_begin, one.zone_end
        row.space, row.of_thread = SPACES.index(one.space), one.space == "shared"
    return Given(
        ctypes.addressof(loaded.function._kernel),
        loaded.base,
        threads,
        shared_mem,
        polls,
        len(regions),
        len(sample),
        table,
        (ctypes.c_uint64 * len(sample))(*sample),
    )
