"""What Nsight Compute says of kernels on a GPU: layer norm's, its peers', and some of `kernels.measure.recorded.accesses`.

They are recorded by book/recorders/profile.py. A profile says what was called, by the fields of a row of the results
(operation, direction, contestant, shape) or by group and case of `accesses`, and has `kernels`: for each kernel of the
call, in order, its name, grid, block and the numbers that `COLUMNS` lists. Caches are cold, as they are for the times.
"""

import json

from kernels.measure.results import FOLDER, file_name

COLUMNS = {
    "us": "microseconds",
    "dram_mb": "megabytes read and written in the GPU's memory",
    "dram_read_mb": "megabytes read there",
    "dram_percent": "percent of the most that memory can move in that time, by its clock and width",
    "tensor_percent": "percent of cycles in which the tensor cores were at work",
    "l1_hit_percent": "percent of sectors that were in the multiprocessor's own cache",
    "l2_hit_percent": "percent of sectors that were in the cache that all share",
    "load_requests": "loads from global memory, one a warp and instruction",
    "load_sectors": "sectors of 32 bytes that these asked of the multiprocessor's cache",
    "store_requests": "stores to global memory",
    "store_sectors": "sectors of these",
    "shared_wavefronts": "passes of shared memory over its banks, and one for each warp",
    "registers": "registers a thread",
    "shared_bytes": "bytes of shared memory a block",
    "resident_percent": "percent of a multiprocessor's 64 warps that would fit, by registers, shared memory and block size",
    "active_percent": "percent of them that were there, on average",
    "issue_percent": "percent of cycles in which a scheduler issued an instruction",
    "instructions": "instructions, one a warp",
    "lanes": "lanes of a warp that took part in an instruction, on average",
    "stalls": "cycles that a warp waited for each instruction it issued, by the reason",
}
"""What a profile says of a kernel."""

STALLS = {
    "long_scoreboard": "a value from global memory or a cache of it",
    "short_scoreboard": "a value from shared memory, or of a special function",
    "barrier": "the other warps of the block, at a barrier",
    "membar": "its own writes to become visible, at a fence",
    "lg_throttle": "a place in the queue of global memory",
    "mio_throttle": "a place in the queue of shared memory and special functions",
    "math_pipe_throttle": "a free arithmetic unit",
    "wait": "its own last instruction, a fixed number of cycles",
    "not_selected": "nothing: it was ready, and another warp was chosen",
    "selected": "nothing: this is the cycle in which it issues",
    "drain": "its stores to leave, at the end of the kernel",
    "no_instruction": "its next instruction to be fetched",
    "imc_miss": "a constant or a kernel's argument to be fetched",
    "branch_resolving": "the place to go on after a branch",
    "dispatch_stall": "the dispatcher, for reasons of its own",
    "gmma": "the tensor cores, with products that a warp group shares",
    "warpgroup_arrive": "the other warps of its group, before they multiply together",
    "sleeping": "the end of a sleep that it asked for",
    "tex_throttle": "a place in the queue of textures",
    "misc": "something that Nsight Compute has no name for",
}
"""What a warp waits for, by Nsight Compute's names of the reasons."""

WAITS = {
    "long_scoreboard": "global memory",
    "short_scoreboard": "shared memory",
    "barrier": "barrier",
    "membar": "fence",
    "lg_throttle": "queue of global memory",
    "mio_throttle": "queue of shared memory",
    "math_pipe_throttle": "arithmetic unit",
    "wait": "own last instruction",
    "drain": "stores at the end",
    "no_instruction": "instruction fetch",
    "imc_miss": "constant",
    "branch_resolving": "branch",
    "dispatch_stall": "dispatcher",
    "gmma": "tensor cores",
    "warpgroup_arrive": "warp group",
    "sleeping": "sleep",
    "tex_throttle": "queue of textures",
    "misc": "unnamed",
}
"""The same in a word or two, for tables; without the two of STALLS in which a warp is ready."""


def stored(gpu: str) -> dict:
    """The committed profiles of a GPU by its name, such as "NVIDIA H200"."""
    return json.loads((FOLDER / "profiles" / file_name(gpu)).read_text())


def find(gpu: str, **fields: object) -> list[dict]:
    """The kernels of the one call with these fields, such as contestant="cuda/reread", direction="forward",
    shape=(8192, 32768); or group="copies", case=("float4", 64). LookupError: no call has them, or several."""
    wanted = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
    found = [one for one in stored(gpu)["profiles"] if wanted.items() <= one.items()]
    if len(found) != 1:
        raise LookupError(f"{fields} fits {len(found)} profiles of {gpu}, expected one")
    return found[0]["kernels"]


def longest(kernels: list[dict]) -> dict:
    """The kernel that takes most of a call's time."""
    return max(kernels, key=lambda kernel: kernel["us"])


def table(kernels: dict[str, dict], *columns: str) -> str:
    """Lines of text: the columns' names, and a line for each kernel, by the name that it has here. KeyError: a column is
    none of COLUMNS."""
    widths = {column: max(len(column), 8) for column in columns if COLUMNS[column]}
    names = max(map(len, kernels))
    lines = [" ".join([" " * names, *(f"{column:>{width}}" for column, width in widths.items())])]
    for name, kernel in kernels.items():
        values = (_text(kernel.get(column)).rjust(width) for column, width in widths.items())
        lines.append(" ".join([name.ljust(names), *values]))
    return "\n".join(lines)


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
