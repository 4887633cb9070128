"""What the compilers of levels 2 and 3 make of level 1 on a GPU, and what that costs: recorded for layer norm.

    python -m book.recorders.compilers FOLDER     write FOLDER/<gpu>.json

The file holds `machine` and

    launches  the kernels that one call launches, by level: {"level", "shape", "kernels": names in order}
    written   what Inductor wrote, by shape: {"shape", "source", "cold_s", "cached_s"}, seconds until the first result with
              an empty and with a filled cache on disk
    modes     of torch.compile: {"mode", "shape", "cold_s", "call_us"}, and level 1 beside them
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from kernels.measure.results import facts, file_name
from kernels.operation import operation

DTYPE = "bfloat16"
MODES = ("default", "reduce-overhead", "max-autotune")
SMALL, LARGE = (64, 1024), (32_768, 4096)


def launches(level: str, shape: tuple[int, ...]) -> dict:
    """The kernels of one call, after calls enough for every compiler to have settled."""
    op = operation("layer_norm")
    inputs = op.inputs(shape=shape, dtype=DTYPE, device="cuda")
    with torch.no_grad():
        for _ in range(5):  # TorchScript watches the first calls and compiles later
            op[level](**inputs)
        torch.cuda.synchronize()
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profile:
            op[level](**inputs)
            torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    kernels = sorted((event for event in events if event.get("cat") == "kernel"), key=lambda event: event["ts"])
    names = [event["name"][:100] for event in kernels]
    return {"level": level, "shape": list(shape), "kernels": names}


def written(shape: tuple[int, ...]) -> dict:
    """Compile level 1 for inputs of `shape` and keep the text of the module that Inductor wrote."""
    from torch._inductor.utils import fresh_cache, run_and_get_code

    op = operation("layer_norm")
    inputs = op.inputs(shape=shape, dtype=DTYPE, device="cuda")
    with fresh_cache(), torch.no_grad():
        torch.compiler.reset()
        cold, (_, (source,)) = seconds(run_and_get_code, torch.compile(op["native"].fn, dynamic=False), **inputs)
        torch.compiler.reset()
        cached, _ = seconds(torch.compile(op["native"].fn, dynamic=False), **inputs)
    return {"shape": list(shape), "source": source, "cold_s": cold, "cached_s": cached}


def mode(name: str, shape: tuple[int, ...]) -> dict:
    """Seconds until the first result, cold, and microseconds a call, back to back on the same inputs."""
    from torch._inductor.utils import fresh_cache

    op = operation("layer_norm")
    inputs = op.inputs(shape=shape, dtype=DTYPE, device="cuda")
    call = op["native"].fn
    with fresh_cache(), torch.no_grad():
        torch.compiler.reset()
        call = call if name == "level 1" else torch.compile(call, mode=name, dynamic=False)
        cold, _ = seconds(call, **inputs)
        return {"mode": name, "shape": list(shape), "cold_s": cold, "call_us": microseconds_a_call(call, inputs)}


def seconds(call: Callable, *args: object, **kwargs: object) -> tuple[float, object]:
    started = time.perf_counter()
    result = call(*args, **kwargs)
    torch.cuda.synchronize()
    return round(time.perf_counter() - started, 3), result


def microseconds_a_call(call: Callable, inputs: dict, calls: int = 200) -> float:
    """The median over seven runs of `calls` calls that wait for the GPU once, at the end."""
    runs = []
    for _ in range(8):
        started = time.perf_counter()
        for _ in range(calls):
            call(**inputs)
        torch.cuda.synchronize()
        runs.append((time.perf_counter() - started) / calls * 1e6)
    return round(sorted(runs[1:])[3], 2)  # the first was warm-up


if __name__ == "__main__":
    shapes = [case.shape for case in operation("layer_norm").cases["bench"]]
    record = {
        "machine": facts(),
        "launches": [launches(level, LARGE) for level in ("native", "torchscript", "compiled")],
        "written": [written(shape) for shape in shapes],
        "modes": [mode(name, shape) for shape in (SMALL, LARGE) for name in ("level 1", *MODES)],
    }
    target = Path(sys.argv[1]) / file_name(record["machine"]["gpu"])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(record, indent=1) + "\n")
