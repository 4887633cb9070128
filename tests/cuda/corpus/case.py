"""A kernel of the corpus, how it is launched, and what it must compute."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kernels.cuda import RawModule

FOLDER = Path(__file__).parent
GUARD, GUARD_BYTES = 0xA5, 256
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


@dataclass(frozen=True)
class Case:
    """One kernel, or a few launched one after another.

    args: makes the kernel's arguments by name, in the order of its parameters; torch's seed is set before.
    reference: what some of them hold afterwards, from those it names. Floating point comes to it in float64.
    tolerance: relative, of the larger of an element and the root mean square of all. Integers are compared exactly.
    launch: for several launches: called with the module and the arguments by name.
    """

    file: str
    kernel: str | tuple[str, ...]
    args: Callable[[], dict[str, Any]]
    reference: Callable[..., dict[str, torch.Tensor]]
    grid: tuple[int, ...] = (1,)
    block: tuple[int, ...] = (256,)
    options: tuple[str, ...] = ()
    shared_mem: int = 0
    tolerance: float | None = None
    launch: Callable[[RawModule, dict[str, Any]], None] | None = None

    @property
    def kernels(self) -> tuple[str, ...]:
        return (self.kernel,) if isinstance(self.kernel, str) else self.kernel

    @property
    def name(self) -> str:
        return f"{self.file.removesuffix('.cu')}-{self.kernels[0]}"

    def arguments(self) -> dict[str, Any]:
        """The arguments, on the CPU."""
        torch.manual_seed(0)
        return self.args()

    def expected(self, arguments: dict[str, Any]) -> dict[str, torch.Tensor]:
        """What the kernel must leave in its outputs, by name."""
        named = inspect.signature(self.reference).parameters
        return self.reference(**{name: _exact(arguments[name]) for name in named if name in arguments})

    def run(self, module: RawModule, arguments: dict[str, Any], device: str) -> dict[str, Any]:
        """The arguments as the kernel leaves them, on the CPU. No byte before or behind a tensor may change."""
        buffers = {k: _guarded(v).to(device) for k, v in arguments.items() if isinstance(v, torch.Tensor)}
        moved = {k: _inside(buffers[k], v) if k in buffers else v for k, v in arguments.items()}
        if self.launch:
            self.launch(module, moved)
        else:
            kernel = module.get_function(self.kernels[0])
            if self.shared_mem > kernel.max_dynamic_shared_size_bytes:
                kernel.max_dynamic_shared_size_bytes = self.shared_mem
            kernel(self.grid, self.block, tuple(moved.values()), self.shared_mem)
        for name, buffer in buffers.items():
            guards = torch.cat([buffer[:GUARD_BYTES], buffer[-GUARD_BYTES:]])
            assert (guards == GUARD).all(), f"{name}: written out of bounds"
        return {k: v.cpu() if isinstance(v, torch.Tensor) else v for k, v in moved.items()}

    def errors(self, actual: torch.Tensor, expected: torch.Tensor) -> int:
        """How many elements are wrong."""
        assert actual.shape == expected.shape, f"the reference is {tuple(expected.shape)}, not {tuple(actual.shape)}"
        if not actual.is_floating_point():
            return int((actual != expected).sum())
        tolerance = TOLERANCE[actual.dtype] if self.tolerance is None else self.tolerance
        actual, expected = actual.double(), expected.double()
        size = expected.abs().clamp(min=float(expected.square().nanmean().sqrt()))
        close = (actual - expected).abs() <= tolerance * size
        return int((~(close | actual.isnan() & expected.isnan())).sum())


def blank(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """An output before the launch: NaN, or the largest integer."""
    return torch.full(shape, float("nan") if dtype.is_floating_point else torch.iinfo(dtype).max, dtype=dtype)


def _guarded(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor's bytes between two guards."""
    guard = torch.full((GUARD_BYTES,), GUARD, dtype=torch.uint8)
    return torch.cat([guard, tensor.contiguous().view(-1).view(torch.uint8), guard])


def _inside(buffer: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return buffer[GUARD_BYTES:-GUARD_BYTES].view(like.dtype).view(like.shape)


def _exact(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value.clone()
    return value.item() if hasattr(value, "item") else value
