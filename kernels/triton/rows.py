"""Level 4: one program for each row of matrices, which goes over the columns in blocks."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import triton

from kernels.arguments import as_rows
from kernels.triton.launch import launch


def one_program_a_row(
    kernel: Callable, matrices: Sequence[torch.Tensor], others: Sequence[torch.Tensor | None], *numbers: Any
) -> None:
    """Launches a kernel with M programs, if there are rows. Its parameters are those of `kernels.cuda.rows.one_block_a_row`,
    and BLOCK_N, how many columns it reads at once."""
    rows = [as_rows(one) for one in matrices]
    M, N = rows[0].shape
    if M:
        block = min(triton.next_power_of_2(max(N, 1)), 8_192)
        arguments = (*rows, *others, *(one.stride(0) for one in rows), N, *numbers)
        launch(kernel, (M,), *arguments, BLOCK_N=block, num_warps=max(block // 512, 1))
