"""Segment reduction: the sum, or the mean, of the rows of each segment of a matrix.

    y_s = sum over t from offsets_s to offsets_(s+1) - 1 of x_t,    dx_t = dy_s, of the segment s that t is in

for T rows and D columns in S segments, which lie one behind the other as the rows of a sparse matrix do in CSR: graphs of a
batch, neighbours of a node, tokens of a document. Lengths differ, and a warp that owns a segment works as long as its segment
is. The defaults of levels 4 and 5 divide the rows evenly instead, and add up afterwards what the parts have of a segment that
goes over their ends (Merrill and Garland 2016, "Merge-based parallel sparse matrix-vector multiplication"). Additions come in a
fixed order: the same bits every time.
"""

import torch

from kernels import levels
from kernels.operation import Case, Cost, Operation
from kernels.ops.segment_reduce import cuda, native, triton, wrong
from kernels.ops.segment_reduce.cases import CASES, SEGMENTS, few, make_inputs


@levels.documented
def segment_reduce(
    x: torch.Tensor, offsets: torch.Tensor, mean: bool = False, level: int | str | None = None
) -> torch.Tensor:
    """The sum of the rows of each segment, or their mean, differentiable in x; of a segment without rows 0.

    Args:
        x: shape (T, D), float32, float16 or bfloat16 (levels 1 to 3 also float64), any strides.
        offsets: int64, shape (S + 1,), on the device of x: segment s has the rows from offsets[s] to offsets[s + 1] - 1. They
            begin with 0, never fall, and end with T.
        mean: whether each sum is divided by the number of its rows.

    Returns:
        shape (S, D), dtype and device of x, contiguous.

    Raises:
        TypeError, ValueError: naming the argument, before anything is launched. Offsets that fall or do not end with T are one
            on a CPU; on a GPU, where a look at their values would wait for the GPU, an assertion of the kernel that names them.
    """
    return OPERATION.defaults[levels.chosen(level, x)](x, offsets, mean)


def reference(x, offsets, mean=False):
    """The definition, in float64."""
    begins, ends = offsets[:-1].tolist(), offsets[1:].tolist()
    rows = [x[begin:end].double() for begin, end in zip(begins, ends, strict=True)]
    sums = [one.sum(0) / (max(len(one), 1) if mean else 1) for one in rows]
    return torch.stack(sums) if sums else x.new_zeros((0, x.shape[1]), dtype=torch.float64)


def torch_segment_reduce(x, offsets, mean=False):
    """PyTorch's own, of float32: its own sum of a half type is rounded at every row."""
    if not x.numel() or len(offsets) == 1:
        return x.float().sum(0).to(x.dtype).expand(len(offsets) - 1, -1).clone()
    y = torch.segment_reduce(x.float().contiguous(), "sum", offsets=offsets, axis=0, unsafe=True)
    return (y / offsets.diff().clamp(min=1)[:, None] if mean else y).to(x.dtype)


def segments(case: Case) -> int:
    return case.sizes.get("segments", SEGMENTS)


def cost(case: Case) -> Cost:
    """Bytes: x and the offsets read once, the sums written once. Operations: an addition an element."""
    (T, D), S = case.shape, segments(case)
    return Cost(bytes=(T + S) * D * getattr(torch, case.dtype).itemsize + 8 * (S + 1), flops=T * D)


def backward_cost(case: Case) -> Cost:
    """Bytes: dy and the offsets read once, dx written once."""
    return Cost(bytes=cost(case).bytes, flops=0)


OPERATION = Operation(
    **levels.from_modules("segment_reduce", native, triton, cuda),
    reference=reference,
    **levels.against_torch(torch_segment_reduce),
    make_inputs=make_inputs,
    wrong=wrong.VARIANTS,
    cost=cost,
    backward_cost=backward_cost,
    cases=CASES,
    few=few,
)
