"""Ranks: processes of this machine that run one function together, joined by `torch.distributed`.

They are copies of the CPU's worker (`kernels.worker`), which has imported torch and kernels and nothing of the caller: no
main module runs again, and neither a notebook's threads nor its GPU are copied. How they meet needs a file, and no port.
"""

import datetime
import faulthandler
import math
import multiprocessing
import os
import pickle
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from kernels import worker

_OF_A_DEVICE = ("CUDA_VISIBLE_DEVICES", "TRITON_INTERPRET")  # which a worker of the CPU has of its own
_SPARE_SECONDS = 30.0


class RankError(RuntimeError):
    """A rank raised, or its process died. `rank` says which; the message ends with its traceback."""

    def __init__(self, rank: int, said: str) -> None:
        super().__init__(f"rank {rank} {said}")
        self.rank = rank


def run(fn: Callable[..., Any], *args: Any, ranks: int = 2, device: str = "cpu", timeout: float = 60.0) -> list[Any]:
    """Call `fn(*args)` in several processes at once and return what each returned, in the order of their ranks.

    In `fn`, `torch.distributed.get_rank()` says which one it is, and all of `torch.distributed` works, as under torchrun.

    Args:
        fn: a function; one of a notebook's cell or one inside another too, where cloudpickle is installed.
        args: the same for all ranks, anything that pickle takes.
        ranks: how many processes.
        device: "cpu": gloo joins the ranks, each computes with one thread. "cuda": rank r has GPU r modulo their number as
            its current device; NCCL joins them where each has a GPU of its own, and gloo where they share.
        timeout: seconds for all; then the ranks are killed. On "cuda" the import of torch counts.

    Tensors that are returned arrive on the CPU, without a graph.

    Raises:
        RankError: a rank raised or died: the first that did, since the others miss its messages. All are ended.
        TimeoutError: says where each rank was.
        TypeError: a function of a notebook, without cloudpickle. ValueError: no such number, device or time.
    """
    if ranks < 1:
        raise ValueError(f"ranks: got {ranks}, expected at least 1")
    if not 0 < timeout < math.inf:
        raise ValueError(f"timeout: got {timeout}, expected seconds, more than 0")
    if device not in ("cpu", "cuda") or (device == "cuda" and not torch.cuda.is_available()):
        raise ValueError(f"device: got {device!r}, expected 'cpu', or 'cuda' where there is a GPU")
    packed, environment = _packed(fn, args), {name: os.environ.get(name) for name in _OF_A_DEVICE}
    if (module := getattr(fn, "__module__", None) or "").startswith("kernels."):
        worker.prepare(module)  # so that no rank has to import it
    launched = packed, ranks, device, timeout, environment
    returned, failed = worker.run(_launch, *launched, seconds=timeout + _SPARE_SECONDS, device="cpu")
    if failed is None:
        return returned
    rank, said = failed
    raise TimeoutError(said) if rank is None else RankError(rank, said)


def _packed(fn: Callable[..., Any], args: tuple) -> bytes:
    try:
        from cloudpickle import dumps
    except ImportError:
        if getattr(fn, "__module__", None) == "__main__" or "<" in getattr(fn, "__qualname__", ""):
            raise TypeError(
                f"fn: got {fn!r}, expected a function at the top level of a module: install cloudpickle for functions of "
                "a notebook or inside others"
            ) from None
        from pickle import dumps
    return dumps((fn, args))


def _launch(
    packed: bytes, ranks: int, device: str, timeout: float, environment: dict[str, str | None]
) -> tuple[list[Any], tuple[int | None, str] | None]:
    """In the worker: start the ranks and see them end. What they returned; and the rank that failed, with what it said."""
    if device == "cuda":
        for name, value in environment.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
    # A copy of this process has imported torch already, but for a GPU it was told that there is none.
    context: Any = multiprocessing.get_context("spawn" if device == "cuda" else "fork")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        each = [
            context.Process(target=_rank, args=(rank, ranks, device, timeout, folder, packed)) for rank in range(ranks)
        ]
        for process in each:
            process.start()
        try:
            failed = _failed(each, folder, time.monotonic() + timeout, timeout)
        finally:
            for process in each:
                process.kill()
                process.join()
        if failed:
            return [], failed
        return [torch.load(folder / str(rank), map_location="cpu", weights_only=False) for rank in range(ranks)], None


def _failed(each: list[Any], folder: Path, deadline: float, timeout: float) -> tuple[int | None, str] | None:
    """Wait for the end of all ranks, or of the first that fails."""
    running = {process.sentinel: process for process in each}
    while running:
        ended = wait(list(running), max(0.0, deadline - time.monotonic()))
        if not ended:
            return None, f"timeout: the ranks took longer than {timeout:g} s\n" + _stacks(each, folder)
        for process in [running.pop(sentinel) for sentinel in ended]:
            process.join()
            if process.exitcode:
                return _cause(each, folder)
    return None


def _cause(each: list[Any], folder: Path) -> tuple[int, str]:
    """The rank that failed first, and what it said. The others fail since they miss it."""
    time.sleep(0.05)  # a process that dies takes a moment, in which another may have seen it
    for rank, process in enumerate(each):
        if process.exitcode and not (folder / f"{rank}.error").exists():
            return rank, f"died: its process ended with exit code {process.exitcode}"
    first = min(folder.glob("*.error"), key=lambda path: path.stat().st_mtime_ns)
    return int(first.stem), first.read_text()


def _stacks(each: list[Any], folder: Path) -> str:
    """Where each rank is."""
    for process in each:
        if process.is_alive():
            os.kill(process.pid, signal.SIGUSR1)
    time.sleep(0.2)
    found = []
    for rank, process in enumerate(each):
        path = folder / f"{rank}.stack"
        lines = path.read_text().splitlines()[1:] if path.exists() else []
        # The frames below `_rank` are how it was started.
        own = [line for line in lines if "multiprocessing" not in line and "kernels/worker" not in line]
        end = next((number for number, line in enumerate(own) if f'"{__file__}"' in line), len(own))
        found.append(f"rank {rank} " + ("was at\n" + "\n".join(own[:end]) if process.is_alive() else "had ended"))
    return "\n".join(found)


def _rank(rank: int, ranks: int, device: str, timeout: float, folder: Path, packed: bytes) -> None:
    with open(folder / f"{rank}.stack", "w") as stack:
        faulthandler.register(signal.SIGUSR1, file=stack, all_threads=False)
        try:
            torch.set_num_threads(1)
            alone = False
            if device == "cuda":
                torch.cuda.set_device(rank % torch.cuda.device_count())
                alone = torch.cuda.device_count() >= ranks
            dist.init_process_group(
                "nccl" if alone else "gloo",
                store=dist.FileStore(str(folder / "store"), ranks),
                rank=rank,
                world_size=ranks,
                timeout=datetime.timedelta(seconds=timeout + _SPARE_SECONDS),  # ours is to come first
            )
            fn, args = pickle.loads(packed)
            torch.save(fn(*args), folder / str(rank))
            dist.destroy_process_group()
        except BaseException as error:
            text = f"raised {type(error).__name__}: {error}\n{traceback.format_exc()}"
            written = folder / f"{rank}.writing"
            written.write_text(text)
            written.rename(folder / f"{rank}.error")
            os._exit(1)  # without a word to the others before it is written
