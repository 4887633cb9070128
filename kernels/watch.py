"""Launches can be watched instead of made."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

_LOCK = threading.Lock()


class Watch:
    """A launcher's switch: what it is asked to launch inside `with watched(by):` goes to `by` instead.

    In all threads: autograd launches the backward of a GPU's tensors from a thread of its own.
    """

    by: Callable[..., Any] | None = None
    watching = 0  # how many want to see launches, of all launchers: while there are any, kernels.replay repeats none

    @contextlib.contextmanager
    def __call__(self, by: Callable[..., Any] | None) -> Iterator[None]:
        before, self.by = self.by, by
        try:
            with seen():
                yield
        finally:
            self.by = before


@contextlib.contextmanager
def seen() -> Iterator[None]:
    """Inside, every launch is asked of its launcher."""
    with _LOCK:
        Watch.watching += 1
    try:
        yield
    finally:
        with _LOCK:
            Watch.watching -= 1
