"""Level 4: cross-entropy in Triton, forward and backward.

online             a row is read once: by one program, some narrow ones at a time, or block by block, where each lane keeps the
                   largest value of its columns and their sum.
backward-blocks    one program a part of a row, from what the forward saved: dx is written where x is read.
"""

import triton
import triton.language as tl

from kernels import row_parts
from kernels.arguments import as_rows, empty_contiguous
from kernels.machine import multiprocessors
from kernels.ops.cross_entropy.native import SIGNATURE
from kernels.row_parts import THREADS_AT_ONCE, at_once
from kernels.rung import rung
from kernels.triton import row_tiles
from kernels.triton.launch import ASSERTING, launch
from kernels.triton.row_tiles import in_steps, row_tile
from kernels.vectors import pack_size

# The lowest finite number. A largest value starts from it and not from -inf, since -inf - -inf is NaN.
LOWEST = tl.constexpr(-3.4028234663852886e38)
WIDEST_BLOCK = 4_096
FEW = 4  # values of a thread, where each value has its thread at once


@triton.jit
def cross_entropy_kernel(
    x_ptr, target_ptr, loss_ptr, lse_ptr, x_stride, N, ignore_index, smoothing, z_loss,
    SMOOTH: tl.constexpr, Z_LOSS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """loss and lse of a row."""
    row, lanes = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK_N)
    x_ptr += row * x_stride
    target = tl.load(target_ptr + row)
    if target == ignore_index:
        tl.store(loss_ptr + row, 0.0)
        tl.store(lse_ptr + row, 0.0)
        return
    tl.device_assert((target >= 0) & (target < N), "target: expected 0 to the number of columns - 1, or ignore_index")

    # For label smoothing the sum of the logits, by how far they are from the first: a mean far from 0 would cost bits.
    first = tl.load(x_ptr).to(tl.float32)
    first = tl.where(tl.abs(first) < float("inf"), first, 0.0)
    largest_of, sum_of = tl.full((BLOCK_N,), LOWEST, tl.float32), tl.zeros((BLOCK_N,), tl.float32)
    away_of = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, N, BLOCK_N):
        inside = start + lanes < N
        x = tl.load(x_ptr + start + lanes, mask=inside, other=float("-inf"), eviction_policy="evict_last")
        x = x.to(tl.float32)
        # Either the sum so far or the new value is scaled by exp of how far they are apart, and the other by 1.
        apart = x - largest_of
        e = tl.exp(-tl.abs(apart))
        sum_of = tl.where(apart > 0, sum_of * e + 1, sum_of + e)
        largest_of = tl.maximum(largest_of, x)
        if SMOOTH:
            away_of += tl.where(inside, x - first, 0.0)
    largest = tl.max(largest_of)
    total = tl.sum(sum_of * tl.exp(largest_of - largest))
    log_sum = tl.log(total)
    lse = largest + log_sum

    loss = log_sum - (1 - smoothing) * (tl.load(x_ptr + target).to(tl.float32) - largest)
    if SMOOTH:
        loss -= smoothing * (tl.sum(away_of) / N + (first - largest))
    if Z_LOSS:
        loss += z_loss * lse * lse
    tl.store(loss_ptr + row, loss)
    tl.store(lse_ptr + row, largest.to(tl.float64) + log_sum.to(tl.float64))


@triton.jit
def cross_entropy_rows_kernel(
    x_ptr, target_ptr, loss_ptr, lse_ptr, x_stride, M, N, ignore_index, smoothing, z_loss,
    SMOOTH: tl.constexpr, Z_LOSS: tl.constexpr, STEP: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """loss and lse of rows that are asked for at once, before it is known which of them are ignored."""
    rows, columns = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK_N)[None, :]
    there, inside = rows < M, (rows < M)[:, None] & (columns < in_steps(N, STEP))
    x_ptr += rows * in_steps(x_stride, STEP)
    x = tl.load(x_ptr[:, None] + columns, mask=inside, other=float("-inf")).to(tl.float32)
    target = tl.load(target_ptr + rows, mask=there, other=ignore_index)
    kept = target != ignore_index
    right = (target >= 0) & (target < N)
    at_target = tl.load(x_ptr + target, mask=kept & right, other=0.0).to(tl.float32)

    largest = tl.maximum(tl.max(x, 1), LOWEST)
    log_sum = tl.log(tl.sum(tl.exp(x - largest[:, None]), 1))
    loss = log_sum - (1 - smoothing) * (at_target - largest)
    if SMOOTH:
        first = tl.load(x_ptr, mask=there, other=0.0).to(tl.float32)
        first = tl.where(tl.abs(first) < float("inf"), first, 0.0)
        away = tl.sum(tl.where(inside, x - first[:, None], 0.0), 1)
        loss -= smoothing * (away / N + (first - largest))
    if Z_LOSS:
        lse = largest + log_sum
        loss += z_loss * lse * lse
    tl.store(loss_ptr + rows, tl.where(kept, loss, 0.0), mask=there)
    exact = largest.to(tl.float64) + log_sum.to(tl.float64)
    tl.store(lse_ptr + rows, tl.where(kept, exact, 0.0), mask=there)
    # Last, for it waits for all warps.
    tl.device_assert(
        right | (target == ignore_index), "target: expected 0 to the number of columns - 1, or ignore_index"
    )


