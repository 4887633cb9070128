"""Mistakes in decoding from pages, in a part of the keys and in the join, and other ways to write both."""

from mutants.paged_decode import join, part

MUTANTS = [*part.MUTANTS, *join.MUTANTS]
ACCEPTED = {"part_of_keys": part.ACCEPTED, "join_parts": join.ACCEPTED}
