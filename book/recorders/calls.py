"""What a call of a kernel costs the CPU, by how the kernel was made known to PyTorch. Recorded on a GPU:

    python -m book.recorders.calls FOLDER     write FOLDER/<gpu>.json

The file holds `machine` and `calls`: {"way", "us", "us_with_gradient"}, microseconds on an input without rows, where no
kernel starts: under no_grad, and where the inputs want gradients.
"""

import functools
import json
import sys
import timeit
from collections.abc import Callable
from pathlib import Path

import torch

from kernels.measure.recorded.calls import kernel
from kernels.measure.results import facts, file_name
from kernels.operation import operation
from kernels.ops.layer_norm.native import layer_norm_backward

SCHEMA = "(Tensor x, Tensor weight, Tensor bias, float eps) -> Tensor"


def shape_rule(x, weight, bias, eps):
    return torch.empty_like(x)


def save(ctx, inputs, output):
    x, weight, bias, ctx.eps = inputs
    ctx.save_for_backward(x, weight, bias)


def backward(ctx, dy):
    return *layer_norm_backward(dy, *ctx.saved_tensors, ctx.eps), None


@functools.cache
def ways() -> dict[str, Callable[..., torch.Tensor]]:
    """The same kernel, raw and registered in three ways; PyTorch's own operator; this course's function; level 1."""
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
        "this course's level 5": operation("layer_norm")["cuda"].fn,
        "PyTorch's own": lambda x, *rest: torch.nn.functional.layer_norm(x, x.shape[-1:], *rest),
        "level 1": operation("layer_norm")["native"].fn,
    }


def measured(device: str) -> list[dict]:
    """Each way's time on x of shape (0, 1024)."""
    inputs = operation("layer_norm").inputs(shape=(0, 1024), dtype="float32", device=device)
    wanting = {name: tensor.clone().requires_grad_() for name, tensor in inputs.items()}
    rows = []
    for name, call in ways().items():
        with torch.no_grad():
            us = microseconds(call, *inputs.values(), 1e-5)
        rows.append({"way": name, "us": us, "us_with_gradient": microseconds(call, *wanting.values(), 1e-5)})
    return rows


def microseconds(call: Callable, *args: object, calls: int = 1000) -> float:
    """The median over seven runs of `calls` calls, after one for warm-up."""
    timer = functools.partial(call, *args)
    runs = sorted(timeit.repeat(timer, number=calls, repeat=8)[1:])
    return round(runs[3] / calls * 1e6, 2)


if __name__ == "__main__":
    record = {"machine": facts(), "calls": measured("cuda")}
    target = Path(sys.argv[1]) / file_name(record["machine"]["gpu"])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(record, indent=1) + "\n")
