"""Rotary position embedding: queries and keys are turned by their positions (Su et al. 2021, "RoFormer").

The pair (a, b) of features number i of a head at a position becomes

    (a · cos - b · sin, b · cos + a · sin)

with the cosine and the sine of that position and pair. Pairs are the features (i, i + D/2), half-split as in Llama, or the
neighbours (2i, 2i + 1), interleaved as in RoFormer and GPT-J. Dot products of queries and keys then depend on the distance of
their positions alone. Both are overwritten: half the memory of new tensors. The gradient is turned back by the same angles.
"""

import torch

from kernels import levels
from kernels.machine import Machine
from kernels.operation import Case, Cost, Operation, Peer
from kernels.ops.rope import cuda, native, triton, wrong
from kernels.ops.rope.cases import CASES, few, make_inputs
from kernels.unsupported import needs_gpu


@levels.documented
def rope(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    interleaved: bool = False,
    level: int | str | None = None,
) -> None:
    """Turns queries and keys in place; differentiable in both.

    Args:
        q: shape (B, H, S, D) with an even D, float32, float16 or bfloat16 (levels 1 to 3 also float64), any strides. As for
            every operation in place, autograd takes no leaf that requires a gradient.
        k: shape (B, heads, S, D), dtype and device of q, any strides.
        cos, sin: of the angle of each position and pair, shape (S, D/2), float32 whatever q's dtype is.
        interleaved: whether pairs are neighbours, or the features (i, i + D/2).
    """
    OPERATION.defaults[levels.chosen(level, q)](q, k, cos, sin, interleaved)


def reference(q, k, cos, sin, interleaved=False):
    """The definition in float64: a pair is a complex number, which is multiplied by cos + i sin."""

    def of(x):
        a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
        pairs = torch.complex(a.double(), b.double()) * torch.complex(cos.double(), sin.double())
        return torch.stack((pairs.real, pairs.imag), -1 if interleaved else -2).flatten(-2)

    return of(q), of(k)


def torch_rope(q, k, cos, sin, interleaved=False):
    """As transformers writes it: the features times cosines, and the features exchanged in their pairs times sines."""

    def of(x, cos, sin):
        if interleaved:
            exchanged = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
        else:
            exchanged = torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), -1)
        return (x * cos + exchanged * sin).to(x.dtype)

    angles = [one.repeat_interleave(2, -1) if interleaved else torch.cat((one, one), -1) for one in (cos, sin)]
    return of(q, *angles), of(k, *angles)


def liger():
    from liger_kernel.transformers.functional import liger_rope

    def fn(q, k, cos, sin):
        whole = (torch.cat((one, one), -1).to(q.dtype)[None] for one in (cos, sin))
        return liger_rope(q, k, *whole)

    return fn


def liger_unsupported(case: Case, machine: Machine) -> str | None:
    return needs_gpu(case, machine) or ("has no interleaved pairs" if case.params.get("interleaved") else None)


def quack():
    from quack.rotary import apply_rotary_emb

    def fn(q, k, cos, sin, interleaved=False):
        cos, sin = cos.to(q.dtype), sin.to(q.dtype)
        return tuple(apply_rotary_emb(x.transpose(1, 2), cos, sin, interleaved).transpose(1, 2) for x in (q, k))

    return fn


def cost(case: Case) -> Cost:
    """Bytes: q and k read and written once, the angles read once. Operations: four products and two sums a pair."""
    B, H, S, D = case.shape
    features = B * (H + case.sizes.get("kv_heads", H)) * S * D
    return Cost(bytes=2 * features * getattr(torch, case.dtype).itemsize + 2 * S * D // 2 * 4, flops=3 * features)


OPERATION = Operation(
    **levels.from_modules("rope", native, triton, cuda),
    reference=reference,
    baseline=torch_rope,
    make_inputs=make_inputs,
    wrong=wrong.VARIANTS,
    peers=(
        *levels.torch_peers(torch_rope),
        Peer("liger", liger, liger_unsupported),
        Peer("quack", quack, needs_gpu),
    ),
    cost=cost,
    backward_cost=cost,
    cases=CASES,
    few=few,
)
