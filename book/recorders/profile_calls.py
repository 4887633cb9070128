"""The calls that are profiled. As a program, it makes each of them once with the profiler on:

python -m book.recorders.profile_calls FILE     writes the fields of the calls, in order, to FILE
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from kernels import machine
from kernels.cuda import RawKernel
from kernels.measure.contestants import contestants, make_data, prepared, setting, timed_call
from kernels.measure.recorded.accesses import CASES
from kernels.operation import Operation, Variant, operation

MARK = (
    "next_call"  # a kernel of that name is launched before each call, so that its kernels can be told from the last's
)

ACCESSES = {
    "strides": (1, 8, 16, 32),
    "stretches": (1, 8, 64),
    "copies": (("float", 8), ("float", 64), ("float4", 8), ("float4", 64)),
    "structs": ("one member, structs", "all members, structs", "all members, one load"),
    "transposes": tuple(CASES["transposes"]),
    "shared strides": (1, 2, 32),
    "histograms": (("global", 1), ("global", 256), ("global", 1 << 20), ("shared", 256)),
    "branches": ("by lane", "by warp"),
    "chains": ((1, 1), (8, 1)),
}


def rungs(op: Operation, direction: str) -> list[Variant]:
    """The plainest and the last of levels 4 and 5."""
    found = []
    for level in (4, 5):
        level_variants = [v for v in (op.forward if direction == "forward" else op.backward) if v.level == level]
        found += dict.fromkeys((level_variants[0], level_variants[-1]))
    return found


def layer_norms(device: str) -> Iterator[tuple[dict, Callable[[], object]]]:
    """Forward and backward at the shapes that are timed: the rungs and the peers."""
    op = operation("layer_norm")
    for direction in ("forward", "backward"):
        for case in op.cases["bench"]:
            cost = op.cost(case) if direction == "forward" else op.backward_cost(case)
            data = make_data(op, case, direction, cost, device)
            taking_part, _ = contestants(op, case, direction, rungs(op, direction), machine.here(device))
            for one in taking_part:
                if one.fn is None:  # the copy is no kernel: Nsight Compute does not see it
                    continue
                fields = {"operation": "layer_norm", "direction": direction, "shape": list(case.shape)}
                with setting(direction):
                    ready, call = prepared(op, one, direction, data), timed_call(one, direction)
                    yield fields | {"contestant": one.name}, lambda call=call, ready=ready: call(ready)


def accesses(device: str) -> Iterator[tuple[dict, Callable[[], object]]]:
    """Cases of `kernels.measure.recorded.accesses`."""
    for group, keys in ACCESSES.items():
        for key in keys:
            yield {"group": group, "case": key}, CASES[group][key].launch(device).run


def warm(call: Callable[[], object]) -> None:
    """Twice without the profiler: compilers finish, and allocations are cached."""
    for _ in range(2):
        call()
    torch.cuda.synchronize()


def profiler() -> Callable[[Callable[[], object]], None]:
    """What makes a call with the profiler on, after a mark."""
    mark = RawKernel(f'extern "C" __global__ void {MARK}(int* nothing) {{}}', MARK)
    nothing = torch.zeros(1, dtype=torch.int32, device="cuda")
    mark((1,), (1,), (nothing,))

    def profiled(call: Callable[[], object]) -> None:
        torch.cuda.cudart().cudaProfilerStart()
        try:
            mark((1,), (1,), (nothing,))
            call()
            torch.cuda.synchronize()
        finally:
            torch.cuda.cudart().cudaProfilerStop()

    return profiled


def profile_all() -> list[dict]:
    profiled, made = profiler(), []
    for calls in (accesses("cuda"), layer_norms("cuda")):
        for fields, call in calls:
            warm(call)
            profiled(call)
            made.append(fields)
            print(f"profiled {len(made)}: {' '.join(map(str, fields.values()))}", file=sys.stderr, flush=True)
        torch.cuda.empty_cache()
    return made


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(profile_all()))
