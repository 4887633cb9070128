"""What one rank of many would hold, send and compute in ring attention: counted from the code itself, with no such machine."""

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
