"""What is worth a word about a launch, and is not wrong by itself: sentences of `Trace.notes`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from kernels.cuda.cpu.returns import body_of
from kernels.cuda.source import Line, Source
from kernels.lens.result import Access

_NOT_NUMBERS = {"NaN": torch.isnan, "infinite": torch.isinf}


def returned(without: Sequence[int], lines: dict[int, Line], grid: Sequence[int]) -> Iterator[str]:
    """Of a barrier that not every thread came to. without: as cpu/recorder.cpp writes it."""
    if without:
        pc, number, threads = without
        block = number % grid[0], number // grid[0] % grid[1], number // grid[0] // grid[1]
        had = "thread" if threads == 1 else "threads"
        yield (
            f"line {lines.get(pc, 0)}: {threads} {had} of block {block} had returned before this barrier. A GPU from "
            "sm_70 on waits for those that are left, as here; an older one may wait for ever"
        )


def no_numbers(
    before: Sequence[Any], after: Sequence[Any], names: Sequence[str], accesses: Sequence[Access]
) -> Iterator[str]:
    """Of tensors with elements that the launch has made NaN or infinite, where none was in what it read."""
    floats = [
        (name, one, other)
        for name, one, other in zip(names, before, after, strict=True)
        if isinstance(one, torch.Tensor) and one.is_floating_point()
    ]
    read = {name for access in accesses if access.kind != "store" for name in access.names}
    for word, are in _NOT_NUMBERS.items():
        if any(name in read and are(one.float()).any() for name, one, _ in floats):
            continue
        for name, one, other in floats:
            made = are(other.float()) & ~are(one.float())
            if count := int(made.sum()):
                at = ", ".join(map(str, made.nonzero()[0].tolist()))
                more = f" and {count - 1:,} more" if count > 1 else ""
                yield f"{name}[{at}]{more} became {word}, and nothing that the kernel read was"


def idle_dimension(
    source: Source,
    name: str,
    grid: Sequence[int],
    block: Sequence[int],
    tensors: dict[str, Any],
    accesses: Sequence[Access],
) -> Iterator[str]:
    """Of a kernel of two dimensions that is launched in one: of an output, too few bytes are written for all of it."""
    body = body_of(source, name)[1]
    for axis, dimension in (("y", 1), ("z", 2)):
        if grid[dimension] * block[dimension] > 1 or not re.search(rf"\b(?:threadIdx|blockIdx)\s*\.\s*{axis}\b", body):
            continue
        for array, tensor in tensors.items():
            stored = [one for one in accesses if one.kind != "load" and array in one.names]
            if not isinstance(tensor, torch.Tensor) or any(len(one.names) > 1 for one in stored):
                continue
            if stored and (written := sum(one.bytes for one in stored)) < tensor.nbytes:
                yield (
                    f"the launch has one thread in {axis}, and the kernel asks for its threadIdx or blockIdx there: of the "
                    f"{tensor.nbytes:,} bytes of {array} it wrote {written:,} at most"
                )
