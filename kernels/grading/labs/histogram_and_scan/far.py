"""Rows so far apart that an index needs 64 bits, with blocks that each have one of them."""

from __future__ import annotations

from dataclasses import replace

from kernels.grading import properties
from kernels.grading.exercise import Property

FAR = 1 << 30  # at five times as much, not even an unsigned int counts any more


def also_far(block: str) -> Property:
    """Of the last stage: its case, "far", is tried when all else holds. block: the index of a row, in CUDA C."""
    hint = f"The product of two ints is an int, that of an unsigned and an int an unsigned. (size_t){block} * row has 64 bits."
    return replace(properties.right("far", name="also where an index needs 64 bits", hint=hint), stage="costs")
