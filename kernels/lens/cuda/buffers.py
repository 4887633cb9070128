"""Copies of tensors between red zones: memory that belongs to no one, so that what a kernel does there is seen."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

_PAGE = mmap.PAGESIZE
_OPEN = 64 << 10  # bytes on each side that can be read and written, so that a small mistake does not stop the run
_CLOSED = 256 << 20  # and beyond them bytes that cannot
_POISON = 0xFF  # a NaN of every floating type

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_NONE, _READ_WRITE = 0, mmap.PROT_READ | mmap.PROT_WRITE
_NO_RESERVE = 0x4000  # Linux's MAP_NORESERVE


class Buffer(NamedTuple):
    """The copy of a storage: addresses of its bytes, and of the zone around it. `argument`: the first that lies in it."""

    argument: int
    begin: int
    end: int
    zone_begin: int
    zone_end: int


def surrounded(args: Sequence[Any]) -> tuple[list[Any], list[Buffer]]:
    """The arguments with every tensor replaced by a copy, and where the copies are.

    Copies keep their tensors' places in their storages, which begin at multiples of 256 bytes, and tensors that share
    memory still do. The memory is never freed: this is for a process that does not live long.
    """
    copies: list[Any] = []
    buffers: dict[int, tuple[Buffer, torch.UntypedStorage]] = {}
    for index, arg in enumerate(args):
        if not isinstance(arg, torch.Tensor) or not arg.untyped_storage().nbytes():
            copies.append(arg)
            continue
        storage = arg.untyped_storage()
        if storage.data_ptr() not in buffers:
            buffers[storage.data_ptr()] = _copy(storage, index)
        copy = buffers[storage.data_ptr()][1]
        tensor = torch.empty(0, dtype=arg.dtype).set_(copy, arg.storage_offset(), arg.shape, arg.stride())
        copies.append(tensor)
    return copies, [buffer for buffer, _ in buffers.values()]


def between_red_zones(size: int) -> Buffer:
    """So many bytes of memory, all of them 0xff, at a multiple of a page. MemoryError."""
    usable = 2 * _OPEN + -(-size // _PAGE) * _PAGE
    whole = usable + 2 * _CLOSED
    zone = _libc.mmap(None, whole, _NONE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE, -1, 0)
    if zone in (None, ctypes.c_void_p(-1).value) or _libc.mprotect(zone + _CLOSED, usable, _READ_WRITE):
        raise MemoryError(f"there is no memory for a copy of {size:,} bytes")
    begin = zone + _CLOSED + _OPEN
    ctypes.memset(begin - _OPEN, _POISON, usable)
    return Buffer(-1, begin, begin + size, zone, zone + whole)


def _copy(storage: torch.UntypedStorage, argument: int) -> tuple[Buffer, torch.UntypedStorage]:
    size = storage.nbytes()
    try:
        buffer = between_red_zones(size)._replace(argument=argument)
    except MemoryError as error:
        raise MemoryError(f"argument {argument} is a tensor: {error}") from None
    ctypes.memmove(buffer.begin, storage.data_ptr(), size)
    bytes_of = (ctypes.c_uint8 * size).from_address(buffer.begin)
    return buffer, torch.frombuffer(bytes_of, dtype=torch.uint8).untyped_storage()
