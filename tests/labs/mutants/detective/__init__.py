"""Wrong ways to mend the detective's kernels, and right ones."""

from mutants.detective.right import ACCEPTED
from mutants.detective.wrong import MUTANTS

__all__ = ["ACCEPTED", "MUTANTS"]
