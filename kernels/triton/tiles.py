"""Level 4: a matrix cut into tiles of rows and columns, a program each."""

import torch
import triton
import triton.language as tl

from kernels.machine import multiprocessors

MANY, FEW = 2_048, 512


@triton.jit
def tile(M, N, ROWS: tl.constexpr, BLOCK_N: tl.constexpr):
    """Rows, columns and mask of this program's tile. One number says both: a grid may be long in its first dimension only."""
    # In 64 bits a division would cost each thread a hundred instructions.
    across = tl.cast(tl.cdiv(N, BLOCK_N), tl.int32)
    down, right = (tl.program_id(0) // across).to(tl.int64), (tl.program_id(0) % across).to(tl.int64)
    rows = (down * ROWS + tl.arange(0, ROWS))[:, None]
    columns = (right * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    return rows, columns, (rows < M) & (columns < N)


@triton.jit
def elements(COUNT: tl.constexpr):
    """This program's of elements in memory without gaps, so many for each program."""
    return tl.program_id(0).to(tl.int64) * COUNT + tl.arange(0, COUNT)


def elements_of(total: int, device: torch.device) -> int:
    """Elements of a program: fewer where there are few in all, so that every multiprocessor gets some. Not timed yet."""
    return MANY if total >= 4 * MANY * multiprocessors(device) else FEW


def tiles_of(M: int, N: int, elements: int) -> tuple[int, dict[str, int]]:
    """How many tiles of so many elements there are, of 32 to 1,024 columns each, or of fewer elements where there are fewer
    rows; and ROWS and BLOCK_N of one."""
    block = min(max(triton.next_power_of_2(N), 32), 1_024, elements)
    rows = min(elements // block, triton.next_power_of_2(M))
    return triton.cdiv(M, rows) * triton.cdiv(N, block), {"ROWS": rows, "BLOCK_N": block}
