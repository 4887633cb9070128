"""Which thread takes which element, and how many bytes at once: copies.cu, structs.cu, walks.cu, transpose.cu."""

import torch

from kernels.hardware import REFERENCE, REFERENCE_MULTIPROCESSORS
from kernels.measure.recorded.accesses.case import Case, Launch, floats, kernel, one_each, unwritten

STRIDES = (1, 2, 4, 8, 16, 32)
OFFSETS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 1024)
ITEMS = (1, 2, 4, 8, 16, 32, 64)
BLOCK_SIZES = (1, 8, 32, 64, 128, 256, 512, 1024)
GRID_SIZES = (1, *(REFERENCE_MULTIPROCESSORS * blocks for blocks in (1, 4, 8, 32)))
# Bytes of shared memory a block, so that the 228 KiB of a multiprocessor hold 1, 2, 4 or 8 blocks of 8 warps.
ROOM_FOR = {8: 120 << 10, 16: 80 << 10, 32: REFERENCE.static_shared_bytes_per_block, 64: 0}
WIDTHS = {"half": 2, "float": 4, "float2": 8, "float4": 16}


def strided(stride: int) -> Case:
    def make(n, random):
        args = floats(n * stride, random), unwritten(n, random), stride, n
        return Launch(kernel("copies.cu", "strided"), *one_each(n), args)

    return Case(make, lambda x, y, stride, n: torch.equal(y, x[::stride]), 1 << 24, 1 << 10, lambda n: 8 * n)


def offset(by: int) -> Case:
    def make(n, random):
        args = floats(n + by, random), unwritten(n, random), by, n
        return Launch(kernel("copies.cu", "offset"), *one_each(n), args)

    return Case(make, lambda x, y, by, n: torch.equal(y, x[by:]), 1 << 26, 1 << 10, lambda n: 8 * n)


def stretches(items: int) -> Case:
    def make(n, random):
        args = floats(n, random), unwritten(n, random), items, n
        return Launch(kernel("copies.cu", "stretches"), *one_each(n // items), args)

    return Case(make, lambda x, y, *_: torch.equal(y, x), 1 << 26, 1 << 14, lambda n: 8 * n)


def guarded(threads: int) -> Case:
    """A thread an element, in blocks of `threads`."""

    def make(n, random):
        return Launch(
            kernel("copies.cu", "guarded"), *one_each(n, threads), (floats(n, random), unwritten(n, random), n)
        )

    return Case(make, lambda x, y, _: torch.equal(y, x), 1 << 26, 1 << 10, lambda n: 8 * n)


def block_count(blocks: int) -> Case:
    """Elements shared out among any number of blocks of 256 threads."""

    def make(n, random):
        return Launch(
            kernel("copies.cu", "copy<float>"), (blocks,), (256,), (floats(n, random), unwritten(n, random), n)
        )

    return Case(make, lambda x, y, _: torch.equal(y, x), 1 << 26, 1 << 10, lambda n: 8 * n)


def copy(width: str, warps: int) -> Case:
    """n bytes by 1,056 blocks of 8 warps. Shared memory, which the kernel does not use, leaves room on a multiprocessor for
    `warps` of them at a time."""

    def make(n, random):
        x = torch.randint(0, 255, (n,), dtype=torch.uint8, generator=random, device=random.device)
        args = x, torch.full_like(x, 255), n // WIDTHS[width]
        function = kernel("copies.cu", f"copy<{width}>")
        function.max_dynamic_shared_size_bytes = max(ROOM_FOR.values())
        return Launch(function, (8 * REFERENCE_MULTIPROCESSORS,), (256,), args, ROOM_FOR[warps])

    few = 8 * REFERENCE_MULTIPROCESSORS * 256 * 16  # with the widest loads, one for each thread
    return Case(make, lambda x, y, _: torch.equal(y, x), 1 << 28, few, lambda n: 2 * n)


def particles(name: str, arrays: bool, field_bytes: int) -> Case:
    """`field_bytes` is the bytes of a particle that the sum needs."""

    def make(n, random):
        x = floats(4 * n, random).view(4, n) if arrays else floats(4 * n, random)
        members = tuple(x) if arrays else (x,)
        return Launch(kernel("structs.cu", name), *one_each(n), (*members, unwritten(n, random), n))

    def right(*args):
        *members, out, n = args
        x, y, z, mass = members if arrays else members[0].view(n, 4).T
        return torch.allclose(out, mass if field_bytes == 4 else mass * (x + y + z), rtol=1e-5, atol=1e-5)

    return Case(make, right, 1 << 25, 1 << 10, lambda n: (field_bytes + 4) * n)


def walk(name: str) -> Case:
    def make(n, random):
        return Launch(kernel("walks.cu", name), *one_each(n, 64), (floats(n * n, random), unwritten(n, random), n))

    def right(matrix, sums, n):
        exact = matrix.view(n, n).double().sum(1 if name == "row_a_thread" else 0)
        return torch.allclose(sums.double(), exact, rtol=0, atol=1e-4 * n)

    return Case(make, right, 1 << 14, 128, lambda n: 4 * (n * n + n))


def transpose(name: str) -> Case:
    def make(n, random):
        args = floats(n * n, random), unwritten(n * n, random), n
        return Launch(kernel("transpose.cu", name), (n // 32, n // 32), (32, 8), args)

    def right(x, y, n):
        return torch.equal(y.view(n, n), x.view(n, n).T)

    return Case(make, right, 1 << 13, 64, lambda n: 8 * n * n)


GROUPS = {
    "block sizes": {threads: guarded(threads) for threads in BLOCK_SIZES},
    "grid sizes": {blocks: block_count(blocks) for blocks in GRID_SIZES},
    "strides": {stride: strided(stride) for stride in STRIDES},
    "offsets": {by: offset(by) for by in OFFSETS},
    "stretches": {items: stretches(items) for items in ITEMS},
    "copies": {(width, warps): copy(width, warps) for width in WIDTHS for warps in ROOM_FOR},
    "structs": {
        "one member, structs": particles("struct_member", False, 4),
        "one member, arrays": particles("array_member", True, 4),
        "all members, structs": particles("struct_members", False, 16),
        "all members, arrays": particles("array_members", True, 16),
        "all members, one load": particles("struct_vector", False, 16),
    },
    "walks": {"a row a thread": walk("row_a_thread"), "a column a thread": walk("column_a_thread")},
    "transposes": {
        "strided writes": transpose("transpose_strided_writes"),
        "strided reads": transpose("transpose_strided_reads"),
        "tile": transpose("transpose_tile"),
        "padded tile": transpose("transpose_padded"),
        "swizzled tile": transpose("transpose_swizzled"),
    },
}
