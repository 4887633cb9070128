"""Does the machine code keep the source's accesses? Decided line by line from the disassembly.

The counters of a lens are of the source: what each line reads and writes. A compiler may do otherwise: it reads neighbours at
once, keeps in a register what it has read before, takes a read out of a loop. Then hardware counts something else, and the
launch cannot be compared. What it may do without a difference: copy a loop's body, as long as the lanes of a warp run every
copy together.

For each line, space, kind and width the instructions of the machine code are compared with the accesses that the lens saw:

- As many, each in as many loops as in the source: kept.
- In fewer loops, because a loop of constant length was unrolled whole: kept if there is one for each of its rounds.
- More: copies of a body. Kept if all lanes of a warp were active in every access of the line: then its lanes ran the loop
  equally often, and each copy ran with all of them. In each depth of loops there must be a multiple of the accesses: a read
  that was taken out of its loop has no copies.
- Executed under a condition that the source tests only later: moved to where its value is used.
- Anything else is a reason not to compare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import prod

from kernels.lens.result import Access

from .machine_code import MachineCode
from .source_loops import Loop

_WARP = 32
_VERBS = {"load": "reads", "store": "writes", "atomic": "updates"}


def differences(code: MachineCode, seen: Iterable[Access], loops: list[Loop]) -> list[str]:
    """Why the machine code's accesses are not those of the source; empty where they are. seen: the accesses of the lens."""
    left_loops = {_innermost(lines, loops) for lines in code.loops}
    groups: dict[tuple[int, str, str], list[Access]] = {}
    for access in seen:
        if access.space != "constant":
            groups.setdefault((access.line, access.space, access.kind), []).append(access)
    reasons = []
    for (line, space, kind), accesses in sorted(groups.items()):
        here = [a for a in code.accesses if a.lines[:1] == (line,) and a.kind == kind and a.space in (space, "generic")]
        reason = _difference(here, accesses, kind, left_loops, loops)
        if reason:
            reasons.append(f"line {line}, {space} memory: {reason}")
    return reasons


def _difference(
    here: list, accesses: list[Access], kind: str, left_loops: set[Loop | None], loops: list[Loop]
) -> str | None:
    if not here:
        return f"the text {_VERBS[kind]}, the machine code has no {kind} for this line"
    found, wanted = {a.width for a in here}, {a.width for a in accesses}
    if found != wanted:
        opcode = next(a.opcode for a in here if a.width not in wanted) if found - wanted else here[0].opcode
        return (
            f"the text {_VERBS[kind]} {_list(wanted)} bytes a lane, the machine code {_list(found)} ({opcode}): "
            "accesses were put together"
        )
    for width in wanted:
        instructions = [a for a in here if a.width == width]
        same_width = [a for a in accesses if a.width == width]
        sites = sum(a.instructions for a in same_width)
        expected = [_depth(a.lines, loops, left_loops) for a in instructions]
        if any(a.loops > depth for a, depth in zip(instructions, expected, strict=True)):
            return f"{instructions[0].opcode} is in a loop that the text does not have"
        rounds = {_rounds(a.lines, loops, left_loops) for a in instructions}
        called = len({a.lines for a in instructions})  # from so many places, where the line is in a function
        if later := _later_condition(instructions):
            return f"{instructions[0].opcode} is executed only under a condition that the text tests later, on line {later}"
        kept = _kept(sites, rounds) | _kept(sites * called, rounds)
        depths = Counter(a.loops for a in instructions)
        if len(instructions) in kept and depths == Counter(expected):
            continue
        alike = any(len(instructions) > one and all(count % one == 0 for count in depths.values()) for one in kept)
        together = all(access.lanes == access.requests * _WARP for access in same_width)
        if alike and together and max(depths) == max(expected):
            continue
        number = f"{len(instructions)} {_plural(kind, len(instructions))} for {sites} in the text"
        if None in rounds:
            return f"{number}: a loop was unrolled whole whose length the text does not say"
        if len(instructions) < min(kept):
            return (
                f"{number}"
                + (f" and {max(rounds)} rounds of a loop" if max(rounds) > 1 else "")
                + ": one serves for several"
            )
        if len(instructions) in kept:
            return f"{instructions[0].opcode} was taken out of its loop"
        return f"{number}: copies, " + (
            "which the lanes of a warp do not run together" if alike else "not all of them alike"
        )
    return None


def _later_condition(instructions: list) -> int | None:
    """The line of a condition behind an access that decides whether it is executed."""
    for access in instructions:
        for guard in access.guards:
            if guard[::-1] > access.lines[::-1]:
                return guard[-1]
    return None


def _kept(sites: int, rounds: set[int | None]) -> set[int]:
    """How many instructions keep the accesses, where the loops that are not left ran so often. The lens' compiler may have
    unrolled them too: then there is an access for each round."""
    if len(rounds) > 1 or None in rounds:
        return set()
    (count,) = rounds
    return {sites * count} | ({sites} if sites % count == 0 else set())


def _innermost(lines: tuple[int, ...], loops: list[Loop]) -> Loop | None:
    """The loop of the source that a branch back to its beginning belongs to."""
    for line in lines:
        around = [loop for loop in loops if line in loop]
        if around:
            return around[-1]
    return None


def _depth(lines: tuple[int, ...], loops: list[Loop], left: set[Loop | None]) -> int:
    """In how many loops an instruction of these lines would be, of those that are left in the machine code."""
    return sum(line in loop for line in lines for loop in loops if loop in left)


def _rounds(lines: tuple[int, ...], loops: list[Loop], left: set[Loop | None]) -> int | None:
    """How often the loops around it run that are not left; None if the source does not say."""
    gone = [loop.trips for line in lines for loop in loops if line in loop and loop not in left]
    return None if None in gone else prod(gone)


def _list(widths: Iterable[int]) -> str:
    return " and ".join(map(str, sorted(widths)))


def _plural(kind: str, count: int) -> str:
    return kind if count == 1 else f"{kind}s"
