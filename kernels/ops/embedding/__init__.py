"""Embedding: rows of a table, picked by their numbers; backward, what comes in for a row is added up.

    y_tj = weight_ij,    dweight_ij = sum of dy_tj over the t with index_t = i,    i = index_t

for T indices into a table of V rows and D columns. A number that comes several times has several rows to add up: atomics
do so in whatever order they come, and the last bits differ from run to run. The defaults of levels 4 and 5 are
deterministic: each row of the table collects its own tokens, in the order in which they stand in `index`.
"""

from functools import partial

import torch
import torch.nn.functional as F

from kernels import levels
from kernels.operation import Case, Cost, Operation
from kernels.ops.embedding import cuda, native, triton, wrong
from kernels.ops.embedding.cases import CASES, VOCABULARY, few, make_inputs


@levels.documented
def embedding(
    index: torch.Tensor, weight: torch.Tensor, padding_idx: int | None = None, level: int | str | None = None
) -> torch.Tensor:
    """The rows of weight that index names, differentiable in weight.

    Args:
        index: int64, any shape: 0 to V - 1. Any strides.
        weight: shape (V, D), float32, float16 or bfloat16 (levels 1 to 3 also float64), on the device of index, any strides.
        padding_idx: 0 to V - 1, the number of a row that gets no gradient; None: all get theirs.

    Returns:
        shape (*index.shape, D), dtype and device of weight, contiguous at levels 4 and 5.

    Raises:
        TypeError, ValueError: naming the argument, before anything is launched. An index out of its range is one on a CPU; on
            a GPU, where a look at its values would wait for the GPU, an assertion of the kernel that names index.
    """
    return OPERATION.defaults[levels.chosen(level, weight)](index, weight, padding_idx)


def reference(index, weight, padding_idx=None):
    """The definition, in float64."""
    y = weight.double()[index]
    return y if padding_idx is None else torch.where((index == padding_idx).unsqueeze(-1), y.detach(), y)


def torch_embedding(index, weight, padding_idx=None):
    if weight.shape[1] == 0:  # see native.embedding
        return weight[index]
    return F.embedding(index, weight, padding_idx)


def backward_cost(case: Case) -> Cost:
    """Bytes: dy and the indices read once, and the whole of dweight written once. Operations: an addition an element."""
    elements, T = torch.Size(case.shape).numel(), torch.Size(case.shape[:-1]).numel()
    table = case.sizes.get("vocabulary", VOCABULARY) * case.shape[-1]
    return Cost(bytes=(elements + table) * getattr(torch, case.dtype).itemsize + 8 * T, flops=elements)


OPERATION = Operation(
    **levels.from_modules("embedding", native, triton, cuda),
    reference=reference,
    **levels.against_torch(torch_embedding),
    make_inputs=make_inputs,
    wrong=wrong.VARIANTS,
    # The indices and a row for each read, and each row written; as if no row came twice.
    cost=partial(Cost.rowwise, matrices=2, row_bytes=8, operations=0),
    backward_cost=backward_cost,
    cases=CASES,
    few=few,
)
