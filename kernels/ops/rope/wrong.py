"""Deliberately wrong rotary embeddings, which the check must reject. "gradient-…" have right outputs."""

from functools import partial

from kernels.ops.rope import cuda
from kernels.ops.rope.native import SIGNATURE, rope, turned
from kernels.wrong import edited, variant


def other_pairs(q, k, cos, sin, interleaved):
    rope(q, k, cos, sin, not interleaved)


def half_in_place(q, k, cos, sin, interleaved):
    for x in (q, k):  # the first of each pair is overwritten before the second is computed from it
        one, other = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
        one.copy_((one * cos - other * sin).to(x.dtype))
        other.copy_((other * cos + one * sin).to(x.dtype))


def keys_left(q, k, cos, sin, interleaved):
    q.copy_(turned(q, cos, sin, interleaved))


def narrow_angles(q, k, cos, sin, interleaved):
    rope(q, k, cos.bfloat16().float(), sin.bfloat16().float(), interleaved)


def late(q, k, cos, sin, interleaved):
    rope(q, k, cos.roll(1, 0), sin.roll(1, 0), interleaved)


wrong = partial(variant, SIGNATURE, __file__, forward=rope)
ONE_STRIDE = edited(cuda.heads, "{k_batch, k_head, k_position, k_feature}", "{k_batch, q_head, k_position, q_feature}")
VARIANTS = (
    wrong(1, "other-pairs", "takes pairs of neighbours for halves and the reverse", forward=other_pairs),
    wrong(1, "half-in-place", "computes the second of a pair from the new first", forward=half_in_place),
    wrong(1, "keys-left", "turns queries alone", forward=keys_left),
    wrong(1, "narrow-angles", "keeps cosines and sines in bfloat16", forward=narrow_angles),
    wrong(1, "late", "turns every position by the angle of the one before", forward=late),
    wrong(5, "one-stride", "takes the strides of q for those of k", forward=ONE_STRIDE),
    wrong(1, "gradient-forward", "turns the gradient forward", backward=lambda dq, dk, cos, sin, interleaved: (
        turned(dq, cos, sin, interleaved), turned(dk, cos, sin, interleaved))),
    wrong(1, "gradient-unturned", "passes the gradient on as it is", backward=lambda dq, dk, *_: (dq.clone(), dk.clone())),
)  # fmt: skip
