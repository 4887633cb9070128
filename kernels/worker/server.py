"""The process side: what runs the functions that the caller sends.

On a CPU, also as a compiler, this is a warm parent: it has imported torch and kernels, forks a child for every call, and
reports how it ended. On a GPU it runs the calls itself, one after another, since a CUDA context does not survive a fork.

Messages on the socket, one packet each: "ready" when this process is up; from the caller "run" with the descriptors of the
memory, standard output and standard error, "kill", and "import" and a module, which is "imported" before the next call; in
answer to "run" the id of the process that runs the call, then "ended" with its wait status. The outcome is in the memory.
When the caller is gone, so are this process and its child.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import io
import os
import pickle
import resource
import select
import signal
import socket
import sys
import threading
import traceback

import torch

from kernels.worker.tensors import Memory

# Decided when torch and triton were imported; a call's environment does not change them.
_IMPORTED_WITH = {name: os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "TRITON_INTERPRET")}


def main(descriptor: str, device: str) -> None:
    """Serve the caller at the other end of the socket until it is gone."""
    caller = socket.socket(fileno=int(descriptor))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is expected here, and writing a core takes seconds
    _write_lines()
    # A call of C's exit() ends the process at once, with its status: torch's destructors do not survive the stack of a
    # CUDA thread.
    libc = ctypes.CDLL(None)
    libc.on_exit(ctypes.cast(libc._exit, ctypes.c_void_p), None)
    if device == "cuda":
        _serve_on_gpu(caller)
    else:
        _serve_by_forking(caller, device)
    os._exit(0)


def _serve_by_forking(caller: socket.socket, device: str) -> None:
    if device == "compiler":
        from triton.runtime.cache import triton_key

        triton_key()  # of all that Triton's compiler consists of, which takes longer than a kernel
    gc.collect()
    gc.freeze()  # so that no child's collector writes to, and so copies, what it shares with this process
    caller.send(b"ready")
    while message := socket.recv_fds(caller, 256, 3, socket.MSG_CMSG_CLOEXEC):
        word, descriptors = message[:2]
        if not word:
            return
        if word.startswith(b"import "):
            with contextlib.suppress(ImportError):  # the call that needs it says so
                importlib.import_module(word.removeprefix(b"import ").decode())
            gc.freeze()
            caller.send(b"imported")
            continue
        if word != b"run":
            continue  # a "kill" that came after the end
        child = os.fork()
        if child == 0:
            caller.close()
            os.setpgid(0, 0)
            _run(*descriptors)
            os._exit(0)
        for each in descriptors:
            os.close(each)
        with contextlib.suppress(OSError):  # the caller may be gone
            caller.send(str(child).encode())
        status = _status_of(child, caller)
        with contextlib.suppress(OSError):
            caller.send(f"ended {status}".encode())


def _status_of(child: int, caller: socket.socket) -> int:
    """The wait status of a child when it has ended, by itself or at the caller's word."""
    with contextlib.suppress(OSError):  # the child does the same: whoever comes first
        os.setpgid(child, child)
    ended = os.pidfd_open(child)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(caller, select.POLLIN)
    if ended not in dict(poll.poll()):
        os.killpg(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    os.close(ended)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # whatever it started
    return os.waitpid(child, 0)[1]


def _serve_on_gpu(caller: socket.socket) -> None:
    def leave_with_caller() -> None:
        poll = select.poll()
        poll.register(caller, select.POLLRDHUP)
        poll.poll()
        os._exit(1)

    threading.Thread(target=leave_with_caller, daemon=True).start()
    torch.cuda.synchronize()  # makes the context
    caller.send(b"ready")
    while message := socket.recv_fds(caller, 16, 3, socket.MSG_CMSG_CLOEXEC):
        word, descriptors = message[:2]
        if not word:
            return
        caller.send(str(os.getpid()).encode())
        _run(*descriptors)
        for each in descriptors:
            os.close(each)
        try:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        except RuntimeError:  # the context is lost, and this process with it
            os._exit(1)
        caller.send(b"ended 0")


def _run(memory_descriptor: int, output: int, errors: int) -> None:
    """Run the call that stands in the memory and append its outcome."""
    os.dup2(output, 1)
    os.dup2(errors, 2)
    memory = Memory(memory_descriptor, copy=False)
    try:
        message = memory.read()
        environment, path, folder = next(message)
        os.environ.clear()
        os.environ.update(environment)
        for name, value in _IMPORTED_WITH.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        sys.path[:] = path
        os.chdir(folder)
        function, args = next(message)
        result = function(*args)
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        memory.write("returned", result)
    except SystemExit as exit:
        _flush()
        code = exit.code
        os._exit(code if isinstance(code, int) else code is not None)
    except BaseException as error:
        memory.write("raised", _portable(error), f"{type(error).__name__}: {error}", traceback.format_exc())
    _flush()


def _portable(error: BaseException) -> bytes | None:
    """The pickled exception, or None if it cannot be pickled and restored."""
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)
        return pickled
    except Exception:
        return None


def _write_lines() -> None:
    """Let Python's and C's standard output write each line as it ends: a crash then loses none."""
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding="utf-8", line_buffering=True)
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), encoding="utf-8", line_buffering=True)
    libc = ctypes.CDLL(None)
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, 1, 0)  # 1: _IOLBF


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)
