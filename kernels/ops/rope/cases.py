"""The inputs that rotary position embedding is checked and timed on."""

from dataclasses import replace
from typing import Any

import torch

from kernels.layouts import lay_out
from kernels.operation import Case
from kernels.row_cases import each, generator, rows

# k never has q's layout where q is not contiguous: a kernel must not take the one's strides for the other's.
LAYOUTS = {"contiguous": "contiguous", "rows": "transposed", "transposed": "sliced", "sliced": "by-position"}
PAIRINGS: tuple[dict[str, bool], ...] = ({}, {"interleaved": True})
SHAPES = ((1, 1, 1, 2), (2, 3, 5, 6), (3, 4, 3, 8), (2, 5, 7, 64), (3, 2, 33, 80), (3, 9, 4, 128), (1, 1, 2, 256))
CASES: dict[str, tuple[Case, ...]] = {
    "edge": (
        *each(*SHAPES, (2, 0, 4, 8), (0, 3, 5, 6)),
        *each(*(shape for shape in SHAPES if shape[0] > 1), params={"interleaved": True}),
        *(case for params in PAIRINGS for case in each((2, 6, 5, 16), params=params, sizes={"kv_heads": 2})),
        *(case for params in PAIRINGS for x in ("rows", "transposed", "sliced")
          for case in each((3, 3, 10, 16), layout=x, params=params, sizes={"kv_heads": 1})),
        *(case for params in PAIRINGS for case in each((2, 2, 3, 1030), params=params)),  # more pairs than a block's threads
        *(case for values in ("offset", "large", "small") for case in each((2, 2, 9, 32), values=values)),
    ),
    "model": (*each((2, 4, 64, 64)), *each((1, 8, 40, 128), sizes={"kv_heads": 2})),
    "repeated": (Case((2, 4, 300, 32)),),
    "huge": (Case((2**31 // 2**15 + 5, 4, 64, 128), "bfloat16", sizes={"kv_heads": 1}),),
    "bench": (
        Case((4, 32, 8_192, 128), "bfloat16"),
        Case((4, 32, 8_192, 128), "bfloat16", sizes={"kv_heads": 8}),
        Case((4, 32, 8_192, 128), "bfloat16", params={"interleaved": True}),
        Case((32, 16, 2_048, 64), "bfloat16"),
    ),
}  # fmt: skip


def few(case: Case, rows: int) -> Case:
    """Of a batch and of positions at most so many."""
    B, H, S, D = case.shape
    return replace(case, shape=(min(B, rows), H, min(S, rows), D))


def make_inputs(case: Case, device: str) -> dict[str, Any]:
    """Queries and keys, and the angles of the positions from 1,000 on, where no cosine is 1."""
    B, H, S, D = case.shape
    k_case = replace(case, shape=(B, case.sizes.get("kv_heads", H), S, D), layout="contiguous", seed=case.seed + 1_000)
    q, k = rows(case, generator(case, device)), rows(k_case, generator(k_case, device))
    if (layout := LAYOUTS[case.layout]) == "by-position":  # as a projection leaves them, (B, S, heads, D)
        k = k.transpose(1, 2).contiguous().transpose(1, 2)
    else:
        k = lay_out(k, layout)
    positions = torch.arange(1_000, 1_000 + S, device=device, dtype=torch.float64)
    angles = positions[:, None] * 10_000.0 ** (-torch.arange(0, D, 2, device=device, dtype=torch.float64) / D)
    return {"q": q, "k": k, "cos": angles.cos().float(), "sin": angles.sin().float()} | dict(case.params)
