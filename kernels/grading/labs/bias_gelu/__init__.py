"""y = gelu(x + bias) in one kernel, with the exact GELU, in float32 whatever the tensors hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch

from kernels.grading import properties
from kernels.grading.exercise import Call, Exercise, Property, Trial
from kernels.grading.labs.bias_gelu.large import ONE_BLOCK, launched_for_all, observed
from kernels.grading.properties import known_mistakes, launches, load_balance, scratch_memory
from kernels.grading.properties.rounding import rounded_once
from kernels.grading.python import devices, triton_compile
from kernels.hardware import REFERENCE_MULTIPROCESSORS
from kernels.lens import Trace

_OVERFLOWING = 30_000.0  # and more in bias, with the same sign in x, is beyond float16


def _gelu(u: torch.Tensor) -> torch.Tensor:
    """By erf's complement, whose small values are exact."""
    return 0.5 * u * torch.special.erfc(-u * 0.5**0.5)


def _call(random: torch.Generator, M: int, N: int, dtype: str = "float32", size: float = 1.0) -> Call:
    to = getattr(torch, dtype)
    x, bias = torch.randn(M, N, generator=random), torch.randn(N, generator=random)
    if size > 1:
        x, bias = x.sign() * size + x, bias - size
    x, bias = x.to(to), bias.to(to)
    y = _gelu(x.double() + bias.double())
    baseline = torch.nn.functional.gelu(x.float() + bias.float()).to(to)
    return Call({"x": x, "bias": bias}, expected={"y": y}, baseline={"y": baseline})


def _rounded_sum(x: torch.Tensor, bias: torch.Tensor) -> dict[str, torch.Tensor]:
    u = (x + bias).half().double()
    return {"y": 0.5 * u * (1 + torch.erf(u * 0.5**0.5))}


_LIKES = {
    "gelu(x): the bias is missing": lambda x, bias: {"y": _gelu(x)},
    "gelu(x) + bias: the bias is added too late": lambda x, bias: {"y": _gelu(x) + bias},
    "x · Φ(x + bias): the factor is x + bias, too": lambda x, bias: {"y": x * _gelu(x + bias) / (x + bias)},
    "the approximation by tanh": lambda x, bias: {"y": torch.nn.functional.gelu(x + bias, approximate="tanh")},
    "the approximation by a sigmoid": lambda x, bias: {"y": (x + bias) * torch.sigmoid(1.702 * (x + bias))},
    "erf(u) in place of erf(u / √2)": lambda x, bias: {"y": 0.5 * (x + bias) * (1 + torch.erf(x + bias))},
    "the result without the factor of one half": lambda x, bias: {"y": 2 * _gelu(x + bias)},
    "Φ(u) without the factor u": lambda x, bias: {"y": _gelu(x + bias) / (x + bias)},
}
_OVERFLOW = "x + bias rounded to float16: beyond 65,504 it is infinite, and -inf · 0 is NaN"

_right = partial(known_mistakes.right, "y", likes=_LIKES)

_LOOP = 4_096  # elements that a program may take one block after another, while multiprocessors have none


def _shared(name: str, hint: str) -> Property:
    """No program does much more than others, a large tensor has many of them, and they have work for most of their threads."""
    evenly = load_balance.balanced("x", name=name, least=4, hint=hint)

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in trials:
            for trace in trial.traces if trial.case in ("even", "odd") else ():
                if message := _spread(trace, trial.sizes["M"] * trial.sizes["N"]):
                    return f"{message}\n(with {trial.where})"
        return _grows(trials) or evenly.broken(trials)

    return replace(evenly, broken=broken)


def _spread(trace: Trace, elements: int) -> str | None:
    if trace.blocks == 1 and elements > ONE_BLOCK:
        return f"one program handles all {elements:,} elements"
    each, processors = elements // trace.blocks, REFERENCE_MULTIPROCESSORS
    if trace.blocks < processors and trace.busiest["x"] > 1 and each > _LOOP:
        return (
            f"{trace.blocks} programs handle {each:,} elements each, one block after another, and a GPU such as an H100 has "
            f"{processors} multiprocessors that could each have one"
        )
    block, threads = _block(trace), trace.block[0]
    if block < threads // 2:
        return (
            f"a tl.load of x takes {block} elements, and a program has {threads} threads, {threads - block} too many: "
            "make the block larger, or num_warps smaller"
        )
    return None


