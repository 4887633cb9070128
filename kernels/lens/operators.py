"""The operators that a call asks of PyTorch, and the bytes they must move.

PyTorch's dispatcher is where the CPU decides: every operator passes through it before anything is computed. On a GPU an
operator is at least one kernel launch. Its bytes are counted as each distinct input tensor read once and each output
written once, which is the least it can do.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from rich.table import Table
from torch.utils._python_dispatch import TorchDispatchMode

ALLOCATIONS = ("aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided")


@dataclass(frozen=True)
class Operator:
    """One operator: its name without namespace, such as "mul", the bytes it reads and the bytes it writes."""

    name: str
    read: int
    written: int


@dataclass(frozen=True)
class Operators:
    """The operators of one call, in order. Shows itself as a table."""

    calls: tuple[Operator, ...]

    @property
    def read(self) -> int:
        return sum(call.read for call in self.calls)

    @property
    def written(self) -> int:
        return sum(call.written for call in self.calls)

    @property
    def moved(self) -> int:
        """Bytes read and written."""
        return self.read + self.written

    @property
    def names(self) -> list[str]:
        return [call.name for call in self.calls]

    def figure(self, size: int, fewest: int):
        """Bytes read and written by operator, in multiples of `size`, as a `plotly.graph_objects.Figure`.

        A last bar shows `fewest`, the bytes that the whole operation has to move at least.
        """
        import plotly.graph_objects as go

        names = [f"{number} {call.name}" for number, call in enumerate(self.calls, 1)] + ["fewest"]
        read = [call.read / size for call in self.calls] + [fewest / size]
        written = [call.written / size for call in self.calls] + [0]
        bars = [
            go.Bar(
                name="read", x=read, y=names, orientation="h", marker_color=["#1957ff"] * len(self.calls) + ["#888888"]
            ),
            go.Bar(name="written", x=written, y=names, orientation="h", marker_color="#ed6f00"),
        ]
        title = {"text": "bytes read (left) and written (right)", "font_size": 14}
        layout = {
            "title": title,
            "barmode": "stack",
            "yaxis_autorange": "reversed",
            "xaxis_title": "sizes of x",
            "showlegend": False,
        }
        return go.Figure(bars, layout)

    def __rich__(self) -> Table:
        table = Table("operator", "bytes read", "bytes written")
        for column in table.columns[1:]:
            column.justify = "right"
        for call in self.calls:
            table.add_row(call.name, f"{call.read:,}", f"{call.written:,}")
        table.add_section()
        table.add_row(f"{len(self.calls)} operators", f"{self.read:,}", f"{self.written:,}")
        return table


def operators(fn: Callable, *args: object, **kwargs: object) -> Operators:
    """Call fn(*args, **kwargs) without gradients and list the operators that it asked for.

    Views and allocations are left out: they launch nothing. What runs inside TorchScript's or Inductor's own code is not
    seen. An operator registered by this package counts as one.
    """
    recorder = _Recorder()
    with torch.no_grad(), recorder:
        fn(*args, **kwargs)
    return Operators(tuple(recorder.calls))


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Operator] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        if not func.is_view and func._schema.name not in ALLOCATIONS:
            name = func._schema.name.split("::")[1]
            self.calls.append(Operator(name, _bytes((args, kwargs)), _bytes(output)))
        return output


def _bytes(tree: object) -> int:
    """The bytes of the distinct tensors in nested arguments."""
    leaves = torch.utils._pytree.tree_leaves(tree)
    tensors = {id(leaf): leaf.numel() * leaf.itemsize for leaf in leaves if isinstance(leaf, torch.Tensor)}
    return sum(tensors.values())
