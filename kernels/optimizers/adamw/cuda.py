"""Level 5: the Python side of adamw.cu."""

from pathlib import Path

import numpy as np
import torch

from kernels.cuda.template import kernel
from kernels.operation import Variant
from kernels.optimizers.adamw.native import Step, Tensors
from kernels.unsupported import needs_compiler

FILE = Path(__file__).with_name("adamw.cu")
THREADS, PIECE = 256, 4_096
MOST = 64  # sets of parameters whose tables are kept
Columns = tuple[tuple[int, ...], ...]  # of each parameter: addresses of it, its gradient, m and v, and its elements


def each(parameters: Tensors, gradients: Tensors, ms: Tensors, vs: Tensors, step: Step) -> None:
    for p, g, m, v in zip(parameters, gradients, ms, vs, strict=True):
        if n := p.numel():
            arguments = (p, g, m, v, n, *map(np.float32, step))
            kernel(FILE, "adamw_each", p.dtype)((-(-n // THREADS),), (THREADS,), arguments)


class All:
    """Updates all parameters by one launch. Where they are is told to the GPU by tables, which are made again only when one
    has moved: gradients, say, that were set to None."""

    def __init__(self) -> None:
        self.known: dict[Columns, tuple[torch.Tensor, ...]] = {}

    def tables(self, columns: Columns, device: torch.device) -> tuple[torch.Tensor, ...]:
        if columns not in self.known:
            if len(self.known) >= MOST:
                self.known.clear()
            pieces = [(i, piece) for i, (*_, n) in enumerate(columns) for piece in range(-(-n // PIECE))]
            block_table = torch.tensor(pieces, dtype=torch.int32).T.contiguous().to(device)
            self.known[columns] = torch.tensor(columns, dtype=torch.int64).to(device), block_table[0], block_table[1]
        return self.known[columns]

    def __call__(self, parameters: Tensors, gradients: Tensors, ms: Tensors, vs: Tensors, step: Step) -> None:
        every = [tensors for tensors in zip(parameters, gradients, ms, vs, strict=True) if tensors[0].numel()]
        if every:
            columns = tuple((*(one.data_ptr() for one in tensors), tensors[0].numel()) for tensors in every)
            tables = self.tables(columns, every[0][0].device)
            arguments = (*tables, *map(np.float32, step))
            kernel(FILE, "adamw_all", every[0][0].dtype, PIECE)((len(tables[1]),), (THREADS,), arguments)


SOURCE = (FILE, Path(__file__))
UPDATES = (
    Variant(5, "each", each, "one kernel a parameter", SOURCE, needs_compiler),
    Variant(5, "all", All(), "all parameters by one kernel", SOURCE, needs_compiler),
)
