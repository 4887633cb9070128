"""Asks the driver of an sm_90 GPU how many blocks a multiprocessor holds, and stores its answers.

cd tests/lens; python3 -m hardware.occupancy hardware/occupancy.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

# With so many values alive, a thread takes as many registers as it may.
KERNEL = """
extern "C" __global__ void work(const float* x, float* y, int n) {
    float a[250];
#pragma unroll
    for (int i = 0; i < 250; ++i) a[i] = x[i * 32 + threadIdx.x];
    for (int turn = 0; turn < n; ++turn) {
#pragma unroll
        for (int i = 0; i < 250; ++i) a[i] = fmaf(a[i], a[(i + 7) % 250], x[turn]);
    }
#pragma unroll
    for (int i = 0; i < 250; ++i) y[i * 32 + threadIdx.x] = a[i];
}
"""
REGISTERS = (16, 24, 31, 32, 33, 40, 41, 48, 56, 64, 65, 72, 80, 96, 104, 128, 129, 152, 168, 192, 224, 255)
THREADS = (1, 32, 64, 96, 128, 160, 224, 256, 320, 384, 512, 544, 768, 1000, 1024)
SHARED_BYTES = (0, 1, 1024, 6_272, 6_273, 16_384, 48_000, 76_800, 115_712, 115_713, 232_448)


def answers() -> dict:
    """The machine, and rows of registers, threads and the resident blocks for each of SHARED_BYTES of dynamic shared memory."""
    import cupy
    from cupy_backends.cuda.api.driver import occupancyMaxActiveBlocksPerMultiprocessor as ask

    rows = []
    for most in REGISTERS:
        kernel = cupy.RawKernel(KERNEL, "work", options=(f"-maxrregcount={most}",))
        kernel.max_dynamic_shared_size_bytes = max(SHARED_BYTES)
        for threads in THREADS:
            blocks = [ask(kernel.kernel.ptr, threads, shared) for shared in SHARED_BYTES]
            rows.append([kernel.num_regs, threads, blocks])
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    driver, runtime = cupy.cuda.runtime.driverGetVersion(), cupy.cuda.runtime.runtimeGetVersion()
    machine = {"gpu": properties["name"].decode(), "driver": driver, "runtime": runtime}
    return {"machine": machine, "shared_bytes": SHARED_BYTES, "rows": rows}


if __name__ == "__main__":
    found = answers()
    rows = ",\n  ".join(json.dumps(row) for row in found.pop("rows"))
    Path(sys.argv[1]).write_text(f'{json.dumps(found)[:-1]}, "rows": [\n  {rows}\n]}}\n')
