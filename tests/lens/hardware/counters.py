"""The lens's counters by the names of Nsight Compute's metrics."""

from __future__ import annotations

# Each counter is the sum of its metrics. The first eight are compared, the others are kept to look at.
METRICS = {
    "global_load_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",),
    "global_load_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",),
    "global_store_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",),
    "global_store_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",),
    "global_atomic_requests": (
        "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
        "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
    ),
    "global_atomic_sectors": (
        "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum",
    ),
    "shared_load_wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",),
    "shared_store_wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",),
    "shared_atomic_requests": ("smsp__inst_executed_op_shared_atom_pred_on_any.sum",),
    "instructions": ("smsp__inst_executed.sum",),
    "threads_per_instruction": ("smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",),
}
COMPARED = tuple(METRICS)[:9]


def sums(row: dict[str, str]) -> dict[str, int | float]:
    """The counters in a row of Nsight Compute's table. A metric that is missing there leaves its counter out."""
    found: dict[str, int | float] = {}
    for counter, metrics in METRICS.items():
        values = [float(row[metric].replace(",", "")) for metric in metrics if row.get(metric)]
        if len(values) == len(metrics):
            found[counter] = sum(values) if counter == "threads_per_instruction" else int(sum(values))
    return found
