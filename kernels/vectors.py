"""How much one instruction loads: a vector of 16 bytes, or as much of one as the places of rows in memory allow."""

import torch

VECTOR_BYTES = 16  # what one instruction loads at most


def in_vectors(N: int, *tensors: torch.Tensor | None) -> bool:
    """Whether each row of N elements of each tensor, a matrix or a vector, is whole 16-byte vectors from its start."""
    for tensor in tensors:
        if tensor is not None:
            stride = tensor.stride(0) if tensor.dim() == 2 else 0
            if (tensor.data_ptr() | N * tensor.itemsize | stride * tensor.itemsize) % VECTOR_BYTES:
                return False
    return True


def in_line(*matrices: torch.Tensor) -> bool:
    """Whether the rows of each matrix are one behind the other, from the start of a vector on."""
    return all(one.is_contiguous() and one.data_ptr() % VECTOR_BYTES == 0 for one in matrices)


def heads_in_vectors(*tensors: torch.Tensor) -> bool:
    """Whether each row of features of each tensor, of four dimensions, is whole 16-byte vectors from its start."""
    return all(
        (one.data_ptr() | one.itemsize * (one.shape[3] | one.stride(0) | one.stride(1) | one.stride(2))) % VECTOR_BYTES
        == 0
        for one in tensors
    )


def pack_size(columns: int, *tensors: torch.Tensor | None) -> int:
    """How many neighbouring elements one instruction can load, for rows of so many columns of all these matrices and vectors
    of one dtype: 16 bytes where every row is whole vectors from its start, else the largest power of two that fits."""
    apart = VECTOR_BYTES
    present = [tensor for tensor in tensors if tensor is not None]
    for tensor in present:
        stride = tensor.stride(0) if tensor.dim() == 2 and tensor.shape[0] > 1 else 0
        apart |= tensor.data_ptr() | (columns | stride) * tensor.itemsize
    return (apart & -apart) // present[0].itemsize
