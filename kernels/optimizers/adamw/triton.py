"""Level 4: a step of AdamW in Triton, one launch a parameter."""

from pathlib import Path

import triton
import triton.language as tl

from kernels.operation import Variant
from kernels.optimizers.adamw.native import Step, Tensors
from kernels.triton.launch import launch
from kernels.unsupported import needs_interpreter

BLOCK = 2_048


@triton.jit
def adamw_kernel(p_ptr, g_ptr, m_ptr, v_ptr, n, keep, beta1, beta2, size, root, eps, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    g = tl.load(g_ptr + at, mask=inside, other=0.0).to(tl.float32)
    m = beta1 * tl.load(m_ptr + at, mask=inside, other=0.0) + (1 - beta1) * g
    v = beta2 * tl.load(v_ptr + at, mask=inside, other=0.0) + (1 - beta2) * g * g
    p = tl.load(p_ptr + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(p_ptr + at, keep * p - size * m / (tl.sqrt(v) / root + eps), mask=inside)
    tl.store(m_ptr + at, m, mask=inside)
    tl.store(v_ptr + at, v, mask=inside)


def each(parameters: Tensors, gradients: Tensors, ms: Tensors, vs: Tensors, step: Step) -> None:
    for p, g, m, v in zip(parameters, gradients, ms, vs, strict=True):
        if n := p.numel():
            launch(adamw_kernel, (triton.cdiv(n, BLOCK),), p, g, m, v, n, *step, BLOCK=BLOCK, num_warps=8)


UPDATES = (Variant(4, "each", each, "one kernel a parameter", (Path(__file__),), needs_interpreter),)
