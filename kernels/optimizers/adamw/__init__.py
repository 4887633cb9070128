"""AdamW (Loshchilov and Hutter 2019, "Decoupled weight decay regularization"): of each parameter p with gradient g, in step t,

    m ← β₁ m + (1 - β₁) g,    v ← β₂ v + (1 - β₂) g²
    p ← (1 - lr · decay) p - lr / (1 - β₁ᵗ) · m / (sqrt(v / (1 - β₂ᵗ)) + eps)

A parameter is float32, float16 or bfloat16; m and v are float32, so what is added to them is not lost, as it is where they
have eight bits. A model has hundreds of small parameters: the last rung of level 5 updates all of them by one launch.
"""

from functools import partial
from typing import Any

import torch

from kernels.operation import Variant
from kernels.optimizers.adamw import cuda, native, triton, wrong
from kernels.optimizers.adamw.optimizer import AdamW, made_by
from kernels.records import OptimizerRecord

__all__ = ["RECORD", "AdamW"]

SETTING: dict[str, Any] = {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}

RECORD = OptimizerRecord(
    name="adamw",
    variants=tuple(
        Variant(one.level, one.name, made_by(one.fn, **SETTING), one.idea, one.source, one.unsupported)
        for one in (*native.UPDATES, *triton.UPDATES, *cuda.UPDATES)
    ),
    twin=partial(torch.optim.AdamW, **SETTING),
    shapes=((64, 48), (3, 5, 7), (1,), (4_099,), (0, 3), (9_000,)),
    dtypes=("float32", "bfloat16", "float16"),
    steps=5,
    wrong=tuple(
        Variant(one.level, one.name, made_by(one.fn, **SETTING), one.idea, one.source, one.unsupported)
        for one in wrong.UPDATES
    ),
)
