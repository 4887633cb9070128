"""Instances of the kernels of .cu files that are templates, one by one as they are needed."""

import functools
from pathlib import Path

import torch

from kernels.cuda.kernel import Kernel, RawModule

TYPES = {torch.float32: "float", torch.float16: "__half", torch.bfloat16: "__nv_bfloat16"}
TYPES |= {torch.int64: "long long", torch.int32: "int", torch.uint8: "unsigned char"}


@functools.cache
def kernel(
    path: Path,
    name: str,
    *parameters: torch.dtype | int | bool,
    options: tuple[str, ...] = (),
    shared_bytes: int = 0,
) -> Kernel:
    """The kernel `name<parameters…>` of a file, compiled when it is first launched.

    parameters: of the template; a dtype stands for its type in CUDA C. options: of the compiler, such as "-DSTAGES=2".
    shared_bytes: the most dynamic shared memory of a launch, where it is more than 48 KiB.
    """
    words = (TYPES[one] if isinstance(one, torch.dtype) else str(int(one)) for one in parameters)
    expression = f"{name}<{', '.join(words)}>"
    found = RawModule(path=path, options=options, name_expressions=(expression,)).get_function(expression)
    if shared_bytes:
        found.max_dynamic_shared_size_bytes = shared_bytes
    return found
