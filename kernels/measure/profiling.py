"""Where a model's time goes, module by module, with what each asks of the device: launches, bytes and FLOPs."""

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from rich import box
from rich.table import Table
from torch import nn
from torch.utils.flop_counter import flop_registry
from torch.utils.hooks import RemovableHandle

from kernels.figures import Picture
from kernels.lens.pytorch.operators import Operator, Recorder
from kernels.machine import here
from kernels.measure.benchmark import device_of

TIMED = 10  # calls whose median is each module's time
ATEN = torch.ops.aten
LIKE = {ATEN._scaled_dot_product_flash_attention_for_cpu: ATEN._scaled_dot_product_flash_attention}
"""Operators that PyTorch counts no FLOPs of, and others that do as many."""


@dataclass(frozen=True)
class Module:
    """What a module does itself, without the modules in it, during one call of the model.

    Args:
        name: as `named_modules` has it; "" is the model.
        kind: its class.
        calls: how often it is called; 0 for one that the model calls otherwise than as a function, such as by its weight.
        ms: milliseconds in all its calls: on a GPU between events on its stream, waiting for launches included, on a CPU by
            the clock. Hooks take part in it: a model of many small modules is faster without them.
        launches: operators that launch a kernel, at least.
        bytes: that these operators read and write at least.
        flops: of products, convolutions and attention, as PyTorch counts them: two for a multiplication and addition, and
            all scores of attention, also those that a mask leaves out.
        operators: their names, and how often each is called.
    """

    name: str
    kind: str
    calls: int
    ms: float
    launches: int
    bytes: int
    flops: int
    operators: dict[str, int]


@dataclass(frozen=True)
class Profile:
    """A call of a model, divided among its modules so that they add up to the whole. Shows itself as a table."""

    device: str
    modules: tuple[Module, ...]

    def __getitem__(self, name: str) -> Module:
        """A module by its name, such as "blocks.0.mlp"; "" is the model."""
        for module in self.modules:
            if module.name == name:
                return module
        raise KeyError(f"name: got {name!r}, expected one of {', '.join(repr(one.name) for one in self.modules)}")

    def total(self, what: str) -> float:
        """ "ms", "launches", "bytes" or "flops" of the whole model."""
        return sum(getattr(module, what) for module in self.modules)

    def plot(self) -> Picture:
        """Milliseconds by module, in the model's order, those that take the longest first where there are many."""
        import plotly.graph_objects as go

        longest = sorted(self.modules, key=lambda module: -module.ms)[:20]
        shown = [module for module in self.modules if module in longest]
        texts = [f"{module.launches} launches" for module in shown]
        bars = go.Bar(x=[one.ms for one in shown], y=[_said(one) for one in shown], text=texts, orientation="h")
        layout: dict[str, Any] = {"xaxis": {"title": "ms", "rangemode": "tozero"}, "yaxis": {"autorange": "reversed"}}
        layout["height"] = 120 + 24 * len(shown)
        most = ", ".join(f"{_said(one)} {one.ms:.3g} ms" for one in longest[:3])
        return Picture(go.Figure(bars, layout), f"Time by module, without the modules in it; the longest: {most}.")

    def __rich__(self) -> Table:
        table = Table(title=f"one call, {here(self.device).gpu or 'CPU'}", box=box.SIMPLE_HEAD)
        for heading in ("module", "calls", "ms", "launches", "kB", "MFLOP"):
            table.add_column(heading, justify="left" if heading == "module" else "right")
        for one in self.modules:
            if one.launches or one.ms >= self.total("ms") / 100:
                numbers = (f"{one.launches}", f"{one.bytes / 1e3:,.1f}", f"{one.flops / 1e6:,.2f}")
                table.add_row(_said(one), str(one.calls), f"{one.ms:.3g}", *numbers)
        table.add_section()
        whole = (
            f"{self.total('launches')}",
            f"{self.total('bytes') / 1e3:,.1f}",
            f"{self.total('flops') / 1e6:,.2f}",
        )
        table.add_row("in all", "", f"{self.total('ms'):.3g}", *whole)
        return table

    def _repr_mimebundle_(self, **kwargs: object) -> dict:
        return self.__rich__()._repr_mimebundle_(include=(), exclude=())


