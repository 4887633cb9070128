"""From Nsight Compute's metrics to the numbers that a reader of a profile looks at."""

import re
from collections.abc import Iterable

COLUMNS = {
    "us": "microseconds",
    "dram_mb": "megabytes read and written in the GPU's memory",
    "dram_read_mb": "megabytes read there",
    "dram_percent": "percent of the most that memory can move in that time, by its clock and width",
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
    "long_scoreboard": "a value from global memory, or from a cache of it",
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
}
"""What a warp waits for, by Nsight Compute's names of the reasons."""

_DIRECT = {
    "dram_percent": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1_hit_percent": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_percent": "lts__t_sector_hit_rate.pct",
    "load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "registers": "launch__registers_per_thread",
    "resident_percent": "sm__maximum_warps_per_active_cycle_pct",
    "active_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "issue_percent": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "instructions": "smsp__inst_executed.sum",
    "lanes": "smsp__thread_inst_executed_per_inst_executed.ratio",
}
_DERIVED = (
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "launch__shared_mem_per_block_static",
    "launch__shared_mem_per_block_dynamic",
)
_STALL = re.compile(r"smsp__average_warps?_issue_stalled_((?!\w*not_issued)\w+)_per_issue_active\.ratio")
SECTIONS = ("LaunchStats", "Occupancy", "WarpStateStats")
TOP_STALLS = 4


def asked(there: Iterable[str]) -> list[str]:
    """The metrics to ask for: those that this Nsight Compute has, by its list; what a launch has is in the sections."""
    there = set(there)
    wanted = [*_DIRECT.values(), *_DERIVED]
    return [name for name in wanted if name.split(".")[0] in there and not name.startswith("launch__")]


def numbers(row: dict[str, str]) -> dict[str, object]:
    """A row of Nsight Compute's raw table, in base units (seconds count in nanoseconds), as `COLUMNS` says."""

    def value(metric: str) -> float | None:
        text = row.get(metric, "").replace(",", "")
        return float(text) if text and text[0].isdigit() else None

    ns, read, written, *shared = map(value, _DERIVED)
    found = {"us": ns and ns / 1e3, "dram_read_mb": read and read / 1e6}
    found["dram_mb"] = None if read is None or written is None else (read + written) / 1e6
    found["shared_bytes"] = sum(each or 0 for each in shared)
    found |= {column: value(metric) for column, metric in _DIRECT.items()}
    found["resident_percent"] = found["resident_percent"] or None  # of a launch in clusters it is reported as 0
    stalls = {match[1]: value(name) or 0.0 for name in row if (match := _STALL.fullmatch(name))}
    longest = sorted(stalls, key=stalls.get, reverse=True)[:TOP_STALLS]
    found["stalls"] = {reason: round(stalls[reason], 2) for reason in longest if stalls[reason] > 0.05}
    return {column: _short(found[column]) for column in COLUMNS if found.get(column) is not None}


def _short(value: object) -> object:
    """Five digits are more than a second run would give again."""
    if not isinstance(value, float):
        return value
    return int(value) if value.is_integer() else float(f"{value:.5g}")
