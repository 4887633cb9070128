"""Collectives, written from messages between two ranks: which sums and shares move along a ring, and how many bytes.

With P ranks, a message goes to the next rank at each of P - 1 steps (Patarasu and Yuan, 2009: no all-reduce sends fewer
bytes). `all_to_all` goes to another distance at each. All ranks call with the same shape and dtype. For autograd the results
are constants.
"""

import torch
import torch.nn.functional as F

from kernels.distributed.messages import exchange, place


def all_reduce(x: torch.Tensor) -> torch.Tensor:
    """The sum of all ranks' x, of any shape, on every rank.

    Sends 2 · (P - 1) messages of a P-th of x each, rounded up to whole elements.
    """
    _, ranks = place()
    shares = F.pad(x.detach().flatten(), (0, -x.numel() % ranks)).view(ranks, -1)
    return all_gather(reduce_scatter(shares)).flatten()[: x.numel()].view(x.shape)


def reduce_scatter(x: torch.Tensor) -> torch.Tensor:
    """The sum over all ranks of row r of x (P, …), on rank r: (…). Sends P - 1 messages of a row each."""
    rank, ranks = _rows(x)
    share = x[(rank - 1) % ranks]
    for step in range(1, ranks):
        # What comes is a sum of `step` ranks' rows, which this rank's own joins.
        share = exchange(share, (rank + 1) % ranks, (rank - 1) % ranks) + x[(rank - 1 - step) % ranks]
    return share.detach()


def all_gather(x: torch.Tensor) -> torch.Tensor:
    """All ranks' x (…), one below the other in the order of ranks, on every rank: (P, …). Sends P - 1 messages of x each."""
    rank, ranks = place()
    share = x.detach()
    found = [share] * ranks
    for step in range(1, ranks):
        share = exchange(share, (rank + 1) % ranks, (rank - 1) % ranks)
        found[(rank - step) % ranks] = share
    return torch.stack(found)


def all_to_all(x: torch.Tensor) -> torch.Tensor:
    """Row r of x (P, …) goes to rank r; row s of the result (P, …) came from rank s. Sends P - 1 messages of a row each."""
    rank, ranks = _rows(x)
    found = x.detach().clone()
    for step in range(1, ranks):
        to, source = (rank + step) % ranks, (rank - step) % ranks
        found[source] = exchange(x[to], to, source)
    return found


def _rows(x: torch.Tensor) -> tuple[int, int]:
    rank, ranks = place()
    if x.ndim == 0 or x.shape[0] != ranks:
        raise ValueError(f"x: got shape {tuple(x.shape)}, expected a row for each of the {ranks} ranks")
    return rank, ranks
