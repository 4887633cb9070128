"""What one rank of many would hold, send and compute, with no such machine: ring attention and compressed gradients."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from kernels.distributed.messages import Sent, counted
from kernels.distributed.ring import PLACINGS, ring_attention, tiles
from kernels.memory import track


def work(length: int, rank: int, ranks: int, placing: str, block: int = 512) -> int:
    """Scores that a rank computes under a causal mask, masked ones in a tile included."""
    placed = [PLACINGS[placing](length, each, ranks) for each in range(ranks)]
    every = [tile for columns in placed for tile in tiles(placed[rank], columns, True, block)]
    return sum((t.rows.stop - t.rows.start) * (t.columns.stop - t.columns.start) for t in every)


class Shares(torch.nn.Module):
    """A rank's q, k and v of a sequence, 8 heads of 64 in bfloat16, and ring attention over them."""

    def __init__(self, length: int, ranks: int, block: int) -> None:
        super().__init__()
        qkv = torch.empty(3, 1, 8, length // ranks, 64, dtype=torch.bfloat16, device="meta")
        self.qkv, self.block = torch.nn.Parameter(qkv), block

    def forward(self) -> torch.Tensor:
        q, k, v = self.qkv.unbind()
        return ring_attention(q, k, v, causal=True, block=self.block)


def rank_of_many(length: int, ranks: int, block: int = 512) -> tuple[int, Sent]:
    """Bytes at the peak of a step on one rank, forward and backward, and what it sends.

    Nothing is computed, allocated or sent: a sequence of a million positions on 64 ranks can be counted.
    """
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    try:
        with counted() as sent:
            return track(Shares(length, ranks, block)).bytes, sent
    finally:
        dist.destroy_process_group()


def compressed(how: Mapping[str, Any], shapes: Sequence[tuple[int, ...]], ranks: int) -> tuple[int, int]:
    """Messages and bytes that a rank sends in a step of `compress(…, **how)`, by arithmetic.

    how: {"density": …}, {"rank": …}, or {} for an all-reduce of all gradients in float32. shapes: of the parameters.
    """
    numbers = sum(map(math.prod, shapes))
    if "density" in how:
        return 2 * (ranks - 1), (ranks - 1) * math.ceil(how["density"] * numbers) * (4 + 4)
    sums = [numbers]
    if "rank" in how:
        matrices = [(shape[0], math.prod(shape[1:])) for shape in shapes if len(shape) > 1]
        matrices = [(rows, columns) for rows, columns in matrices if how["rank"] * (rows + columns) < rows * columns]
        left = how["rank"] * sum(rows for rows, _ in matrices) + numbers - sum(map(math.prod, matrices))
        sums = [left, how["rank"] * sum(columns for _, columns in matrices)]
    return 2 * (ranks - 1) * len(sums), 4 * 2 * (ranks - 1) * sum(-(-one // ranks) for one in sums)
