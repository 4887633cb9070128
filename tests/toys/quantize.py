"""Codes with scales, which are judged by what they decode to; and what has two references: the exact one, and the exact one of
what was quantised.
"""

import torch

from kernels.case import Output
from toys.toy import C_TYPES, cases, normal, run, toy


def quantized(x):
    wide = x if x.dtype == torch.float64 else x.float()
    scales = wide.abs().amax(-1).clamp(min=1e-12) / 127
    return (wide / scales[:, None]).round().to(torch.int8), scales


def quantized_in_cuda(x):
    codes, scales = torch.empty_like(x, dtype=torch.int8), x.new_empty(len(x), dtype=torch.float32)
    run(f"quantize<{C_TYPES[x.dtype]}>", len(x), x, codes, scales, x.shape[1], len(x))
    return codes, scales


def exchanged(x):
    """Each row has another's scale."""
    codes, scales = quantized(x)
    return codes, scales.flip(0)


def make_rows(case, device):
    """Each row larger than the one before."""
    return {"x": normal(case, case.shape, device=device) * torch.arange(1, 1 + case.shape[0], device=device)[:, None]}


QUANTIZE = toy(
    "quantize",
    lambda x: (x, x.abs().amax(-1) / 127),
    quantized,
    make_rows,
    quantized,
    quantized_in_cuda,
    wrong=exchanged,
    outputs=(Output("codes", "int8"), Output("scales", "float32")),
    decode=lambda outputs, inputs: {
        "codes": outputs["codes"] * outputs["scales"][:, None],
        "scales": outputs["scales"],
    },
    cases=cases((1, 1), (7, 37), (0, 5), (16, 256)),
)


def through_codes(quantize):
    def fn(x):
        codes, scales = quantize(x)
        return (codes * scales[:, None]).to(x.dtype)

    return fn


FAKE_QUANTIZE = toy(
    "fake_quantize",
    lambda x: x,
    through_codes(quantized),
    make_rows,
    through_codes(quantized),
    through_codes(quantized_in_cuda),
    wrong=lambda x: x.clone(),  # not quantised at all: nearer to the exact one than is right
    rounded=through_codes(quantized),
    cases=cases((1, 1), (7, 37), (0, 5), (16, 256)),
)
