"""Mistakes in a cross-entropy with its gradient in one kernel, and other ways to write it."""

from mutants.cross_entropy.right import ACCEPTED
from mutants.cross_entropy.wrong import MUTANTS

__all__ = ["ACCEPTED", "MUTANTS"]
