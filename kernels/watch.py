"""Launches can be watched instead of made."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


class Watch:
    """A launcher's switch: what it is asked to launch inside `with watched(by):` goes to `by` instead.

    In all threads: autograd launches the backward of a GPU's tensors from a thread of its own.
    """

    by: Callable[..., Any] | None = None

    @contextlib.contextmanager
    def __call__(self, by: Callable[..., Any]) -> Iterator[None]:
        before, self.by = self.by, by
        try:
            yield
        finally:
            self.by = before
