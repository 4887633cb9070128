"""A rung of level 4 or 5, with what follows from its level and its function: what it needs, and the files of its text."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from kernels.cuda.includes import with_includes
from kernels.operation import Variant
from kernels.unsupported import Reason, needs_compiler, needs_interpreter

NEEDS: dict[int, Reason] = {4: needs_interpreter, 5: needs_compiler}
"""What a level needs on a CPU."""


def rung(
    level: int,
    name: str,
    fn: Callable[..., Any],
    idea: str,
    *beside: Path | ModuleType,
    unsupported: Reason | None = None,
    deterministic: bool = True,
) -> Variant:
    """A variant of a bare function.

    Args:
        beside: what its text is beside the file of the function: `.cu` files, with which go those they include, and modules
            that operations share.
        unsupported: by default what the level needs on a machine.
    """
    whole = fn
    while isinstance(whole, partial):
        whole = whole.func
    text = [file for path in beside if isinstance(path, Path) for file in with_includes(path)]
    text += [
        Path(whole.__code__.co_filename),
        *(Path(str(one.__file__)) for one in beside if isinstance(one, ModuleType)),
    ]
    return Variant(level, name, fn, idea, tuple(dict.fromkeys(text)), unsupported or NEEDS[level], deterministic)
