"""bfloat16 in Triton's interpreter."""

import pytest
import torch
import triton
import triton.language as tl

from kernels.machine import interpreting
from kernels.triton.launch import launch

pytestmark = pytest.mark.skipif(not interpreting(), reason="Triton is the compiler here")


@triton.jit
def scale_kernel(x_ptr, y_ptr, row_stride, N, BLOCK_N: tl.constexpr):
    columns = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + tl.program_id(0) * row_stride + columns, mask=columns < N)
    tl.store(y_ptr + tl.program_id(0) * N + columns, x.to(tl.float32) * 1.1, mask=columns < N)


def expected(x: torch.Tensor) -> torch.Tensor:
    return (x.float() * 1.1).bfloat16()


@pytest.mark.parametrize("layout", ["contiguous", "strided", "expanded"])
def test_bfloat16_is_right_in_the_interpreter(layout):
    memory = torch.randn(3, 8, generator=torch.Generator().manual_seed(0)).bfloat16()
    x = {"contiguous": memory[:, :5].contiguous(), "strided": memory[:, 2:7], "expanded": memory[:1, :5].expand(3, 5)}[
        layout
    ]
    before = memory.clone()
    y = torch.full((3, 5), float("nan"), dtype=torch.bfloat16)
    launch(scale_kernel, (3,), x, y, x.stride(0), 5, BLOCK_N=8)
    torch.testing.assert_close(y, expected(x), rtol=0, atol=0)
    torch.testing.assert_close(memory, before, rtol=0, atol=0)


def test_without_it_the_interpreter_is_wrong():
    """The day this fails, the interpreter has learnt bfloat16 and the widening can go."""
    x = torch.randn(1, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    y = torch.zeros_like(x)
    scale_kernel[(1,)](x, y, 64, 64, BLOCK_N=64)
    assert not torch.equal(y, expected(x))
