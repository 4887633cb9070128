"""Attention, and the choice of the next token."""

import numpy as np
import torch
from torch import randint, randn, zeros
from torch.nn import functional as F

from corpus.case import Case, blank


def three_kernels(module, a):
    bh, t, hs = a["q"].shape
    module.get_function("attention_query_kernel")(
        (-(-bh * t * t // 256),), (256,), (a["pre"], a["q"], a["k"], bh, t, hs)
    )
    module.get_function("attention_softmax_kernel")((1,), (256,), (a["att"], a["pre"], bh, t))
    module.get_function("attention_value_kernel")((3,), (256,), (a["out"], a["att"], a["v"], bh, t, hs))


def qkv(*shape):
    return {name: randn(*shape) for name in "qkv"}


def flash_args():
    batch, heads, n, d, tile = 2, 3, 45, 16, 16
    tiles = -(-n // tile)
    scalars = {"N": n, "d": d, "Tc": tiles, "Tr": tiles, "Bc": tile, "Br": tile, "scale": np.float32(d**-0.5)}
    state = {"l": zeros(batch, heads, n), "m": torch.full((batch, heads, n), -3e38), "o": zeros(batch, heads, n, d)}
    return qkv(batch, heads, n, d) | scalars | state


def grouped(q, k, v, causal):
    k, v = k.repeat_interleave(2, 0), v.repeat_interleave(2, 0)
    scores = q @ k.transpose(1, 2) / 8
    if causal:
        scores = scores.masked_fill(torch.ones(37, 37).triu(1).bool(), -torch.inf)
    return {"o": scores.softmax(2) @ v, "lse": scores.logsumexp(2)}


def decode(module, a):
    d, splits = a["q"].shape[0], a["part"].shape[0]
    args = (a["q"], a["k"], a["v"], a["part_o"], a["part"], 201, d, 64)
    module.get_function("decode_split")((splits,), (64,), args, 256)
    module.get_function("decode_merge")((1,), (64,), (a["part_o"], a["part"], a["o"], splits, d))


def topk(scores):
    values, indices = scores.topk(6, dim=1)
    return {"values": values, "indices": indices.int()}


CASES = (
    Case(
        "attention.cu",
        ("attention_query_kernel", "attention_softmax_kernel", "attention_value_kernel"),
        lambda: qkv(6, 33, 20) | {"pre": blank(6, 33, 33), "att": blank(6, 33, 33), "out": blank(6, 33, 20)},
        lambda q, k, v: {"out": F.scaled_dot_product_attention(q, k, v, is_causal=True)},
        launch=three_kernels,
    ),
    Case(
        "attention.cu",
        "flash_forward",
        flash_args,
        lambda q, k, v: {"o": F.scaled_dot_product_attention(q, k, v)},
        grid=(2, 3),
        block=(16,),
        shared_mem=(3 * 16 * 16 + 16 * 16) * 4,
    ),
    *(
        Case(
            "attention.cu",
            f"attention_warp<64, {str(causal).lower()}>",
            lambda: (
                {"q": randn(4, 37, 64), "k": randn(2, 37, 64), "v": randn(2, 37, 64), "o": blank(4, 37, 64)}
                | {"lse": blank(4, 37), "S": 37, "heads": 4, "kv_heads": 2}
            ),
            lambda q, k, v, causal=causal: grouped(q, k, v, causal),
            grid=(10, 4),
            block=(32, 4),
        )
        for causal in (False, True)
    ),
    Case(
        "attention.cu",
        ("decode_split", "decode_merge"),
        lambda: (
            {"q": randn(40), "k": randn(201, 40), "v": randn(201, 40), "part_o": blank(4, 40)}
            | {"part": blank(4, 2), "o": blank(40)}
        ),
        lambda q, k, v: {"o": (k @ q / 40**0.5).softmax(0) @ v},
        launch=decode,
    ),
    Case(
        "selection.cu",
        "argmax_rows",
        lambda: {"x": randint(0, 999, (9, 301)).float(), "out": blank(9, dtype=torch.int64), "cols": 301},
        lambda x: {"out": torch.from_numpy(x.numpy().argmax(1))},
        grid=(9,),
        block=(128,),
    ),
    Case(
        "selection.cu",
        "argmax_packed",
        lambda: {"x": randn(3001).sort().values - 9, "best": zeros(1, dtype=torch.int64), "n": 3001},
        # Negative values: the bits turned round; the index counted down from 2^32 - 1; 64 bits, no sign.
        lambda x: {"best": torch.tensor([(~bits(x.max()) & 0xFFFFFFFF) << 32 | 0xFFFFFFFF - int(x.argmax())])},
        grid=(12,),
    ),
    Case(
        "selection.cu",
        "topk_warp<96, 6>",
        lambda: {"scores": randn(11, 96), "values": blank(11, 6), "indices": blank(11, 6, dtype=torch.int32), "n": 11},
        topk,
        grid=(3,),
        block=(32, 4),
    ),
    Case(
        "selection.cu",
        "sample_rows",
        lambda: {
            "probs": (randn(12, 700) * 2).softmax(1),
            "coins": torch.rand(12),
            "out": blank(12, dtype=torch.int32),
            "v": 700,
        },
        lambda probs, coins: {"out": (probs.cumsum(1) <= coins[:, None]).sum(1).int()},
        grid=(12,),
    ),
)


def bits(x):
    return int(x.float().view(torch.int32))
