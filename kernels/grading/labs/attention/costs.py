"""What a kernel of attention asks of memory, counted from the loads of its blocks of queries and of keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kernels.grading.exercise import Property, Trial
from kernels.grading.properties.counters import counted

_FEWEST = 16  # queries that a program should have at a time: what one multiply of matrices takes
_SMALL = 64  # queries that a program may have in more than two blocks
_SCORES = 32_768  # float32 values that a program has registers for, beside all else: half of a multiprocessor's


class _Loads(NamedTuple):
    """Of an argument: in which lines it is loaded, by how many requests, how many bytes, and rows of D in a request."""

    lines: str
    requests: int
    bytes: int
    rows: int


def _loads(trial: Trial, tensor: str) -> _Loads:
    found = [one for one in trial.accesses if one.kind == "load" and tensor in one.names]
    requests = sum(one.requests for one in found)
    lanes = sum(one.lanes + (one.masked or 0) for one in found)
    lines = sorted({one.line for one in found})
    said = f"line {lines[0]} loads" if len(lines) == 1 else f"lines {', '.join(map(str, lines))} load"
    rows = lanes // max(requests, 1) // trial.sizes["D"]
    return _Loads(said, requests, sum(one.bytes for one in found), max(rows, 1))


def _ends(trial: Trial, block: int) -> list[int]:
    """For each block of so many queries, after how many keys no query of it sees any more."""
    M, N = trial.sizes["M"], trial.sizes["N"]
    last = (min(first + block, M) for first in range(0, M, block))
    return [max(N - M + one, 0) if trial.sizes.get("causal") else N for one in last]


def _missing(trial: Trial) -> str | None:
    """A block is known by its loads."""
    none = [name for name in "qkv" if not _loads(trial, name).requests]
    return f"no line of a kernel loads {none[0]}" if none else None


def _key_loads(judged: Callable[[Trial, str, _Loads, int], str | None]) -> Callable[[Trial], str | None]:
    def broken(trial: Trial) -> str | None:
        queries = max(_loads(trial, "q").rows, _FEWEST)
        each = (judged(trial, name, _loads(trial, name), queries) for name in "kv")
        return _missing(trial) or next(filter(None, each), None)

    return broken


def once(*cases: str, name: str, hint: str = "") -> Property:
    """A block of queries loads each key and each value once. One of fewer than 16 queries has no more than those have."""

    def judged(trial: Trial, tensor: str, loads: _Loads, queries: int) -> str | None:
        whole, blocks = trial.call.args[tensor].nbytes, -(-trial.sizes["M"] // queries)
        if loads.bytes <= (would := whole * blocks):
            return None
        return (
            f"{loads.lines} {tensor}: {loads.bytes:,} bytes in all, where {would:,} would do, "
            f"for {blocks} blocks of {queries} queries in each head"
        )

    return counted(name, cases, _key_loads(judged), hint)


def skipped(*cases: str, name: str, hint: str = "") -> Property:
    """Blocks of keys that no query of a block sees are neither loaded nor asked for under a mask (causal cases)."""

    def judged(trial: Trial, tensor: str, loads: _Loads, queries: int) -> str | None:
        (H, N, D), ends = trial.call.args[tensor].shape, _ends(trial, queries)
        row = D * trial.call.args[tensor].itemsize
        most = H * row * sum(min(end + loads.rows - 1, N) if end else 0 for end in ends)
        if loads.bytes > most:
            return (
                f"{loads.lines} {tensor}: {loads.bytes:,} bytes in all, where {most:,} would do: in each head "
                f"blocks of {queries} queries see {_in_words(ends)} of {N} keys"
            )
        # One more for each: a loop in two parts may come to a block twice, with other lanes of it.
        most = H * sum(-(-end // loads.rows) + 1 for end in ends)
        if loads.requests > most:
            return (
                f"{loads.lines} {tensor} {loads.requests} times in all, where {most} would do: a mask spares bytes, "
                "and the products are computed all the same"
            )
        return None

    return counted(name, cases, _key_loads(judged), hint)


def _in_words(ends: list[int]) -> str:
    return ", ".join(map(str, ends[:-1])) + " and " * (len(ends) > 1) + str(ends[-1])


def bounded(*cases: str, name: str, hint: str = "") -> Property:
    """The scores that a program has at a time fit into registers, however many keys there are."""

    def broken(trial: Trial) -> str | None:
        if message := _missing(trial):
            return message
        queries, keys = (_loads(trial, one).rows for one in "qk")
        if queries * keys <= _SCORES:
            return None
        return (
            f"a program has {queries} × {keys:,} scores at a time, {queries * keys:,} floats, and registers for fewer than "
            f"{_SCORES:,}: a block of keys has a size of its own, and a loop takes one after another"
        )

    return counted(name, cases, broken, hint)


def shared(*cases: str, name: str, hint: str = "") -> Property:
    """No program has more than two blocks of queries, or a few small ones."""

    def broken(trial: Trial) -> str | None:
        for trace in trial.traces:
            blocks, queries = trace.busiest.get("q", 0), trace.busiest.get("q", 0) * _loads(trial, "q").rows
            if blocks > 2 and queries > _SMALL:
                return (
                    f"one program takes {blocks} blocks of queries, {queries} in all, and there are {trace.blocks} programs: "
                    "each runs on one multiprocessor, and a GPU has more than a hundred of them"
                )
        return None

    return counted(name, cases, broken, hint)
