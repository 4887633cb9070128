"""Decoding from a cache in pages: what a block leaves of a part of the keys, and how the parts of a sequence are joined."""

from kernels.grading.labs.paged_decode.join import JOIN_PARTS
from kernels.grading.labs.paged_decode.part import PART_OF_KEYS

EXERCISES = (PART_OF_KEYS, JOIN_PARTS)
