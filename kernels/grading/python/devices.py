"""Whether a submission in Python keeps all of its tensors on the device of its arguments.

Where it is tried they are on the CPU, and a tensor that is made without device=x.device is there, too: it works, and fails
on a GPU. So the function is also called on tensors of the device "meta", which have no elements. Whatever is made on the
CPU then stands out, and nothing is computed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernels.grading.exercise import Property, Trial
from kernels.grading.python.places import line_of
from kernels.lens.triton import trace

# They take tensors of two devices: a copy from one to the other, and places in a tensor, which may be the CPU's.
_BETWEEN = ("copy_", "_to_copy", "index", "index_put", "index_put_", "_index_put_impl_")


class _OnTheCpu(Exception):
    """A tensor is on the CPU where only one of the GPU's will do."""


class _OneDevice(TorchDispatchMode):
    """Raises where an operator is given elements of the CPU's beside tensors without any. A single number may be the CPU's."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch's compiler is imported, which takes longer than all the rest

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        tensors = _tensors((args, kwargs or {}))
        name = func._schema.name.partition("::")[2]
        if any(one.is_meta for one in tensors) and name not in _BETWEEN:
            strangers = [one for one in tensors if not one.is_meta and one.dim()]
            if strangers:
                raise _OnTheCpu(f"{name} is given {_described(strangers[0])} beside one on the GPU")
        # From a GPU to the CPU: there is nothing to copy, and what matters is where it lies.
        if name == "copy_" and args[1].is_meta and not args[0].is_meta:
            return args[0]
        if name == "_to_copy" and args[0].is_meta and (kwargs or {}).get("device", args[0].device).type == "cpu":
            raise _OnTheCpu(f"a tensor of shape {tuple(args[0].shape)} is copied to the CPU, and the host waits for it")
        return func(*args, **(kwargs or {}))


def elsewhere(function: Callable, args: Mapping[str, Any]) -> tuple[tuple, dict]:
    """Observes a call on tensors without elements: no results, and "elsewhere", what would be on the CPU if the arguments
    were on a GPU, and in which line, or None.

    Of an operator of torch.library, that is what the function does that it was made of. An error of any other kind is none:
    what depends on values cannot be called without them.
    """
    function = getattr(function, "_init_fn", function)
    given = {name: arg.detach().to("meta") if isinstance(arg, torch.Tensor) else arg for name, arg in args.items()}

    def launched(kernel: Any, grid: Any, values: Sequence[Any], options: Mapping[str, Any]) -> None:
        for one in _tensors((values, options)):
            if not one.is_meta:
                raise _OnTheCpu(f"{kernel.fn.__name__} is given {_described(one)}")

    found = None
    with contextlib.suppress(Exception), trace.watched(launched), _OneDevice():
        try:
            strangers = [one for one in _tensors(function(**given)) if not one.is_meta]
            found = f"it returns {_described(strangers[0])}" if strangers else None
        except _OnTheCpu as error:
            found = f"{error}{line_of(error)}"
    return (), {"elsewhere": found}


def with_elsewhere(trials: Sequence[Trial], found: Sequence[tuple]) -> list[Trial]:
    """The trials that ran, and what was found when they were called so."""
    return [replace(trial, facts={**trial.facts, **facts}) for trial, (*_, facts, _) in zip(trials, found, strict=True)]


def together(hint: str = "") -> Property:
    """No tensor is on the CPU where the arguments are on a GPU."""

    def broken(trials: Sequence[Trial]) -> str | None:
        found = next((one for one in trials if one.facts.get("elsewhere")), None)
        if found is None:
            return None
        said = found.facts["elsewhere"]
        beside = "" if "is copied" in said else "what is allocated goes beside the arguments: device=x.device\n"
        return f"on a GPU {said}\n{beside}(with {found.where})"

    return Property("its tensors are on the device of its arguments", broken, "compiles", hint)


def _described(one: torch.Tensor) -> str:
    return f"a tensor of shape {tuple(one.shape)} on the {str(one.device).upper()}"


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [one for one in tree_leaves(tree) if isinstance(one, torch.Tensor)]
