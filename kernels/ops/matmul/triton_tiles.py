"""Level 4: a tile of a matrix product for each program, which reads matrices of any strides by pointers."""

import triton
import triton.language as tl

from kernels.triton.launch import launch

ROOT_HALF = tl.constexpr(0.7071067811865476)
ROOT_OF_2_PI = tl.constexpr(2.5066282746310002)


@triton.jit
def epilogue(h, bias_ptr, dy_ptr, rows, columns, inside, N, GELU: tl.constexpr):
    """What is made of a tile of x @ w: with the bias and through the activation; with a dy its gradient before those."""
    if bias_ptr is not None:
        h += tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    if GELU:
        normal = 0.5 * (1.0 + tl.erf(h * ROOT_HALF))
        if dy_ptr is None:
            h *= normal
        else:
            h = normal + h * tl.exp(-0.5 * h * h) / ROOT_OF_2_PI
    if dy_ptr is not None:
        h *= tl.load(dy_ptr + rows * N + columns, mask=inside, other=0.0).to(tl.float32)
    return h


@triton.jit
def tile_of(number, M, N, GROUP_M: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """The place of a tile, in tiles: GROUP_M of them below each other, then the column to the right of them, and so on."""
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    group_tiles = GROUP_M * tiles_n
    first = number // group_tiles * GROUP_M
    height = tl.minimum(tiles_m - first, GROUP_M)
    return first + number % group_tiles % height, number % group_tiles // height


@triton.jit
def matmul_tiles_kernel(
    x_ptr, w_ptr, bias_ptr, dy_ptr, y_ptr, M, N, K, x_batch, x_row, x_column, w_batch, w_row, w_column,
    GELU: tl.constexpr, GROUP_M: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    tile_m, tile_n = tile_of(tl.program_id(0), M, N, GROUP_M, BLOCK_M, BLOCK_N)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)

    batch = tl.program_id(1).to(tl.int64)
    # Rows beyond the matrix read those at its start: what they give is not stored.
    x_ptr += batch * x_batch + (rows % M).to(tl.int64)[:, None] * x_row
    x_ptr += depth.to(tl.int64)[None, :] * x_column
    w_ptr += batch * w_batch + (columns % N).to(tl.int64)[None, :] * w_column
    w_ptr += depth.to(tl.int64)[:, None] * w_row
    # Pointers move on, so that the loop works out no offsets of 64 bits.
    step = tl.full((), BLOCK_K, tl.int64)
    y = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in tl.range(0, K, BLOCK_K, num_stages=STAGES):
        x = tl.load(x_ptr, mask=depth[None, :] < K - k, other=0.0)
        w = tl.load(w_ptr, mask=depth[:, None] < K - k, other=0.0)
        y = tl.dot(x, w, y, input_precision="ieee")
        x_ptr += step * x_column
        w_ptr += step * w_row

    rows, columns = rows.to(tl.int64)[:, None], columns[None, :]
    inside = (rows < M) & (columns < N)
    if dy_ptr is not None:
        dy_ptr += batch * M * N
    y = epilogue(y, bias_ptr, dy_ptr, rows, columns, inside, N, GELU)
    tl.store(y_ptr + batch * M * N + rows * N + columns, y, mask=inside)


def multiply(tile, x, w, y, bias, dy, activation) -> None:
    B, M, K = x.shape
    N = w.shape[2]
    tile = tile(M, N, K, x.itemsize)
    # A batch of one may have any stride, and one matrix for all of a batch has the stride 0.
    strides = (
        x.stride(0) if B > 1 else 0,
        x.stride(1),
        x.stride(2),
        w.stride(0) if B > 1 else 0,
        w.stride(1),
        w.stride(2),
    )
    if any(stride % 16 and stride != 1 for stride in (*x.stride()[1:], *w.stride()[1:])):
        # Lines that begin anywhere are no vectors: with an address for each element, less fits the registers.
        tile |= {"BLOCK_N": min(tile["BLOCK_N"], 128), "BLOCK_K": min(tile["BLOCK_K"], 32)}
    grid = triton.cdiv(M, tile["BLOCK_M"]) * triton.cdiv(N, tile["BLOCK_N"]), B
    bias = None if bias is None else bias.contiguous()
    dy = None if dy is None else dy.contiguous()
    launch(matmul_tiles_kernel, grid, x, w, bias, dy, y, M, N, K, *strides, GELU=activation == "gelu", **tile)


def side(n: int, most: int) -> int:
    """Of a tile, for n rows or columns: a power of two of at least 16, as tl.dot wants it."""
    return max(min(triton.next_power_of_2(n), most), 16)


def plain_tile(M: int, N: int, K: int, itemsize: int, group: int = 1) -> dict[str, int]:
    sides = {"BLOCK_M": side(M, 64), "BLOCK_N": side(N, 64), "BLOCK_K": side(K, 32)}
    return {"GROUP_M": group, **sides, "STAGES": 1, "num_warps": 4}


def large_tile(M: int, N: int, K: int, itemsize: int) -> dict[str, int]:
    """128×256 values of y in the registers of 8 warps; float32 takes twice the room, and its products many instructions."""
    if itemsize == 4 or M <= 64 or N <= 64:
        return plain_tile(M, N, K, itemsize, group=8) | {"STAGES": 3}
    sides = {"BLOCK_M": side(M, 128), "BLOCK_N": side(N, 256), "BLOCK_K": side(K, 64)}
    return {"GROUP_M": 8, **sides, "STAGES": 3, "num_warps": 8}