@torch.no_grad()
def profile_model(model: nn.Module, *args: Any) -> Profile:
    """Call a model without gradients, and divide its time, launches, bytes and FLOPs among its modules.

    A module that stands in several places is one, under its first name. Counts are of one call; times are the median of
    several. `kernels.measure.benchmark(model, *args)` times the whole without the hooks, and PyTorch's own encoder layers
    then take one operator for all that they do, which they do not with hooks.

    Raises:
        TypeError: no module; or one that a compiler has made, which does not call its modules one by one.
        ValueError: the model and its arguments are on several devices.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: got {type(model).__name__}, expected a torch.nn.Module")
    if isinstance(model, torch.jit.ScriptModule) or hasattr(model, "_orig_mod"):  # torch.compile’s
        raise TypeError(f"model: got a {type(model).__name__}, expected the module before it was compiled")
    device = device_of(model, *args)
    names = {module: name for name, module in model.named_modules()}
    model(*args)  # compilers and caches warm up
    counts = _Counted(names)
    with _hooks(names, counts.entered, counts.left), counts:
        model(*args)
    clocks = [_Clock(names, device) for _ in range(TIMED)]
    for clock in clocks:
        with _hooks(names, clock.entered, clock.left):
            model(*args)
        clock.finish()
    found = []
    for module, name in names.items():
        operators = counts.operators_of[name]
        found.append(
            Module(
                name,
                type(module).__name__,
                counts.called[name],
                statistics.median(clock.own[name] for clock in clocks),
                len(operators),
                sum(one.read + one.written for one in operators),
                counts.flops[name],
                dict(Counter(one.name for one in operators)),
            )
        )
    return Profile(device, tuple(found))


class _Counted(Recorder):
    """Gives each operator to the module that is running: the one that was entered last."""

    def __init__(self, names: dict[nn.Module, str]) -> None:
        super().__init__()
        self.names, self.running = names, [""]
        self.called: Counter[str] = Counter()
        self.flops: Counter[str] = Counter()
        self.operators_of: dict[str, list[Operator]] = {name: [] for name in names.values()}

    def entered(self, module: nn.Module, args: Any) -> None:
        self.running.append(self.names[module])
        self.called[self.running[-1]] += 1

    def left(self, module: nn.Module, args: Any, output: Any) -> None:
        self.running.pop()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        before = len(self.calls)
        output = super().__torch_dispatch__(func, types, args, kwargs)
        self.operators_of[self.running[-1]] += self.calls[before:]
        if count := flop_registry.get(LIKE.get(func._overloadpacket, func._overloadpacket)):
            self.flops[self.running[-1]] += int(count(*args, **(kwargs or {}), out_val=output))
        return output


class _Clock:
    """Milliseconds that each module takes itself: from entering to leaving, less those of the modules that it calls."""

    def __init__(self, names: dict[nn.Module, str], device: str) -> None:
        self.names, self.device = names, device
        self.marks: list[tuple[str, bool, Any]] = []
        self.own = dict.fromkeys(names.values(), 0.0)

    def entered(self, module: nn.Module, args: Any) -> None:
        self._mark(self.names[module], True)

    def left(self, module: nn.Module, args: Any, output: Any) -> None:
        self._mark(self.names[module], False)

    def _mark(self, name: str, enters: bool) -> None:
        if self.device == "cuda":
            mark: Any = torch.cuda.Event(enable_timing=True)
            mark.record()
        else:
            mark = time.perf_counter()
        self.marks.append((name, enters, mark))

    def finish(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()
        running: list[str] = []
        for number, (name, enters, mark) in enumerate(self.marks):
            if running:  # what has passed since the last mark was the running module's
                last = self.marks[number - 1][2]
                self.own[running[-1]] += last.elapsed_time(mark) if self.device == "cuda" else (mark - last) * 1e3
            if enters:
                running.append(name)
            else:
                running.pop()


@contextmanager
def _hooks(modules: dict[nn.Module, str], entered: Callable, left: Callable) -> Iterator[None]:
    """Told before and after each call of a module, before and after the hooks that it has."""
    handles: Sequence[RemovableHandle] = [
        handle
        for module in modules
        for handle in (
            module.register_forward_pre_hook(entered, prepend=True),
            module.register_forward_hook(left, always_call=True),
        )
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _said(module: Module) -> str:
    return f"{module.name} ({module.kind})" if module.name else f"the model ({module.kind})"
