"""The cache as the kernels of levels 4 and 5 see it, and into how many parts the keys of a sequence are divided."""

from collections.abc import Callable

import torch

from kernels.hardware import LAUNCH_GRID
from kernels.machine import multiprocessors

BLOCKS = 4  # of a multiprocessor: enough that one waits for its keys while others compute
FEWEST = 128  # keys of a part, when the cache is full: what fewer save is lost in joining them


def in_pages(cache: torch.Tensor, table: torch.Tensor | None) -> torch.Tensor:
    """pages×page_size×H'×D, features next to each other; a copy only where they are not. Without a table a sequence is a
    page."""
    pages = cache if table is not None else cache.transpose(1, 2)
    return pages if pages.stride(3) == 1 or pages.shape[3] == 1 else pages.contiguous()


def parts(blocks: int, k: torch.Tensor, table: torch.Tensor | None, together: int = BLOCKS) -> int:
    """Into how many the keys of each sequence are divided, however many it has: as many as fill the GPU.

    Args:
        blocks: of a launch without parts, one for each sequence and group of heads.
        k: as in_pages gives it.
        together: blocks of a multiprocessor.
    """
    capacity = k.shape[1] * (1 if table is None else table.shape[1])
    wanted = together * multiprocessors(k.device) // blocks
    return max(min(wanted, capacity // FEWEST), 1)


def strides(*caches: torch.Tensor) -> list[int]:
    """Of pages, keys and heads of each."""
    return [stride for one in caches for stride in one.stride()[:3]]


def beyond_grid(q: torch.Tensor, k: torch.Tensor, table: torch.Tensor | None) -> bool:
    """Whether sequences have more heads of keys than a grid has places for in its second dimension."""
    return len(q) * k.shape[1 if table is None else 2] > LAUNCH_GRID[1] and len(q) > 1


def by_sequences(fn: Callable, q, k, v, lengths, table, scale) -> tuple[torch.Tensor, ...]:
    """The same of as many sequences at a time as a grid takes."""
    most = max(LAUNCH_GRID[1] // k.shape[1 if table is None else 2], 1)
    found = []
    for start in range(0, len(q), most):
        some = slice(start, start + most)
        caches = (k[some], v[some]) if table is None else (k, v)
        found.append(fn(q[some], *caches, lengths[some], None if table is None else table[some], scale))
    return tuple(map(torch.cat, zip(*found, strict=True)))
