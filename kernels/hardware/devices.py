"""The accelerators that PyTorch sees here, and what this course can say of each."""

import importlib.util
from dataclasses import dataclass

import torch

KNOWN = {
    "cuda": "measured",
    "rocm": "compiled only",
    "xpu": "detected only",
    "mps": "detected only",
    "tpu": "detected only",
    "cpu": "measured",
}
"""By kind, the evidence that the course has for its kernels there: see kernels.claims.EVIDENCE."""


@dataclass(frozen=True)
class Device:
    """One device.

    Args:
        kind: "cuda" (NVIDIA), "rocm" (AMD), "xpu" (Intel), "mps" (Apple), "tpu" or "cpu".
        name: as its maker has it.
        torch: what PyTorch calls it, such as "cuda:1"; AMD's GPUs are "cuda" to it as well. "" for a TPU.
        bytes: of its own memory, or None where PyTorch does not say.
    """

    kind: str
    name: str
    torch: str
    bytes: int | None = None

    @property
    def evidence(self) -> str:
        return KNOWN[self.kind]


def devices() -> list[Device]:
    """All devices here, the fastest kind first and the CPU last. Creates no context on any."""
    found = []
    if torch.cuda.is_available():
        kind = "rocm" if torch.version.hip else "cuda"
        for number in range(torch.cuda.device_count()):
            facts = torch.cuda.get_device_properties(number)
            found.append(Device(kind, facts.name, f"cuda:{number}", facts.total_memory))
    if torch.xpu.is_available():
        for number in range(torch.xpu.device_count()):
            intel = torch.xpu.get_device_properties(number)
            found.append(Device("xpu", intel.name, f"xpu:{number}", intel.total_memory))
    if torch.backends.mps.is_available():
        found.append(Device("mps", "Apple's GPU", "mps"))
    if importlib.util.find_spec("libtpu"):
        found.append(Device("tpu", "TPU", ""))
    return [*found, Device("cpu", "CPU", "cpu")]
