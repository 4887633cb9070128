"""The record of an operation: what it computes, at which levels, on which cases, against which peers.

The record is data. Tests, `check`, `bench`, the book's tables and the labs are all driven by it.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from kernels.arguments import checked
from kernels.case import Case, Cost, Output, few_rows
from kernels.layouts import clone_memory, lay_out
from kernels.unsupported import Reason, never

Tensors = dict[str, torch.Tensor]

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
class Variant:
    """One way to compute an operation. The order of variants within a level is its ladder, plain to best.

    Args:
        level: 1 to 5.
        name: what the rung is called within its level.
        fn: takes the operation's inputs by name and returns its outputs in order, one alone or a tuple; where the operation
            updates its inputs in place, they are its outputs, whatever it returns. Differentiable where the operation is.
        idea: the one thing that this rung does differently.
        source: the files that hold its text.
        unsupported: (case, machine) → the reason why it cannot run there, or None.
        deterministic: whether the same inputs give the same bits on one kind of GPU.
    """

    level: int
    name: str
    fn: Callable[..., Any]
    idea: str
    source: tuple[Path, ...]
    unsupported: Reason = never
    deterministic: bool = True

    @property
    def key(self) -> str:
        return f"{LEVELS[self.level - 1]}/{self.name}"

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return self.fn(*args, **kwargs)


@dataclass(frozen=True)
class Peer:
    """What a user would call instead of us. `load` imports it and returns a function of the same inputs.

    `unsupported` is as a variant's. `no_backward` is the reason why it has no gradients, or None where it has them.
    """

    name: str
    load: Callable[[], Callable[..., Any]]
    unsupported: Reason = never
    no_backward: str | None = None


@dataclass(frozen=True)
class Operation:
    """An operation of the form fn(*tensors) → tensors, at every level.

    Args:
        name: the field's own, also the folder's.
        reference: the definition, in float64. It never updates its inputs, but returns what they become.
        baseline: torch's own operator in the case's dtype: the yardstick of error. It never updates its inputs either.
        make_inputs: (case, device) → the inputs by name.
        gradients: names of the differentiable inputs; none for an operation without a gradient.
        forward: variants with the public, differentiable signature; per level the last is the default.
        backward: variants of the same signature whose forward is the default of their level and whose backward is a
            rung of its own ladder; per level the last is what the default of `forward` uses.
        wrong: deliberately wrong variants, which the check must reject.
        peers: what it is timed against.
        cost: case → the least that must be moved and computed, forward.
        backward_cost: the same for the gradients alone, given the output's; None where the backward is not timed.
        cases: by kind: "edge" (where kernels break), "model" (as models use it), "bench" (what is timed), "repeated" (where
            sums are long enough for their order to show), "huge" (more than 2^31 elements in a matrix of rows); "compiled" (for
            every target, without a GPU) where all cases would ask for too many kernels, or for too few; "counted" (beside
            a case of each dtype and layout and what is timed, for rungs that launch another kernel there); "layers" (those of
            models, where only rows are drawn).
        outputs: what it returns, in order.
        updates: names of the inputs that it updates in place, which are its outputs then, in order.
        decode: (outputs by name, inputs) → the values that they stand for: for codes with scales, which are judged by what
            they decode to, in the dtype that it has; by the name of the output that the reference gives in their place.
        rounded: a second reference, exact after its inputs were quantised or pruned: the rule must hold against both.
        second_baseline: by dtype, where what torch's library rounds is its own affair, the same as a kernel has to compute it:
            a result may be as far off as the further of the two.
        few: (case, rows) → a case that asks for the same kernels with so many rows, to compile or to count them.
        validate: (every parameter) → None; raises for what no level takes.
    """

    name: str
    reference: Callable[..., Any]
    baseline: Callable[..., Any]
    make_inputs: Callable[[Case, str], dict[str, Any]]
    gradients: tuple[str, ...]
    forward: tuple[Variant, ...]
    wrong: tuple[Variant, ...]
    peers: tuple[Peer, ...]
    cost: Callable[[Case], Cost]
    cases: Mapping[str, tuple[Case, ...]]
    backward: tuple[Variant, ...] = ()
    backward_cost: Callable[[Case], Cost] | None = None
    outputs: tuple[Output, ...] = (Output(),)
    updates: tuple[str, ...] = ()
    decode: Callable[[Tensors, dict[str, Any]], Tensors] | None = None
    rounded: Callable[..., Any] | None = None
    second_baseline: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    few: Callable[[Case, int], Case] = few_rows
    validate: Callable[..., None] | None = None
    defaults: dict[int, Callable[..., Any]] = field(init=False, repr=False, compare=False)
    """The functions of the default rungs, by the number of their level, which hold their arguments to the rules first. They are
    given every parameter."""

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
        found = [variant for variant in self.forward if variant.level == number]
        if not found:
            raise KeyError(f"{self.name} has no variant of level {number}, {LEVELS[number - 1]!r}")
        return found[-1]

    def __post_init__(self) -> None:
        # At once: a property that is cached when it is first asked for takes a lock, and torch.compile meets a graph break.
        rules = dict.fromkeys((1, 2, 3), self.validate)  # the registered functions of levels 4 and 5 have them
        found = {one.level: checked(rules.get(one.level), one.fn) for one in self.forward}
        object.__setattr__(self, "defaults", found)

    def inputs(self, case: Case | None = None, device: str | None = None, **fields: object) -> dict[str, Any]:
        """The inputs by name, on `device` (the GPU where there is one), for a case or for a case's fields."""
        case = replace(case, **fields) if case else Case(**fields)
        return self.make_inputs(case, device or ("cuda" if torch.cuda.is_available() else "cpu"))

    def differentiable(self, inputs: Mapping[str, Any]) -> list[str]:
        """The names of those of the inputs that have a gradient: an input may be None."""
        return [name for name in self.gradients if isinstance(inputs[name], torch.Tensor)]

    def call(self, fn: Callable[..., Any], inputs: Mapping[str, Any]) -> Tensors:
        """The outputs of fn(**inputs) by name. Inputs that are updated in place are overwritten."""
        returned = fn(**inputs)
        if self.updates:
            returned = tuple(inputs[name] for name in self.updates)
        values = returned if isinstance(returned, (tuple, list)) else (returned,)
        if len(values) != len(self.outputs):
            names = ", ".join(output.name for output in self.outputs)
            raise ValueError(f"{self.name} returned {len(values)} outputs, expected {len(self.outputs)}: {names}")
        return {output.name: value for output, value in zip(self.outputs, values, strict=True)}

    def incoming(self, case: Case, outputs: Tensors) -> Tensors:
        """A gradient for each differentiable output, by the output's name: normal random numbers of the case's seed, in the
        output's dtype and, where it has the case's shape, in the case's layout."""
        found = {}
        for number, output in enumerate(self.outputs):
            value, dtype = outputs[output.name], output.torch_dtype(case)
            if not output.differentiable or not dtype.is_floating_point:
                continue
            random = torch.Generator(value.device).manual_seed(case.seed + 1 + number)
            dy = torch.randn(value.shape, generator=random, device=value.device).to(dtype)
            found[output.name] = lay_out(dy, case.layout if value.shape == case.shape else "contiguous")
        return found

    def results(
        self,
        fn: Callable[..., Any],
        inputs: Mapping[str, Any],
        gradients: Iterable[str] = (),
        incoming: Mapping[str, torch.Tensor] | None = None,
    ) -> Tensors:
        """The outputs of a function by name, and the gradients: "dx" of an input "x"; None where none flows.

        Args:
            inputs: by name; those that the operation updates are overwritten.
            gradients: names of the inputs whose gradients are wanted.
            incoming: gradients of the outputs by name, as `incoming` gives them.
        """
        # detach() keeps strides; a variant must meet the layout that the case asks for.
        passed = {name: v.detach() if isinstance(v, torch.Tensor) else v for name, v in inputs.items()}
        leaves = {name: passed[name].requires_grad_() for name in gradients if name not in self.updates}
        for name in gradients:
            if name in self.updates:  # a leaf cannot be updated: it is copied into the memory that is
                leaves[name] = clone_memory(passed[name]).requires_grad_()
                passed[name].copy_(leaves[name])
        outputs = self.call(fn, passed)
        found = {name: value.detach() if isinstance(value, torch.Tensor) else value for name, value in outputs.items()}
        if leaves:
            through = [name for name in incoming or () if outputs[name].requires_grad]
            taken = torch.autograd.grad(
                [outputs[name] for name in through],
                list(leaves.values()),
                [incoming[name] for name in through],
                allow_unused=True,
            )
            found |= {f"d{name}": gradient for name, gradient in zip(leaves, taken, strict=True)}
        return found


def operations() -> tuple[str, ...]:
    """The names of all operations."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).with_name("ops"))])))


def operation(name: str) -> Operation:
    """The record of the operation called `name`."""
    if name not in operations():
        raise ValueError(f"name: there is no operation {name!r}; there are {', '.join(operations())}")
    return importlib.import_module(f"kernels.ops.{name}").OPERATION
