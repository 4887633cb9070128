"""The second exercise: the least time of kernels in a chain, and of one kernel that does what they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from kernels.grading import properties
from kernels.grading.exercise import Call, Property
from kernels.grading.labs.roofline.calls import at_once, call, exercise, machine, uniform
from kernels.grading.properties import known_mistakes
from kernels.grading.python import devices

Values = known_mistakes.Values
Likes = Mapping[str, Callable[..., Values]]

_CASES = {
    "first": {"chains": 5, "length": 3},
    "other": {"chains": 5, "length": 5},  # a chain for each kernel: shapes that only happen to fit
    "again": {"chains": 5, "length": 3},
    "alone": {"chains": 1, "length": 4},
    "short": {"chains": 7, "length": 1},
    "many": {"chains": 90, "length": 40},
}


def _chains(random: torch.Generator, chains: int, length: int) -> Call:
    of = machine(random)
    launch = uniform(random, 1, 2e-6, 9e-6).item()
    reads = torch.randint(1, 4, (chains, length), generator=random).double()
    itemsize = 2.0 ** torch.randint(3, (chains,), generator=random).double()
    # Around the ridge, so that arithmetic limits some kernels of a chain and memory others; and of each kind one at least.
    beyond = 10 ** uniform(random, chains * length, -1.5, 1.5).view(chains, length)
    beyond[:, 0] = 20.0
    beyond[:, 1:2] = 0.1
    beyond[1::2] *= 0.003  # memory limits these, also when they are fused
    operations = (beyond * (reads + 1) * itemsize[:, None] * of["peak"] / of["bandwidth"]).ceil()
    # Times what is moved during a launch. The first chain is so small that launches limit it, and the others are not.
    large = 10 ** uniform(random, chains, 0, 2)
    large[: chains // 3 + 1] *= 1e-3
    if chains == 1:
        large *= 1e3
    elements = (large * launch * of["bandwidth"] / itemsize).ceil()
    args: dict[str, Any] = {
        "operations": operations,
        "reads": reads,
        "elements": elements,
        "itemsize": itemsize,
        **of,
        "launch": launch,
    }
    return call(args, **_separate(**args), **_fused(**args))


def _kinds(
    operations: Tensor,
    matrices: Tensor,
    elements: Tensor,
    itemsize: Tensor,
    peak: float,
    bandwidth: float,
    launch: float,
) -> Tensor:
    """Of each kernel the milliseconds of its arithmetic, of memory, and of its launch."""
    arithmetic = 1e3 * operations * elements[:, None] / peak
    memory = 1e3 * matrices * (elements * itemsize)[:, None] / bandwidth
    return torch.stack((arithmetic, memory, torch.full_like(arithmetic, 1e3 * launch)))


def _separate(operations: Tensor, reads: Tensor, written: float = 1.0, **of: Any) -> Values:
    return {"separate": _kinds(operations, reads + written, **of).amax(0).sum(1)}


def _fused(operations: Tensor, reads: Tensor, beside: float = 0.0, written: float = 1.0, **of: Any) -> Values:
    """beside: so many matrices are read that need not be, for each that lies between two kernels."""
    inside = reads.shape[1] - 1
    return _one(operations.sum(1), reads.sum(1) - inside + beside * inside + written, **of)


def _one(operations: Tensor, matrices: Tensor, **of: Any) -> Values:
    """Of one kernel for each chain."""
    return {"fused": _kinds(operations[:, None], matrices[:, None], **of).amax(0)[:, 0]}


def _without(name: str, of: Mapping[str, Any]) -> dict[str, Any]:
    return {**of, name: torch.ones_like(of[name]) if isinstance(of[name], Tensor) else 0.0}


_SEPARATE: Likes = {
    "the sum of arithmetic, memory and launch: a kernel does them at the same time, and takes as long as the longest": (
        lambda operations, reads, **of: {"separate": _kinds(operations, reads + 1, **of).sum((0, 2))}
    ),
    "the sum of arithmetic and memory: a kernel does both at the same time, and takes as long as the longer one": (
        lambda operations, reads, **of: {
            "separate": _kinds(operations, reads + 1, **of)[:2].sum(0).clamp(min=1e3 * of["launch"]).sum(1)
        }
    ),
    "the longest of all kernels: they follow each other, so their times add up": (
        lambda operations, reads, **of: {"separate": _kinds(operations, reads + 1, **of).amax((0, 2))}
    ),
    "the longest of three sums: each kernel waits for what limits it, and for nothing of another kernel": (
        lambda operations, reads, **of: {
            "separate": _kinds(operations, reads + 1, **of).sum(2).amax(0),
        }
    ),
    "kernels whose launches take no time": lambda **of: _separate(**_without("launch", of)),
    "a launch before each kernel: it takes place while the kernel before it runs": (
        lambda launch, **of: {"separate": _separate(**of, launch=0.0)["separate"] + 1e3 * launch * of["reads"].shape[1]}
    ),
    "one launch for a whole chain": lambda launch, **of: {
        "separate": _separate(**of, launch=0.0)["separate"].clamp(min=1e3 * launch)
    },
    "kernels that write nothing": lambda **of: _separate(**of, written=0.0),
    "kernels that read nothing": lambda reads, **of: _separate(**of, reads=0 * reads),
    "matrices with a byte an element": lambda **of: _separate(**_without("itemsize", of)),
    "matrices of one element": lambda **of: _separate(**_without("elements", of)),
    "operations of a matrix in place of an element": lambda operations, elements, **of: _separate(
        operations / elements[:, None], elements=elements, **of
    ),
    "peak for bandwidth, and bandwidth for peak": lambda peak, bandwidth, **of: _separate(
        peak=bandwidth, bandwidth=peak, **of
    ),
    "seconds": lambda **of: {"separate": _separate(**of)["separate"] / 1e3},
    "microseconds": lambda **of: {"separate": _separate(**of)["separate"] * 1e3},
    "the shortest of the three: a kernel has to wait for the longest": lambda operations, reads, **of: {
        "separate": _kinds(operations, reads + 1, **of).amin(0).sum(1)
    },
}
_FUSED: Likes = {
    "one kernel that still reads and writes what lies between": lambda reads, **of: _fused(
        reads=reads, **of, beside=1.0, written=float(reads.shape[1])
    ),
    "one kernel that still writes what lies between, or still reads it": lambda reads, **of: _fused(
        reads=reads, **of, written=float(reads.shape[1])
    ),
    "a kernel that reads what the first one does, and nothing beside it": lambda operations, reads, **of: _one(
        operations.sum(1), reads[:, 0] + 1, **of
    ),
    "one kernel that reads one matrix and writes one": lambda operations, reads, **of: _one(
        operations.sum(1), 2.0 + 0 * reads[:, 0], **of
    ),
    "one matrix too few: between K kernels lie K − 1": lambda **of: _fused(**of, written=0.0),
    "as many launches as there were kernels": lambda launch, **of: _fused(**of, launch=launch * of["reads"].shape[1]),
    "a kernel whose launch takes no time": lambda **of: _fused(**_without("launch", of)),
    "the operations of the last kernel alone": lambda operations, **of: _fused(operations[:, -1:], **of),
    "the most operations of a kernel in place of all operations": lambda operations, **of: _fused(
        operations.amax(1, keepdim=True), **of
    ),
    "the sum of arithmetic, memory and launch": lambda operations, reads, **of: {
        "fused": _kinds(operations.sum(1, keepdim=True), reads.sum(1, keepdim=True) - reads.shape[1] + 2, **of).sum(
            (0, 2)
        )
    },
    "the time of the separate kernels": lambda **of: {"fused": _separate(**of)["separate"]},
    "seconds": lambda **of: {"fused": _fused(**of)["fused"] / 1e3},
}


def _right(output: str, name: str, hint: str, likes: Likes) -> Property:
    return known_mistakes.right(output, cases=tuple(_CASES), name=name, hint=hint, likes=likes)


FEWEST_MILLISECONDS = exercise(
    "fewest_milliseconds",
    call=_chains,
    cases=_CASES,
    drawn={
        "other": {"chains": range(3, 20), "length": range(4, 9)},
        "short": {"chains": range(2, 30)},
        "many": {"length": range(20, 60)},
    },
    properties=(
        properties.finishes(),
        devices.together(),
        properties.inputs_unchanged(),
        _right(
            "separate",
            "separate: each kernel takes as long as its longest part",
            "Of each kernel: how long do its arithmetic, its bytes and its launch take? Which of them decides? Then add up.",
            _SEPARATE,
        ),
        _right(
            "fused",
            "fused: one launch, all operations, and nothing in between",
            "What the kernel before has written is one of a kernel's reads, and none of the fused kernel's.",
            _FUSED,
        ),
        at_once("chains and kernels"),
    ),
)
