"""What a lab asks for, as data: exercises, the calls they are tried on, and the properties that must hold."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from kernels import call
from kernels.lens import Access, Trace

STAGES = ("runs", "compiles", "writes", "right", "costs")
UNWRITTEN: float = struct.unpack("<d", bytes.fromhex("00000000ed5ef87f"))[0]
"""What an output holds before a call: a NaN whose bits neither arithmetic nor the macro NAN gives."""
Language = Literal["cuda", "triton", "torch"]


@dataclass(frozen=True)
class Call(call.Call):
    """One call of a submission.

    args: on the CPU. An output among them is filled with NaN before the call, unless it is in `updated`.
    expected: what must be in the tensors of `args` of those names (CUDA C), or what the function must return, in order
        (Python).
    baseline: by default, the expected values rounded once to the dtype of the output among `args`.
    grid, block, shared_mem: the launch of a CUDA kernel.
    strides: by name, those that tensors of `args` have in the launch, too far apart to be copied: of cases in
        `Exercise.unwatched`, and not on a GPU. ends_only: and of that grid, only the first and the last block run.
    """

    grid: tuple[int, ...] = (1,)
    block: tuple[int, ...] = (1,)
    shared_mem: int = 0
    strides: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ends_only: bool = False

    def inputs(self, args: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Of arguments such as these, the tensors that are no outputs, on the CPU."""
        given = {name: arg for name, arg in args.items() if isinstance(arg, torch.Tensor)}
        return {name: arg.cpu() for name, arg in given.items() if name not in self.expected}


@dataclass(frozen=True)
class Trial:
    """What became of a call.

    case: the name of its sizes. sizes: such as {"S": 64, "D": 32}. outputs: by name, on the CPU; none if it did not end.
    left: the tensors among the arguments that are no outputs, as the call left them.
    error: why it did not end. traces: of the lens, one a launch; none on a GPU. facts: what was observed of Python, by name.
    """

    case: str
    sizes: Mapping[str, Any]
    call: Call
    outputs: Mapping[str, torch.Tensor] = field(default_factory=dict)
    left: Mapping[str, torch.Tensor] = field(default_factory=dict)
    error: str | None = None
    traces: tuple[Trace, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    on_gpu: bool = False

    @property
    def accesses(self) -> list[Access]:
        """Of all its launches."""
        return [one for trace in self.traces for one in trace.accesses]

    @property
    def where(self) -> str:
        """In words: "S = 64, D = 32, on the GPU"."""
        return ", ".join((*(f"{name} = {value}" for name, value in self.sizes.items()), *["on the GPU"] * self.on_gpu))


@dataclass(frozen=True)
class Property:
    """One thing that must be true of a submission.

    name: short, and said of a submission that has it: "every element of y is written".
    broken: given all trials, the message that names the cause, or None where the property holds.
    stage: of STAGES. A property is judged when those of all earlier stages hold: what a kernel costs says nothing while
        its values are wrong, and wrong values say little while it leaves its arrays.
    hint: shown with the message, folded. Or several, each by something that the message then has in it: the first that fits.
    """

    name: str
    broken: Callable[[Sequence[Trial]], str | None]
    stage: str
    hint: str | Mapping[str, str] = ""

    def hint_for(self, message: str) -> str:
        if isinstance(self.hint, str):
            return self.hint
        return next((hint for sign, hint in self.hint.items() if sign in message), "")


@dataclass(frozen=True)
class Exercise:
    """One text to submit.

    name: of the kernel or function, and of the cell: `%%cuda permuted_copy`.
    call: (random, **sizes) → the call to try, with values from the generator `random`.
    cases: sizes by name, such as {"even": {"S": 64, "D": 32}, "ragged": {"S": 37, "D": 5}}.
    properties: in the order in which they explain each other; the first that is broken is what a learner reads.
    drawn: of some cases, what their sizes are drawn from where values change, such as {"odd": {"S": range(2, 40)}}.
    unwatched: cases that run without the lens, because they are large, and once, at the values that stay; of Python, on the
        CPU alone.
    prelude: what stands before the text, in one line: it takes the place of the cell's `%%` line.
    parameters: of Python, the arguments of the call that the function takes; by default, all.
    observe: of Python, see `kernels.grading.python.observers`. modules: what it imports, which a worker does once beforehand.
    seconds: the most that a call of CUDA C may take, or all calls of Python.
    at_once: it is checked as soon as its cell is run, as drills are, of which there are many.
    bench: sizes to time it at on a GPU, beside `peer`: PyTorch's own way, given all of the arguments by name.
    """

    name: str
    language: Language
    call: Callable[..., Call]
    cases: Mapping[str, Mapping[str, Any]]
    properties: tuple[Property, ...]
    drawn: Mapping[str, Mapping[str, range]] = field(default_factory=dict)
    unwatched: tuple[str, ...] = ()
    prelude: str = ""
    parameters: tuple[str, ...] = ()
    observe: Callable[[Callable, Mapping[str, Any]], tuple[Any, dict]] | None = None
    modules: tuple[str, ...] = ()
    seconds: float = 10.0
    at_once: bool = False
    bench: Mapping[str, Any] | None = None
    peer: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        if "\n" in self.prelude:
            raise ValueError(
                f"prelude: of {self.name} has several lines, expected one, so that line numbers are the cell's"
            )
        for case, sizes in self.drawn.items():
            if case not in self.cases or not sizes.keys() <= self.cases[case].keys():
                raise ValueError(
                    f"drawn: of {self.name}: got {case!r} with {list(sizes)}, expected a case and sizes of it"
                )
        names = [one.name for one in self.properties]
        if len(set(names)) < len(names):
            raise ValueError(f"properties: of {self.name}: got {names}, expected each name once")

    def source(self, text: str) -> str:
        """A submission with what stands before it. Lines are numbered as in the cell, whose first is the magic's."""
        return f"{self.prelude}\n{text}"
