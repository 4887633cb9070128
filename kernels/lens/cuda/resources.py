"""What NVRTC makes of a kernel, with no GPU: registers and shared memory."""

from __future__ import annotations

import re

from kernels.cuda import Kernel, gpu_compiler
from kernels.cuda.source import Source
from kernels.hardware import REFERENCE, TARGETS, Target


def own_target(kernel: Kernel) -> Target | None:
    """The target that a kernel's options name, such as "-arch=sm_90a", where it is written for one alone."""
    named = (found[1] for option in kernel._module.options if (found := gpu_compiler.ARCHITECTURE.fullmatch(option)))
    return next((TARGETS[name] for name in named if name in TARGETS), None)


def compiled(kernel: Kernel, target: Target = REFERENCE) -> dict[str, int]:
    """`registers` of a thread, `spilled_bytes`, and static `shared_bytes` of a block, as ptxas reports them for a target:
    for that which the kernel's options name, if they name one.

    CompileError; ImportError where cuda-bindings or NVRTC is not installed.
    """
    target = own_target(kernel) or target
    return kernel._module.first_that_compiles(kernel.name, lambda source: _compiled(source, kernel.name, target))


def ptx(kernel: Kernel, target: Target = REFERENCE) -> str:
    """The PTX of a kernel, for a target as in `compiled`."""
    options = [f"--gpu-architecture={own_target(kernel) or target}"]

    def of(source: Source) -> str:
        return gpu_compiler.compiled(source, options, kernel.name).ptx

    return kernel._module.first_that_compiles(kernel.name, of)


def _compiled(source: Source, name: str, target: Target) -> dict[str, int]:
    # Beside a driver NVRTC keeps what it compiled, and gives it back without the report.
    text, symbol, _ = gpu_compiler.compiled(
        source, [f"--gpu-architecture={target}", "--ptxas-options=-v", "--no-cache"], name
    )
    _, found, entry_text = text.partition(f"Compiling entry function '{symbol}'")
    if not found:
        raise RuntimeError(f"ptxas reported nothing about {name}:\n{text.strip()}")
    return report(entry_text.partition("Compiling entry function")[0])


def report(log: str) -> dict[str, int]:
    """Registers, spilled bytes and static shared memory from ptxas -v."""

    def number(pattern: str) -> int:
        found = re.search(pattern, log)
        return int(found.group(1)) if found else 0

    return {
        "registers": number(r"Used (\d+) registers"),
        "spilled_bytes": number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads"),
        "shared_bytes": number(r"(\d+) bytes smem"),
    }
