"""From Nsight Compute's metrics to the numbers that a reader of a profile looks at."""

import re
from collections.abc import Iterable

from kernels.measure.recorded.profile import COLUMNS

_DIRECT = {
    "dram_percent": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "tensor_percent": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
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
_TIME, _READ, _WRITTEN = "gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"
_SHARED = ("launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic")
_DERIVED = {"us": (_TIME,), "dram_mb": (_READ, _WRITTEN), "dram_read_mb": (_READ,), "shared_bytes": _SHARED}
_STALL = re.compile(r"smsp__average_warps?_issue_stalled_((?!\w*not_issued)\w+)_per_issue_active\.ratio")
SECTIONS = ("LaunchStats", "Occupancy", "WarpStateStats")
TOP_STALLS = 4


def asked(there: Iterable[str], columns: Iterable[str] = COLUMNS) -> list[str]:
    """The metrics to ask for, for these columns: those that this Nsight Compute has, by its list. Stalls and what a launch has
    are in the sections."""
    there, columns = set(there), set(columns)
    metrics = {column: (metric,) for column, metric in _DIRECT.items()} | _DERIVED
    wanted = dict.fromkeys(metric for column, of in metrics.items() if column in columns for metric in of)
    return [name for name in wanted if name.split(".")[0] in there and not name.startswith("launch__")]


def numbers(row: dict[str, str]) -> dict[str, object]:
    """A row of Nsight Compute's raw table, in base units (seconds count in nanoseconds), as `COLUMNS` says."""

    def value(metric: str) -> float | None:
        text = row.get(metric, "").replace(",", "")
        return float(text) if text and text[0].isdigit() else None

    ns, read, written, *shared = map(value, (_TIME, _READ, _WRITTEN, *_SHARED))
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
