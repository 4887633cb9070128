"""Whether the Triton kernels of a submission compile: Triton's interpreter runs Python that no GPU does.

With a GPU, the launches there show it. Without one, every launch is compiled for the reference target, and not run: by
Triton's own stages. LLVM and ptxas, which come after them, take long for large blocks; what they alone refuse is not seen.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from triton.compiler.errors import CompilationError

from kernels.grading import properties
from kernels.grading.exercise import Property, Trial
from kernels.lens.triton import trace
from kernels.triton import compiler

_REFUSED = "Triton's compiler refuses it"
_LANGUAGE = (
    "A kernel has numbers, blocks of them, pointers, and functions of tl or with @triton.jit. The rest "
    "of Python, and variables outside it that are not tl.constexpr(…), cannot run on a GPU."
)
# What Triton's interpreter says of a mistake, by a sign of it, and what to do.
_ADVICE = {
    "has no attribute 'grid_idx'": "a kernel is launched with its grid in brackets: kernel[grid](…)",
    "only convert an array of size 1": "this is for one number, and here it is given a block of them: in a "
    "kernel, use the functions of tl, and tl.load and tl.store take a block of pointers",
    "out of bounds for shape": "tl.max and tl.sum take one block; the larger of two numbers is tl.maximum(a, b)",
    "must be Tensor, not tensor": "torch's functions are for the host: in a kernel, use those of tl",
    "'int' object is not iterable": "a pointer takes no brackets: tl.load(x_ptr + places) loads a block",
    "'int' object has no attribute": "in Triton's interpreter a loop counts in Python numbers; tl.cast(number, tl.int64) "
    "is right there and on a GPU",
}
# The same of what its compiler says.
_PRINT = 'in a kernel, print takes a word, and then numbers and blocks: print("u", u)'
_COMPILER_ADVICE = dict.fromkeys(("is not string", "of type <class 'str'> to tensor", "evaluate f-string"), _PRINT)
_COMPILER_ADVICE["must be same dtype"] = (
    "tl.dot takes two blocks of one type: convert one by .to(…). A block of a half type times a float32 number is float32"
)
_COMPILER_ADVICE["Loop-carried variable"] = (
    "what goes from turn to turn of a loop begins before it with the type that it keeps: total = 0.0"
)
_COMPILER_ADVICE["is not defined"] = "what is used after a loop or a condition needs a value before it, too"
_tried: set[tuple] = set()  # kernels, types and flags, of this process, which tries one submission


def compiled(function: Callable, args: Mapping[str, Any]) -> tuple[tuple, dict]:
    """Observes a call whose launches are compiled and not run, one of each kernel, types and flags: no results, and "kernels",
    the names of what was launched. In a worker whose Triton is a compiler.

    CompilationError, or whatever else Triton's compiler raises.
    """
    kernels, errors = set(), []

    def take(kernel: Any, grid: Any, args: Sequence[Any], options: Mapping[str, Any]) -> None:
        kernels.add(kernel.fn.__name__)
        # And yes or no, which choose branches. One more size would be one more compilation, of the same lines mostly.
        types = [
            arg if isinstance(arg, bool) else getattr(arg, "dtype", type(arg)) for arg in (*args, *options.values())
        ]
        one = kernel.fn.__code__, *types, *options
        if one not in _tried and not errors:
            _tried.add(one)
            try:
                compiler.lowered(kernel, args, options)
            except Exception as error:
                errors.append(error)

    with trace.watched(take), contextlib.suppress(Exception):  # on results that no one computed
        function(**args)
    if errors:
        raise errors[0]
    return (), {"kernels": kernels}


def described(error: CompilationError, source: str) -> tuple[str, int | None]:
    """What the compiler says, and of which line of the text."""
    while isinstance(error.__cause__, CompilationError):  # of a function that the kernel calls
        error = error.__cause__
    # It quotes an exception as Python's repr does.
    said = re.sub(r"""^\w+\((['"])(.*)\1\)$""", r"\2", error.error_message or type(error).__name__, flags=re.DOTALL)
    before = [line.strip() for line in (error.src or "").splitlines()[: getattr(error.node, "lineno", 0)]]
    lines = [line.strip() for line in source.splitlines()]
    ends = (end for end in range(len(before), len(lines) + 1) if lines[end - len(before) : end] == before)
    return f"{_REFUSED}: {said}", next(ends, None) if before else None


def with_refusals(trials: Sequence[Trial], found: Sequence[tuple]) -> list[Trial]:
    """The trials that ran in the interpreter, and what was found when their launches were compiled."""
    return [replace(trial, error=_refusal(trial, *one)) for trial, one in zip(trials, found, strict=True)]


def _refusal(trial: Trial, results: list | None, left: dict, facts: dict, error: str | None) -> str | None:
    if error:
        error = re.sub(r" at 0x[0-9a-f]+", "", error)  # so that it stays the same
        return error if error.startswith(_REFUSED) else f"{_REFUSED}: {error}"
    missing = {trace.kernel for trace in trial.traces} - facts["kernels"]
    return f"{_REFUSED}: {', '.join(missing)} was not launched when it should have been compiled" if missing else None


def advised(said: str, advice: Mapping[str, str], trial: Trial) -> str:
    """What is wrong, what to do by a sign in it, and with which call."""
    words = next((f"\n{words}" for sign, words in advice.items() if sign in said), "")
    return f"{said}{words}\n(with {trial.where})"


def finishes(advice: Mapping[str, str] | None = None) -> Property:
    """`properties.finishes`, but for what `compiles` reports.

    advice: of this lab, what to do by a sign in the error.
    """
    known = _ADVICE | (advice or {})

    def broken(trials: Sequence[Trial]) -> str | None:
        wrong = next((one for one in trials if one.error and not _is_refused(one)), None)
        if wrong is None:
            return None
        return advised(wrong.error, known, wrong)

    return replace(properties.finishes(), broken=broken)


def compiles() -> Property:
    """Triton's compiler takes each kernel."""

    def broken(trials: Sequence[Trial]) -> str | None:
        refused = next((one for one in trials if _is_refused(one)), None)
        if refused is None:
            return None
        from_python = re.match(rf"{_REFUSED}: (\w+(Error|Exception): |.* was not launched)", refused.error)
        known = _COMPILER_ADVICE | ({} if from_python else {"": _LANGUAGE})
        return advised(refused.error, known, refused)

    return Property("it compiles for a GPU", broken, "compiles")


def _is_refused(trial: Trial) -> bool:
    return bool(trial.error) and trial.error.startswith(_REFUSED)
