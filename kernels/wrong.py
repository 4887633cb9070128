"""Deliberately wrong variants, which the check must reject: what those of all operations share."""

import functools
import inspect
import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from kernels.case import Case
from kernels.cuda.kernel import Kernel, RawModule, watched
from kernels.machine import Machine
from kernels.operation import Variant
from kernels.registration import differentiable
from kernels.rung import NEEDS
from kernels.signature import Signature
from kernels.triton import launch as triton
from kernels.triton.column_sums import Partials
from kernels.unsupported import Reason, needs_compiler, never


def variant(
    signature: Signature,
    path: str,
    level: int,
    name: str,
    idea: str,
    *,
    forward: Callable[..., Any],
    backward: Callable[..., Any] | None = None,
    unsupported: Reason | None = None,
) -> Variant:
    """A variant of two bare functions, of which one is wrong, written in the file `path`.

    The right one is level 1's, as the signature's backward is by default: the check has to find the mistake in the outputs, or,
    where `name` begins with "gradient-", in the gradients alone. unsupported: by default what the level needs on a machine.
    """
    fn = differentiable(signature, forward, backward or signature.native_backward)
    return Variant(level, name, fn, idea, (Path(path),), unsupported or NEEDS.get(level, never))


def edited(rung: Callable[..., Any], old: str, new: str) -> Callable[..., Any]:
    """A bare function of level 4 or 5 that launches the same kernels, with `old` replaced by `new` in their source.

    ValueError, when it is called: none of them has `old`.
    """

    @functools.cache
    def edit(kernel: Any) -> Any:
        return (edited_cuda if isinstance(kernel, Kernel) else edited_triton)(kernel, old, new)

    def run(*args: Any) -> Any:
        outer, outer_triton, launched = watched.by, triton.watched.by, []

        def launch(kernel: Kernel, *launch: Any) -> None:
            launched.append(kernel)
            with watched(outer):
                (edit(kernel) or kernel)(*launch)

        def launch_triton(kernel: Any, grid: tuple[int, ...], args: tuple, options: dict) -> None:
            launched.append(kernel)
            with triton.watched(outer_triton):
                triton.launch(edit(kernel) or kernel, grid, *args, **options)

        with watched(launch), triton.watched(launch_triton):
            result = rung(*args)
        if launched and not any(map(edit, launched)):
            names = ", ".join(getattr(kernel, "name", "") or kernel.__name__ for kernel in launched)
            raise ValueError(
                f"old: {old!r} is not in the source of {names} any more; this wrong kernel needs a new edit"
            )
        return result

    return run


def edited_cuda(kernel: Kernel, old: str, new: str) -> Kernel | None:
    source = kernel._module._source
    if old not in source.code:
        return None
    module = RawModule(code=source.code.replace(old, new), options=source.options, name_expressions=(kernel.name,))
    found = module.get_function(kernel.name)
    found.max_dynamic_shared_size_bytes = kernel.max_dynamic_shared_size_bytes
    return found


def edited_triton(kernel: Any, old: str, new: str) -> Any:
    code = inspect.getsource(kernel.fn)
    if old not in code:
        return None
    code = code.replace(old, new)
    # Triton reads a kernel from its file, whose name ptxas is given, too: so it has no quotes.
    file = f"<{kernel.__name__} {hash((old, new))}>"
    linecache.cache[file] = len(code), None, code.splitlines(keepends=True), file
    names = dict(kernel.fn.__globals__)
    exec(compile(code, file, "exec"), names)
    return names[kernel.__name__]


def lost_partial(rung: Callable[..., Any]) -> Callable[..., Any]:
    """A bare function of level 4 whose column sums leave out what its last program has."""
    whole = Partials.add_up

    def short(partials: Partials) -> tuple:
        partials.programs -= 1
        return whole(partials)

    def run(*args: Any) -> Any:
        with mock.patch.object(Partials, "add_up", short):
            return rung(*args)

    return run


def needs_order(case: Case, machine: Machine) -> str | None:
    """For races, which may go well on a GPU for years; on a CPU the check chooses the order of threads."""
    return "its race need not show on a GPU" if machine.device == "cuda" else needs_compiler(case, machine)
