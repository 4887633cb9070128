"""A warm parent made of this process, which has imported all that it needs, instead of a new one that imports it again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time


class Forked:
    """A copy of this process that serves the other end of a socket, with what the client uses of `subprocess.Popen`."""

    def __init__(self, ours: socket.socket, theirs: socket.socket, device: str) -> None:
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            _serve(theirs, device)
        theirs.close()
        ours.recv(16)  # "ready"

    def poll(self) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float = float("inf")) -> int:
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(0.001)
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def _serve(caller: socket.socket, device: str) -> None:
    """In the copy, which never returns."""
    from kernels.worker.server import main

    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        main(str(caller.detach()), device)
    finally:
        os._exit(1)
