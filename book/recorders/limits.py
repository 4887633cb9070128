"""A limit on the time that something takes."""

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raise a TimeoutError in what is below when the seconds are over; in the main thread of a process alone."""

    def over(*_: object) -> None:
        raise TimeoutError(f"took longer than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
