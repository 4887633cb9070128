"""The record of an operation: what it computes, at which levels, on which cases, against which peers.

The record is data. Tests, `check`, `bench`, the book's tables and the labs are all driven by it.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from kernels.machine import Machine

LEVELS = ("native", "torchscript", "compiled", "triton", "cuda")
"""The levels in order; level 1 is the first."""


def level_number(level: int | str) -> int:
    """The number, 1 to 5, of a level given by number or name."""
    if isinstance(level, str) and level in LEVELS:
        return LEVELS.index(level) + 1
    if isinstance(level, int) and not isinstance(level, bool) and 1 <= level <= len(LEVELS):
        return level
    names = ", ".join(f"{number} {name!r}" for number, name in enumerate(LEVELS, 1))
    raise ValueError(f"level: got {level!r}, expected one of {names}")


@dataclass(frozen=True)
class Case:
    """One set of inputs: enough to make the same tensors again anywhere.

    Args:
        shape: of the operation's main input.
        dtype: of the inputs, by torch's name: "float32", "float16", "bfloat16".
        layout: of the main input and of the output's gradient; see kernels.layouts.
        values: "realistic" (a mean and outliers), "offset" (a mean far larger than the spread), "constant"
            (no spread), "large", "small" or "nonfinite" (one row with a NaN, one with an infinity).
        seed: of the random numbers.
        params: the operation's own parameters, such as eps.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    layout: str = "contiguous"
    values: str = "realistic"
    seed: int = 0
    params: Mapping[str, object] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(getattr(torch, self.dtype, None), torch.dtype):
            raise ValueError(f"dtype: got {self.dtype!r}, expected torch's name of one, such as 'float32'")

    def __str__(self) -> str:
        words = ["×".join(map(str, self.shape)), self.dtype]
        words += [word for word in (self.layout, self.values) if word not in ("contiguous", "realistic")]
        words += [f"{name}={value}" for name, value in self.params.items()]
        return " ".join(words)


@dataclass(frozen=True)
class Cost:
    """The least an operation must do: bytes moved (each input read once, each output written once) and operations."""

    bytes: int
    flops: int


def always_supported(case: Case, machine: Machine) -> str | None:
    return None


@dataclass(frozen=True)
class Variant:
    """One way to compute an operation. The order of variants within a level is its ladder, plain to best.

    Args:
        level: 1 to 5.
        name: what the rung is called within its level.
        fn: takes the operation's inputs by name and returns its output; differentiable.
        idea: the one thing that this rung does differently.
        source: the files that hold its text.
        unsupported: (case, machine) → the reason why it cannot run there, or None.
    """

    level: int
    name: str
    fn: Callable[..., torch.Tensor]
    idea: str
    source: tuple[Path, ...]
    unsupported: Callable[[Case, Machine], str | None] = always_supported

    @property
    def key(self) -> str:
        return f"{LEVELS[self.level - 1]}/{self.name}"

    def __call__(self, *args: object, **kwargs: object) -> torch.Tensor:
        return self.fn(*args, **kwargs)


@dataclass(frozen=True)
class Peer:
    """What a user would call instead of us. `load` imports it and returns a function of the same inputs.

    `unsupported` is as a variant's. `no_backward` is the reason why it has no gradients, or None where it has them.
    """

    name: str
    load: Callable[[], Callable[..., torch.Tensor]]
    unsupported: Callable[[Case, Machine], str | None] = always_supported
    no_backward: str | None = None


@dataclass(frozen=True)
class Operation:
    """An operation of the form fn(*tensors) → tensor, at every level.

    Args:
        name: the field's own, also the folder's.
        reference: the definition, in float64.
        baseline: torch's own operator in the case's dtype: the yardstick of error.
        make_inputs: (case, device) → the inputs by name.
        gradients: names of the differentiable inputs.
        forward: variants with the public, differentiable signature; per level the last is the default.
        backward: variants of the same signature whose forward is the default of their level and whose backward is a
            rung of its own ladder; per level the last is what the default of `forward` uses.
        wrong: deliberately wrong variants, which the check must reject.
        peers: what it is timed against.
        cost: case → the least that must be moved and computed, forward.
        backward_cost: the same for the gradients alone, given the output's; None where the backward is not timed.
        cases: by kind: "edge" (where kernels break), "model" (as models use it), "bench" (what is timed).
    """

    name: str
    reference: Callable[..., torch.Tensor]
    baseline: Callable[..., torch.Tensor]
    make_inputs: Callable[[Case, str], dict[str, torch.Tensor]]
    gradients: tuple[str, ...]
    forward: tuple[Variant, ...]
    wrong: tuple[Variant, ...]
    peers: tuple[Peer, ...]
    cost: Callable[[Case], Cost]
    cases: Mapping[str, tuple[Case, ...]]
    backward: tuple[Variant, ...] = ()
    backward_cost: Callable[[Case], Cost] | None = None

    def __getitem__(self, key: str) -> Variant:
        """The variant called "level/name", or the default rung of a level called by name."""
        if key in LEVELS:
            return self.default(key)
        for variant in self.variants:
            if variant.key == key:
                return variant
        known = ", ".join(variant.key for variant in self.variants)
        raise KeyError(f"{self.name} has no variant {key!r}; it has {known}")

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Every rung: those of the forward ladders, then those of the backward ladders."""
        return self.forward + self.backward

    def default(self, level: int | str) -> Variant:
        """The default rung of a level: the last of its ladder."""
        number = level_number(level)
        return [variant for variant in self.forward if variant.level == number][-1]

    def inputs(self, case: Case | None = None, device: str | None = None, **fields: object) -> dict[str, torch.Tensor]:
        """The inputs by name, on `device` (the GPU where there is one), for a case or for a case's fields."""
        case = replace(case, **fields) if case else Case(**fields)
        return self.make_inputs(case, device or ("cuda" if torch.cuda.is_available() else "cpu"))


def operations() -> tuple[str, ...]:
    """The names of all operations."""
    import kernels.ops

    return tuple(sorted(module.name for module in pkgutil.iter_modules(kernels.ops.__path__)))


def operation(name: str) -> Operation:
    """The record of the operation called `name`."""
    if name not in operations():
        raise ValueError(f"name: there is no operation {name!r}; there are {', '.join(operations())}")
    return importlib.import_module(f"kernels.ops.{name}").OPERATION
