"""Launches whose counters were read on hardware, what the machine code of each does, and whether the two can be compared."""
