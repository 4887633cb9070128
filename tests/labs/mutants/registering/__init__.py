"""Registrations with one mistake each, and other ways to register."""

from mutants.registering.right import ACCEPTED
from mutants.registering.wrong import MUTANTS

__all__ = ["ACCEPTED", "MUTANTS"]
