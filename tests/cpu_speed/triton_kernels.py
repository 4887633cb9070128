"""The same operations in Triton, for its interpreter. Sizes are multiples of the blocks."""

import triton
import triton.language as tl


@triton.jit
def vector_add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, inside) + tl.load(y_ptr + offsets, inside), inside)


@triton.jit
def transpose(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    rows, columns = tl.program_id(1) * BLOCK + lanes, tl.program_id(0) * BLOCK + lanes
    tile = tl.load(x_ptr + rows[:, None] * n + columns[None, :])
    tl.store(out_ptr + columns[:, None] * n + rows[None, :], tl.trans(tile))


@triton.jit
def layer_norm(x_ptr, weight_ptr, bias_ptr, out_ptr, eps, N: tl.constexpr):
    columns = tl.arange(0, N)
    x = tl.load(x_ptr + tl.program_id(0) * N + columns)
    centred = x - tl.sum(x) / N
    y = centred / tl.sqrt(tl.sum(centred * centred) / N + eps)
    y = y * tl.load(weight_ptr + columns) + tl.load(bias_ptr + columns)
    tl.store(out_ptr + tl.program_id(0) * N + columns, y)


@triton.jit
def softmax(x_ptr, out_ptr, N: tl.constexpr):
    columns = tl.arange(0, N)
    x = tl.load(x_ptr + tl.program_id(0) * N + columns)
    power = tl.exp(x - tl.max(x))
    tl.store(out_ptr + tl.program_id(0) * N + columns, power / tl.sum(power))


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    rows, columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, n, BLOCK_K):
        a = tl.load(a_ptr + rows[:, None] * n + start + k[None, :])
        b = tl.load(b_ptr + (start + k[:, None]) * n + columns[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], total)


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, out_ptr, s, scale, BLOCK: tl.constexpr, TILE: tl.constexpr, D: tl.constexpr):
    head, d = tl.program_id(1) * s * D, tl.arange(0, D)
    mine = head + (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None] * D + d[None, :]
    q = tl.load(q_ptr + mine) * scale
    total, out = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK, D), tl.float32)
    largest = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in range(0, s, TILE):
        theirs = head + (start + tl.arange(0, TILE))[:, None] * D + d[None, :]
        score = tl.dot(q, tl.trans(tl.load(k_ptr + theirs)))
        now = tl.maximum(largest, tl.max(score, 1))
        weight = tl.exp(score - now[:, None])
        shrink = tl.exp(largest - now)
        total = total * shrink + tl.sum(weight, 1)
        out = tl.dot(weight, tl.load(v_ptr + theirs), out * shrink[:, None])
        largest = now
    tl.store(out_ptr + mine, out / total[:, None])
