"""Several processes, called ranks, that compute one thing together: started, joined and counted."""

from kernels.distributed.ranks import RankError, run

__all__ = ["RankError", "run"]
