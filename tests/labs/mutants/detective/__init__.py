"""Wrong ways to fix the detective's kernels, and right ones."""

from mutants.detective import exchanges, shared_memory, tiles
from mutants.detective.right import ACCEPTED

MUTANTS = shared_memory.MUTANTS + tiles.MUTANTS + exchanges.MUTANTS

__all__ = ["ACCEPTED", "MUTANTS"]
