"""The roofline in numbers: limits of many kernels at once, of chains of them, and the batch from which on arithmetic limits."""

from kernels.grading.labs.roofline.batches import LEAST_BATCH
from kernels.grading.labs.roofline.chains import FEWEST_MILLISECONDS
from kernels.grading.labs.roofline.rates import ATTAINABLE

EXERCISES = (ATTAINABLE, FEWEST_MILLISECONDS, LEAST_BATCH)
