"""Counts of bytes, private to a block before they are shared, and sums of rows longer than the block that takes them."""

from kernels.grading.labs.histogram_and_scan.counting import COUNT_VALUES
from kernels.grading.labs.histogram_and_scan.summing import CUMULATIVE_SUMS

EXERCISES = (COUNT_VALUES, CUMULATIVE_SUMS)
