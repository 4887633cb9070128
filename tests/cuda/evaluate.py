"""Expressions of CUDA C, computed."""

import torch

from kernels.cuda import RawKernel


def evaluate(device, expressions, out, *inputs):
    """One row per expression of a, b, c (and i), computed by one kernel. out: a C type and a dtype."""
    names = {torch.float32: "float", torch.float64: "double", torch.int32: "int", torch.int64: "long long"}
    names |= {torch.uint32: "unsigned", torch.uint64: "unsigned long long"}
    n = inputs[0].numel()
    parameters = "".join(f", const {names[x.dtype]}* {name}s" for x, name in zip(inputs, "abc", strict=False))
    loads = " ".join(f"{names[x.dtype]} {name} = {name}s[i];" for x, name in zip(inputs, "abc", strict=False))
    stores = "\n".join(f"out[{row * n} + i] = {text};" for row, text in enumerate(expressions))
    code = f"""__global__ void k({names[out]}* out{parameters}) {{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= {n}) return;
        {loads}
        {stores}
    }}"""
    result = torch.zeros(len(expressions), n, dtype=out, device=device)
    RawKernel(code, "k")((-(-n // 128),), (128,), (result, *(x.to(device) for x in inputs)))
    return result.cpu().numpy()
