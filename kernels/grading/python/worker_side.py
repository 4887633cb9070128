"""The worker's side of submissions in Python: loads the text, calls its function, and returns plain tensors."""

from __future__ import annotations

import re
import tempfile
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from triton.compiler.errors import CompilationError

from kernels import check
from kernels.grading.far_apart import far_apart
from kernels.grading.properties.differences import differing
from kernels.grading.python import triton_compile


def load_error(name: str, source: str) -> str | None:
    """What is raised when the text is loaded, or None."""
    try:
        load(name, source)
    except SystemExit:
        raise
    except BaseException as error:  # none may leave: pickled, an exception of the text's own would run in the judge
        return _described(error, name, source)
    return None


def run(
    name: str, source: str, given: list[dict], observe: Callable, strides: Sequence[Mapping[str, tuple[int, ...]]]
) -> list[tuple]:
    """For each call: the results, the arguments as it left them, the facts, and what was raised instead.

    strides: for each call, by name, those that arguments get, far apart.
    """
    torch.set_num_threads(1)  # in a forked process; and small tensors gain nothing
    found: list[tuple] = []
    try:
        function = load(name, source)
    except SystemExit:
        raise
    except BaseException as error:
        return [(None, {}, {}, _described(error, name, source))] * len(given)
    earlier: dict[tuple, torch.Tensor] = {}
    results: list[tuple[torch.Tensor, torch.Tensor]] = []
    for args, apart in zip(given, strides, strict=True):
        args = {key: _again(arg, key, earlier) if isinstance(arg, torch.Tensor) else arg for key, arg in args.items()}
        args |= {key: far_apart(args[key], of) for key, of in apart.items()}
        # What the function may do to a tensor, such as give it other memory, it does not do to these.
        left = {key: arg.detach() for key, arg in args.items() if isinstance(arg, torch.Tensor)}
        try:
            with check.nan_filled_memory(), check.quiet():
                result, facts = observe(function, args)
                _check_earlier(results)
                results += _with_copies(result, left)
                left = {key: arg.clone() for key, arg in left.items()}
                found.append((_tensors(result), left, facts, None))
        except SystemExit:
            raise
        except BaseException as error:
            found.append((None, {}, {}, _described(error, name, source)))
    return found


def _check_earlier(results: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """RuntimeError: a result of an earlier call is no longer what it was. results: tensors with their copies."""
    if any(differing(one.detach(), copy).any() for one, copy in results):
        raise RuntimeError(
            "the result of an earlier call has changed: each call returns memory of its own, which the caller keeps"
        )


def _with_copies(result: Any, given: Mapping[str, torch.Tensor]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The tensors of a result, but for those that lie in an argument, each with a copy."""
    own = {arg.untyped_storage().data_ptr() for arg in given.values()}
    results = result if isinstance(result, (tuple, list)) else [result]
    return [
        (one, copy)
        for one, copy in zip(results, _tensors(result), strict=True)
        if one.untyped_storage().data_ptr() not in own
    ]


def _again(arg: torch.Tensor, key: str, earlier: dict[tuple, torch.Tensor]) -> torch.Tensor:
    """The tensor that an earlier call was given, with these values, if there was one like it: what a submission keeps of a
    tensor, by whatever it tells tensors apart, is then old."""
    kind = key, tuple(arg.shape), arg.stride(), arg.dtype
    if (
        kind in earlier and earlier[kind].shape == arg.shape and earlier[kind].dtype == arg.dtype
    ):  # it may have been reset
        with torch.no_grad():
            return earlier[kind].copy_(arg)
    earlier[kind] = arg
    return arg


def load(name: str, source: str) -> Callable:
    """The function of that name. The text lies in a file, from which Triton and TorchScript read it."""
    path = Path(tempfile.mkdtemp(prefix="submission-")) / f"{name}.py"
    path.write_text(source)
    module = types.ModuleType(name)
    module.__file__ = str(path)
    exec(compile(source, str(path), "exec"), vars(module))
    function = getattr(module, name, None)
    if not callable(function):
        raise NameError(f"the source defines no function {name}")
    return function


def _tensors(result: Any) -> list[torch.Tensor]:
    """The tensors of a result, plain and with memory of their own."""
    results = result if isinstance(result, (tuple, list)) else [result]
    for one in results:
        if not isinstance(one, torch.Tensor):
            raise TypeError(
                f"it returned {type(one).__name__}, expected {'tensors' if len(results) > 1 else 'a tensor'}"
            )
        if one.layout is not torch.strided or one.is_meta:
            raise TypeError(
                f"it returned a tensor on {one.device} with layout {one.layout}, expected one with its elements"
            )
    return [one.detach().as_subclass(torch.Tensor).clone(memory_format=torch.contiguous_format) for one in results]


def _described(error: BaseException, name: str, source: str) -> str:
    """What was raised, and at which line of the text."""
    if isinstance(error, NotImplementedError) and not str(error):
        return f"{name} is not written yet"
    frames = [one for one in traceback.extract_tb(error.__traceback__) if Path(one.filename).name == f"{name}.py"]
    line = error.lineno if isinstance(error, SyntaxError) else frames[-1].lineno if frames else None
    said = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    said = re.sub(r" from '/[^']*'", "", said)  # where a module lies on this machine
    if isinstance(error, CompilationError):
        said, line = triton_compile.described(error, source)
    if in_kernel := re.match(r"line (\d+): (.*)", str(error), re.DOTALL):  # a Triton kernel's, from the lens
        line, said = int(in_kernel[1]), in_kernel[2]
    lines = source.splitlines()
    return f"{said}\n    {line} | {lines[line - 1]}" if line and line <= len(lines) else said
