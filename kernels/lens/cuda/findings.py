"""What is wrong with a kernel, in the words of its source: lines, threads, and elements of its arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from kernels.cuda.cpu.warnings import Warned
from kernels.cuda.source import Line, Source, in_order
from kernels.hardware import WARP
from kernels.lens.arrays import Array, address, indexed, outside, with_name_in
from kernels.lens.finding import Finding


class _Row(NamedTuple):
    """A row of cpu/findings.cpp."""

    wrong: int
    block_1: int
    thread_1: int
    pc_1: int
    kind_1: int
    block_2: int
    thread_2: int
    pc_2: int
    kind_2: int
    region: int
    offset: int
    size: int
    index: int
    length: int
    count: int


_RACE, _UNINITIALISED, _IN_FLIGHT, _OUTSIDE, _INDEX, _MISALIGNED, _WILD = range(7)  # `Wrong` of cpu/findings.h
# `Kind` of cpu/events.h.
_VERBS = (
    "reads",
    "writes",
    "updates (an atomic)",
    "reads (an atomic)",
    "writes (an atomic)",
    "copies from",
    "copies into",
    "",
)
_ATOMIC = (2, 3, 4)
_WRITING = (1, 6)  # without atomics


def pcs(raw: list[list[int]]) -> set[int]:
    """The addresses of code that findings name."""
    return {pc for row in (_Row(*row) for row in raw) for pc in (row.pc_1, row.pc_2) if pc}


def read(
    raw: list[list[int]],
    lines: dict[int, Line],
    arrays: Sequence[Array],
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    error: str | None,
    source: Source,
) -> tuple[Finding, ...]:
    """The findings of a run: `raw` as cpu/findings.cpp writes them, and the error that it stopped at."""
    rows = [_Row(*row) for row in raw]
    # A read that came too early reads what no one has written: the race says more.
    racing = {(pc, row.region) for row in rows if row.wrong == _RACE for pc in (row.pc_1, row.pc_2)}
    warp_race_spans = [_span(row, lines) for row in rows if row.wrong == _RACE and _warps_differ(row)]
    indexed = {lines.get(row.pc_2) for row in rows if row.wrong == _INDEX}
    merged: dict[tuple, Finding] = {}
    for row in sorted(rows, key=_rank, reverse=True):
        if row.wrong == _UNINITIALISED and (row.pc_2, row.region) in racing:
            continue
        if _by_index(row, arrays) and indexed & {lines.get(pc) for pc in (row.pc_1, row.pc_2) if pc}:
            continue
        # One barrier is missing where two races overlap: the one of two warps says which.
        first, last = _span(row, lines)
        whole_block = any(begin <= last and first <= end for begin, end in warp_race_spans)
        array = _array(row, arrays, source.text_of(lines.get(row.pc_2, 0)))
        found = _finding(row, lines, array, grid, block, whole_block)
        key = found.kind, frozenset(found.lines), found.address.split("[")[0]
        known = merged.setdefault(key, found)
        if known is not found:
            merged[key] = replace(known, count=known.count + found.count)
    stopped = () if error is None or _FAULT in error else _stopped(error, source)
    return (*sorted(merged.values(), key=lambda one: in_order(one.lines[-1])), *stopped)


def without_a_value(warnings: Sequence[Warned], source: Source) -> tuple[Finding, ...]:
    """Of the compiler's warnings, those of local variables, which lie in registers: no access shows them."""
    return tuple(
        Finding("uninitialised read", (source.line(one.filename, one.number),), None, (), one.variable, one.words)
        for one in warnings
        if one.variable
    )


def _by_index(row: _Row, arrays: Sequence[Array]) -> bool:
    """Whether an index past its array may be all that is wrong: in shared memory it lands in the next array."""
    shared = row.region >= 0 and arrays[row.region].space == "shared"
    return row.wrong in (_OUTSIDE, _WILD) or (shared and row.wrong in (_RACE, _UNINITIALISED, _IN_FLIGHT))


def _array(row: _Row, arrays: Sequence[Array], line: str) -> Array | None:
    if row.wrong == _INDEX:
        return indexed(arrays, row.length, line)
    return with_name_in(arrays[row.region], line) if row.region >= 0 else None


def _rank(row: _Row) -> tuple[int, ...]:
    """Of several sides of one race: that of two blocks, or two warps, says most, and a write before a read. Of what a thread
    does alone, the first of them."""
    if row.wrong not in (_RACE, _IN_FLIGHT):
        return False, False, False, -row.block_2, -row.thread_2
    return row.block_1 != row.block_2, row.thread_1 // WARP != row.thread_2 // WARP, _VERBS[row.kind_1] != "reads"


def _triple(number: int, size: tuple[int, int, int]) -> tuple[int, int, int]:
    return number % size[0], number // size[0] % size[1], number // size[0] // size[1]


def _span(row: _Row, lines: dict[int, Line]) -> tuple[tuple[str, int], tuple[str, int]]:
    """The first and the last line that a finding is about."""
    first, last = sorted(in_order(lines.get(pc, 0)) for pc in (row.pc_1, row.pc_2))
    return first, last


