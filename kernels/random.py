"""Counter-based random numbers: a number is a function of a seed and of its offset, with no state between (Salmon, Moraes, Dror
and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3").

So any thread makes any number alone, a backward makes the forward's again instead of storing them, and every level makes the
same bits: `uniform` here for levels 1 to 3, `tl.rand(seed, offsets)` in Triton, `uniform(seed, offset)` of
`kernels/cuda/device/philox.cuh` in CUDA C. A counter gives four words, of which `uniform` takes one. Where the numbers decide
how fast a kernel is, it takes all: `uniform4`, `tl.rand4x`, `uniform4`.

On a GPU TorchScript's fuser makes other numbers of the same source (torch 2.11): level 2 of an operation with random numbers
says so in `unsupported`.
"""

import functools
from bisect import bisect_left

import numpy as np
import torch


def philox(
    c0: torch.Tensor, c1: torch.Tensor, c2: torch.Tensor, c3: torch.Tensor, k0: torch.Tensor, k1: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Philox-4x32-10: four random words for each counter of four words and a key of two.

    Words are int64 from 0 to 2³² - 1; the tensors are broadcast against each other, on any device.
    """
    for _ in range(10):
        c0, c1, c2, c3 = philox_round(c0, c1, c2, c3, k0, k1)
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def philox_round(
    c0: torch.Tensor, c1: torch.Tensor, c2: torch.Tensor, c3: torch.Tensor, k0: torch.Tensor, k1: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """One round of `philox`: two products, whose high words are mixed with the other counters and the key."""
    high0, low0 = _product(c0, 0xD2511F53)
    high2, low2 = _product(c2, 0xCD9E8D57)
    return high2 ^ c1 ^ k0, low2, high0 ^ c3 ^ k1, low0


def _product(x: torch.Tensor, factor: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The high and the low word of the product of 32-bit words. int64 keeps the low 64 bits of a product, all that there are;
    a shift copies the sign, which the mask takes away."""
    product = x * factor
    return (product >> 32) & 0xFFFFFFFF, product & 0xFFFFFFFF


def uniform(seed: int, offsets: torch.Tensor) -> torch.Tensor:
    """Random numbers from the uniform distribution over [0, 1), one for each offset.

    Args:
        seed: from 0 to 2⁶³ - 1; another seed gives other numbers.
        offsets: any shape, int32 or int64, at least 0: the same offset gives the same number.

    Returns:
        float32, shape and device of `offsets`, the bits of Triton's `tl.rand`.

    Raises:
        TypeError: offsets that are not integers.
        ValueError: a seed out of its range.
    """
    return _number(_words(seed, offsets)[0])


def uniform4(seed: int, offsets: torch.Tensor) -> torch.Tensor:
    """As `uniform`, but the four numbers of each offset: shape (*offsets.shape, 4), the bits of Triton's `tl.rand4x`."""
    one, two, three, four = _words(seed, offsets)
    return torch.stack((_number(one), _number(two), _number(three), _number(four)), -1)


def _words(seed: int, offsets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    if offsets.dtype != torch.int32 and offsets.dtype != torch.int64:
        raise TypeError(f"offsets: got {offsets.dtype}, expected torch.int64 or torch.int32: one for each number")
    if seed < 0:
        raise ValueError(f"seed: got {seed}, expected 0 to 2**63 - 1")
    offsets = offsets.long()
    zero = torch.zeros_like(offsets)
    # A tensor: torch.compile takes a seed that changes for a symbol, and of a symbol's bits Inductor writes C++ that is none.
    key = torch.full((), seed, dtype=torch.int64, device=offsets.device)
    return philox(offsets & 0xFFFFFFFF, offsets >> 32, zero, zero, key & 0xFFFFFFFF, key >> 32)


def _number(word: torch.Tensor) -> torch.Tensor:
    # As Triton does it: a signed word, folded on its positive half, times the largest float32 that keeps it below 1.
    word = torch.where(word < 0x80000000, word, 0xFFFFFFFF - word)
    return word.float() * 4.6566127342e-10


@functools.lru_cache
def most_below(p: float) -> int:
    """The greatest word, folded as for a number, whose number is below p; -1 if there is none. A word greater than it has a
    number of at least p: words can be compared in place of numbers."""
    least, scale = np.float32(p), np.float32(4.6566127342e-10)
    return bisect_left(range(2**31), True, key=lambda word: bool(np.float32(word) * scale >= least)) - 1
