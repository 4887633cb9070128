"""Level 4: embedding in Triton, forward and backward.

gather     one program an index and a part of its row.
atomic     backward: an atomic addition for each value that comes, into float32.
collect    backward: each token finds the next one of the same row, and the first of them adds all up, in their order.
sorted     backward: tokens are sorted by their rows, by PyTorch; the first of each run of alike ones adds them up.
"""

import torch
import triton
import triton.language as tl

from kernels.arguments import as_rows, empty_contiguous
from kernels.ops.embedding.native import SIGNATURE
from kernels.rung import rung
from kernels.triton.launch import ASSERTING, launch

WIDEST_BLOCK = 1_024
FEW = 192  # tokens, that each program compares with its own, where a sort takes several kernels
TOKENS = 64  # that look for the next ones like them, and that they are compared with at once


@triton.jit
def embedding_gather_kernel(index_ptr, weight_ptr, y_ptr, stride, V, D, BLOCK_D: tl.constexpr):
    token, columns = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    row = tl.load(index_ptr + token)
    tl.device_assert((row >= 0) & (row < V), "index: expected 0 to the number of rows of weight - 1")
    values = tl.load(weight_ptr + row * stride + columns, mask=columns < D)
    tl.store(y_ptr + token * D + columns, values, mask=columns < D)


@triton.jit
def embedding_backward_atomic_kernel(dy_ptr, index_ptr, sums_ptr, dy_stride, V, D, padding, BLOCK_D: tl.constexpr):
    token, columns = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    row = tl.load(index_ptr + token)
    tl.device_assert((row >= 0) & (row < V), "index: expected 0 to the number of rows of weight - 1")
    dy = tl.load(dy_ptr + token * dy_stride + columns, mask=columns < D, other=0.0).to(tl.float32)
    tl.atomic_add(sums_ptr + row * D + columns, dy, mask=(columns < D) & (row != padding), sem="relaxed")


@triton.jit
def embedding_zeros_kernel(dweight_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dweight_ptr + at, tl.zeros((BLOCK,), tl.float32), mask=at < count)


@triton.jit
def embedding_next_kernel(index_ptr, next_ptr, T, BLOCK_T: tl.constexpr):
    """next: of each token the one after it with the same index, or T; of a token that is not the first with its index, and so
    adds nothing up, it is stored as -1 - next."""
    tokens = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    own = tl.load(index_ptr + tokens, mask=tokens < T, other=-1)
    following, earlier = tl.full((BLOCK_T,), 0, tl.int32) + T, tl.zeros((BLOCK_T,), tl.int32)
    for start in range(0, T, BLOCK_T):
        others = start + tl.arange(0, BLOCK_T)
        index = tl.load(index_ptr + others, mask=others < T, other=-2)
        alike = own[:, None] == index[None, :]
        later = alike & (others[None, :] > tokens[:, None])
        following = tl.minimum(following, tl.min(tl.where(later, others[None, :], T), 1))
        earlier = tl.maximum(earlier, tl.max((alike & (others[None, :] < tokens[:, None])).to(tl.int32), 1))
    tl.store(next_ptr + tokens, tl.where(earlier > 0, -1 - following, following), mask=tokens < T)


@triton.jit
def embedding_backward_collect_kernel(
    dy_ptr, index_ptr, next_ptr, dweight_ptr, dy_stride, T, V, D, padding, BLOCK_D: tl.constexpr
):
    token, columns = tl.program_id(0), tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    row, following = tl.load(index_ptr + token), tl.load(next_ptr + token)
    tl.device_assert((row >= 0) & (row < V), "index: expected 0 to the number of rows of weight - 1")
    if (following < 0) | (row == padding):
        return
    sums = tl.load(dy_ptr + token.to(tl.int64) * dy_stride + columns, mask=columns < D, other=0.0).to(tl.float32)
    while following < T:
        dy_at = dy_ptr + following.to(tl.int64) * dy_stride
        sums += tl.load(dy_at + columns, mask=columns < D, other=0.0).to(tl.float32)
        following = -1 - tl.load(next_ptr + following)
    tl.store(dweight_ptr + row * D + columns, sums, mask=columns < D)


@triton.jit
def embedding_backward_few_kernel(
    dy_ptr, index_ptr, dweight_ptr, dy_stride, T, V, D, padding, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr
):
    """As `next` and `collect` together: each program looks itself for the tokens of its row."""
    token, columns, others = tl.program_id(0), tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D), tl.arange(0, BLOCK_T)
    row = tl.load(index_ptr + token)
    tl.device_assert((row >= 0) & (row < V), "index: expected 0 to the number of rows of weight - 1")
    alike = tl.load(index_ptr + others, mask=others < T, other=-1) == row
    following = tl.min(tl.where(alike, others, T), 0)
    if (following < token) | (row == padding):
        return
    sums = tl.zeros((BLOCK_D,), tl.float32)
    while following < T:
        dy_at = dy_ptr + following.to(tl.int64) * dy_stride
        sums += tl.load(dy_at + columns, mask=columns < D, other=0.0).to(tl.float32)
        following = tl.min(tl.where(alike & (others > following), others, T), 0)
    tl.store(dweight_ptr + row * D + columns, sums, mask=columns < D)


