"""One function timed, and several of any kind side by side: what needs no operation's record."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from kernels.machine import here
from kernels.measure.compare import compare
from kernels.measure.race import Race, agree, race
from kernels.measure.timing import Spread, spread, time_together


@dataclass(frozen=True)
class Benchmark(Spread):
    """Milliseconds of one call, on `device`, of `repeat` that were timed: the median, and the 20th and 80th percentiles."""

    device: str
    repeat: int

    def __repr__(self) -> str:
        where = here(self.device).gpu or "a CPU"
        percentiles = f"20–80 %: {self.p20_ms:.4g}–{self.p80_ms:.4g}"
        return f"{self.median_ms:.4g} ms on {where} ({percentiles}; {self.repeat} calls)"


def benchmark(fn: Callable[..., Any], *args: Any, warmup: int = 5, repeat: int = 30) -> Benchmark:
    """Time fn(*args), as `kernels.measure.timing` does: on a GPU by events and from a cold L2 cache, on a CPU with one thread.

    Args:
        fn: a function or a module. It is called as it is: within torch.no_grad() unless gradients are meant to be kept.
        args: what it takes. Where their tensors or the module's parameters are decides the device; without any, it is
            the GPU where there is one.
        warmup: calls before the clock starts: compilers, caches and clocks warm up in them.
        repeat: calls that are timed, at least 2.

    Raises:
        TypeError: fn cannot be called.
        ValueError: warmup or repeat is too small; tensors are on several devices.
    """
    if not callable(fn):
        raise TypeError(f"fn: got {type(fn).__name__}, expected a function or a module")
    for name, value, least in (("warmup", warmup, 0), ("repeat", repeat, 2)):
        if not isinstance(value, int) or value < least:
            raise ValueError(f"{name}: got {value!r}, expected an integer of at least {least}")
    device = device_of(fn, *args)
    calls = {"fn": lambda data: fn(*args)}
    times, _, _ = time_together(calls, lambda seed: {}, device, rounds=1, calls=repeat, warmup=warmup)
    taken = spread(times["fn"])
    return Benchmark(taken.median_ms, taken.p20_ms, taken.p80_ms, device, repeat)


@compare.register(Mapping)
def compare_functions(  # type: ignore[misc]
    functions: Mapping[str, Callable[..., Any]], *args: Any
) -> Race:
    """Time several functions of the same arguments in turns. What they return is compared before any of them is timed.

    Args:
        functions: by name; at least two. The first is what the others are held against.
        args: what each of them takes.

    Returns:
        a table of the times, with `.plot()` and `.ratio(slow, fast)`.

    Raises:
        ArithmeticError: one returns something else than the first, within float32's usual tolerance; it is named.
        ValueError: there are fewer than two; one writes to its arguments, so that the others would get different ones.
    """
    if len(functions) < 2:
        raise ValueError(f"functions: got {len(functions)}, expected at least two by name")
    for name, fn in functions.items():
        if not callable(fn):
            raise TypeError(f"functions: {name} is {type(fn).__name__}, expected a function or a module")
    device = device_of(*functions.values(), *args)
    outputs = {}
    for name, fn in functions.items():
        before = [_version(one) for one in tensors(args)]
        outputs[name] = fn(*args)
        if before != [_version(one) for one in tensors(args)]:
            raise ValueError(f"functions: {name} writes to its arguments; let it work on a copy")
    agree(outputs)
    return race({name: partial(fn, *args) for name, fn in functions.items()}, device)


def device_of(*of: Any) -> str:
    """ "cpu" or "cuda", by where the tensors among arguments, and the parameters of modules, are.

    ValueError: they are on several devices.
    """
    modules = [one for one in of if isinstance(one, nn.Module)]
    states = [tensor for one in modules for tensor in (*one.parameters(), *one.buffers())]
    found = sorted({tensor.device.type for tensor in (*tensors(of), *states)})
    if len(found) > 1:
        raise ValueError(f"args: tensors and modules are on {' and '.join(found)}, expected one device")
    return here(found[0] if found else None).device


def tensors(tree: Any) -> Iterator[torch.Tensor]:
    """The tensors in nested arguments."""
    return (leaf for leaf in torch.utils._pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor))


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version
