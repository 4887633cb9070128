"""The caller's side of a worker: starts it, sends it calls, passes on what they print, and holds them to their limits."""

from __future__ import annotations

import atexit
import codecs
import contextlib
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from kernels.worker.forked import Forked
from kernels.worker.tensors import Memory

# Huge pages make the fork of a process with hundreds of megabytes faster: there are fewer entries to copy.
TO_BE_FORKED = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
_WORDS_SECONDS = 10.0  # after its time a function is interrupted, and has so long to say where it was
_LOOK_SECONDS = 0.02  # how often memory is looked at
_OUTPUT_BYTES = 1 << 20  # of each stream of a call
_INTERRUPTED = re.compile(r"interrupted,? (?:in interrupted )?((?:on|in) .*)", re.DOTALL)
_started: weakref.WeakSet[Server] = weakref.WeakSet()


class WorkerError(RuntimeError):
    """A function that a worker could not bring to its end."""


class TimeLimit(WorkerError):
    """The function took longer than it may."""


class MemoryLimit(WorkerError):
    """The function took more memory than it may."""


class WorkerDied(WorkerError):
    """The function crashed the worker or ended its process."""


class Server:
    """The process that runs calls: see `kernels.worker.server`. forked: it is a copy of this one, and soon there."""

    def __init__(self, device: str, forked: bool = False) -> None:
        self._device, self._prepared = device, set()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if forked:
            self._process: subprocess.Popen | Forked = Forked(self._socket, theirs, device)
            _started.add(self)
            return
        environment = dict(os.environ)
        if device == "compiler":
            environment["TRITON_INTERPRET"] = "0"
        if device != "cuda":
            environment["CUDA_VISIBLE_DEVICES"] = ""
            environment |= TO_BE_FORKED
        path = [str(Path(__file__).parents[2]), *sys.path]
        code = f"import sys; sys.path[:] = {path!r}; from kernels.worker.server import main; main(*sys.argv[1:])"
        with tempfile.TemporaryFile() as errors:
            # A session of its own: what interrupts this process from the keyboard does not reach it.
            self._process = subprocess.Popen(
                [sys.executable, "-c", code, str(theirs.fileno()), device],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
            _started.add(self)
            theirs.close()
            try:
                ready = self._socket.recv(16)
            except BaseException:
                self.close()
                raise
            if not ready:
                self.close()
                errors.seek(0)
                raise WorkerDied(f"the worker could not start:\n{errors.read().decode(errors='replace')}")

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End the process, and whatever it runs."""
        _started.discard(self)
        self._socket.close()  # on which it leaves
        try:
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def forget(self) -> None:
        """In a forked copy of the caller: the process belongs to the original."""
        self._socket.close()
        self._process.returncode = 0

    def prepare(self, module: str) -> None:
        """Have a module imported in the process that forks."""
        if module not in self._prepared:
            self._socket.send(f"import {module}".encode())
            self._socket.recv(16)
            self._prepared.add(module)

    def call(self, function: Callable[..., Any], args: tuple, seconds: float, memory_bytes: int) -> tuple:
        """("returned", result) or ("raised", pickled exception or None, its text, its traceback)."""
        with contextlib.ExitStack() as stack:
            descriptor = os.memfd_create("kernels-worker")
            stack.callback(os.close, descriptor)
            memory = Memory(descriptor, copy=True)
            memory.write((dict(os.environ), sys.path, os.getcwd()), (function, args))
            asked = memory.size
            streams = [stack.enter_context(_Stream(target)) for target in (sys.stdout, sys.stderr)]
            try:
                socket.send_fds(self._socket, [b"run"], [descriptor, *(stream.write_end for stream in streams)])
                status, stopped = self._wait(streams, seconds, memory_bytes)
            except BaseException:
                self.close()
                raise
            if stopped and self._device == "cuda":
                self.close()
            for stream in streams:
                stream.pass_on()
            if memory.size > asked:
                outcome = tuple(memory.read())
                if not isinstance(stopped, TimeLimit) or outcome[0] == "returned":
                    return outcome
                if where := _INTERRUPTED.search(outcome[2]):
                    stopped = TimeLimit(f"{stopped}. It was {where[1]}")
        raise stopped or WorkerDied(_death(status))

    def _wait(self, streams: list[_Stream], seconds: float, memory_bytes: int) -> tuple[int, WorkerError | None]:
        """How the call ended, as an exit code, negative for a signal; and why it was stopped, if it was."""
        deadline, stopped, end = time.monotonic() + seconds, None, float("inf")
        at_first, child = _memory_of(self._process.pid), None
        with selectors.DefaultSelector() as selector:
            for stream in streams:
                selector.register(stream.read_end, selectors.EVENT_READ, stream)
            selector.register(self._socket, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select(_LOOK_SECONDS):
                    if key.data is None:
                        message = self._socket.recv(16).decode()
                        if message.startswith("ended"):
                            return os.waitstatus_to_exitcode(int(message.split()[1])), stopped
                        if not message:  # the process itself has died
                            self.close()
                            return self._process.returncode, stopped
                        child = int(message)
                    elif not key.data.pass_on():
                        selector.unregister(key.data.read_end)
                if time.monotonic() > end:
                    end = float("inf")
                    self._kill()
                if stopped or child is None:
                    continue
                if time.monotonic() > deadline:
                    stopped = TimeLimit(
                        f"stopped after {seconds:g} s: an endless loop, a wait for what never comes, or too much work"
                    )
                elif _memory_of(child) - at_first > memory_bytes:
                    stopped = MemoryLimit(f"stopped when it had taken {memory_bytes / 2**20:,.0f} MiB of memory")
                if isinstance(stopped, TimeLimit) and self._device == "cpu":
                    end = time.monotonic() + _WORDS_SECONDS
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGINT)
                elif stopped:
                    self._kill()

    def _kill(self) -> None:
        if self._device == "cuda":
            self._process.kill()
        else:
            self._socket.send(b"kill")


class _Stream:
    """What a call writes to one of its standard streams, passed on to one of ours."""

    def __init__(self, target: TextIO) -> None:
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        self._target = target
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._left = _OUTPUT_BYTES

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.read_end)
        os.close(self.write_end)

    def pass_on(self) -> bool:
        """Pass on what there is. False when no more will come."""
        while True:
            try:
                data = os.read(self.read_end, 1 << 16)
            except BlockingIOError:
                return True
            if not data:
                return False
            if self._left > 0:
                self._target.write(self._decoder.decode(data[: self._left]))
                self._left -= len(data)
                if self._left <= 0:
                    self._target.write(f"\n… output beyond {_OUTPUT_BYTES:,} bytes is not shown\n")


def _memory_of(process: int) -> int:
    """Bytes of memory that a process has taken for itself; 0 when it is gone."""
    try:
        _, resident, shared, *_ = Path(f"/proc/{process}/statm").read_text().split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def _death(exitcode: int) -> str:
    if exitcode >= 0:
        return f"its process ended, with exit code {exitcode}, before it returned"
    name, words = signal.Signals(-exitcode).name, signal.strsignal(-exitcode)
    hint = {
        signal.SIGSEGV: ": it read or wrote memory that is not its own, or its stack overflowed",
        signal.SIGBUS: ": it read or wrote memory that is not its own",
        signal.SIGABRT: ": perhaps it wrote to memory that is not its own, past what malloc gave",
        signal.SIGFPE: ": an integer was divided by zero",
        signal.SIGKILL: ": perhaps the machine ran out of memory",
    }.get(-exitcode, "")
    return f"its process died of {name} ({words.lower()}){hint}"


@atexit.register
def _close_all() -> None:
    for server in list(_started):
        server.close()


def _forget_all() -> None:
    for server in list(_started):
        server.forget()
    _started.clear()


os.register_at_fork(after_in_child=_forget_all)
