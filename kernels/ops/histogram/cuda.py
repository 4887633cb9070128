"""Level 5: the Python side of histogram.cu."""

from pathlib import Path

import torch

from kernels.cuda.template import kernel
from kernels.machine import multiprocessors
from kernels.ops.histogram.native import SIGNATURE
from kernels.rung import rung
from kernels.vectors import VECTOR_BYTES

FILE = Path(__file__).with_name("histogram.cu")
THREADS = 256
MOST_PRIVATE = 12_288  # bins of 4 bytes in the 48 KiB of shared memory that a block has without asking
BLOCKS = 8  # of a multiprocessor: all its threads
WIDE, WIDE_BLOCKS = 1_024, 2  # threads of a block that loads 16 bytes at a time, and such blocks of a multiprocessor


def counted(private: bool, x: torch.Tensor, bins: int) -> torch.Tensor:
    counts = SIGNATURE.empty_outputs(x, bins)
    kernel(FILE, "histogram_zeros", THREADS)((-(-bins // THREADS),), (THREADS,), (counts, bins))
    if n := x.numel():
        fits = private and bins <= MOST_PRIVATE
        name, shared = ("histogram_private", 4 * bins) if fits else ("histogram_global", 0)
        blocks = min(BLOCKS * multiprocessors(x.device), -(-n // THREADS))
        kernel(FILE, name, x.dtype)((blocks,), (THREADS,), (x.contiguous(), counts, n, bins), shared_mem=shared)
    return counts


def through_global(x, bins):
    return counted(False, x, bins)


def private(x, bins):
    return counted(True, x, bins)


def packs(x, bins):
    n = x.numel()
    if not n or bins > MOST_PRIVATE:
        return through_global(x, bins)
    counts = SIGNATURE.empty_outputs(x, bins)
    blocks = min(WIDE_BLOCKS * multiprocessors(x.device), -(-n * x.itemsize // (VECTOR_BYTES * WIDE)))
    if blocks > 1:
        kernel(FILE, "histogram_zeros", THREADS)((-(-bins // THREADS),), (THREADS,), (counts, bins))
    kernel(FILE, "histogram_packs", x.dtype)((blocks,), (WIDE,), (x.contiguous(), counts, n, bins), shared_mem=4 * bins)
    return counts


FORWARD = (
    rung(5, "global", through_global, "an atomic addition in global memory a value", FILE),
    rung(5, "private", private, "each block counts in shared memory first", FILE),
    rung(5, "packs", packs, "16 bytes a load, fewer blocks, and one alone where values are few", FILE),
)
