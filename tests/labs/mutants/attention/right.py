"""Other ways to write a forward of attention."""

_HEAD = """
@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, y_ptr, lse_ptr, q_head, q_row, k_head, k_row, v_head, v_row, M, N, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
"""


def _launcher(grid: str, blocks: str) -> str:
    return f"""

def flash_attention(q, k, v, causal):
    (H, M, D), N = q.shape, k.shape[1]
    y = torch.empty(H, M, D, dtype=q.dtype, device=q.device)
    lse = torch.empty(H, M, device=q.device)
    strides = *q.stride()[:2], *k.stride()[:2], *v.stride()[:2]
    attention_kernel[{grid}](q, k, v, y, lse, *strides, M, N, D**-0.5, causal, D, {blocks})
    return y, lse
"""


ACCEPTED = {
    "flash_attention": {
        "exponents of 2, a number a row, blocks of 64 × 16, and the keys transposed where they are loaded": _HEAD
        + """    block, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    d, keys = tl.arange(0, D), tl.arange(0, BLOCK_N)
    q_ptr += head * q_head
    k_ptr += head * k_head
    v_ptr += head * v_head
    q = tl.load(q_ptr + rows[:, None] * q_row + d[None, :], mask=rows[:, None] < M, other=0)
    m = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    stop = N
    if CAUSAL:
        stop = tl.minimum((block + 1) * BLOCK_M + N - M, N)
    for start in range(0, stop, BLOCK_N):
        places = start + keys
        k = tl.load(k_ptr + places[None, :] * k_row + d[:, None], mask=places[None, :] < N, other=0)
        s = tl.dot(q, k, input_precision="ieee") * (scale * 1.4426950408889634)
        hidden = places[None, :] >= N
        if CAUSAL:
            hidden = hidden | (places[None, :] > rows[:, None] + N - M)
        s = tl.where(hidden, float("-inf"), s)
        new = tl.maximum(m, tl.max(s, 1))
        shift = tl.where(new == float("-inf"), 0.0, new)
        p = tl.exp2(s - shift[:, None])
        fade = tl.exp2(m - shift)
        l = l * fade + tl.sum(p, 1)
        v = tl.load(v_ptr + places[:, None] * v_row + d[None, :], mask=places[:, None] < N, other=0)
        acc = acc * fade[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = new
    y = tl.where(l[:, None] > 0, acc / l[:, None], 0.0)
    tl.store(y_ptr + (head * M + rows[:, None]) * D + d[None, :], y.to(y_ptr.dtype.element_ty), mask=rows[:, None] < M)
    lse = tl.where(l > 0, (m + tl.log2(l)) * 0.6931471805599453, float("-inf"))
    tl.store(lse_ptr + head * M + rows, lse, mask=rows < M)
"""
        + _launcher("triton.cdiv(M, 64), H", "64, 16"),
        "from the last block of keys to the first, one number for all programs, the longest walks first": _HEAD
        + """    blocks = tl.cdiv(M, BLOCK_M)
    head = (tl.program_id(0) // blocks).to(tl.int64)
    first = (blocks - 1 - tl.program_id(0) % blocks) * BLOCK_M
    rows = first + tl.arange(0, BLOCK_M)[:, None]
    d = tl.arange(0, D)[None, :]
    q = tl.load(q_ptr + head * q_head + rows * q_row + d, mask=rows < M, other=0.0).to(tl.float32) * scale
    places = rows + N - M if CAUSAL else rows * 0 + N
    end = tl.maximum(tl.minimum(first + BLOCK_M + N - M, N), 0) if CAUSAL else N
    largest = tl.full((BLOCK_M, 1), -1e30, tl.float32)
    total, y = tl.zeros((BLOCK_M, 1), tl.float32), tl.zeros((BLOCK_M, D), tl.float32)
    turns = tl.cdiv(end, BLOCK_N)
    for turn in range(turns):
        keys = (turns - 1 - turn) * BLOCK_N + tl.arange(0, BLOCK_N)
        there = keys[:, None] < N
        k = tl.load(k_ptr + head * k_head + keys[:, None] * k_row + d, mask=there, other=0.0).to(tl.float32)
        v = tl.load(v_ptr + head * v_head + keys[:, None] * v_row + d, mask=there, other=0.0).to(tl.float32)
        seen = (keys[None, :] <= places) & (keys[None, :] < N)
        s = tl.dot(q, k.T, input_precision="ieee")
        s += tl.where(seen, 0.0, float("-inf"))
        larger = tl.maximum(largest, tl.max(s, axis=1, keep_dims=True))
        fade, p = tl.exp(largest - larger), tl.exp(s - larger)
        y = tl.dot(p, v, acc=y * fade, input_precision="ieee")
        total, largest = total * fade + tl.sum(p, axis=1, keep_dims=True), larger
    some = total > 0
    tl.store(y_ptr + (head * M + rows) * D + d, y / tl.where(some, total, 1.0), mask=rows < M)
    tl.store(lse_ptr + head * M + rows, tl.where(some, largest + tl.log(total), float("-inf")), mask=rows < M)
"""
        + _launcher("triton.cdiv(M, 16) * H,", "BLOCK_M=16, BLOCK_N=64"),
        "two loops by a function, of which one is without a mask; keys beyond the end are hidden by what is loaded": """
@triton.jit
def walk(q, largest, total, y, k_tile, v_tile, k_row, v_row, rows, keys, start, end, M, N, scale,
         MASKED: tl.constexpr, CAUSAL: tl.constexpr, BLOCK: tl.constexpr):
    for at in range(start, end, BLOCK):
        if MASKED:
            k = tl.load(k_tile + at * k_row, mask=at + keys[:, None] < N)
            v = tl.load(v_tile + at * v_row, mask=at + keys[:, None] < N, other=0.0)
        else:
            k = tl.load(k_tile + at * k_row)
            v = tl.load(v_tile + at * v_row)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        if MASKED:
            s = tl.where(at + keys[None, :] < N, s, float("-inf"))
            if CAUSAL:
                s = tl.where(at + keys[None, :] <= rows + (N - M), s, float("-inf"))
        larger = tl.maximum(largest, tl.max(s, 1)[:, None])
        fade = tl.exp(largest - larger)
        p = tl.exp(s - larger)
        total *= fade
        total += tl.sum(p, 1)[:, None]
        y *= fade
        y += tl.dot(p.to(v.dtype), v, input_precision="ieee")
        largest = larger
    return largest, total, y


@triton.jit
def forward(q_ptr, k_ptr, v_ptr, y_ptr, lse_ptr, qh, qm, kh, kn, vh, vn, M, N, scale,
            CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):
    first, head = tl.program_id(1) * BLOCK, tl.program_id(0).to(tl.int64)
    rows, keys, d = first + tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK), tl.arange(0, D)[None, :]
    q = tl.load(q_ptr + head * qh + rows * qm + d, mask=rows < M, other=0.0)
    k_tile, v_tile = k_ptr + head * kh + keys[:, None] * kn + d, v_ptr + head * vh + keys[:, None] * vn + d
    largest = tl.full((BLOCK, 1), -3e38, tl.float32)
    total, y = tl.zeros((BLOCK, 1), tl.float32), tl.zeros((BLOCK, D), tl.float32)
    end, middle = N + 0, N // BLOCK * BLOCK
    if CAUSAL:
        end = tl.minimum(N, first + BLOCK + N - M)
        middle = tl.maximum(tl.minimum(N, first + 1 + N - M), 0) // BLOCK * BLOCK
    largest, total, y = walk(
        q, largest, total, y, k_tile, v_tile, kn, vn, rows, keys, 0, middle, M, N, scale, False, CAUSAL, BLOCK)
    largest, total, y = walk(
        q, largest, total, y, k_tile, v_tile, kn, vn, rows, keys, middle, end, M, N, scale, True, CAUSAL, BLOCK)
    y = tl.where(total == 0, 0.0, y / total)
    tl.store(y_ptr + head * M * D + rows * D + d, y, mask=rows < M)
    tl.store(lse_ptr + head * M + rows, tl.log(total) + largest, mask=rows < M)


def flash_attention(q, k, v, causal):
    H, M, D = q.shape
    y, lse = torch.empty((H, M, D), dtype=q.dtype, device=q.device), torch.empty((H, M), device=q.device)
    block = 16 if D == 64 else 32
    forward[(H, triton.cdiv(M, block))](
        q, k, v, y, lse, q.stride(0), q.stride(1), k.stride(0), k.stride(1), v.stride(0), v.stride(1),
        M, k.shape[1], 1 / D**0.5, CAUSAL=causal, D=D, BLOCK=block, num_warps=4, num_stages=2)
    return y, lse
""",
        "no tl.dot, and queries one after another in the state's place: D × BLOCK_M": _HEAD
        + """    head = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + head * q_head + rows[None, :] * q_row + d[:, None], rows[None, :] < M, 0.0).to(tl.float32)
    largest, total = tl.full((BLOCK_M,), -1e38, tl.float32), tl.zeros((BLOCK_M,), tl.float32)
    y = tl.zeros((D, BLOCK_M), tl.float32)
    end = tl.minimum(tl.program_id(1) * BLOCK_M + BLOCK_M, M) + N - M if CAUSAL else N
    for first in range(0, end, BLOCK_N):
        keys = first + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + head * k_head + keys[:, None] * k_row + d, keys[:, None] < N, 0.0).to(tl.float32)
        v = tl.load(v_ptr + head * v_head + keys[:, None] * v_row + d, keys[:, None] < N, 0.0).to(tl.float32)
        s = tl.sum(k[:, :, None] * q[None, :, :], 1) * scale
        limit = rows[None, :] + N - M + 1 if CAUSAL else N
        s = tl.where((keys[:, None] < limit) & (keys[:, None] < N), s, float("-inf"))
        before = largest
        largest = tl.maximum(largest, tl.max(s, 0))
        p = tl.exp(s - largest[None, :])
        fade = tl.exp(before - largest)
        total = tl.fma(total, fade, tl.sum(p, 0))
        y = y * fade[None, :] + tl.sum(p[:, None, :] * v[:, :, None], 0)
    y = y * (1.0 / tl.where(total > 0, total, float("inf")))[None, :]
    tl.store(y_ptr + (head * M + rows[None, :]) * D + d[:, None], y, rows[None, :] < M)
    tl.store(lse_ptr + head * M + rows, largest + tl.log(total), rows < M)
"""
        + _launcher("H, triton.cdiv(M, 16)", "16, 32"),
    }
}
