"""How many warps of a kernel a multiprocessor holds at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kernels.cuda import Kernel
from kernels.figures import Picture
from kernels.lens.cuda.resources import compiled
from kernels.lens.pictures.occupancy import curves

# Of sm_90: NVIDIA's programming guide, "Technical specifications per compute capability", and cuda_occupancy.h.
WARP = 32
MOST_THREADS = 1024  # of a block
MOST_WARPS = 64
MOST_BLOCKS = 32
REGISTERS = 65_536
MOST_REGISTERS = 255  # of a thread
SHARED_BYTES = 233_472
RESERVED_BYTES = 1024  # of shared memory, in every block
MOST_SHARED_BYTES = SHARED_BYTES - RESERVED_BYTES  # of a block
_PARTITIONS = 4  # of a multiprocessor; each has its registers
_REGISTER_UNIT, _SHARED_UNIT = 256, 128  # what a warp and a block get are multiples of them


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
        most = {"threads": (1, MOST_THREADS), "registers": (1, MOST_REGISTERS), "shared_bytes": (0, MOST_SHARED_BYTES)}
        for name, (least, limit) in most.items():
            if not least <= getattr(self, name) <= limit:
                raise ValueError(f"{name}: got {getattr(self, name):,}, expected {least} to {limit:,} on sm_90")

    @property
    def warps_of_block(self) -> int:
        return -(-self.threads // WARP)

    @property
    def limits(self) -> dict[str, int]:
        """The most blocks that each resource leaves room for."""
        of_warp = _up(self.registers * WARP, _REGISTER_UNIT)
        # A block's warps are spread over the partitions, and one that does not fit there cannot be launched.
        fits = of_warp * _up(self.warps_of_block, _PARTITIONS) <= REGISTERS
        by_registers = REGISTERS // _PARTITIONS // of_warp * _PARTITIONS // self.warps_of_block if fits else 0
        return {
            "warps": MOST_WARPS // self.warps_of_block,
            "blocks": MOST_BLOCKS,
            "registers": by_registers,
            "shared memory": SHARED_BYTES // _up(self.shared_bytes + RESERVED_BYTES, _SHARED_UNIT),
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
        most = {"threads": MOST_THREADS, "registers": MOST_REGISTERS, "shared_bytes": MOST_SHARED_BYTES}
        return curves(self, most, MOST_WARPS)

    def __str__(self) -> str:
        blocks = f"{self.blocks} block" + "s" * (self.blocks != 1)
        return (
            f"{self.warps} of {MOST_WARPS} warps: {blocks} of {self.threads} threads with {self.registers} registers each, "
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