@triton.jit
def embedding_backward_sorted_kernel(
    dy_ptr, sorted_ptr, order_ptr, dweight_ptr, dy_stride, T, V, D, padding, BLOCK_D: tl.constexpr
):
    at, columns = tl.program_id(0), tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    row = tl.load(sorted_ptr + at)
    tl.device_assert((row >= 0) & (row < V), "index: expected 0 to the number of rows of weight - 1")
    before = tl.load(sorted_ptr + at - 1, mask=at > 0, other=-1)
    if (before == row) | (row == padding):
        return
    sums, own = tl.zeros((BLOCK_D,), tl.float32), row
    while own == row:  # the next token is known before this one's gradient is there
        dy_at = dy_ptr + tl.load(order_ptr + at) * dy_stride
        at += 1
        own = tl.load(sorted_ptr + at, mask=at < T, other=-1)
        sums += tl.load(dy_at + columns, mask=columns < D, other=0.0).to(tl.float32)
    tl.store(dweight_ptr + row * D + columns, sums, mask=columns < D)


def tile(D: int) -> dict[str, int]:
    block = min(triton.next_power_of_2(D), WIDEST_BLOCK)
    return {"BLOCK_D": block, "num_warps": max(block // 512, 1)}


def gather(index, weight, padding_idx):
    y = SIGNATURE.empty_outputs(index, weight)
    if y.numel():
        rows = as_rows(weight)
        V, D = rows.shape
        options = tile(D)
        grid = index.numel(), triton.cdiv(D, options["BLOCK_D"])
        arguments = (index.contiguous(), rows, y, rows.stride(0), V, D)
        launch(embedding_gather_kernel, grid, *arguments, **options, **ASSERTING)
    return y


def atomic(dy, index, weight, padding_idx):
    V, D = weight.shape
    sums = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device)
    if dy.numel():
        rows, options = as_rows(dy), tile(D)
        grid = len(rows), triton.cdiv(D, options["BLOCK_D"])
        arguments = (rows, index.contiguous(), sums, rows.stride(0), V, D, -1 if padding_idx is None else padding_idx)
        launch(embedding_backward_atomic_kernel, grid, *arguments, **options, **ASSERTING)
    return sums.to(weight.dtype)


def collect(dy, index, weight, padding_idx):
    """Deterministic: a row adds up its tokens in their order. Tokens are compared with each other, T² times: more than some
    100,000 of them are too many for it."""
    dweight = empty_contiguous(weight)
    if not dweight.numel():
        return dweight
    launch(embedding_zeros_kernel, (triton.cdiv(dweight.numel(), 4_096),), dweight, dweight.numel(), BLOCK=4_096)
    if dy.numel():
        (V, D), T, rows, index, options = (
            weight.shape,
            index.numel(),
            as_rows(dy),
            index.contiguous(),
            tile(weight.shape[1]),
        )
        following = torch.empty(T, dtype=torch.int32, device=dy.device)
        launch(embedding_next_kernel, (triton.cdiv(T, TOKENS),), index, following, T, BLOCK_T=TOKENS)
        grid, padding = (T, triton.cdiv(D, options["BLOCK_D"])), -1 if padding_idx is None else padding_idx
        arguments = (rows, index, following, dweight, rows.stride(0), T, V, D, padding)
        launch(embedding_backward_collect_kernel, grid, *arguments, **options, **ASSERTING)
    return dweight


def by_sorting(dy, index, weight, padding_idx):
    """Deterministic: the sort is stable, and a row adds up its tokens in their order. Few tokens are not sorted."""
    dweight = empty_contiguous(weight)
    if not dweight.numel():
        return dweight
    launch(embedding_zeros_kernel, (triton.cdiv(dweight.numel(), 4_096),), dweight, dweight.numel(), BLOCK=4_096)
    if dy.numel():
        (V, D), T, rows, options = weight.shape, index.numel(), as_rows(dy), tile(weight.shape[1])
        grid, padding = (T, triton.cdiv(D, options["BLOCK_D"])), -1 if padding_idx is None else padding_idx
        if T <= FEW:
            options |= {"BLOCK_T": triton.next_power_of_2(T)}
            few = (rows, index.contiguous(), dweight, rows.stride(0), T, V, D, padding)
            launch(embedding_backward_few_kernel, grid, *few, **options, **ASSERTING)
            return dweight
        ordered = index.reshape(-1).sort(stable=True)
        arguments = (rows, ordered.values, ordered.indices, dweight, rows.stride(0), T, V, D, padding)
        launch(embedding_backward_sorted_kernel, grid, *arguments, **options, **ASSERTING)
    return dweight


FORWARD = (rung(4, "gather", gather, "one program an index and a part of its row"),)
BACKWARD = (
    rung(4, "atomic", atomic, "an atomic addition for each value", deterministic=False),
    rung(4, "collect", collect, "the first token of a row adds up all of them"),
    rung(4, "sorted", by_sorting, "tokens sorted by their rows, runs of alike ones added up"),
)
