"""Other ways to write a cross-entropy with its gradient in one kernel."""

_KERNEL = """
@triton.jit
def cross_entropy_kernel(x_ptr, target_ptr, count_ptr, loss_ptr, dx_ptr, N, BLOCK: tl.constexpr):
"""
_LAUNCHER = """

def cross_entropy(x, target):
    M, N = x.shape
    loss, dx = torch.empty(M, device=x.device), torch.empty_like(x)
    count = (target != -100).sum()
    cross_entropy_kernel[(M,)](x, target, count, loss, dx, N, BLOCK=1024)
    return loss, dx
"""

ACCEPTED = {
    "cross_entropy": {
        "each lane a largest value and a sum of its own; ignored rows leave": _KERNEL
        + """    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    target = tl.load(target_ptr + row)
    if target == -100:
        tl.store(loss_ptr + row, 0.0)
        for start in range(0, N, BLOCK):
            tl.store(dx_ptr + row * N + start + lanes, tl.zeros((BLOCK,), dx_ptr.dtype.element_ty), start + lanes < N)
        return
    largest_of = tl.full((BLOCK,), -3.402823466e38, tl.float32)
    sum_of = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        x = tl.load(x_ptr + row * N + start + lanes, mask=start + lanes < N, other=float("-inf")).to(tl.float32)
        apart = x - largest_of
        e = tl.exp(-tl.abs(apart))
        sum_of = tl.where(apart > 0, sum_of * e + 1, sum_of + e)
        largest_of = tl.maximum(largest_of, x)
    largest = tl.max(largest_of)
    total = tl.sum(sum_of * tl.exp(largest_of - largest))
    wrong = (target < 0) | (target >= N)
    loss = tl.log(total) + largest - largest
    if wrong:
        loss = float("nan")
    else:
        loss = tl.log(total) - (tl.load(x_ptr + row * N + target).to(tl.float32) - largest)
    tl.store(loss_ptr + row, loss)
    scale = 1.0 / tl.load(count_ptr).to(tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + lanes
        x = tl.load(x_ptr + row * N + columns, mask=columns < N, other=0.0).to(tl.float32)
        p = tl.exp(x - largest) / total
        dx = tl.where(columns == target, p - 1, p) * scale
        tl.store(dx_ptr + row * N + columns, tl.where(wrong, loss, dx), mask=columns < N)
"""
        + _LAUNCHER,
        "a row that fits is read once, others backwards the second time": """
@triton.jit
def one_block(x_ptr, target_ptr, scale_ptr, loss_ptr, dx_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    target = tl.load(target_ptr + row)
    kept = target != -100
    x = tl.load(x_ptr + row * N + columns, mask=(columns < N) & kept, other=float("-inf")).to(tl.float32)
    largest = tl.maximum(tl.max(x), -3.402823466e38)
    e = tl.exp(x - largest)
    total = tl.sum(e)
    mine = columns == target
    at = tl.sum(tl.where(mine & (columns < N), x, 0.0))
    good = tl.where((target < 0) | (target >= N), float("nan"), 1.0)
    tl.store(loss_ptr + row, tl.where(kept, (tl.log(total) - (at - largest)) * good, 0.0))
    dx = (e / total - mine.to(tl.float32)) * tl.load(scale_ptr) * good
    tl.store(dx_ptr + row * N + columns, tl.where(kept, dx, 0.0), mask=columns < N)


@triton.jit
def many_blocks(x_ptr, target_ptr, scale_ptr, loss_ptr, dx_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    target = tl.load(target_ptr + row)
    kept = target != -100
    good = (target < N) & (target >= 0)
    m, s = tl.full((), -3.402823466e38, tl.float32), tl.full((), 0.0, tl.float32)
    for turn in range(tl.cdiv(N, BLOCK)):
        columns = turn * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + columns, (columns < N) & kept, float("-inf")).to(tl.float32) * 1.0
        new = tl.maximum(m, tl.max(x, 0))
        s = s * tl.exp2((m - new) * 1.4426950408889634) + tl.sum(tl.exp2((x - new) * 1.4426950408889634), 0)
        m = new
    at = tl.load(x_ptr + row * N + target, good, float("nan")).to(tl.float32)
    tl.store(loss_ptr + row, tl.where(kept, (m - at) + tl.log(s), 0.0))
    scale = tl.load(scale_ptr) / s
    for turn in range(tl.cdiv(N, BLOCK)):
        columns = (tl.cdiv(N, BLOCK) - 1 - turn) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + columns, (columns < N) & kept, float("-inf")).to(tl.float32)
        dx = tl.exp(x - m) * scale - tl.where(columns == target, tl.load(scale_ptr), 0.0)
        tl.store(dx_ptr + row * N + columns, tl.where(kept, tl.where(good, dx, float("nan")), 0.0), columns < N)


def cross_entropy(x, target):
    M, N = x.shape
    loss = torch.empty((M,), dtype=torch.float32, device=x.device)
    dx = torch.empty_like(x)
    scale = 1 / (target != -100).sum().clamp(min=1)
    if N <= 2048:
        one_block[(M,)](x, target, scale, loss, dx, N, BLOCK=triton.next_power_of_2(N))
    else:
        many_blocks[(M,)](x, target, scale, loss, dx, N, BLOCK=2048, num_warps=8)
    return loss, dx
""",
        "differences in float64, and a gradient of its own for the target": _KERNEL
        + """    row, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    target = tl.load(target_ptr + row)
    counts = target != -100
    m, s = tl.full((), -3.402823466e38, tl.float32), tl.full((), 0.0, tl.float32)
    for start in range(0, N, BLOCK):
        x = tl.load(x_ptr + row * N + start + lanes, (start + lanes < N) & counts, float("-inf")).to(tl.float32)
        block = tl.maximum(tl.max(x), -3.402823466e38)
        part = tl.sum(tl.exp(x - block))
        if block > m:
            s = s * tl.exp(m - block) + part
            m = block
        else:
            s += part * tl.exp(block - m)
    known = (target >= 0) & (target < N)
    at = tl.load(x_ptr + row * N + target, known, float("nan")).to(tl.float64)
    largest, log = m.to(tl.float64), tl.log(s).to(tl.float64)
    tl.store(loss_ptr + row, tl.where(counts, (largest - at) + log, 0.0).to(tl.float32))
    for start in range(0, N, BLOCK):
        columns = start + lanes
        x = tl.load(x_ptr + row * N + columns, (columns < N) & counts, 0.0).to(tl.float64)
        p = tl.exp(((x - largest) - log).to(tl.float32))
        dx = tl.where(columns == target, p - 1, p) / tl.load(count_ptr)
        dx = tl.where(counts, tl.where(known, dx, float("nan")), 0.0)
        tl.store(dx_ptr + row * N + columns, dx, columns < N)
"""
        + _LAUNCHER,
        "a tile of two rows, and the targets counted by each program": """
@triton.jit
def fused(logits, targets, losses, gradients, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, ALL: tl.constexpr):
    all_targets = tl.load(targets + tl.arange(0, ALL), tl.arange(0, ALL) < M, -100)
    count = tl.sum((all_targets != -100).to(tl.int32))
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = rows < M
    target = tl.load(targets + rows, inside, -100)
    counts = target != -100
    known = (target >= 0) & (target < N)
    largest = tl.full((ROWS,), -3.402823466e38, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        mask = counts[:, None] & (columns < N)[None, :]
        x = tl.load(logits + rows[:, None] * N + columns[None, :], mask, float("-inf")).to(tl.float32)
        new = tl.maximum(largest, tl.max(x, 1))
        total = total * tl.exp(largest - new) + tl.sum(tl.exp(x - new[:, None]), 1)
        largest = new
    at = tl.load(logits + rows * N + target, known, float("nan")).to(tl.float32)
    tl.store(losses + rows, tl.where(counts, tl.log(total) - (at - largest), 0), inside)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        mask = counts[:, None] & (columns < N)[None, :]
        x = tl.load(logits + rows[:, None] * N + columns[None, :], mask, float("-inf")).to(tl.float32)
        dx = tl.exp(x - largest[:, None]) / total[:, None] - (columns[None, :] == target[:, None]).to(tl.float32)
        dx = tl.where(known[:, None], dx / count, tl.where(counts[:, None], float("nan"), 0.0))
        tl.store(gradients + rows[:, None] * N + columns[None, :], dx, inside[:, None] & (columns < N)[None, :])


def cross_entropy(x, target):
    losses = torch.empty(x.shape[0], device=x.device, dtype=torch.float32)
    gradients = torch.empty_like(x)
    M, N = x.shape
    grid = (triton.cdiv(M, 2),)
    fused[grid](x, target, losses, gradients, M, N, ROWS=2, BLOCK=512, ALL=triton.next_power_of_2(M))
    return losses, gradients
""",
    }
}
