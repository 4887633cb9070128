"""Integers come out, and there is no gradient."""

import torch
import triton
import triton.language as tl

from kernels.case import Output
from kernels.triton.launch import launch
from toys.toy import cases, normal, toy


@triton.jit
def argmax_kernel(x_ptr, index_ptr, N, BLOCK_N: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * N + columns, mask=columns < N, other=-float("inf")).to(tl.float32)
    tl.store(index_ptr + row, tl.argmax(x, 0, tie_break_left=True).to(tl.int64))


def argmax_in_triton(x):
    index = x.new_empty(len(x), dtype=torch.int64)
    if len(x):
        launch(argmax_kernel, (len(x),), x, index, x.shape[1], BLOCK_N=triton.next_power_of_2(x.shape[1]))
    return index


ARGMAX = toy(
    "argmax",
    lambda x: x.argmax(-1),
    lambda x: x.argmax(-1),
    lambda case, device: {"x": normal(case, case.shape, device=device).round()},
    lambda x: x.argmax(-1),
    argmax_in_triton,
    wrong=lambda x: x.shape[1] - 1 - x.flip(-1).argmax(-1),  # the last of several that are largest
    level=4,
    outputs=(Output("index", "int64"),),
    cases=cases((1, 1), (7, 37), (0, 5), (16, 256)),
)
