"""A module whose launches are recorded once as a CUDA graph, and then launched together."""

from typing import Any

import torch
from torch import nn


class Graphed(nn.Module):
    """Calls `module` by replaying a CUDA graph of it, for inference; on a CPU, which has no launches, it calls the module.

    The graph is recorded at the first call, for those shapes and dtypes. Inputs are copied to where the graph reads them, and
    the output is a copy of what it writes, so that results of earlier calls stay as they are. Parameters may change in place;
    a module that was moved or whose parameters were replaced has to be graphed anew.

    Raises, when called:
        ValueError: inputs of other shapes, dtypes or devices than the first ones.
        RuntimeError: gradients are asked for.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.graph: Any = None
        self.inputs: tuple[torch.Tensor, ...] | None = None
        self.output: torch.Tensor | None = None

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled() and any(one.requires_grad for one in (*args, *self.parameters())):
            raise RuntimeError("a graph records a forward alone; call it under torch.no_grad()")
        if self.inputs is None:
            self._record(args)
        assert self.inputs is not None
        for number, (got, expected) in enumerate(zip(args, self.inputs, strict=True)):
            for what in ("shape", "dtype", "device"):
                if (given := getattr(got, what)) != (recorded := getattr(expected, what)):
                    raise ValueError(f"args[{number}]: got {what} {given}, expected {recorded}, as was recorded")
            expected.copy_(got)
        if self.graph is None:
            return self.module(*self.inputs)
        self.graph.replay()
        assert self.output is not None
        return self.output.clone()

    def _record(self, args: tuple[torch.Tensor, ...]) -> None:
        self.inputs = tuple(one.clone() for one in args)
        if not args[0].is_cuda:
            return
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # libraries set up their memory at first calls, which a graph cannot hold
            for _ in range(3):
                self.module(*self.inputs)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.output = self.module(*self.inputs)
