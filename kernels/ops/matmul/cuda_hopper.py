"""Level 5: the Python side of matmul_wgmma.cu, for Hopper GPUs.

TMA wants 16-byte aligned lines of neighbouring elements. Other matrices, batches of several, float32 and other GPUs are left
to the rung before.
"""

from pathlib import Path

from kernels import machine
from kernels.cuda.template import kernel
from kernels.cuda.tensor_map import tensor_map
from kernels.ops.matmul.products import Multiply
from kernels.ops.matmul.triton_descriptors import is_transposed

FILE = Path(__file__).with_name("matmul_wgmma.cu")
DEPTH, LINE, THREADS = 64, 64, 384  # of matmul_wgmma.cu


def tile_for(N: int) -> tuple[int, int, int]:
    """Rows, columns and stages. A warpgroup that keeps 64×256 sums reads least for its products."""
    return (128, 256, 4) if N > 128 else (128, 128, 6)


def multiply(before: Multiply, x, w, y, bias, dy, activation) -> None:
    """before: the rung that takes what this one cannot."""
    (B, M, K), N = x.shape, w.shape[2]
    x_t, w_t = is_transposed(x[0]), is_transposed(w[0])
    aligned = None not in (x_t, w_t) and all(one.data_ptr() % 16 == 0 for one in (x, w, y))
    if B > 1 or not K or x.itemsize != 2 or not aligned or not machine.has(x.device, "wgmma"):
        before(x, w, y, bias, dy, activation)
        return
    rows, columns, stages = tile_for(N)
    # Lines along K are boxes of a whole side; lines along a side are parts of it, DEPTH of them.
    x_map = tensor_map(x[0].mT if x_t else x[0], (LINE, DEPTH if x_t else rows))
    w_map = tensor_map(w[0].mT if w_t else w[0], (LINE, columns if w_t else DEPTH))
    bias, dy = (None if one is None else one.contiguous() for one in (bias, dy))
    shared_bytes = 1_024 + stages * (rows + columns) * DEPTH * x.itemsize
    options = {"options": ("-arch=sm_90a",), "shared_bytes": shared_bytes}
    finish = bias is not None, activation == "gelu", dy is not None
    launched = kernel(FILE, "matmul_wgmma", x.dtype, x_t, w_t, rows, columns, stages, *finish, **options)
    blocks = min(-(-M // rows) * -(-N // columns), machine.multiprocessors(x.device))
    launched((blocks,), (THREADS,), (x_map, w_map, bias, dy, y, M, N, K), shared_mem=shared_bytes)
