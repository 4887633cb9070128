"""Elements so far apart, or so many, that an index needs 64 bits."""

from __future__ import annotations

from dataclasses import replace

from kernels.grading import properties
from kernels.grading.exercise import Property

FAR = 1 << 30  # a distance: an int does not count as far as the third place, and an unsigned not as far as the fifth
BEYOND = 5 * FAR  # elements: not even an unsigned int counts them
PRODUCTS = "The product of two ints is an int, that of an unsigned and an int an unsigned."


def also_far(*cases: str, hint: str, name: str = "also where an index needs 64 bits", exact: bool = False) -> Property:
    """Of the last stage: its cases are tried when all else holds."""
    return replace(properties.right(*cases, name=name, exact=exact, hint=hint), stage="costs")


def size_t(index: str) -> str:
    """A hint. index: an expression of CUDA C, whose first factor is converted."""
    return f"{PRODUCTS} (size_t){index} has 64 bits."
