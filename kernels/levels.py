"""What operations share of their levels: their ladders, the three that come from one source, and what a call means."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kernels.operation import Output, Peer, Variant, level_number
from kernels.registration import Rungs, join
from kernels.unsupported import Reason, first_of, needs_compiler

Ladders = ModuleType | tuple[Rungs, Rungs]
LEVEL = """
    level: 1 to 5 or "native", "torchscript", "compiled", "triton", "cuda"; None: Triton, native on a CPU or in float64."""
REFUSED = """Raises:
    TypeError, ValueError: naming the argument, before anything is launched."""
FAILED = """
    NotImplementedError: forward-mode gradients (torch.func.jvp) at levels 4 and 5.
    kernels.cuda.CompileError: level 5 on a CPU with no C++ compiler."""


def from_modules(name: str, native: ModuleType, triton: Ladders, cuda: Ladders, **dtypes: str) -> dict[str, Any]:
    """The fields of a record that follow from its levels: `name`, `gradients`, `outputs`, `updates`, `forward`, `backward`,
    `validate`.

    Args:
        name: of the operation, and of its function in `native`.
        native: also holds `validate`, the rules of all levels, and the SIGNATURE, by which outputs are named, and said to have
            a gradient or not.
        triton, cuda: the bare rungs of levels 4 and 5: a module with FORWARD and, where there is a gradient, BACKWARD, or
            these two, where they stand in several files.
        dtypes: of the outputs that have not the case's, by torch's names.

    Raises:
        TypeError: a dtype is given for what is no output.
    """
    signature = native.SIGNATURE
    outputs = signature.updated or signature.outputs
    if unknown := [one for one in dtypes if one not in outputs]:
        raise TypeError(f"dtypes: got {', '.join(unknown)}, expected outputs of {name}: {', '.join(outputs)}")
    ladders = [
        join(signature, f"{name}_{level}", *(rungs if isinstance(rungs, tuple) else module_ladders(rungs)))
        for level, rungs in (("triton", triton), ("cuda", cuda))
    ]
    return {
        "name": name,
        "gradients": signature.gradients,
        "outputs": tuple(Output(one, dtypes.get(one), one not in signature.non_differentiable) for one in outputs),
        "updates": signature.updated,
        "validate": native.validate,
        "forward": (
            *from_native(getattr(native, name), str(native.__file__)),
            *(rung for forward, _ in ladders for rung in forward),
        ),
        "backward": tuple(rung for _, backward in ladders for rung in backward),
    }


def module_ladders(module: ModuleType) -> tuple[Rungs, Rungs]:
    return module.FORWARD, getattr(module, "BACKWARD", ())


def excluding(reason: Reason, record: dict[str, Any]) -> dict[str, Any]:
    """Fields as `from_modules` makes them, of which levels 1 to 3 do not run where there is that reason."""
    rungs = (
        replace(rung, unsupported=first_of(rung.unsupported, reason)) if rung.level <= 3 else rung
        for rung in record["forward"]
    )
    return record | {"forward": tuple(rungs)}


def torch_peers(fn: Callable[..., Any]) -> tuple[Peer, Peer]:
    """What every operation is timed against: PyTorch's own operators, as they are and through its compiler."""
    return Peer("torch", lambda: fn), Peer("torch.compile", lambda: torch.compile(fn, dynamic=False))


def against_torch(fn: Callable[..., Any]) -> dict[str, Any]:
    """The fields `baseline` and `peers` of a record with no other peers."""
    return {"baseline": fn, "peers": torch_peers(fn)}


def from_native(native: Callable[..., Any], path: str) -> tuple[Variant, ...]:
    """Levels 1 to 3 of one readable function in PyTorch operators, which stands in the file `path`."""

    @functools.cache
    def scripted() -> Callable[..., Any]:
        return torch.jit.script(native)

    def torchscript(*args: Any, **kwargs: Any) -> Any:
        # For tensors without elements its fuser writes CUDA C that does not compile.
        empty = any(
            isinstance(one, torch.Tensor) and one.is_cuda and one.numel() == 0 for one in (*args, *kwargs.values())
        )
        return (native if empty else scripted())(*args, **kwargs)

    @functools.cache
    def compiled() -> Callable[..., Any]:
        return torch.compile(native)  # imports the compiler: not before it is asked for

    def inductor(*args: object, **kwargs: object) -> Any:
        return (native if torch.compiler.is_compiling() else compiled())(*args, **kwargs)

    source = (Path(path),)
    return (
        Variant(1, "eager", native, "one PyTorch operator after the other", source),
        Variant(2, "scripted", torchscript, "the same source, compiled by torch.jit.script", source),
        Variant(3, "inductor", inductor, "the same source, fused by torch.compile", source, needs_compiler),
    )


def documented(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself, with what the docstrings of all operations have in common put into its own: what `level` is, at the
    end of "Args:", and what is raised. What it says of these itself stays."""
    parts = (inspect.getdoc(fn) or "").split("\n\n")
    if parts == [""]:
        return fn  # Python runs without docstrings
    parts += [] if parts[-1].startswith("Raises:") else [REFUSED]
    parts[-1] += FAILED
    args = next(i for i, part in enumerate(parts) if part.startswith("Args:"))
    parts[args] += "" if "\n    level: " in parts[args] else LEVEL
    fn.__doc__ = "\n\n".join(parts)
    return fn


def chosen(level: int | str | None, x: object) -> int:
    """The number of the level that a call asks for: by default 1 on a CPU and 4 on a GPU, by where x is. Float64 has 1 by
    default on a GPU too: a model in float64 is there to be compared with, and levels 4 and 5 do not take it.

    Raises:
        ValueError: there is no such level.
        NotImplementedError: forward-mode gradients (torch.func.jvp) at levels 4 and 5.
    """
    if level is None:
        level = 4 if isinstance(x, torch.Tensor) and x.is_cuda and x.dtype != torch.float64 else 1
    number = level_number(level)
    if number >= 4 and torch.autograd.forward_ad._current_level >= 0:
        raise NotImplementedError(
            f"level: {level!r} has gradients by reverse mode only; forward mode has levels 1 and 2"
        )
    return number
