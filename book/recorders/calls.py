"""What a call of a kernel costs the CPU, by how the kernel was made known to PyTorch. Recorded on a GPU:

    python -m book.recorders.calls FOLDER     write FOLDER/<gpu>.json

The file holds `machine`, `inputs` ({"shape", "dtype"}) and

    calls: {"way", "us", "us_with_gradient", "us_with_backward"}   a forward under no_grad; a forward of inputs that want
                                                                   gradients; that and the backward. null: has no gradient
    parts: {"level", "launch_us", "python_us", "allocation_us", "checks_us"}

Microseconds, the median of 10,000 calls that launch their kernels, taken in turns. The parts: a launch and nothing else, by
Triton's `kernel[grid](…)` or CuPy's RawKernel; the bare function of the default rung, of which nothing is repeated; the memory
of an output; the checks of arguments.
"""

import functools
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import kernels
from book.levels.extension.build import build
from kernels.measure.recorded.calls import kernel
from kernels.measure.results import facts, file_name
from kernels.operation import operation
from kernels.ops.layer_norm import cuda, triton_forward
from kernels.ops.layer_norm.arguments import validate
from kernels.ops.layer_norm.native import layer_norm_backward

OP = operation("layer_norm")
SCHEMA = "(Tensor x, Tensor weight, Tensor bias, float eps) -> Tensor"
SHAPE, DTYPE = (8, 768), "bfloat16"
CALLS, TURNS = 10_000, 50
WITHOUT_GRADIENT = ("raw kernel", "define, impl, fake", "C++ extension")


def shape_rule(x, weight, bias, eps):
    return torch.empty_like(x)


def save(ctx, inputs, output):
    x, weight, bias, ctx.eps = inputs
    ctx.save_for_backward(x, weight, bias)


def backward(ctx, dy):
    return *layer_norm_backward(dy, *ctx.saved_tensors, ctx.eps), None


@functools.cache
def ways() -> dict[str, Callable[..., torch.Tensor]]:
    """The same kernel, raw and registered in three ways; this course's function; PyTorch's own operator; level 1."""
    for name in ("defined", "differentiable"):
        torch.library.define(f"calls::{name}", SCHEMA)
        torch.library.impl(f"calls::{name}", ("cpu", "cuda"), kernel)
        torch.library.register_fake(f"calls::{name}", shape_rule)
    torch.library.register_autograd("calls::differentiable", backward, setup_context=save)
    custom = torch.library.custom_op("calls::custom", kernel, mutates_args=())
    custom.register_fake(shape_rule)
    custom.register_autograd(backward, setup_context=save)
    return {
        "raw kernel": kernel,
        "define, impl, fake": torch.ops.calls.defined.default,
        "the same, and autograd": torch.ops.calls.differentiable.default,
        "custom_op": custom,
        "this course's level 5": functools.partial(kernels.layer_norm, level=5),
        "this course's level 4": functools.partial(kernels.layer_norm, level=4),
        "PyTorch's own": lambda x, *rest: torch.nn.functional.layer_norm(x, x.shape[-1:], *rest),
        "level 1": OP["native"].fn,
    }


def ways_on_a_gpu() -> dict[str, Callable[..., torch.Tensor]]:
    """And those that need one: the raw kernel as a C++ extension, what torch.compile makes, Liger's."""
    peers = {peer.name: peer for peer in OP.peers}
    more = {"torch.compile": peers["torch.compile"].load(), "Liger": peers["liger"].load()}
    return ways() | {"C++ extension": build()} | more


def parts(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> dict[tuple[str, str], Callable[[], object]]:
    """What a forward of levels 4 and 5 is made of, by level and name; on a GPU."""
    import cupy

    y, (M, N), eps = torch.empty_like(x), x.shape, np.float32(1e-5)
    row_kernel = triton_forward.layer_norm_rows_kernel
    tile = {"ROWS": 2, "BLOCK_N": 1_024, "num_warps": 2}
    name = cuda.NAMES[x.dtype]
    module = cupy.RawModule(code=cuda.SOURCE.read_text(), options=("-std=c++17",), name_expressions=(name,))
    block = module.get_function(name)
    arguments = (*(tensor.data_ptr() for tensor in (x, weight, bias, y)), N, np.int32(N), eps)
    found = {
        ("triton", "launch_us"): lambda: row_kernel[(M // 2,)](x, weight, bias, y, N, M, N, 1e-5, **tile),
        ("cuda", "launch_us"): lambda: block((M,), (256,), arguments, shared_mem=1_024),
    }
    for level, rung in (("triton", triton_forward.FORWARD[-1]), ("cuda", cuda.FORWARD[-1])):
        found[level, "python_us"] = functools.partial(rung.fn, x, weight, bias, 1e-5)
        found[level, "allocation_us"] = functools.partial(torch.empty_like, x)
        found[level, "checks_us"] = functools.partial(validate, x, weight, bias, 1e-5)
    return found


def measured(device: str, ways: dict[str, Callable], parts: Callable[..., dict] | None = None) -> dict[str, list[dict]]:
    """`calls`, and `parts` where they are given, as in the file."""
    inputs = [*OP.inputs(shape=SHAPE, dtype=DTYPE, device=device).values()]
    leaves, dy = [tensor.clone().requires_grad_() for tensor in inputs], torch.randn_like(inputs[0])

    def forward_and_backward(call):
        torch.autograd.grad(call(*leaves, 1e-5), leaves, dy)

    timed, found = {}, parts(*inputs) if parts else {}
    for way, call in ways.items():
        timed[way, "us"] = functools.partial(call, *inputs, 1e-5)
        timed[way, "us_with_gradient"] = functools.partial(call, *leaves, 1e-5)
        if way not in WITHOUT_GRADIENT:
            timed[way, "us_with_backward"] = functools.partial(forward_and_backward, call)
    us = medians(timed | found)
    names = ("us", "us_with_gradient", "us_with_backward")
    return {
        "calls": [{"way": way} | {name: us.get((way, name)) for name in names} for way in ways],
        "parts": [
            {"level": level} | {part: us[of, part] for of, part in found if of == level}
            for level in dict.fromkeys(level for level, _ in found)
        ],
    }


def medians(calls: dict[tuple[str, str], Callable[[], object]], turns: int = TURNS) -> dict[tuple[str, str], float]:
    """Microseconds a call, by the names of the calls; gradients are recorded but for those called "us" and of `parts`."""
    times = {key: [] for key in calls}
    for turn in range(turns + 1):
        gc.collect()
        gc.disable()  # as timeit does
        for (name, kind), call in calls.items():
            with torch.set_grad_enabled(kind in ("us_with_gradient", "us_with_backward")):
                taken = [one_call(call) for _ in range(CALLS // TURNS)]
            if torch.cuda.is_available():
                torch.cuda.synchronize()  # before the queue of launches is full
            times[name, kind] += taken if turn else []  # the first is for warm-up
        gc.enable()
    return {key: round(statistics.median(taken) / 1e3, 2) for key, taken in times.items()}


def one_call(call: Callable[[], object]) -> int:
    """Nanoseconds that it keeps the host."""
    started = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - started


if __name__ == "__main__":
    record = {"machine": facts(), "inputs": {"shape": SHAPE, "dtype": DTYPE}}
    record |= measured("cuda", ways_on_a_gpu(), parts)
    target = Path(sys.argv[1]) / file_name(record["machine"]["gpu"])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(record, indent=1) + "\n")
