"""The inputs that attention is checked and timed on."""

from dataclasses import replace
from typing import Any

import torch

from kernels.layouts import lay_out
from kernels.operation import Case, Cost
from kernels.ops.attention.band import hidden
from kernels.row_cases import each, generator, rows

CAUSAL: dict[str, Any] = {"causal": True}
WINDOW: dict[str, Any] = {"causal": True, "window": 20}
CASES = {
    "edge": (
        *each((1, 1, 1, 16), (1, 2, 5, 8), (2, 1, 33, 40), (1, 1, 130, 64), (1, 2, 40, 72)),
        *each((1, 2, 70, 64), params=CAUSAL),
        *each((1, 2, 130, 64), params=CAUSAL),
        *each((1, 2, 75, 16), params=WINDOW),
        *each((1, 1, 50, 16), params={"window": 7}),
        *each((1, 1, 20, 16), params={"scale": 0.5}),
        # Other numbers of queries than of keys; where there are more, the first queries see none.
        *each((1, 1, 9, 16), sizes={"keys": 70}, params=CAUSAL),
        *each((1, 1, 70, 16), sizes={"keys": 33}, params=CAUSAL),
        *each((1, 2, 40, 16), sizes={"keys": 17}, params={"causal": True, "window": 5}),
        *each((1, 4, 20, 16), sizes={"keys": 37, "kv_heads": 2}),
        *each((1, 3, 20, 16), sizes={"kv_heads": 1}, params=CAUSAL),
        *each((0, 2, 8, 16), (1, 2, 0, 16)),
        *each((2, 1, 8, 16), sizes={"keys": 0}),
        *(
            case
            for layout in ("rows", "transposed", "sliced", "expanded")
            for case in each((1, 2, 24, 40), layout=layout)
        ),
        *each((1, 1, 24, 32), layout="sliced", params=CAUSAL),
        *(case for values in ("nonfinite", "large", "small") for case in each((1, 2, 24, 32), values=values)),
    ),
    "model": (
        *each((2, 2, 64, 64), params=CAUSAL),
        *each((1, 4, 96, 64), sizes={"kv_heads": 2}, params=CAUSAL),
        *each((1, 1, 20, 128), (1, 1, 20, 256), params=CAUSAL),
    ),
    # Each dtype, mask and width at which tiles change: all cases would take an hour.
    "compiled": (
        Case((1, 1, 20, 256), params=CAUSAL),
        Case((1, 2, 128, 128), "bfloat16"),
        Case((1, 2, 128, 128), "bfloat16", params=CAUSAL),
        Case((1, 2, 128, 256), "bfloat16", params=CAUSAL),
        Case((1, 2, 64, 64), "float16", params=CAUSAL),
        Case((1, 2, 75, 16), "bfloat16", params=WINDOW),
    ),
    "repeated": (Case((1, 2, 130, 64), sizes={"kv_heads": 1}, params=CAUSAL),),
    "huge": (Case((4_101, 64, 128, 64), "bfloat16", params=WINDOW),),
    "bench": tuple(Case((4, 16, 4_096, 128), "bfloat16", params=params) for params in ({}, CAUSAL)),
}


def outlier(normal: torch.Tensor) -> torch.Tensor:
    return 4 * normal + 0.5


def make_inputs(case: Case, device: str) -> dict[str, Any]:
    """q as the case says, k of another mean; "nonfinite" has a NaN in a query, and in a key of the last head."""
    random, (B, H, S, D) = generator(case, device), case.shape
    finite = "realistic" if case.values == "nonfinite" else case.values
    # Outliers that make scores of about 10: the errors of larger ones, which are proportional to them, hide all others.
    q = rows(replace(case, values=finite, layout="contiguous"), random, outlier=outlier)
    kv_case = replace(case, shape=(B, case.sizes.get("kv_heads", H), case.sizes.get("keys", S), D), layout="contiguous")
    k, v = (rows(replace(kv_case, values=finite), random, outlier=outlier) for _ in range(2))
    if case.values == "nonfinite":
        q[0, 0, 3, 1], k[0, -1, 7, 2] = torch.nan, torch.nan
    if finite == "realistic":
        # Below, a row's error is rounding alone; above, it is what few scores happen to round to.
        q, k, v = 0.7 * q, 0.7 * k, 0.35 * v
    if case.values == "large":
        # Scores of 1e4. Their gradients round as dy · v does, and large keys and queries multiply that.
        v = v / 10_000
    if case.layout == "expanded":
        return {"q": lay_out(q, "expanded"), "k": k[:, :1].expand(k.shape), "v": v[:, :1].expand(v.shape)} | dict(
            case.params
        )
    return {name: lay_out(one, case.layout) for name, one in (("q", q), ("k", k), ("v", v))} | dict(case.params)


def few(case: Case, many: int) -> Case:
    """One of the batch, two heads, and one block or two of queries and keys: their number changes no kernel, except that
    Triton's know whether 16 divides the number of heads.

    `many` is of rows of a matrix, of which there are none here.
    """
    B, H, S, D = case.shape
    sizes = {name: min(n, 128 + n % 128) if name == "keys" else n for name, n in case.sizes.items()}
    heads = H if "kv_heads" in sizes else min(H, 2)
    return replace(case, shape=(min(B, 1), heads, min(S, 128 + S % 128), D), sizes=sizes)


def cost(case: Case) -> Cost:
    """Bytes: q, k and v read once, y and lse written once. Operations: two products over the pairs that see each other."""
    B, H, Q, D = case.shape
    KV, heads = case.sizes.get("keys", Q), case.sizes.get("kv_heads", H)
    params: dict[str, Any] = {"causal": False, "window": None} | dict(case.params)
    seen = pairs(params["causal"], params["window"], Q, KV)
    itemsize = getattr(torch, case.dtype).itemsize
    return Cost(
        bytes=2 * B * (H * Q + heads * KV) * D * itemsize + 4 * B * H * Q,
        flops=4 * B * H * seen * D,
    )


def backward_cost(case: Case) -> Cost:
    """Five products. dy, q, k, v and y are read once, dq, dk and dv written once."""
    forward = cost(case)
    return Cost(bytes=2 * forward.bytes, flops=5 * forward.flops // 2)


def pairs(causal: bool, window: int | None, Q: int, KV: int) -> int:
    """How many pairs of a query and a key see each other."""
    return Q * KV - int(hidden(causal, window, Q, KV, torch.device("cpu")).sum()) if causal or window else Q * KV
