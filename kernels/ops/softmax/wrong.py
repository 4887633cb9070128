"""Deliberately wrong softmaxes. The check must reject every one of them: they test the test.

Each is a mistake that people make. Those whose names begin with "gradient-" have the right output and a wrong gradient.
"""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import torch
import triton
import triton.language as tl

from kernels.cuda import Kernel, RawModule
from kernels.cuda.template import TYPES
from kernels.operation import Variant
from kernels.ops.softmax import cuda
from kernels.ops.softmax.native import SIGNATURE, softmax, softmax_backward
from kernels.ops.softmax.triton_forward import run
from kernels.registration import differentiable
from kernels.triton.launch import launch
from kernels.unsupported import needs_compiler, needs_interpreter, never


def no_largest(x):
    e = torch.exp(x.float())
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


def strides_ignored(x):
    return softmax(x.as_strided(x.shape, torch.empty(x.shape).stride()))


def diagonal_alone(dy, y):
    return (dy * y.float() * (1 - y.float())).to(y.dtype)


@triton.jit
def masked_lanes_kernel(x_ptr, y_ptr, row_stride, N, BLOCK_N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_N)
    # Lanes beyond the row hold 0: they can be the largest, and exp makes more than 0 of them.
    x = tl.load(x_ptr + row * row_stride + columns, mask=columns < N, other=0.0).to(tl.float32)
    e = tl.exp(x - tl.max(x))
    tl.store(y_ptr + row * N + columns, e / tl.sum(e), mask=columns < N)


def masked_lanes(x, y):
    M, N = x.shape
    launch(masked_lanes_kernel, (M,), x, y, x.stride(0), N, BLOCK_N=triton.next_power_of_2(N))


def edited(name: str, old: str, new: str) -> Callable:
    """A kernel of softmax.cu with one piece of its source replaced."""

    @cache
    def kernel(dtype: torch.dtype) -> Kernel:
        source = cuda.SCALAR.read_text()
        if old not in source:
            raise ValueError(f"old: {old!r} is not in {cuda.SCALAR.name} any more; this wrong kernel needs a new edit")
        expression = f"{name}<{TYPES[dtype]}>"
        module = RawModule(code=source.replace(old, new), path=cuda.SCALAR, name_expressions=(expression,))
        return module.get_function(expression)

    return partial(cuda.by_blocks, kernel)


def needs_order(case, machine):
    """A race may go well on a GPU for years; on a CPU the check chooses the order of threads."""
    return "its race need not show on a GPU" if machine.device == "cuda" else needs_compiler(case, machine)


STALE_SUM = edited("softmax_online", "part.sum * e + 1", "part.sum + 1")
HALF_A_TREE = edited("softmax_block", "half > 0", "half > 1")
RACE = edited("softmax_block", "    __syncthreads();  // the next call", "    // the next call")


def wrong(level, name, idea, forward, backward=softmax_backward, unsupported=never) -> Variant:
    return Variant(level, name, differentiable(SIGNATURE, forward, backward), idea, (Path(__file__),), unsupported)


VARIANTS = (
    wrong(1, "no-largest", "subtracts nothing, so exp overflows", no_largest),
    wrong(1, "other-dimension", "sums over the first dimension", lambda x: torch.softmax(x, 0)),
    wrong(1, "masked-rows-zero", "gives 0, not NaN, for a row of -inf", lambda x: softmax(x).nan_to_num()),
    wrong(1, "strides-ignored", "reads memory as if x were contiguous", strides_ignored),
    wrong(1, "gradient-without-sum", "the gradient forgets the sum over the row", softmax, lambda dy, y: dy * y),
    wrong(1, "gradient-diagonal", "the gradient of a sigmoid: y · (1 - y) · dy", softmax, diagonal_alone),
    wrong(4, "masked-lanes", "lanes beyond the row hold 0", partial(run, masked_lanes), unsupported=needs_interpreter),
    wrong(5, "stale-sum", "a larger value does not scale the sum so far", STALE_SUM, unsupported=needs_compiler),
    wrong(5, "half-a-tree", "ends the tree one step early", HALF_A_TREE, unsupported=needs_compiler),
    wrong(5, "race", "writes what others still read: the end of the first tree", RACE, unsupported=needs_order),
)
