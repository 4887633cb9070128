"""Banks, atomics, branches, barriers and chains of loads: what the files beside this hold that global_memory.py does not."""

from collections.abc import Callable

import torch

from kernels.hardware import REFERENCE, REFERENCE_MULTIPROCESSORS
from kernels.measure.recorded.accesses.case import Case, Launch, floats, kernel, one_each, unwritten

SHARED_STRIDES = range(34)
STATIC = REFERENCE.static_shared_bytes_per_block
BINS = (1, 16, 256, 4096, 65_536, 1 << 20)
LOADS = {"cuda": 4096, "cpu": 32}  # of each thread from shared memory
CHAINED = {"cuda": 512, "cpu": 8}  # and from global memory, one after the other or side by side


def shared_stride(stride: int) -> Case:
    """n blocks of 256 threads."""

    def make(n, random):
        args = unwritten(256 * n, random, torch.int32), stride, LOADS[random.device.type]
        return Launch(kernel("shared_strides.cu", "shared_stride"), (n,), (256,), args)

    def right(sums, stride, loads):
        done = torch.arange(loads, device=sums.device)
        first = torch.arange(32, device=sums.device) * stride
        read = (first[:, None] + done // 32 * 32) % 2048 + done % 32
        return torch.equal(sums.view(-1, 32), read.sum(1).int().expand(sums.numel() // 32, 32))

    return Case(make, right, 8 * REFERENCE_MULTIPROCESSORS, 1)


def shared_vectors() -> Case:
    def make(n, random):
        args = unwritten(256 * n, random, torch.int32), LOADS[random.device.type]
        return Launch(kernel("shared_strides.cu", "shared_vectors"), (n,), (256,), args)

    def right(sums, loads):
        done = torch.arange(0, loads, 4, device=sums.device)
        first = torch.arange(32, device=sums.device)
        read = 4 * ((first[:, None] + done // 32 * 8) % 512 + done // 4 % 8)  # the first of four
        return torch.equal(sums.view(-1, 32), (4 * read + 6).sum(1).int().expand(sums.numel() // 32, 32))

    return Case(make, right, 8 * REFERENCE_MULTIPROCESSORS, 1)


def histogram(space: str, bins: int) -> Case:
    def make(n, random):
        x = torch.randint(bins, (n,), dtype=torch.int32, generator=random, device=random.device)
        counts = torch.zeros(bins, dtype=torch.int32, device=random.device)
        if space == "global":
            return Launch(kernel("histogram.cu", "global_bins"), *one_each(n), (x, counts, n))
        blocks = min(4 * REFERENCE_MULTIPROCESSORS, n // 512)
        return Launch(kernel("histogram.cu", "shared_bins"), (blocks,), (512,), (x, counts, bins, n), 4 * bins)

    def right(x, counts, *_):
        runs, rest = divmod(int(counts.sum()), x.numel())
        return runs > 0 and rest == 0 and torch.equal(counts, runs * torch.bincount(x, minlength=len(counts)).int())

    return Case(make, right, 1 << 24, 1 << 12, lambda n: 4 * (n + bins))


def grown(x: torch.Tensor) -> torch.Tensor:
    """64 steps of x * 1.001 + 0.5."""
    return x * 1.001**64 + 0.5 * (1.001**64 - 1) / 0.001


def shrunk(x: torch.Tensor) -> torch.Tensor:
    """64 steps of x * 0.999 - 0.5."""
    return x * 0.999**64 - 0.5 * (1 - 0.999**64) / 0.001


def branch(name: str) -> Case:
    def make(n, random):
        return Launch(kernel("branches.cu", name), *one_each(n), (floats(n, random), unwritten(n, random), n))

    def right(x, y, n):
        one_way = torch.arange(n, device=x.device) // (1 if name == "diverge_lanes" else 32) % 2 == 0
        exact = torch.where(one_way, grown(x.double()), shrunk(x.double()))
        return torch.allclose(y.double(), exact, rtol=1e-4, atol=0)

    return Case(make, right, 1 << 24, 1 << 10)


def ways(count: int) -> Case:
    def make(n, random):
        args = floats(n, random), unwritten(n, random), count, n
        return Launch(kernel("branches.cu", "diverge_ways"), *one_each(n), args)

    def right(x, y, count, n):
        exact = grown(x.double()) + torch.arange(n, device=x.device) % count
        return torch.allclose(y.double(), exact, rtol=1e-4, atol=0)

    return Case(make, right, 1 << 24, 1 << 10)


def rounds(shared_out: Callable[[torch.Tensor], torch.Tensor]) -> Case:
    """Threads that do so many rounds, by their number: 496 on average, of all or of those that do any."""

    def make(n, random):
        steps = shared_out(torch.arange(n, device=random.device)).int()
        return Launch(kernel("branches.cu", "rounds"), *one_each(n), (steps, unwritten(n, random), n))

    def right(steps, y, n):
        return torch.equal(y, torch.where(steps > 0, 2.0, 0.0))  # 2 is the limit, reached after 25 rounds

    return Case(make, right, 1 << 24, 1 << 10)


def chain(chains: int, warps: int) -> Case:
    """A table of n numbers, and one block."""

    def make(n, random):
        table = torch.randperm(n, generator=random, device=random.device).int()
        args = table, unwritten(32 * warps, random, torch.int32), CHAINED[random.device.type], n
        return Launch(kernel("chains.cu", f"chain<{chains}>"), (1,), (32 * warps,), args)

    def right(table, ends, loads, n):
        at = torch.arange(ends.numel() * chains, device=table.device) % n
        for _ in range(loads // chains):
            at = table[at].long()
        return torch.equal(ends, at.int().view(-1, chains).sum(1, dtype=torch.int32))

    return Case(make, right, 1 << 27, 1 << 12)


def reduction(name: str) -> Case:
    def make(n, random):
        args = floats(n, random), unwritten(n // 256, random)
        return Launch(kernel("reductions.cu", name), (n // 256,), (256,), args)

    def right(x, sums):
        return torch.allclose(sums.double(), x.view(-1, 256).double().sum(1), rtol=0, atol=1e-4)

    return Case(make, right, 1 << 26, 1 << 10, lambda n: 4 * n + n // 64)


def passes(name: str) -> Case:
    """A block of 1,024 threads on each of n multiprocessors."""

    def make(n, random):
        args = unwritten(1024 * n, random), CHAINED[random.device.type] * 8
        return Launch(kernel("reductions.cu", name), (n,), (1024,), args)

    return Case(make, lambda y, _: bool((y == 2).all()), REFERENCE_MULTIPROCESSORS, 1)


GROUPS = {
    "shared strides": {
        **{stride: shared_stride(stride) for stride in SHARED_STRIDES},
        "four at once": shared_vectors(),
    },
    "histograms": {
        **{("global", bins): histogram("global", bins) for bins in BINS},
        **{("shared", bins): histogram("shared", bins) for bins in BINS if 4 * bins <= STATIC},
    },
    "branches": {"by lane": branch("diverge_lanes"), "by warp": branch("diverge_warps")},
    "ways": {count: ways(count) for count in (1, 2, 4, 8, 16, 32)},
    "rounds": {
        "all alike": rounds(lambda thread: torch.full_like(thread, 496)),
        "by lane": rounds(lambda thread: thread % 32 * 32),
        "by warp": rounds(lambda thread: thread // 32 % 32 * 32),
        "one lane of a warp": rounds(lambda thread: (thread % 32 == 0) * 496),
        "one warp of 32": rounds(lambda thread: (thread // 32 % 32 == 0) * 496),
    },
    "chains": {key: chain(*key) for key in ((1, 1), (2, 1), (4, 1), (8, 1), (1, 2), (1, 4), (1, 8), (1, 32))},
    "reductions": {"shared memory": reduction("reduce_shared"), "shuffles": reduction("reduce_shuffles")},
    "barriers": {"none": passes("passes"), "one a pass": passes("passes_with_barrier")},
}
