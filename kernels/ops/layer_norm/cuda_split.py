"""Level 5: the Python side of layer_norm_split.cu and layer_norm_backward_split.cu, in which several blocks share a row.

The forward has a block for each part of each row. The backward is for rows that no block, and no cluster of blocks, holds; each
thread then walks down columns of its own, whatever their alignment. Both give what they give always in the same order.
"""

from pathlib import Path

import numpy as np
import torch

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.cuda.rows import column_sums
from kernels.cuda.template import kernel
from kernels.machine import multiprocessors
from kernels.ops.layer_norm.native import Gradients
from kernels.row_parts import columns_of_part, threads_of_part
from kernels.vectors import pack_size

SPLIT, BACKWARD_SPLIT = (Path(__file__).with_name(f"layer_norm_{name}.cu") for name in ("split", "backward_split"))
HEIGHT = 8  # rows that a block has in flight


def split(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> torch.Tensor:
    """y of an x with at least one element."""
    y, rows, weight, bias = empty_contiguous(x), as_rows(x), as_columns(weight), as_columns(bias)
    M, N = rows.shape
    size, columns = pack_size(N, rows, weight, bias, y), columns_of_part(M, N, x.device)
    grid, block = (M, -(-N // columns)), (threads_of_part(columns),)
    parts = torch.empty((*grid, 2), dtype=torch.float32, device=x.device)
    kernel(SPLIT, "layer_norm_parts", x.dtype, size)(grid, block, (rows, parts, rows.stride(0), N))
    arguments = (rows, weight, bias, y, parts, rows.stride(0), N, np.float32(eps))
    kernel(SPLIT, "layer_norm_split", x.dtype, size)(grid, block, arguments)
    return y


def split_backward(dy, x, weight, bias, eps) -> Gradients:
    """The gradients of an x with at least one element."""
    dx, (dweight, dbias) = empty_contiguous(x), (None if of is None else empty_contiguous(of) for of in (weight, bias))
    dy, x, weight = as_rows(dy), as_rows(x), as_columns(weight)
    M, N = x.shape
    size, columns = pack_size(N, dy, x, weight, dx), columns_of_part(M, N, x.device)
    strides = dy.stride(0), x.stride(0)
    parts = torch.empty((M, -(-N // columns), 4), dtype=torch.float32, device=x.device)
    statistics = torch.empty((M, 4), dtype=torch.float32, device=x.device)
    write_parts = kernel(BACKWARD_SPLIT, "layer_norm_backward_parts", x.dtype, size)
    write_parts(parts.shape[:2], (threads_of_part(columns),), (dy, x, weight, parts, *strides, N))
    arguments = (parts, statistics, M, parts.shape[1], columns, N, np.float32(eps))
    kernel(BACKWARD_SPLIT, "layer_norm_backward_joined", 8)((-(-M // 8),), (32, 8), arguments)

    across = -(-N // (32 * size))
    G = min(max(HEIGHT * multiprocessors(x.device) // across, 1), -(-M // HEIGHT))
    partial = torch.empty((G, 2, N), dtype=torch.float32, device=x.device) if G > 1 else None
    tile_arguments = (dy, x, weight, statistics, dx, dweight, dbias, partial, *strides, M, N)
    kernel(BACKWARD_SPLIT, "layer_norm_backward_tiles", x.dtype, size)((across, G), (32, HEIGHT), tile_arguments)
    if partial is not None:
        column_sums(partial, dweight, dbias)
    return dx, dweight, dbias
