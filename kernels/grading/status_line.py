"""In a notebook that someone watches, one line that says what a check is doing. It gives way to the report."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def status_line(name: str) -> Iterator[Callable[[str], None]]:
    """What this gives shows a line in place of the last one. It clears the cell's output, as the line itself must go."""
    # A Jupyter server sets this for the notebooks in its pages. Those that are executed to be stored or compared have none.
    if "JPY_SESSION_NAME" not in os.environ:
        yield lambda doing: None
        return
    from IPython.display import clear_output

    def show(doing: str) -> None:
        clear_output(wait=True)
        print(f"{name}: {doing} …", flush=True)

    try:
        yield show
    finally:
        clear_output(wait=True)
