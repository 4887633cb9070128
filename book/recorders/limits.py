"""Limits on the time that something takes."""

import contextlib
import os
import signal
import subprocess
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


def finished(run: subprocess.Popen, seconds: float | None = None) -> int:
    """The exit status of a process that leads a session of its own. When the seconds are over it is ended, with all that it has
    started."""
    try:
        return run.wait(seconds)
    except BaseException as error:
        os.killpg(run.pid, signal.SIGKILL)
        status = run.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            return status
        raise
