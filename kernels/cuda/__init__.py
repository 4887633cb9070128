"""CUDA C on any machine: `RawKernel` and `RawModule` with CuPy's signatures, taking torch tensors.

On a GPU they are CuPy's (NVRTC). On a CPU the same source is compiled by the system's C++ compiler and run by a runtime of
our own. Where a kernel runs is decided by the device of its tensors. Kernels run in this process: on a CPU, what
one does out of bounds is a LaunchError that names the line and the thread, and an interrupt ends one that never ends, but a
large tensor has no guards around it. `isolated` runs a kernel that may be wrong in a process of its own.
"""

from kernels.cuda.errors import CompileError, LaunchError
from kernels.cuda.isolated import isolated
from kernels.cuda.kernel import Kernel, RawKernel, RawModule
from kernels.cuda.order import order

__all__ = ["CompileError", "Kernel", "LaunchError", "RawKernel", "RawModule", "isolated", "order"]
