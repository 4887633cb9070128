"""Several processes, called ranks, that compute one thing together: started, joined and counted."""

from kernels.distributed.attention import ContextParallelAttention
from kernels.distributed.collectives import all_gather, all_reduce, all_to_all, reduce_scatter
from kernels.distributed.compression import compress
from kernels.distributed.messages import Sent, counted
from kernels.distributed.ranks import RankError, run
from kernels.distributed.ring import ring_attention, shard

__all__ = [
    "ContextParallelAttention",
    "RankError",
    "Sent",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "compress",
    "counted",
    "reduce_scatter",
    "ring_attention",
    "run",
    "shard",
]