def _grows(trials: Sequence[Trial]) -> str | None:
    """Blocks that hold a whole row in each case, however long it is: at some length no program has room for one."""
    blocks = {
        trial.sizes["N"]: _block(trace) for trial in trials if trial.case in ("even", "odd") for trace in trial.traces
    }
    if len(set(blocks.values())) > 1 and all(block >= N for N, block in blocks.items()):
        each = ", ".join(f"{block:,} elements for N = {N:,}" for N, block in sorted(blocks.items()))
        return f"the block grows with the row: {each}; choose one size, and let a longer row take more programs"
    return None


def _block(trace: Trace) -> int:
    """Elements of a tl.load of x."""
    loads = [one for one in trace.accesses if one.kind == "load" and "x" in one.names]
    return sum(one.lanes + (one.masked or 0) for one in loads) // sum(one.requests for one in loads)


EXERCISES = (
    Exercise(
        name="bias_gelu",
        language="triton",
        call=_call,
        cases={
            "even": {"M": 16, "N": 256},
            "odd": {"M": 60, "N": 1101},  # more elements than any block may have that is written down
            "one": {"M": 1, "N": 1},
            "again": {"M": 1, "N": 1},
            "float16": {"M": 5, "N": 100, "dtype": "float16"},
            "bfloat16": {"M": 5, "N": 100, "dtype": "bfloat16"},
            "large": {"M": 3, "N": 100, "dtype": "float16", "size": _OVERFLOWING + 5_000},
        },
        drawn={
            "even": {"M": range(8, 33), "N": range(264, 513, 8)},
            "odd": {"M": range(60, 90), "N": range(1100, 1200)},
        },
        properties=(
            properties.stays_inside(
                hint="The last program has lanes beyond the last element. Loads and the store need a mask."
            ),
            triton_compile.finishes(
                {
                    "['fp32', 'fp64'] but got": "tl.erf takes float32: convert what was loaded, tl.load(…).to(tl.float32)",
                    "grid is (0,": "the grid is rounded up, by triton.cdiv",
                }
            ),
            triton_compile.compiles(),
            devices.together(),
            properties.inputs_unchanged(),
            launches.written(
                "even",
                "odd",
                "one",
                "float16",
                "bfloat16",
                name="every element of y is written",
                hint="A launch is kernel[grid](arguments). The grid is a tuple: a program for every BLOCK elements of M * N.",
            ),
            _right(
                cases=["even"],
                name="y is gelu(x + bias)",
                hint="Which column is an element in? That is the place of its bias.",
            ),
            _right(
                cases=["odd", "one"],
                name="also for sizes that are not multiples of the block",
                hint="The mask compares with the number of elements, and the column depends on N.",
            ),
            _right(cases=["again"], name="also for other values in the same shape"),
            _right(
                cases=["float16", "bfloat16"],
                name="also in float16 and bfloat16",
                hint="y has the dtype of x. tl.store rounds to it.",
            ),
            _right(
                cases=["large"],
                name="stable where |x + bias| is large",
                likes={_OVERFLOW: _rounded_sum},
                hint="In which dtype is the sum taken? Convert each value as it is loaded.",
            ),
            rounded_once(
                "y",
                "float16",
                "bfloat16",
                name="y: rounded once",
                few=1 / 16,  # 1 + erf of far below 0 has few bits
                hint="Φ(u) and the product stay float32 until tl.store.",
            ),
            launches.one_launch(
                hint="torch.empty_like allocates and launches nothing; leave everything else to the kernel."
            ),
            launches.read_once(
                "x", cases=["even"], name="x is read once", advice="keep what is needed again in a variable"
            ),
            launches.written_once(
                "y", cases=["even"], name="y is written once", advice="compute in variables, and store the result"
            ),
            _shared(
                "the programs share the work",
                hint="A program handles one block, of a size that is chosen once. More elements need more programs.",
            ),
            launched_for_all(
                "a large x is launched, too",
                hint={
                    "limit": "The first axis of a grid takes 2³¹ - 1 programs, the others 65,535 each.",
                    "grows": "Choose one size, and let a longer row take more programs, or a loop.",
                    "": "How many blocks has x? Each needs a program, or a turn of a program's loop.",
                },
            ),
            scratch_memory.no_scratch_memory(name="nothing is kept in memory between", advice="keep it in a variable"),
        ),
        observe=observed,
        seconds=30,
        prelude="import torch, triton, triton.language as tl",
        bench={"M": 4096, "N": 4096},
        peer=lambda x, bias: torch.nn.functional.gelu(x + bias),
    ),
)
