"""Wrong ways to write a reduction of a block, and right ones."""

from mutants.reduction.right import ACCEPTED
from mutants.reduction.wrong import MUTANTS

__all__ = ["ACCEPTED", "MUTANTS"]
