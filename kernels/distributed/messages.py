"""One message to a rank while one comes from another: what all of this package is built of, and what counts it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass
class Sent:
    """What this rank has sent to others."""

    messages: int = 0
    bytes: int = 0


_counts: list[Sent] = []  # of the process: a GPU's backward runs in a thread of its own


@contextmanager
def counted() -> Iterator[Sent]:
    """Count what this rank sends through `exchange` and `start_exchange` inside."""
    _counts.append(Sent())
    try:
        yield _counts[-1]
    finally:
        _counts.pop()


def start_exchange(tensor: torch.Tensor, to: int, source: int) -> Callable[[], torch.Tensor]:
    """Start to send a tensor to one rank and to receive one of the same shape and dtype from another.

    Returns a function that waits for the one that comes, and returns it. All ranks must start their exchanges in an order
    that fits: the n-th message from one rank to another is the n-th that the other receives from it.
    """
    tensor = tensor.detach().contiguous()
    # gloo carries the memory of the CPU alone.
    leaving = tensor.cpu() if dist.get_backend() == "gloo" else tensor
    arriving = torch.empty_like(leaving)
    both = [dist.P2POp(dist.isend, leaving, to), dist.P2POp(dist.irecv, arriving, source)]
    works = dist.batch_isend_irecv(both)
    for count in _counts:
        count.messages += 1
        count.bytes += leaving.nbytes

    def arrived() -> torch.Tensor:
        for work in works:
            work.wait()
        return arriving.to(tensor.device)

    return arrived


def exchange(tensor: torch.Tensor, to: int, source: int) -> torch.Tensor:
    """Send a tensor to one rank, and return the one of the same shape and dtype that comes from another."""
    return start_exchange(tensor, to, source)()


def place() -> tuple[int, int]:
    """This process's rank, and how many there are."""
    return dist.get_rank(), dist.get_world_size()
