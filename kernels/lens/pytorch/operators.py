"""The operators that a call asks of PyTorch, and the bytes they must move.

PyTorch's dispatcher is where the CPU decides: every operator passes through it before anything is computed. On a GPU an
operator is at least one kernel launch. Its bytes are counted as each distinct input tensor read once and each output
written once, which is the least it can do. A kernel that Inductor wrote counts as an operator: it is called with the
tensors that it reads and writes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from rich.table import Table
from torch.utils._python_dispatch import TorchDispatchMode

from kernels.lens.pytorch import inductor, torchscript

ALLOCATIONS = ("aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided")
VIEWS = ("aten::_unsafe_view",)  # which autograd must not know, and which its schema therefore does not call a view


@dataclass(frozen=True)
class Operator:
    """One operator: its name without namespace, such as "mul", the bytes it reads and the bytes it writes."""

    name: str
    read: int
    written: int


@dataclass(frozen=True)
class Operators:
    """The operators of one call, in order. Shows itself as a table.

    compiler: "TorchScript" or "Inductor" where it chose what is asked for, which then depends on the machine; None where
        the call's own source did, which is exact.
    """

    calls: tuple[Operator, ...]
    compiler: str | None = field(default=None, compare=False)

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
    def totals(self) -> dict[str, int]:
        """Launches and bytes, by the names of `Trace.totals`; what a launch asks of the memory system is not known."""
        return {"launches": len(self.calls), "bytes_requested": self.moved}

    @property
    def names(self) -> list[str]:
        return [call.name for call in self.calls]

    def figure(self, size: int, fewest: int):
        """Bytes read and written by operator, in multiples of `size`, as a `plotly.graph_objects.Figure`.

        A last bar shows `fewest`, the bytes that the whole operation has to move at least.
        """
        import plotly.graph_objects as go

        names = [f"{number} {call.name}" for number, call in enumerate(self.calls, 1)] + ["fewest possible"]
        read = [call.read / size for call in self.calls] + [fewest / size]
        written = [call.written / size for call in self.calls] + [0]
        bars = [
            go.Bar(
                name="read", x=read, y=names, orientation="h", marker_color=["#1957ff"] * len(self.calls) + ["#888888"]
            ),
            go.Bar(name="written", x=written, y=names, orientation="h", marker_color="#ed6f00"),
        ]
        title = {"text": "bytes read (blue) and written (orange)", "font_size": 14}
        layout = {
            "title": title,
            "barmode": "stack",
            "yaxis_autorange": "reversed",
            "xaxis_title": "bytes, in sizes of x",
            "showlegend": False,
        }
        if len(names) > 12:
            layout["height"] = 100 + 24 * len(names)  # room for every name
        return go.Figure(bars, layout)

    def __rich__(self) -> Table:
        table = Table("operator", "bytes read", "bytes written")
        for column in table.columns[1:]:
            column.justify = "right"
        for call in self.calls:
            table.add_row(call.name, f"{call.read:,}", f"{call.written:,}")
        table.add_section()
        count = f"{len(self.calls)} operator" + "s" * (len(self.calls) != 1)
        table.add_row(count, f"{self.read:,}", f"{self.written:,}")
        if self.compiler:
            table.caption = f"as {self.compiler} chose on this machine"
        return table


def operators(fn: Callable, *args: object, **kwargs: object) -> Operators:
    """Call fn(*args, **kwargs) without gradients and list the operators that it asked for.

    Views and allocations are left out: they launch nothing. Of `torch.compile`, the kernels that Inductor wrote count as
    operators, but not those that a CUDA graph replays. What TorchScript fuses counts as one where `fn` is itself scripted;
    it fuses on a GPU, from the second call on. An operator registered by this package counts as one.
    """
    recorder = Recorder()
    with torch.no_grad(), recorder, inductor.watched(recorder.generated):
        fn(*args, **kwargs)
    return recorder.operators(fn, (args, kwargs))


class Recorder(TorchDispatchMode):
    """Keeps the operators that are called inside."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Operator] = []
        self._shapes: set[tuple[int, ...]] = set()
        self._compiled = False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True  # without it, what is compiled would run as it was written

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        if not func.is_view and func._schema.name not in (*ALLOCATIONS, *VIEWS):
            name = func._schema.name.split("::")[1]
            results = {argument.name for argument in func._schema.arguments if argument.is_out}
            given = {key: value for key, value in (kwargs or {}).items() if key not in results}
            self._shapes.update(tuple(tensor.shape) for tensor in _tensors((args, kwargs, output)))
            self.calls.append(Operator(name, _bytes((args, given)), _bytes(output)))
        return output

    def generated(self, name: str, read: Sequence[torch.Tensor], written: Sequence[torch.Tensor]) -> None:
        """Keep a call of a kernel that Inductor wrote."""
        self._compiled = True
        self.calls.append(Operator(name, _bytes(read), _bytes(written)))

    def operators(self, fn: Callable, arguments: object, is_scripted: bool = False) -> Operators:
        """What was kept of a call of `fn`, with what TorchScript fused at the end. `is_scripted`: although `fn` hides it."""
        if is_scripted or isinstance(fn, (torch.jit.ScriptFunction, torch.jit.ScriptModule)):
            shapes = self._shapes.union(tuple(tensor.shape) for tensor in _tensors(arguments))
            fused = [Operator(*one) for one in torchscript.fused([call.name for call in self.calls], shapes)]
            return Operators((*self.calls, *fused), "TorchScript")
        return Operators(tuple(self.calls), "Inductor" if self._compiled else None)


def _tensors(tree: object) -> list[torch.Tensor]:
    """The distinct tensors in nested arguments."""
    leaves = torch.utils._pytree.tree_leaves(tree)
    return list({id(leaf): leaf for leaf in leaves if isinstance(leaf, torch.Tensor)}.values())


def _bytes(tree: object) -> int:
    return sum(tensor.numel() * tensor.itemsize for tensor in _tensors(tree))
