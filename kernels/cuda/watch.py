"""Launches can be watched: what is launched inside `with watched(by):` goes to `by` instead."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

_WATCH: contextvars.ContextVar[Callable[..., Any] | None] = contextvars.ContextVar("watch", default=None)


@contextlib.contextmanager
def watched(by: Callable[..., Any]) -> Iterator[None]:
    """Call `by(kernel, grid, block, args, shared_mem)` for every launch inside, in place of launching."""
    token = _WATCH.set(by)
    try:
        yield
    finally:
        _WATCH.reset(token)


def current_watch() -> Callable[..., Any] | None:
    """Who watches the caller's launches, if anybody does."""
    return _WATCH.get()