@triton.jit
def cross_entropy_backward_kernel(
    dloss_ptr, x_ptr, target_ptr, lse_ptr, dx_ptr, x_stride, M, N, ignore_index, smoothing, z_loss, first, classes,
    SOON: tl.constexpr, STEP: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """x and dx have N columns of the classes, from the first on. SOON: x does not wait for the targets."""
    x_stride, N = in_steps(x_stride, STEP), in_steps(N, STEP)
    rows = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    columns = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    target = tl.load(target_ptr + rows, mask=rows < M, other=ignore_index)
    dloss, exact = tl.load(dloss_ptr + rows, mask=rows < M), tl.load(lse_ptr + rows, mask=rows < M)
    kept, inside = target != ignore_index, (rows < M) & (columns < N)
    x = tl.load(x_ptr + rows * x_stride + columns, mask=inside if SOON else inside & kept, other=0.0).to(tl.float32)
    lse = exact.to(tl.float32)
    p = tl.exp(x - lse - (exact - lse.to(tl.float64)).to(tl.float32))
    wanted = tl.where(columns + first == target, 1 - smoothing, 0.0) + smoothing / classes
    dx = tl.where(kept, dloss * (p * (1 + 2 * z_loss * lse) - wanted), 0.0)
    tl.store(dx_ptr + rows * N + columns, dx, mask=inside)


def by_rows(x, target, loss, lse, ignore_index, label_smoothing, z_loss) -> None:
    """Writes loss and lse."""
    if not x.numel():
        return
    x = as_rows(x)
    M, N = x.shape
    tensors, parameters = (x, target.contiguous(), loss, lse), (N, ignore_index, label_smoothing, z_loss)
    options = {"SMOOTH": label_smoothing > 0, "Z_LOSS": z_loss > 0} | ASSERTING
    if N <= WIDEST_BLOCK:
        options |= {"STEP": pack_size(N, x)} | row_tile(M, N, x.device)
        grid = (triton.cdiv(M, options["ROWS"]),)
        launch(cross_entropy_rows_kernel, grid, *tensors, x.stride(0), M, *parameters, **options)
    else:
        options |= {"BLOCK_N": WIDEST_BLOCK, "num_warps": WIDEST_BLOCK // 512}
        launch(cross_entropy_kernel, (M,), *tensors, x.stride(0), *parameters, **options)


def online(x, target, *parameters):
    loss, lse = SIGNATURE.empty_outputs(x)
    by_rows(x, target, loss, lse, *parameters)
    return loss, lse


def by_parts(dloss, x, target, lse, dx, parameters, first: int, classes: int) -> None:
    """Writes dx of a matrix x, which has the columns of so many classes from the first on; dx may be the memory of x."""
    (M, N), tensors = x.shape, (dloss.contiguous(), x, target.contiguous(), lse.contiguous(), dx)
    block = min(triton.next_power_of_2(N), WIDEST_BLOCK)
    few = at_once(M, N, x.device)  # then a part is done soonest by many threads, else by few with many loads in flight
    soon = few or THREADS_AT_ONCE * FEW * multiprocessors(x.device) >= M * N
    rows = 1 if few else max((512 if soon else 1_024) // block, 1)
    warps = max(rows * block // (32 * FEW if soon else 512), 1)
    grid, numbers = (triton.cdiv(M, rows), triton.cdiv(N, block)), (x.stride(0), M, N, *parameters, first, classes)
    tile = {
        "SOON": soon,
        "STEP": pack_size(N, x, as_rows(dx)),
        "ROWS": rows,
        "BLOCK_N": block,
        "num_warps": min(warps, 8),
    }
    launch(cross_entropy_backward_kernel, grid, *tensors, *numbers, **tile)


def blocks(dloss, x, target, lse, *parameters):
    dx = empty_contiguous(x)
    if x.numel():
        by_parts(dloss, as_rows(x), target, lse, dx, parameters, 0, x.shape[-1])
    return dx


FORWARD = (rung(4, "online", online, "a row is read once, narrow ones some at a time", row_tiles, row_parts),)
BACKWARD = (rung(4, "backward-blocks", blocks, "parts of rows, from the saved lse", row_tiles, row_parts),)
