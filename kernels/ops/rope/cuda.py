"""Level 5: the Python side of rope.cu."""

from pathlib import Path

import torch

from kernels.arguments import empty_contiguous, in_32_bits
from kernels.cuda.rows import VALUES_OF_FEW
from kernels.cuda.template import kernel
from kernels.hardware import LAUNCH_GRID
from kernels.machine import multiprocessors
from kernels.row_parts import THREADS_AT_ONCE
from kernels.rung import rung
from kernels.vectors import VECTOR_BYTES

FILE = Path(__file__).with_name("rope.cu")
THREADS, PACKS = 256, 8  # of a block, and of a thread


def pack_of_heads(features: int, angles: tuple[torch.Tensor, ...], *tensors: torch.Tensor) -> int:
    """How many neighbouring values lie as a pack does, in so many features of all heads, and their angles, at most four a
    load."""
    itemsize = tensors[0].itemsize
    if any(tensor.stride(3) != 1 for tensor in tensors):
        return 1
    apart = VECTOR_BYTES | features * itemsize
    for one in angles:
        if one.data_ptr() % VECTOR_BYTES:
            apart |= one.data_ptr() // one.itemsize * itemsize
    for tensor in tensors:
        batch, head, position, _ = tensor.stride()
        apart |= tensor.data_ptr() | (batch | head | position) * itemsize
    return (apart & -apart) // itemsize


def turn(q, k, outputs: tuple[torch.Tensor, ...], cos, sin, interleaved: bool) -> None:
    """Turns q and k in place, or back to outputs, contiguous, if there are any."""
    B, H, S, D = q.shape
    if not q.numel() + k.numel():
        return
    if (most := LAUNCH_GRID[2]) < B:
        for start in range(0, B, most):
            some = slice(start, start + most)
            turn(q[some], k[some], tuple(to[some] for to in outputs), cos, sin, interleaved)
        return
    angles, room = (cos.contiguous(), sin.contiguous()), THREADS_AT_ONCE * multiprocessors(q.device)
    size = pack_of_heads(D if interleaved else D // 2, angles, q, k, *outputs)
    pairs = B * S * (D // 2) * (H + k.shape[1])
    if pairs <= VALUES_OF_FEW * room and not interleaved:
        size = min(size, VALUES_OF_FEW)
    packs = 1 if interleaved and size > 1 else 2  # of a thread in a head
    of_thread = size * packs // 2  # pairs
    # Several heads a thread, unless then too few threads are left for the loads to be on their way at once.
    heads = PACKS // packs if pairs // of_thread >= PACKS // packs * room else 1
    across = min(D // 2 // of_thread, THREADS)
    block = across, min(THREADS // across, S)
    grid = -(-S // block[1]), -(-H // heads) + -(-k.shape[1] // heads), B
    strides = (stride for tensor in (q, k) for stride in tensor.stride())
    arguments = (q, k, *(outputs or (None, None)), *angles, *strides, H, k.shape[1], S, D // 2)
    index = torch.int32 if in_32_bits(q, k) else torch.int64
    launched = kernel(FILE, "rope", q.dtype, index, size, interleaved, heads, bool(outputs))
    for first_pair in range(0, D // 2, THREADS * of_thread):
        launched(grid, block, (*arguments, first_pair))


def heads(q, k, cos, sin, interleaved):
    turn(q, k, (), cos, sin, interleaved)


def heads_back(dq, dk, cos, sin, interleaved):
    outputs = empty_contiguous(dq), empty_contiguous(dk)
    turn(dq, dk, outputs, cos, sin, interleaved)
    return outputs


FORWARD = (rung(5, "heads", heads, "a thread turns several heads by the same angles", FILE),)
BACKWARD = (rung(5, "heads-back", heads_back, "the same, turned back", FILE),)
