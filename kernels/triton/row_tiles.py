"""How many rows a Triton program keeps in registers, and by how many warps, by what layer norm took on an H100
(book/results/tried/layer_norm_tiles.json)."""

import torch
import triton
import triton.language as tl

from kernels.row_parts import VALUES_AT_ONCE, at_once

NARROW = 1_024


@triton.jit
def in_steps(number, STEP: tl.constexpr):
    """A multiple of STEP, a power of two, as one that the compiler knows to be: of a number that a launch passes it knows a
    multiple of 16 alone. Rows whose stride and width are such have vectors of STEP values for one instruction to load (what
    that is worth: book/results/tried/even_widths.json)."""
    return number // STEP * STEP


def row_warps(M: int, N: int, device: torch.device, values: int = 64) -> int:
    """Warps of a program that keeps one of M rows of N: 16 values a thread where all rows are there at once, else so many;
    64 are enough loads in flight, and few enough warps that their partial sums meet quickly."""
    values = VALUES_AT_ONCE if at_once(M, N, device) else values
    return min(max(triton.next_power_of_2(N) // (32 * values), 1), 16)


def narrow_tile(N: int) -> dict[str, int]:
    """ROWS, BLOCK_N and warps of a program that keeps several of many rows of N."""
    block = triton.next_power_of_2(N)
    return {"ROWS": max(512 // block, 4), "BLOCK_N": block, "num_warps": max(block // 256, 1)}


def row_tile(M: int, N: int, device: torch.device) -> dict[str, int]:
    """The same of M rows of N: several narrow rows, unless all of them are there at once."""
    if N <= NARROW and not at_once(M, N, device):
        return narrow_tile(N)
    return {"ROWS": 1, "BLOCK_N": triton.next_power_of_2(N), "num_warps": row_warps(M, N, device)}
