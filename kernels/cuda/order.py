"""Which blocks and threads a CPU starts, and in which order, on which a correct kernel's results do not depend."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

_SEED: contextvars.ContextVar[int | None] = contextvars.ContextVar("seed", default=None)
_ENDS_ONLY: contextvars.ContextVar[bool] = contextvars.ContextVar("ends_only", default=False)


@contextlib.contextmanager
def order(seed: int) -> Iterator[None]:
    """Run the launches inside `with order(seed):` in a random order, the same whenever the seed is.

    Blocks start in an order made of the seed, and so do the threads of each block; who goes on after a barrier or a warp
    collective is random too, and blocks take turns at barriers. Everything runs on one OS thread, so that a wrong result
    comes back with its seed. Without `order`, a CPU starts blocks and threads by their number, which hides what a kernel
    leaves to chance. A GPU has an order of its own: there this changes nothing.

    seed: an int from 0 to 2**64 - 1, else ValueError.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64:
        raise ValueError(f"seed must be an int from 0 to 2**64 - 1, got {seed!r}")
    token = _SEED.set(seed)
    try:
        yield
    finally:
        _SEED.reset(token)


def current_seed() -> int | None:
    """The seed of the `order` around the caller, if there is one."""
    return _SEED.get()


@contextlib.contextmanager
def first_and_last_block() -> Iterator[None]:
    """Of launches inside, only the first and the last block run on a CPU: of grids too large to wait for, whose blocks do
    without each other."""
    token = _ENDS_ONLY.set(True)
    try:
        yield
    finally:
        _ENDS_ONLY.reset(token)


def ends_only() -> bool:
    """Whether `first_and_last_block` is around the caller."""
    return _ENDS_ONLY.get()
