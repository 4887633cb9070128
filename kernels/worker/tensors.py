"""Objects and their tensors from process to process, through memory that both map: a file in memory, known by descriptor.

A message is the bytes of the tensors' storages, each at a multiple of 256 bytes, then the pickled objects, then the length
of these. A tensor keeps its offset in its storage, its strides and its device; tensors that share a storage still do.
"""

from __future__ import annotations

import ctypes
import io
import mmap
import os
import pickle
from collections.abc import Iterator
from typing import Any

import torch

_ALIGNMENT = 256


class Memory:
    """A file in memory, in which one process writes a message and another appends its answer.

    In the worker, the tensors of a message that is read are the shared memory itself, and those that come back in the
    answer are not written again. The caller copies what it reads.
    """

    def __init__(self, descriptor: int, copy: bool) -> None:
        self.descriptor = descriptor
        self._copy = copy
        self._places: dict[tuple[str, int], int] = {}  # (device, address) → where in the file this storage is

    @property
    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def write(self, *objects: Any) -> None:
        """Append a message. What pickle cannot take raises what pickle raises, and nothing is written."""
        stream = io.BytesIO()
        pickler = _Pickler(stream, self.size, dict(self._places))
        for each in objects:
            pickler.dump(each)
        with open(self.descriptor, "wb", closefd=False) as file:
            # Written, not mapped and copied: a copy would fault at every page.
            for place, storage in pickler.storages:
                here = storage.cpu()
                file.seek(place)
                file.write((ctypes.c_uint8 * here.nbytes()).from_address(here.data_ptr()))
            file.seek(pickler.end)
            file.write(stream.getvalue())
            file.write(stream.tell().to_bytes(8, "little"))

    def read(self) -> Iterator[Any]:
        """The objects of the last message, one after another."""
        size = self.size
        whole = mmap.mmap(self.descriptor, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        end = size - 8
        length = int.from_bytes(whole[end:], "little")
        unpickler = _Unpickler(io.BytesIO(whole[end - length : end]), whole, self._copy, self._places)
        while True:
            try:
                yield unpickler.load()
            except EOFError:
                return


class _Pickler(pickle.Pickler):
    def __init__(self, stream: io.BytesIO, start: int, places: dict[tuple[str, int], int]) -> None:
        super().__init__(stream, protocol=5)
        self.end = start
        self.storages: list[tuple[int, torch.UntypedStorage]] = []
        self._places = places

    def persistent_id(self, obj: Any) -> tuple | None:
        if type(obj) is not torch.Tensor or obj.layout is not torch.strided or obj.device.type not in ("cpu", "cuda"):
            return None
        tensor = obj.detach().resolve_conj().resolve_neg()
        storage = tensor.untyped_storage()
        shape, offset, stride = tuple(tensor.shape), tensor.storage_offset(), tensor.stride()
        device = str(tensor.device)
        return self._place(storage), storage.nbytes(), device, tensor.dtype, offset, shape, stride, obj.requires_grad

    def _place(self, storage: torch.UntypedStorage) -> int:
        key = str(storage.device), storage.data_ptr()
        if storage.nbytes() and key not in self._places:
            place = -(-self.end // _ALIGNMENT) * _ALIGNMENT
            self._places[key] = place
            self.storages.append((place, storage))
            self.end = place + storage.nbytes()
        return self._places.get(key, 0)


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, whole: mmap.mmap, copy: bool, places: dict[tuple[str, int], int]) -> None:
        super().__init__(stream)
        self._whole = whole
        self._copy = copy
        self._places = places
        self._storages: dict[tuple[int, str], torch.UntypedStorage] = {}

    def persistent_load(self, pid: tuple) -> torch.Tensor:
        place, size, device, dtype, offset, shape, stride, requires_grad = pid
        storage = self._storages.get((place, device)) if size else torch.UntypedStorage(0, device=device)
        if storage is None:
            storage = shared = _storage_in(self._whole, place, size)
            if self._copy or device != "cpu":
                storage = torch.UntypedStorage(size, device=device)
                copy_storage(shared, storage)
            else:
                self._places[device, storage.data_ptr()] = place
            self._storages[place, device] = storage
        tensor = torch.empty(0, dtype=dtype, device=device).set_(storage, offset, shape, stride)
        return tensor.requires_grad_(requires_grad)


def copy_storage(source: torch.UntypedStorage, target: torch.UntypedStorage) -> None:
    """Copy all bytes. torch would divide the work among threads, which on a busy machine wait longer than this takes."""
    if source.device.type == target.device.type == "cpu":
        ctypes.memmove(target.data_ptr(), source.data_ptr(), source.nbytes())
    else:
        target.copy_(source)


def _storage_in(whole: mmap.mmap, place: int, size: int) -> torch.UntypedStorage:
    return torch.frombuffer(whole, dtype=torch.uint8, count=size, offset=place).untyped_storage()
