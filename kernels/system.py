"""The record of a system: something the course builds on the operations, with its proof, its demo and its claims."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from kernels.claims import Claim
from kernels.figures import Picture


def touched(before: nn.Module, after: nn.Module) -> str | None:
    """What was changed of a model that should have been left alone, `before` being a copy: its mode, numbers, or gradients."""
    for name, module in after.named_modules():
        if module.training != before.get_submodule(name).training:
            return f"{name or 'the model'} is in {'training' if module.training else 'evaluation'} afterwards"
    numbers = before.state_dict()
    for name, value in after.state_dict().items():
        if not torch.equal(value, numbers[name]):
            return f"{name} has other numbers afterwards"
    for name, parameter in after.named_parameters():
        if parameter.grad is not None or parameter.requires_grad != before.get_parameter(name).requires_grad:
            return f"{name} has a gradient afterwards, or wants none"
    return None


Check = Callable[[Any, str], tuple[float, str | None]]


@dataclass(frozen=True, repr=False)
class Shown:
    """What a demo shows, a sentence each: what it did, what was proved, what was measured, here and now; and a picture.

    As the last value of a notebook's cell it shows its picture below its sentences.
    """

    shown: str
    proved: str
    measured: str
    picture: Picture | None = None

    def __repr__(self) -> str:
        return f"shown     {self.shown}\nproved    {self.proved}\nmeasured  {self.measured}"

    def _ipython_display_(self) -> None:
        from IPython.display import display

        print(self)
        if self.picture is not None:
            display(self.picture)


@dataclass(frozen=True)
class System:
    """A system of the course, called SYSTEM: the file `kernels/systems/<name>.py`, or a folder, with its wrong twins beside.

    Args:
        name: the name of its file, such as "checkpointing".
        summary: what it does, in a sentence.
        modules: where it is written, such as ("kernels.memory.checkpointing",).
        make: what is proved: a function or a class.
        proof: what it is held against, in a sentence: float64, or an exact twin.
        check: (make or what stands in its place, "cpu" or "cuda") → the largest error as a ratio of what is allowed (0 for
            what is compared exactly), and what is wrong, or None.
        wrong: by what is wrong with them, what stands in the place of `make` and must be rejected by `check`; one at least.
        demo: (device, quick) → what it shows, once `check` has passed there; with the check in at most five seconds on two
            cores, `quick` in at most two.
        from_torch: what in it is still torch's own, in words.
        claims: that it answers.
    """

    name: str
    summary: str
    modules: tuple[str, ...]
    make: Any
    proof: str
    check: Check
    wrong: Mapping[str, Any] = field(hash=False)
    demo: Callable[[str, bool], Shown]
    from_torch: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
