"""One module at every level that it can be brought to: each result against float64, then all timed in turns."""

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import torch
from rich import box
from rich.table import Table
from torch import nn

from kernels import tolerance
from kernels.machine import here
from kernels.measure.benchmark import device_of
from kernels.measure.race import Race
from kernels.measure.timing import spread, time_together
from kernels.modules.swap import swap
from kernels.validation import in_float64

NOT_TIMED = "right, and not timed: on a CPU kernels of levels 4 and 5 run to be looked at, not to be fast"


@dataclass(frozen=True)
class Levels(Race):
    """Times by level, the largest error of each as a ratio of what is allowed, and for those without a time the reason."""

    errors: dict[str, float] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    def __rich__(self) -> Table:
        caption = "\n".join(f"{name}: {why}" for name, why in self.left.items())
        title = f"time of one execution, {here(self.device).gpu or 'CPU'}"
        table = Table(title=title, caption=caption or None, box=box.SIMPLE_HEAD)
        for heading in ("level", "median ms", "20–80 %", "error"):
            table.add_column(heading, justify="left" if heading == "level" else "right")
        for name, time in self.times.items():
            numbers = (f"{time.median_ms:.4g}", f"{time.p20_ms:.4g}–{time.p80_ms:.4g}", f"{self.errors[name]:.2f}")
            table.add_row(name, *numbers)
        return table


@torch.no_grad()
def levels(module: nn.Module, *args: Any, compile: bool = False) -> Levels:
    """Bring a module to the levels that there are for it, compare what they return, and time those that are right.

    They are "eager", as it is; "traced" and "scripted" by TorchScript; with `compile`, which takes a while, "compiled" by
    torch.compile; and "triton" and "cuda", where `kernels.modules.swap` has put the course's modules at that level in place
    of PyTorch's. Each works on a copy of the module, without gradients. It is right where it is within the course's error
    bound (`kernels.tolerance`) of the module in float64, on these arguments and on the same ones in reverse order, since
    tracing keeps what it met. On a CPU "triton" and "cuda" are compared and not timed.

    Args:
        module: returns a tensor, or several in a tuple or dict. Without dropout, or in evaluation.
        args: what it takes.

    Returns:
        a table of the times, with `.plot()` and `.ratio(slow, fast)`; `.errors` of all that ran, and in `.left`, what
        could not be done and why, wrong results among it.

    Raises:
        TypeError: no module, or one that is compiled already.
        ValueError: two calls of the module give different results; tensors are on several devices.
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"module: got {type(module).__name__}, expected a torch.nn.Module")
    if isinstance(module, torch.jit.ScriptModule) or hasattr(module, "_orig_mod"):  # torch.compile’s
        raise TypeError(f"module: got a {type(module).__name__}, expected the module before it was compiled")
    device = device_of(module, *args)
    cases = [args, torch.utils._pytree.tree_map(_reversed, args)]
    baselines = [_leaves(copy.deepcopy(module)(*case)) for case in cases]
    again = [_leaves(copy.deepcopy(module)(*case)) for case in cases]
    for one, other in zip(chain(*baselines), chain(*again), strict=True):
        if not torch.equal(one.nan_to_num(), other.nan_to_num()):
            raise ValueError("module: two calls give different results; call module.eval() if there is dropout in it")
    exact = in_float64(module)
    references = [_leaves(exact(*torch.utils._pytree.tree_map(_double, case))) for case in cases]

    ways: dict[str, Callable[[], Callable[..., Any]]] = {
        "eager": lambda: copy.deepcopy(module),
        "traced": lambda: torch.jit.trace(copy.deepcopy(module), args, check_trace=False),
        "scripted": lambda: torch.jit.script(copy.deepcopy(module)),
    }
    if compile:
        ways["compiled"] = lambda: torch.compile(copy.deepcopy(module))
    ways |= {level: partial(_swapped, module, level) for level in ("triton", "cuda")}
    ready: dict[str, Callable[..., Any]] = {}
    errors: dict[str, float] = {}
    left: dict[str, str] = {}
    for name, way in ways.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of tracing, whose results are compared; and that TorchScript is old
                made = way()
                outputs = [_leaves(made(*case)) for case in cases]
        except Exception as error:  # compilers raise of every kind, and each is a reason
            left[name] = (str(error).strip().splitlines() or [type(error).__name__])[0]
            continue
        compared = [_compared(*of) for of in zip(outputs, references, baselines, strict=True)]
        errors[name], failure = max(compared, key=lambda one: one[0])
        if failure:
            left[name] = f"returns something else{' on other values' if not compared[0][1] else ''}: {failure}"
        elif name in ("triton", "cuda") and device == "cpu":
            left[name] = NOT_TIMED
        else:
            ready[name] = made
    calls = {name: _ignoring_data(made, args) for name, made in ready.items()}
    times, _, _ = time_together(calls, lambda seed: {}, device)
    return Levels(device, {name: spread(taken) for name, taken in times.items()}, "", errors, left)


def _swapped(module: nn.Module, level: str) -> nn.Module:
    model = copy.deepcopy(module)
    done = swap(model, level)
    for one in (own := _with_level(model)):
        one.level = level
    if not own:
        reasons = "; ".join(sorted(set(done.left.values())))
        raise ValueError(f"none of its modules is one that the course has: {reasons}")
    return model


def _with_level(model: nn.Module) -> list[Any]:
    return [one for one in model.modules() if hasattr(one, "level")]


def _ignoring_data(made: Callable[..., Any], args: tuple) -> Callable[[dict], Any]:
    return lambda data: made(*args)


def _compared(got: list, reference: list, baseline: list) -> tuple[float, str | None]:
    if len(got) != len(reference):
        return float("inf"), f"{len(got)} outputs, expected {len(reference)}"
    found = [
        tolerance.compare(a, exact, same, same.dtype) for a, exact, same in zip(got, reference, baseline, strict=True)
    ]
    return max(found, key=lambda one: one[0])


def _leaves(tree: Any) -> list[torch.Tensor]:
    return [one for one in torch.utils._pytree.tree_leaves(tree) if isinstance(one, torch.Tensor)]


def _reversed(one: Any) -> Any:
    return one.flip(tuple(range(one.dim()))) if isinstance(one, torch.Tensor) else one


def _double(one: Any) -> Any:
    return one.double() if isinstance(one, torch.Tensor) and one.is_floating_point() else one
