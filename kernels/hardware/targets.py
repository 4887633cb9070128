"""The GPUs that kernels are compiled for, and their limits.

Sources: NVIDIA's CUDA C++ Programming Guide, "Compute Capabilities" (technical specifications and feature support), CUDA's
cuda_occupancy.h, and cuda/__device/arch_traits.h of NVIDIA's CCCL. Where they state the same, they agree, but for the registers
of a thread: 255 in the guide and the traits, 256 in cuda_occupancy.h.
"""

import functools
from dataclasses import dataclass

WARP = 32  # lanes
SECTOR_BYTES = 32  # what global memory moves at least
BANKS, BANK_BYTES = 32, 4  # of shared memory, and of a bank's words
LAUNCH_BLOCK = (1024, 1024, 64)  # the largest x, y and z of a block
LAUNCH_GRID = (2**31 - 1, 65_535, 65_535)

REFERENCE_MULTIPROCESSORS = 132  # of an H100 or H200


@dataclass(frozen=True)
class Target:
    """A compute capability, by the name that NVIDIA's compilers have for it.

    shared_bytes_per_block: what the shared memory of a block can be at most, when a kernel's limit is raised to it; static
    memory, and dynamic without being raised, is at most `static_shared_bytes_per_block`.
    reserved_shared_bytes: what every block takes beside its own.
    register_unit, shared_unit: what a warp and a block get are multiples of them.
    features: of those that the table below names.
    """

    name: str
    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int
    shared_bytes_per_multiprocessor: int
    features: frozenset[str]
    reserved_shared_bytes: int = 1024
    shared_unit: int = 128
    static_shared_bytes_per_block: int = 48 << 10
    threads_per_block: int = 1024
    registers_per_multiprocessor: int = 65_536
    registers_per_thread: int = 255
    register_unit: int = 256
    partitions_per_multiprocessor: int = 4  # each has its registers

    @property
    def capability(self) -> int:
        """90 of "sm_90" and of "sm_90a"."""
        return int(self.name.removeprefix("sm_").rstrip("a"))

    @property
    def warps_per_multiprocessor(self) -> int:
        return self.threads_per_multiprocessor // WARP

    @property
    def warps_per_block(self) -> int:
        return self.threads_per_block // WARP

    @property
    def shared_bytes_per_block(self) -> int:
        return self.shared_bytes_per_multiprocessor - self.reserved_shared_bytes

    def blocks_by_shared_memory(self, shared_bytes: int) -> int:
        """As many blocks with so many bytes each have room in the shared memory of a multiprocessor."""
        block_bytes = -(-(shared_bytes + self.reserved_shared_bytes) // self.shared_unit) * self.shared_unit
        return self.shared_bytes_per_multiprocessor // block_bytes if block_bytes else self.blocks_per_multiprocessor

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Whether GPUs of that compute capability run what is written for it."""
        ours, theirs = self.capability, 10 * capability[0] + capability[1]
        return ours == theirs if self.name.endswith("a") else ours <= theirs

    def __str__(self) -> str:
        return self.name


_AMPERE = frozenset({"bfloat16", "asynchronous copies"})
_ADA = _AMPERE | {"fp8"}
_HOPPER = _ADA | {"clusters", "TMA"}

# Of a multiprocessor: threads, blocks and bytes of shared memory.
_ALL = (
    Target("sm_75", 1024, 16, 64 << 10, frozenset(), reserved_shared_bytes=0, shared_unit=256),
    Target("sm_80", 2048, 32, 164 << 10, _AMPERE),
    Target("sm_86", 1536, 16, 100 << 10, _AMPERE),
    Target("sm_89", 1536, 24, 100 << 10, _ADA),
    Target("sm_90", 2048, 32, 228 << 10, _HOPPER),
    Target("sm_90a", 2048, 32, 228 << 10, _HOPPER | {"wgmma"}),  # code for this GPU alone
    Target("sm_100", 2048, 32, 228 << 10, _HOPPER),
    Target("sm_120", 1536, 24, 100 << 10, _HOPPER),
)
TARGETS = {target.name: target for target in _ALL}
"""The targets by name, from old to new."""
REFERENCE = TARGETS["sm_90"]
"""An H100 or H200: without a GPU, what is compiled, counted and limited is so as for this one."""


@functools.cache
def target_of(capability: tuple[int, int]) -> Target:
    """The newest target that a GPU of that compute capability runs; the oldest for GPUs older than all."""
    return [_ALL[0], *(target for target in _ALL if target.runs_on(capability) and not target.name.endswith("a"))][-1]


@functools.cache
def has_feature(capability: tuple[int, int], feature: str) -> bool:
    """Whether a GPU of that compute capability has a feature, be it in code for this GPU alone."""
    return any(feature in target.features and target.runs_on(capability) for target in _ALL)
