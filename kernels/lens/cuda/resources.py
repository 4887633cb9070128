"""What NVRTC makes of a kernel, with no GPU: registers and shared memory."""

from __future__ import annotations

import re
from typing import Any

from kernels.cuda import CompileError, Kernel
from kernels.cuda.cpu.headers import cuda_headers
from kernels.cuda.source import NVRTC_HEADERS, Source
from kernels.hardware import REFERENCE, TARGETS, Target

_ARCHITECTURE = re.compile(r"-(?:arch|-gpu-architecture)=(.+)")


def own_target(kernel: Kernel) -> Target | None:
    """The target that a kernel's options name, such as "-arch=sm_90a", where it is written for one alone."""
    named = (found[1] for option in kernel._module.options if (found := _ARCHITECTURE.fullmatch(option)))
    return next((TARGETS[name] for name in named if name in TARGETS), None)


def compiled(kernel: Kernel, target: Target = REFERENCE) -> dict[str, int]:
    """`registers` of a thread, `spilled_bytes`, and static `shared_bytes` of a block, as ptxas reports them for a target:
    for that which the kernel's options name, if they name one.

    CompileError; ImportError where cuda-bindings or NVRTC is not installed.
    """
    target = own_target(kernel) or target
    return kernel._module.first_that_compiles(kernel.name, lambda source: _compiled(source, kernel.name, target))


def _compiled(source: Source, name: str, target: Target) -> dict[str, int]:
    from cuda.bindings import nvrtc

    def call(function: str, *args: Any) -> Any:
        error, *found = getattr(nvrtc, f"nvrtc{function}")(*args)
        if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise RuntimeError(f"nvrtc{function} failed: {error.name}")
        return found[0] if found else None

    folders = (NVRTC_HEADERS, *cuda_headers())
    # Beside a driver NVRTC keeps what it compiled, and gives it back without the report.
    options = [
        f"--gpu-architecture={target}",
        "--ptxas-options=-v",
        "--no-cache",
        *(f"-I{folder}" for folder in folders),
    ]
    options += [option for option in source.options if not _ARCHITECTURE.fullmatch(option)]
    if not any("-std=" in option for option in options):
        options.append("-std=c++17")
    program = call("CreateProgram", source.for_nvrtc.encode(), source.filename.encode(), 0, [], [])
    try:
        call("AddNameExpression", program, name.encode())
        (error,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        log = bytearray(call("GetProgramLogSize", program))
        call("GetProgramLog", program, log)
        text = log.decode(errors="replace").rstrip("\0")
        if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompileError(
                f"{source.filename} does not compile (NVRTC):\n{source.with_errors_located(text.strip())}"
            )
        symbol = call("GetLoweredName", program, name.encode()).decode()
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    _, found, of_kernel = text.partition(f"Compiling entry function '{symbol}'")
    if not found:
        raise RuntimeError(f"ptxas reported nothing about {name}:\n{text.strip()}")
    return report(of_kernel.partition("Compiling entry function")[0])


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
