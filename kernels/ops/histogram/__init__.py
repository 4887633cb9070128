"""Histogram of integers: how often each comes.

    counts_b = the number of elements of x that are b,    b = 0 … bins - 1

Integers are added, so every rung gives the same bits, in whatever order its atomics come.
"""

from typing import Any

import torch

from kernels import levels
from kernels.operation import Case, Cost, Operation, Peer
from kernels.ops.histogram import cuda, native, triton, wrong
from kernels.ops.histogram.cases import BINS, CASES, make_inputs


@levels.documented
def histogram(x: torch.Tensor, bins: int, level: int | str | None = None) -> torch.Tensor:
    """How often each of 0 to bins - 1 is in x, as torch.bincount counts it.

    Args:
        x: int64, int32 or uint8, any shape and strides, of values from 0 to bins - 1.
        bins: at least 1.

    Returns:
        int64, shape (bins,), on the device of x; zeros for an x without elements.

    Raises:
        TypeError, ValueError: naming the argument, before anything is launched. A value out of its range is one on a CPU; on
            a GPU, where a look at the values would wait for the GPU, an assertion of the kernel that names x.
    """
    return OPERATION.defaults[levels.chosen(level, x)](x, bins)


def reference(x, bins):
    """The definition, by sorting: where b + 1 would be put, less where b would."""
    edges = torch.arange(bins + 1, device=x.device)
    return torch.searchsorted(x.reshape(-1).long().sort().values, edges).diff()


def torch_histogram(x, bins):
    return torch.bincount(x.reshape(-1), minlength=bins)


def torch_scatter(x, bins):
    """The same without waiting for the GPU, as bincount does to look for the largest value: a CUDA graph can have it."""
    index = x.reshape(-1).long()
    return index.new_zeros(bins).scatter_add_(0, index, torch.ones_like(index))


def cost(case: Case) -> Cost:
    """Bytes: x read once, counts written once. Operations: an addition an element."""
    elements = torch.Size(case.shape).numel()
    bins: Any = case.params.get("bins", BINS)
    return Cost(bytes=elements * getattr(torch, case.dtype).itemsize + 8 * bins, flops=elements)


OPERATION = Operation(
    **levels.from_modules("histogram", native, triton, cuda, counts="int64"),
    reference=reference,
    baseline=torch_histogram,
    peers=(*levels.torch_peers(torch_histogram), Peer("torch scatter", lambda: torch_scatter)),
    make_inputs=make_inputs,
    wrong=wrong.VARIANTS,
    cost=cost,
    cases=CASES,
)
