"""Mistakes in the backward of layer norm, and other ways to write it."""

from mutants.layer_norm_backward.right import ACCEPTED
from mutants.layer_norm_backward.wrong import MUTANTS

__all__ = ["ACCEPTED", "MUTANTS"]
