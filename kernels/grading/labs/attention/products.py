"""Products of float32 blocks that a GPU would round: its tensor cores take 10 bits of each number unless told otherwise.

Triton's interpreter multiplies in float32 whatever `input_precision` says, so the values do not show it on a CPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any
from unittest import mock

from triton.runtime import interpreter

from kernels.grading.exercise import Property, Trial
from kernels.grading.python.observers import launches


def observed(function: Callable, args: Mapping[str, Any]) -> tuple[Any, dict]:
    """As `launches`, and "rounding": the lines with a `tl.dot` of float32 in TF32."""
    builder, lines = interpreter.InterpreterBuilder, set()
    multiply = builder.create_dot

    def create_dot(self: Any, a: Any, b: Any, d: Any, precision: Any, *rest: Any) -> Any:
        if a.dtype.scalar.is_fp32() and str(precision).endswith("TF32"):
            lines.add(_line())
        return multiply(self, a, b, d, precision, *rest)

    with mock.patch.object(builder, "create_dot", create_dot):
        result, facts = launches(function, args)
    return result, facts | {"rounding": sorted(lines)}


def _line() -> int:
    """Of the submission, from where it came to this."""
    frame: FrameType | None = sys._getframe(2)
    while frame and "/submission-" not in frame.f_code.co_filename:
        frame = frame.f_back
    return frame.f_lineno if frame else 0


def in_float32(name: str, hint: str = "") -> Property:
    """No product of float32 tensors is rounded to TF32."""

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in trials:
            # bfloat16 is float32 in the interpreter.
            if trial.sizes.get("dtype", "float32") == "float32" and (lines := trial.facts.get("rounding")):
                return (
                    f"line {', '.join(map(str, lines))}: a GPU's tensor cores round the float32 numbers of this tl.dot to "
                    f'TF32, 10 bits of the mantissa, unless it has input_precision="ieee"\n(with {trial.where})'
                )
        return None

    return Property(name, broken, "right", hint)