def _warps_differ(row: _Row) -> bool:
    return row.block_1 == row.block_2 and row.thread_1 // WARP != row.thread_2 // WARP


def _finding(
    row: _Row,
    lines: dict[int, Line],
    array: Array | None,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    whole_block: bool,
) -> Finding:
    line, first_line = lines.get(row.pc_2, 0), lines.get(row.pc_1, 0)
    thread, first_thread = _triple(row.thread_2, block), _triple(row.thread_1, block)
    its_block, first_block = _triple(row.block_2, grid), _triple(row.block_1, grid)
    who = f"thread {thread} of block {its_block}"
    verb = _VERBS[row.kind_2] if row.kind_2 < len(_VERBS) else "accesses"
    at = address(array, row.offset, row.size) if row.wrong != _INDEX else ""

    def one(kind: str, cause: str, address: str = at) -> Finding:
        return Finding(kind, (line,), its_block, (thread,), address, cause, row.count)

    def two(kind: str, cause: str) -> Finding:
        apart = first_block if first_block != its_block else None
        both = first_thread, thread
        return Finding(kind, (first_line, line), its_block, both, at, cause, row.count, apart)

    if row.wrong == _RACE:
        earlier = f"thread {first_thread}" + (f" of block {first_block}" if first_block != its_block else "")
        did = f"{earlier} {_VERBS[row.kind_1]} {at} on line {first_line}"
        return two(
            "race", f"{did} and {who} {verb} it on line {line}, {_unordered(row, line == first_line, whole_block)}"
        )
    if row.wrong == _UNINITIALISED:
        return one(
            "uninitialised read", f"{who} {verb} {at} in shared memory, which no thread of the block has written"
        )
    if row.wrong == _IN_FLIGHT:
        return two(
            "unfinished copy",
            f"{who} {verb} {at}, which the asynchronous copy issued on line {first_line} by thread {first_thread} "
            "is still to write: wait for the copy, then let the threads meet at a barrier",
        )
    if row.wrong == _INDEX and array:
        at = f"{array.name}[{row.index}]"
        return one("out of bounds", f"{who} uses {at}, {outside(array, row.index * array.element, array.element)}", at)
    if row.wrong == _INDEX:
        of = (
            f" of an array of {row.length:,}, whose last is {row.length - 1:,}"
            if row.length
            else ", outside of the array"
        )
        return one("out of bounds", f"{who} uses index {row.index:,}{of}", f"index {row.index}")
    if row.wrong == _MISALIGNED:
        return one(
            "misaligned access",
            f"{who} {verb} {row.size} bytes at {at}, which does not lie at a multiple of {row.size} bytes",
        )
    if row.wrong == _WILD:
        return one("out of bounds", f"{who} {verb} {row.size} bytes at {at}, where none of the arguments is near")
    return one("out of bounds", f"{who} {verb} {at}, {outside(array, row.offset, row.size)}")


def _unordered(row: _Row, same_line: bool, whole_block: bool) -> str:
    """Why nothing orders the two accesses of a race, and what would order or spare them."""
    if row.block_1 != row.block_2:
        why, between = "and blocks run in any order", "launch twice"
    elif not _warps_differ(row) and not whole_block:
        why = "and the lanes of a warp do not wait for each other"
        between = "put __syncwarp() or __syncthreads() between"
    else:
        why, between = "with no barrier between them", "put __syncthreads() between"
    if (row.kind_1 in _ATOMIC) != (row.kind_2 in _ATOMIC):
        return f"and only one of them is atomic: {between}, or make both atomic"
    both_write = row.kind_1 in _WRITING and row.kind_2 in _WRITING
    if both_write and same_line:
        return "and nothing says which comes last: let one thread write, or use an atomic"
    if row.block_1 != row.block_2 and not both_write:
        return f"{why}: fence and use an atomic, or {between}"
    return f"{why}: {between}" + (", or use an atomic" if same_line else "")


_FAULT = "an access to memory that is not there or not aligned"


def _stopped(error: str, source: Source) -> tuple[Finding, ...]:
    """What a launch stopped at, such as a barrier that threads never leave, from the runtime's words."""
    kinds = {
        "^a barrier that not every": "divergent barrier",
        "^a deadlock|^a wait without end": "deadlock",
        "^a stack overflow": "stack overflow",
        "^assertion `": "failed assertion",
        ": its mask | The mask names ": "wrong mask",
        ": its width is ": "wrong width",
    }
    kind = next((kind for words, kind in kinds.items() if re.search(words, error)), None)
    if kind is None:
        return ()
    named = re.findall(rf"on line (\d+) of ({'|'.join(map(re.escape, source.texts))})", error)
    lines = tuple(dict.fromkeys(source.line(filename, int(number)) for number, filename in named))
    numbers = re.search(r"block \((\d+), (\d+), (\d+)\)", error)
    where = tuple(map(int, numbers.groups())) if numbers else None
    return (Finding(kind, lines, where, (), "", error),)
