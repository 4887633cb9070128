"""Level 5: the kernels of layer norm's .cu files, one by one as they are needed, and what their launches go by."""

import functools
from pathlib import Path

import torch

from kernels.cuda import Kernel, RawModule

HERE = Path(__file__).parent
TYPES = {torch.float32: "float", torch.float16: "__half", torch.bfloat16: "__nv_bfloat16"}
VECTOR_BYTES = 16  # what one instruction loads at most
VALUES = 32  # of a row that a thread holds in registers: enough loads in flight, few enough sums that must meet
SHARED_BYTES = 226 << 10  # what the dynamic shared memory of a block can be on sm_90, with 1 KiB for the static


@functools.cache
def kernel(
    file: str, name: str, dtype: torch.dtype, *parameters: int | bool, cluster: int = 1, shared_bytes: int = 0
) -> Kernel:
    """The kernel `name<dtype, parameters…>` of a file in this folder, for launches of so much dynamic shared memory."""
    text = (HERE / file).read_text()
    if file.endswith("_vector.cu"):
        text = (HERE / "vectors.cuh").read_text() + text
    expression = f"{name}<{', '.join((TYPES[dtype], *(str(int(parameter)) for parameter in parameters)))}>"
    options = ("-std=c++17", f"-DCLUSTER={cluster}")
    module = RawModule(code=text, path=HERE / file, options=options, name_expressions=(expression,))
    found = module.get_function(expression)
    if shared_bytes:
        found.max_dynamic_shared_size_bytes = shared_bytes
    return found


def in_vectors(N: int, *tensors: torch.Tensor | None) -> bool:
    """Whether each row of N elements of each tensor, a matrix or a vector, is whole 16-byte vectors from its start."""
    for tensor in tensors:
        if tensor is not None:
            stride = tensor.stride(0) if tensor.dim() == 2 else 0
            if (tensor.data_ptr() | N * tensor.itemsize | stride * tensor.itemsize) % VECTOR_BYTES:
                return False
    return True


def threads_of_row(N: int) -> int:
    """Threads that hold a row of N in registers, VALUES each, in whole warps."""
    return 32 * -(-N // (32 * VALUES))


def vectors_of_thread(N: int, threads: int, itemsize: int) -> int:
    """Vectors that each of so many threads holds of a row of N."""
    return -(-N * itemsize // (VECTOR_BYTES * threads))


def power_of_2_from(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << (n - 1).bit_length()


def scalar_threads(N: int) -> int:
    """Threads of a block for rows of N read value by value: the power of two above N/4, at least a warp, at most 512."""
    return min(max(1 << (N // 4).bit_length(), 32), 512)
