"""The kernels that learners register: they work, and know nothing of PyTorch but pointers."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.triton.launch import launch


@triton.jit
def rms_norm_kernel(x_ptr, y_ptr, N, eps, BLOCK_N: tl.constexpr):
    columns = tl.arange(0, BLOCK_N)
    places = tl.program_id(0).to(tl.int64) * N + columns
    inside = columns < N
    x = tl.load(x_ptr + places, inside, 0.0).to(tl.float32)
    rms = tl.sqrt(tl.sum(x * x) / N + eps)
    tl.store(y_ptr + places, x / rms, inside)


@triton.jit
def rms_norm_backward_kernel(dy_ptr, x_ptr, dx_ptr, N, eps, BLOCK_N: tl.constexpr):
    columns = tl.arange(0, BLOCK_N)
    places = tl.program_id(0).to(tl.int64) * N + columns
    inside = columns < N
    dy = tl.load(dy_ptr + places, inside, 0.0).to(tl.float32)
    x = tl.load(x_ptr + places, inside, 0.0).to(tl.float32)
    rms = tl.sqrt(tl.sum(x * x) / N + eps)
    n = x / rms
    dx = (dy - n * (tl.sum(dy * n) / N)) / rms
    tl.store(dx_ptr + places, dx, inside)


@triton.jit
def ema_kernel(average_ptr, value_ptr, count, decay, BLOCK: tl.constexpr):
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    average = tl.load(average_ptr + places, inside).to(tl.float32)
    value = tl.load(value_ptr + places, inside).to(tl.float32)
    average += (1 - decay) * (value - average)
    tl.store(average_ptr + places, average, inside)


def launch_forward(x: Tensor, eps: float) -> Tensor:
    """y of x / rms of its row. x: contiguous, M×N."""
    M, N = x.shape
    y = torch.empty(M, N, dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(N)
    launch(rms_norm_kernel, (M,), x, y, N, eps, BLOCK_N=block)
    return y


def launch_backward(dy: Tensor, x: Tensor, eps: float) -> Tensor:
    """The gradient of x. dy, x: contiguous, M×N."""
    M, N = x.shape
    dx = torch.empty(M, N, dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(N)
    launch(rms_norm_backward_kernel, (M,), dy, x, dx, N, eps, BLOCK_N=block)
    return dx


def launch_ema(average: Tensor, value: Tensor, decay: float) -> None:
    """average becomes decay · average + (1 - decay) · value.

    Both: contiguous, of one shape.
    """
    count = average.numel()
    grid = (triton.cdiv(count, 256),)
    launch(ema_kernel, grid, average, value, count, decay, BLOCK=256)
