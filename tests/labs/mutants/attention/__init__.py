"""Mistakes in a forward of attention, and other ways to write it."""

from mutants.attention.right import ACCEPTED
from mutants.attention.wrong import MUTANTS

__all__ = ["ACCEPTED", "MUTANTS"]
