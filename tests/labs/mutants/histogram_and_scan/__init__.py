"""Wrong ways to write a histogram and a cumulative sum, and right ones."""

from mutants.histogram_and_scan import counting, summing

MUTANTS = counting.MUTANTS + summing.MUTANTS
ACCEPTED = {"count_values": counting.ACCEPTED, "cumulative_sums": summing.ACCEPTED}
