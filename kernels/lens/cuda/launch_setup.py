"""What the lens is given before a launch: `LaunchSetup` of cpu/launch.cpp."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kernels.cuda.cpu.elf import OBJECT, THREAD_LOCAL, Symbol
from kernels.lens.arrays import Region
from kernels.lens.cuda.buffers import Buffer, between_red_zones
from kernels.lens.cuda.instrumented import Instrumented

SPACES = ("global", "shared", "constant")  # `Space` of cpu/events.h


def regions(loaded: Instrumented, buffers: Sequence[Buffer], names: Sequence[str]) -> list[Region]:
    """The tensors' copies and the variables of a kernel. `names`: of its parameters, "" where one is not known."""
    found = []
    for number, begin, end, zone_begin, zone_end in buffers:
        name = names[number] if number < len(names) and names[number] else f"argument {number}"
        found.append(Region(name, begin, end, zone_begin, zone_end, "global", number))
    for name, space, begin, size in loaded.variables:
        found.append(Region(name, begin, begin + size, begin, begin + size, space, -1))
    return found


class _Zone(NamedTuple):
    """Memory between variables, that the one by this number is overrun into. Addresses as in Region.

    spared: not 0 where the compiler keeps something, which it accesses by so many bytes.
    """

    number: int
    begin: int
    end: int
    spared: int = 0


def _between(variables: dict[int, int], symbols: Sequence[Symbol], begin: int, end: int) -> Iterator[_Zone]:
    """What lies between variables is that one's before it, and before the first variable, the first's.

    variables: their numbers by address.
    """
    ordered = sorted(symbols, key=lambda one: one.address)
    number = next(variables[one.address] for one in ordered if one.address in variables)
    for one in ordered:
        if begin < one.address:
            yield _Zone(number, begin, one.address)
        begin = max(begin, one.address + one.size)
        if one.kind == THREAD_LOCAL and one.address not in variables and not one.name.startswith("_ZN7kernels"):
            # A reference to dynamic shared memory, or whether it has been made.
            yield _Zone(number, one.address, begin, 1 if one.name.startswith(("_ZGV", "__tls_guard")) else one.size)
        number = variables.get(one.address, number)
    if begin < end:
        yield _Zone(number, begin, end)


def _zones(loaded: Instrumented, regions: Sequence[Region], shared: Buffer | None) -> list[_Zone]:
    """Between the variables in memory that is theirs alone. shared: where static shared memory is to be."""
    numbers = {region.begin: number for number, region in enumerate(regions) if region.argument < 0}
    found: list[_Zone] = []
    if shared:
        before, after = shared.zone_begin - shared.begin, shared.zone_end - shared.begin
        shared_regions = {at: number for at, number in numbers.items() if regions[number].space == "shared"}
        found += _between(shared_regions, [one for one in loaded.symbols if one.kind == THREAD_LOCAL], before, after)
    source_regions = {at - loaded.base: number for at, number in numbers.items() if regions[number].space != "shared"}
    objects = [one for one in loaded.symbols if one.kind == OBJECT and one.writable and one.size]
    if first := min((one.address for one in objects if one.address in source_regions), default=0):
        objects = [one for one in objects if one.address >= first]
        last = max(one.address + one.size for one in objects)
        own = _between(source_regions, objects, first, last + -(loaded.base + last) % mmap.PAGESIZE)
        found += (one._replace(begin=one.begin + loaded.base, end=one.end + loaded.base) for one in own)
    return found


class _Region(ctypes.Structure):
    """`RegionSetup` of cpu/launch.cpp."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("begin", "end", "zone_begin", "zone_end")),
        *((name, ctypes.c_uint32) for name in ("space", "thread_owned", "number", "spared")),
    ]


class LaunchSetup(ctypes.Structure):
    _fields_ = [
        ("kernel", ctypes.c_void_p),
        ("library", ctypes.c_uint64),
        ("threads", ctypes.c_uint32),
        ("dynamic_shared_bytes", ctypes.c_uint32),
        ("polls", ctypes.c_uint32),
        *((name, ctypes.c_uint64) for name in ("thread_local_at", "regions", "rows", "sampled")),
        ("row", ctypes.POINTER(_Region)),
        ("sample", ctypes.POINTER(ctypes.c_uint64)),
    ]


def _thread_local_bytes(loaded: Instrumented) -> int:
    """Of the library's memory, if static shared memory is in it."""
    if not any(one.space == "shared" for one in loaded.variables):
        return 0
    return max(one.address + one.size for one in loaded.symbols if one.kind == THREAD_LOCAL)


def launch_setup(
    loaded: Instrumented,
    threads: int,
    shared_mem: int,
    regions: Sequence[Region],
    sample: Sequence[int],
    polls: bool,
) -> LaunchSetup:
    """threads: of a block. sample: the numbers of the blocks to run, ascending; all, if empty. polls: the source waits for
    memory to change."""
    shared = between_red_zones(size) if (size := _thread_local_bytes(loaded)) else None
    zones = [_Zone(number, one.zone_begin, one.zone_end) for number, one in enumerate(regions)]
    zones += _zones(loaded, regions, shared)
    table = (_Region * len(zones))()
    for row, zone in zip(table, zones, strict=True):
        one = regions[zone.number]
        row.begin, row.end, row.zone_begin, row.zone_end = one.begin, one.end, zone.begin % 2**64, zone.end % 2**64
        row.space, row.thread_owned = SPACES.index(one.space), one.space == "shared"
        row.number, row.spared = zone.number, zone.spared
    return LaunchSetup(
        ctypes.addressof(loaded.function._kernel),
        loaded.base,
        threads,
        shared_mem,
        polls,
        shared.begin if shared else 0,
        len(regions),
        len(zones),
        len(sample),
        table,
        (ctypes.c_uint64 * len(sample))(*sample),
    )
