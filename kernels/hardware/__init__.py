"""What GPUs are and have: the one place where their numbers stand; and the devices that are here."""

from kernels.hardware.devices import Device, devices
from kernels.hardware.targets import (
    BANK_BYTES,
    BANKS,
    LAUNCH_BLOCK,
    LAUNCH_GRID,
    REFERENCE,
    REFERENCE_MULTIPROCESSORS,
    SECTOR_BYTES,
    TARGETS,
    WARP,
    Target,
    has_feature,
    target_of,
)

__all__ = [
    "BANKS",
    "BANK_BYTES",
    "LAUNCH_BLOCK",
    "LAUNCH_GRID",
    "REFERENCE",
    "REFERENCE_MULTIPROCESSORS",
    "SECTOR_BYTES",
    "TARGETS",
    "WARP",
    "Device",
    "Target",
    "devices",
    "has_feature",
    "target_of",
]
