"""Isolation: a function runs in another process, under limits of time and memory, and cannot take this one with it.

    loss = worker.run(module.train_step, x, weight, seconds=5)

The worker of a CPU is forked from a warm parent, which has imported torch and kernels, so that no call pays for it, and each
sees a fresh process. The worker of a GPU is kept from call to call, with a CUDA context of its own, and replaced when it
dies or is stopped. Both start with the first call that needs them (seconds) and end with this process. Linux only.

Why not multiprocessing's forkserver: it runs the caller's main module again in every child, so a script without a guard
fails and a heavy one makes each call slow; and the one server belongs to whoever starts it first.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

import torch

from kernels.worker.client import MemoryLimit, Server, TimeLimit, WorkerDied, WorkerError

__all__ = ["MemoryLimit", "TimeLimit", "WorkerDied", "WorkerError", "prepare", "run"]

_servers: dict[str, Server] = {}
_lock = threading.RLock()  # a worker takes one call at a time


def run(
    function: Callable[..., Any],
    *args: Any,
    seconds: float = 10.0,
    memory_bytes: int = 4 << 30,
    device: str | None = None,
) -> Any:
    """Call `function(*args)` in a worker process and return what it returns.

    Args:
        function: at the top level of a module that can be imported; the worker imports it by name.
        args: anything that pickle takes. Tensors arrive as copies, each at its offset from a 256-byte boundary, and
            share memory there where they do here. What the function writes to them is not seen here unless it
            returns them.
        seconds: the longest it may take; then it is killed, with every process that it started.
        memory_bytes: how much memory it may take beyond what the worker has from the start. GPU memory does not count.
        device: "cpu" or "cuda": which worker. By default, that of the tensors among `args`, and the CPU's without one. A
            CPU's worker sees no GPU, and Triton interprets in it. "compiler": another such, in which Triton compiles.

    What the worker prints appears on sys.stdout and sys.stderr as it comes. Its environment variables, working folder and
    import path are this process's. Calls from several threads take turns.

    Raises:
        TimeLimit, MemoryLimit: the function was stopped.
        WorkerDied: it crashed, or ended its process.
        TypeError: the worker cannot import the function.
        What the function raised, with its message and the worker's traceback as a note; RuntimeError in place of an
        exception that cannot be pickled.
    """
    if getattr(function, "__module__", None) == "__main__" or "<" in getattr(function, "__qualname__", "<"):
        raise TypeError(
            f"function: got {function!r}, expected a function at the top level of a module: a worker imports it by name, "
            "and cannot see what a notebook or a script defines"
        )
    if device is None:
        on_gpu = any(isinstance(arg, torch.Tensor) and arg.device.type == "cuda" for arg in args)
        device = "cuda" if on_gpu else "cpu"
    if device not in ("cpu", "cuda", "compiler"):
        raise ValueError(f"device: got {device!r}, expected 'cpu', 'cuda' or 'compiler'")
    with _lock:
        outcome = _server(device).call(function, args, seconds, memory_bytes)
    kind, *rest = outcome
    if kind == "returned":
        return rest[0]
    raise _restored(*rest)


def fork() -> None:
    """Make a copy of this process the CPU's warm parent, which is then there at once.

    For a process that has imported torch and kernels with Triton as its interpreter, and has no GPU and no other thread yet.
    """
    with _lock:
        _servers["cpu"] = Server("cpu", forked=True)


def prepare(module: str, device: str = "cpu") -> None:
    """Let a warm parent, "cpu" or "compiler", import a module, once, so that no call there has to."""
    with _lock:
        _server(device).prepare(module)


def _server(device: str) -> Server:
    """The one that runs, or a new one."""
    if device not in _servers or not _servers[device].alive:
        _servers[device] = Server(device)
    return _servers[device]


def _restored(pickled: bytes | None, text: str, trace: str) -> BaseException:
    try:
        error = pickle.loads(pickled) if pickled else RuntimeError(text)
    except Exception:  # its class is known to the worker alone
        error = RuntimeError(text)
    error.add_note(f"In the worker:\n{trace}")
    return error
