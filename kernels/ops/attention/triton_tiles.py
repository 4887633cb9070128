"""What the Triton kernels of attention share: tiles of rows, who sees whom, and how large tiles are."""

from collections.abc import Callable, Sequence

import torch
import triton
import triton.language as tl

from kernels.hardware import LAUNCH_GRID, REFERENCE
from kernels.machine import target
from kernels.ops.attention.band import band

LOG2_E = tl.constexpr(1.4426950408889634)  # exp(x) = exp2(x · log2 e), and a GPU has exp2
HALF_TILES = (
    (128, 128, 8, 3),
    (128, 128, 8, 2),
    (128, 64, 8, 2),
    (64, 64, 8, 2),
    (64, 64, 8, 1),
)
"""On tensor cores: rows of a program's own, rows that it walks over, warps, stages; largest first."""
FLOAT_TILES = ((32, 32, 8, 1), (32, 16, 8, 1), (16, 16, 8, 1), (8, 16, 8, 1))
"""The same without tensor cores, where Triton unrolls every product: larger tiles do not fit in the registers."""
FLOAT_BYTES = REFERENCE.static_shared_bytes_per_block
"""Of shared memory, for the tiles among FLOAT_TILES: what every target has, and some to spare."""
FARTHEST = 1 << 24
"""Elements from a row to the next: the places of the 128 rows of a tile are counted in 32 bits."""


@triton.jit
def place_of(matrices, b, h, batch, head, row):
    """Where `load_rows` finds the matrix (b, h) of B×H, whose strides are batch, head and row. Of a pointer: how far from it,
    and how far its rows are apart. Of a TMA descriptor, which has the strides itself: the two numbers."""
    if isinstance(matrices, tl.tensor_descriptor):
        return b.to(tl.int32), h.to(tl.int32)
    else:
        return b * batch + h * head, row


@triton.jit
def load_rows(
    matrices, place, start, n, D: tl.constexpr, INSIDE: tl.constexpr, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr
):
    """BLOCK rows from `start` on of the n×D matrix at a place, with zeros beyond it. INSIDE: all of them are among the n."""
    if isinstance(matrices, tl.tensor_descriptor):
        return matrices.load([place[0], place[1], start, 0]).reshape(BLOCK, BLOCK_D)
    else:
        rows, lanes = tl.arange(0, BLOCK), tl.arange(0, BLOCK_D)
        ptr = matrices + place[0] + tl.cast(start, tl.int64) * place[1] + rows[:, None] * place[1] + lanes[None, :]
        if INSIDE:
            if BLOCK_D == D:
                return tl.load(ptr)
            return tl.load(ptr, mask=lanes[None, :] < D, other=0.0)
        return tl.load(ptr, mask=(start + rows < n)[:, None] & (lanes < D)[None, :], other=0.0)


@triton.jit
def store_rows(ptr, stride, start, n, values, D: tl.constexpr, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr):
    rows, lanes = tl.arange(0, BLOCK), tl.arange(0, BLOCK_D)
    ptr += tl.cast(start, tl.int64) * stride + rows[:, None] * stride + lanes[None, :]
    tl.store(ptr, values, mask=(start + rows < n)[:, None] & (lanes < D)[None, :])


@triton.jit
def in_band(apart, left, right):
    """Whether a query sees a key that is so far behind its own place; before it, the distance is negative."""
    return (apart >= -left) & (apart <= right)


@triton.jit
def stretches(first, last, n, left, right, LEADING: tl.constexpr, BLOCK: tl.constexpr):
    """Of n rows, those that rows at the places first to last meet: (begin, whole, ragged, end). From `whole` to `ragged`
    there are blocks of which every row meets all of first to last; before and behind, some do not.

    left, right: how far before and behind its place a row meets others. LEADING: whether there are blocks before `whole`.
    """
    begin = tl.maximum(first - left, 0) // BLOCK * BLOCK
    end = tl.minimum(last + right + 1, n)
    whole = begin
    if LEADING:
        whole += tl.cdiv(tl.maximum(last - left - begin, 0), BLOCK) * BLOCK
    ragged = whole + tl.maximum(tl.minimum(first + right + 1, n) - whole, 0) // BLOCK * BLOCK
    return begin, whole, ragged, end


def side(n: int, most: int) -> int:
    """Of a tile, for n rows: a power of two of at least 16 where there may be as many, since tl.dot sums over no fewer."""
    return min(max(triton.next_power_of_2(n), 16), most)


def tile(own: int, others: int, q: torch.Tensor, tensors: int, tiles: Sequence) -> dict[str, int]:
    """The largest of the tiles whose rows fit in shared memory, of FLOAT_TILES for float32 and before sm_80: Triton uses no
    tensor cores there.

    own, others: how many rows there are to choose from. tensors: how many tiles of a program's own rows are kept; of the
    others' two, for each stage.
    """
    limits, wide, itemsize = target(q.device), side(q.shape[3], 256), q.itemsize
    most = limits.shared_bytes_per_block
    if itemsize == 4 or limits.capability < 80:
        most, itemsize, tiles = FLOAT_BYTES, 4, FLOAT_TILES
    rows, walked, warps, stages = next(
        one for one in tiles if (tensors * one[0] + 2 * one[3] * one[1]) * wide * itemsize <= most
    )
    return {
        "BLOCK": side(own, rows),
        "OTHERS": side(others, walked),
        "BLOCK_D": wide,
        "STAGES": stages,
        "num_warps": warps,
    }


def lines(x: torch.Tensor) -> torch.Tensor:
    """x, whose features are neighbours, and whose rows are at most FARTHEST apart; a copy only where they are not."""
    return x if (x.stride(3) == 1 or x.shape[3] == 1) and x.stride(2) <= FARTHEST else x.contiguous()


def places(*tensors: torch.Tensor) -> list[int]:
    """Strides of batches, heads and rows of each."""
    return [stride for one in tensors for stride in one.stride()[:3]]


def beyond_grid(q: torch.Tensor) -> bool:
    """Whether there are more matrices than a grid has places for in its second dimension."""
    return q.shape[0] * q.shape[1] > LAUNCH_GRID[1] and q.shape[0] > 1


def by_sequences(fn: Callable, *args) -> tuple[torch.Tensor, ...]:
    """fn(*args), of which the first tensors are B×H×…, of as many sequences at a time as a grid takes."""
    most = max(LAUNCH_GRID[1] // args[0].shape[1], 1)
    tensors = [one.split(most) for one in args if isinstance(one, torch.Tensor)]
    others = args[len(tensors) :]
    return tuple(map(torch.cat, zip(*(fn(*some, *others) for some in zip(*tensors, strict=True)), strict=True)))


def numbers(q: torch.Tensor, k: torch.Tensor, causal: bool, window: int | None) -> tuple[int, ...]:
    """H, how many of its heads share one of k, Q, KV, left and right: what every kernel goes by."""
    (_, H, Q, _), (_, heads, KV, _) = q.shape, k.shape
    return H, H // heads, Q, KV, *band(causal, window, Q, KV)
