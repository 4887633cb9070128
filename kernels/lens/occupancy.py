"""How many warps of a kernel a multiprocessor holds at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kernels.cuda import Kernel
from kernels.figures import Picture
from kernels.hardware import REFERENCE, WARP
from kernels.lens.cuda.resources import compiled
from kernels.lens.pictures.occupancy import curves

_MOST = {
    "threads": REFERENCE.threads_per_block,
    "registers": REFERENCE.registers_per_thread,
    "shared_bytes": REFERENCE.shared_bytes_per_block,
}


@dataclass(frozen=True)
class Occupancy:
    """How many blocks of a kernel a multiprocessor of the reference target (sm_90) holds at once, and what limits them.

    threads: of a block, 1 to 1,024. registers: of a thread, 1 to 255. shared_bytes: of a block, static and dynamic, at most
    232,448. ValueError beyond.
    """

    threads: int
    registers: int
    shared_bytes: int = 0

    def __post_init__(self) -> None:
        for name, most in _MOST.items():
            least = 0 if name == "shared_bytes" else 1
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"{name}: got {getattr(self, name):,}, expected {least} to {most:,} on {REFERENCE}")

    @property
    def warps_of_block(self) -> int:
        return -(-self.threads // WARP)

    @property
    def limits(self) -> dict[str, int]:
        """The most blocks that each resource leaves room for."""
        gpu, partitions = REFERENCE, REFERENCE.partitions_per_multiprocessor
        warp_registers = _up(self.registers * WARP, gpu.register_unit)
        # A block's warps are spread over the partitions, and one that does not fit there cannot be launched.
        fits = warp_registers * _up(self.warps_of_block, partitions) <= gpu.registers_per_multiprocessor
        warps = gpu.registers_per_multiprocessor // partitions // warp_registers * partitions
        return {
            "warps": gpu.warps_per_multiprocessor // self.warps_of_block,
            "blocks": gpu.blocks_per_multiprocessor,
            "registers": warps // self.warps_of_block if fits else 0,
            "shared memory": gpu.blocks_by_shared_memory(self.shared_bytes),
        }

    @property
    def blocks(self) -> int:
        """That are resident at once; 0 if none can be launched."""
        return min(self.limits.values())

    @property
    def warps(self) -> int:
        """That are resident at once, at most 64."""
        return self.blocks * self.warps_of_block

    @property
    def limited_by(self) -> tuple[str, ...]:
        """The resources that leave room for no more."""
        return tuple(name for name, blocks in self.limits.items() if blocks == self.blocks)

    def figure(self) -> Picture:
        """Resident warps against each of the three resources, with this kernel's own point."""
        return curves(self, _MOST, REFERENCE.warps_per_multiprocessor)

    def __str__(self) -> str:
        blocks, most = f"{self.blocks} block" + "s" * (self.blocks != 1), REFERENCE.warps_per_multiprocessor
        return (
            f"{self.warps} of {most} warps: {blocks} of {self.threads} threads with {self.registers} registers each, "
            f"and {self.shared_bytes:,} bytes of shared memory a block; limited by {' and '.join(self.limited_by)}"
        )


def occupancy(kernel: Kernel, block: Sequence[int], shared_mem: int = 0) -> Occupancy:
    """Of a kernel as NVRTC compiles it for sm_90, in blocks of that shape, with so many bytes of dynamic shared memory.

    CompileError, or ImportError where NVRTC is not installed: then `Occupancy` takes the registers as a number.
    """
    found = compiled(kernel)
    return Occupancy(math.prod(block), found["registers"], found["shared_bytes"] + shared_mem)


def _up(number: int, unit: int) -> int:
    """The next multiple."""
    return -(-number // unit) * unit
