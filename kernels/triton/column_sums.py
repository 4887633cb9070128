"""Level 4: dweight and dbias from the sums of single programs, the second kernel of every backward without atomics."""

import torch
import triton
import triton.language as tl

from kernels.arguments import empty_contiguous
from kernels.triton.launch import launch


@triton.jit
def store_partial(partials_ptr, sums, program, columns, N):
    """A program's own sums, of the rows of its tiles that met in a column; none where there is no pointer."""
    if partials_ptr is not None:
        tl.store(partials_ptr + program * N + columns, tl.sum(sums, 0)[None, :], mask=columns < N)


@triton.jit
def store_partials(dweight_ptr, dbias_ptr, dweight, dbias, program, columns, N):
    """The same for both."""
    store_partial(dweight_ptr, dweight, program, columns, N)
    store_partial(dbias_ptr, dbias, program, columns, N)


@triton.jit
def column_sums(partials_ptr, sums_ptr, programs, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    columns = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, programs, BLOCK_M):
        rows = (start + tl.arange(0, BLOCK_M)).to(tl.int64)[:, None]
        sums += tl.load(partials_ptr + rows * N + columns, mask=(rows < programs) & (columns < N), other=0.0)
    tl.store(sums_ptr + columns, tl.sum(sums, 0)[None, :], mask=columns < N)


@triton.jit
def column_sums_kernel(
    dweight_partials_ptr,
    dbias_partials_ptr,
    dweight_ptr,
    dbias_ptr,
    programs,
    N,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    if tl.program_id(1) == 0:
        if dweight_ptr is not None:
            column_sums(dweight_partials_ptr, dweight_ptr, programs, N, BLOCK_M, BLOCK_N)
    else:
        if dbias_ptr is not None:
            column_sums(dbias_partials_ptr, dbias_ptr, programs, N, BLOCK_M, BLOCK_N)


class Partials:
    """Room for the sums of each program, float32, programs×N, for dweight and for dbias; None where there is no such gradient.

    Filled by a kernel, then added up, in an order that depends on nothing but the number of programs. Where one
    program is `alone`, its sums are the gradients themselves, in their dtype.
    """

    def __init__(
        self, programs: int, weight: torch.Tensor | None, bias: torch.Tensor | None = None, alone: bool = False
    ) -> None:
        self.programs, self.alone = programs, alone
        self.of = weight, bias
        self.dweight, self.dbias = (
            None
            if tensor is None
            else tensor.new_empty((programs, tensor.numel()), dtype=tensor.dtype if alone else torch.float32)
            for tensor in (weight, bias)
        )

    def add_up(self) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        if self.alone:
            dweight, dbias = (None if sums is None else sums[0] for sums in (self.dweight, self.dbias))
            return dweight, dbias
        dweight, dbias = (None if tensor is None else empty_contiguous(tensor) for tensor in self.of)
        present = dweight if dweight is not None else dbias
        if present is not None:
            N = present.numel()
            # Few programs leave little to add up in a column: then a wider block of columns instead of a higher one.
            tile = {"BLOCK_M": 64, "BLOCK_N": 32} if self.programs > 16 else {"BLOCK_M": 8, "BLOCK_N": 256}
            arguments = (self.dweight, self.dbias, dweight, dbias, self.programs, N)
            launch(column_sums_kernel, (triton.cdiv(N, tile["BLOCK_N"]), 2), *arguments, **tile, num_warps=8)
        return dweight, dbias
