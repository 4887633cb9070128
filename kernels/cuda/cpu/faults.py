"""The words of what a processor refuses a kernel: what it did, where in its source, and which thread."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

from kernels.cuda.cpu import build, symbols
from kernels.cuda.errors import CompileError
from kernels.cuda.parameters import declared
from kernels.cuda.source import Source, in_order

_MEMORY, _NULL, _STACK, _STATIC_SHARED, _DYNAMIC_SHARED, _TENSOR, _MISALIGNED, _INTERRUPTED = range(1, 9)
_VERBS = ("reads", "writes", "reads or writes")


class Fault(ctypes.Structure):
    """`kernels::Fault` of runtime/faults.h."""

    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("kind", "writes", "argument", "after")),
        ("code", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
    ]


def explained(
    fault: Fault,
    thread: str,
    source: Source,
    name: str,
    code: int,
    args: Sequence[Any],
    offsets: Sequence[int],
    shared_mem: int,
) -> str:
    """A sentence on the fault of a thread, which is named with its block. `name`: of the kernel; `code`: the fault's, from
    the beginning of the library; `offsets`: of the arguments."""
    line = _line(source, code) if fault.code else ""
    verb = _VERBS[fault.writes]
    if fault.kind == _INTERRUPTED:
        return f"interrupted{line}" + (f", in {thread}" if thread else "")
    if fault.kind == _STACK:
        return f"a stack overflow{line}, in {thread}: recursion without an end, or more than 512 KiB of local memory a thread"
    if fault.kind == _MISALIGNED:
        return (
            f"a misaligned access{line}: {thread} accesses 16 bytes, as of a float4, at an address that is not a multiple "
            "of 16"
        )
    if fault.kind == _NULL:
        return (
            f"a null pointer{line}: {thread} {verb} what it points to; None and a tensor without elements are passed as null "
            "pointers"
        )
    if fault.kind == _TENSOR:
        tensor, at = _tensor_at(fault, source, name, args, offsets)
        when = "; seen when the launch had ended" if fault.after else ""
        return f"out of bounds{line}: {f'{thread} {verb}' if thread else 'a thread writes'} {tensor}{at}{when}"
    if fault.kind == _DYNAMIC_SHARED:
        where = f"byte {fault.offset:,} of dynamic shared memory; the launch gave it shared_mem={shared_mem:,} bytes"
    elif fault.kind == _STATIC_SHARED:
        where = "beyond the block's __shared__ arrays"
    else:
        where = "memory that belongs to no argument"
    return f"out of bounds{line}: {thread} {verb} {where}"


def _tensor_at(fault: Fault, source: Source, name: str, args: Sequence[Any], offsets: Sequence[int]) -> tuple[str, str]:
    number = offsets.index(fault.argument)
    tensor: torch.Tensor = args[number]
    parameters = declared(source.code, name)
    parameter = parameters[number] if len(parameters) == len(args) else None
    called = parameter.name if parameter and parameter.name else f"argument {number}"
    elements = tensor.untyped_storage().nbytes() // tensor.itemsize - tensor.storage_offset()
    index = (fault.offset - tensor.storage_offset() * tensor.itemsize) // tensor.itemsize
    return f"{called}[{index:,}]", f", outside of its {elements:,} elements"


def _line(source: Source, code: int) -> str:
    """ " on line 3 of k.cu", compiled a second time with lines, which changes no instruction; "" where it is not known."""
    try:
        lines = symbols.source_lines(build.kernel_library(source, lines=True), source, [code + 1])
    except (CompileError, RuntimeError):
        return ""
    filename, number = in_order(lines[code + 1].line)
    return f" on line {number} of {filename or source.filename}" if number else ""
