"""Level 5: the Python side of rope.cu."""

from pathlib import Path

import numpy as np
import torch

from kernels.arguments import empty_contiguous
from kernels.cuda.rows import VECTOR_BYTES
from kernels.cuda.template import kernel
from kernels.machine import multiprocessors
from kernels.row_parts import THREADS_AT_ONCE
from kernels.rung import rung

FILE = Path(__file__).with_name("rope.cu")
THREADS, HEADS = 256, 4


def vector_size(D: int, angles: tuple[torch.Tensor, ...], *tensors: torch.Tensor) -> int:
    """The values of a 16-byte vector, if both halves of all heads are made of such and the angles of a head too, else 1."""
    size = VECTOR_BYTES // tensors[0].itemsize
    if any(one.data_ptr() % VECTOR_BYTES for one in angles):
        return 1
    for tensor in tensors:
        bytes_apart = [stride * tensor.itemsize for stride in tensor.stride()[:3]]
        if tensor.stride(3) != 1 or any(one % VECTOR_BYTES for one in (tensor.data_ptr(), *bytes_apart)):
            return 1
    return 1 if D % (2 * size) else size


def turn(q, k, to_q, to_k, cos, sin, interleaved: bool, by: float) -> None:
    """Writes q and k, turned by the angles times `by`, 1 or -1, to to_q and to_k, which may be q and k."""
    B, H, S, D = q.shape
    if not q.numel() + k.numel():
        return
    angles = cos.contiguous(), sin.contiguous()
    size = vector_size(D, angles, q, k, to_q, to_k)
    head_threads = B * S * (D // 2 // size)
    # Several heads a thread, unless then too few threads are left for the loads to be on their way at once.
    heads = HEADS if head_threads * (H + k.shape[1]) >= HEADS * THREADS_AT_ONCE * multiprocessors(q.device) else 1
    blocks = -(-S * (D // 2 // size) // THREADS)
    grid = B * blocks, -(-H // heads) + -(-k.shape[1] // heads)
    strides = (stride for tensor in (q, k, to_q, to_k) for stride in tensor.stride())
    arguments = (q, k, to_q, to_k, *angles, *strides, H, k.shape[1], S, D, blocks, np.float32(by))
    kernel(FILE, "rope", q.dtype, size, interleaved, heads)(grid, (THREADS,), arguments)


def heads(q, k, cos, sin, interleaved):
    turn(q, k, q, k, cos, sin, interleaved, 1)


def heads_back(dq, dk, cos, sin, interleaved):
    outputs = empty_contiguous(dq), empty_contiguous(dk)
    turn(dq, dk, *outputs, cos, sin, interleaved, -1)
    return outputs


FORWARD = (rung(5, "heads", heads, "a thread turns several heads by the same angles", FILE),)
BACKWARD = (rung(5, "heads-back", heads_back, "the same, turned back", FILE),)
