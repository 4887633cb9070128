"""What the compilers say of every kernel, with no GPU: registers, spills and shared memory, for sm_80 and sm_90.

    python tests/stored/resources.py              print the table as JSON
    python tests/stored/resources.py FILE         write it to FILE

Kernels are compiled for the launches that an operation's cases make, forward and backward: Triton's by Triton, `.cu` files
by NVRTC. Both reports come from ptxas. Run in a process of its own, since Triton must be imported as a compiler.
"""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

TARGETS = (80, 90)


def run_without_launching(level: int) -> None:
    """Every variant of a level on every case, with its gradients, on tensors of a CPU."""
    import kernels

    for name in kernels.operations():
        op = kernels.operation(name)
        for variant in (v for v in op.variants if v.level == level):
            # Edge cases in bfloat16 alone: what is compiled differs by width, alignment and missing arguments.
            edge = (case for case in op.cases["edge"] if case.dtype == "bfloat16")
            for case in (*edge, *op.cases["model"], *op.cases["bench"]):
                # Two rows will do: what is compiled depends on the width alone.
                few = op.few(case, 2)
                inputs = op.inputs(few, "cpu")
                incoming = {
                    name: dy.contiguous() for name, dy in op.incoming(few, op.results(op.baseline, inputs)).items()
                }
                op.results(variant.fn, inputs, op.differentiable(inputs), incoming)


def triton_kernels(targets: tuple[int, ...]) -> Iterator[tuple[str, dict[str, int]]]:
    """(kernel and its specialisation and target, report) for each distinct Triton launch."""
    import kernels
    from kernels.lens.cuda.resources import report
    from kernels.triton import compiler
    from kernels.triton.launch import watched

    assert not kernels.machine.interpreting(), "set TRITON_INTERPRET=0"
    launches: list[tuple] = []
    with watched(lambda *launch: launches.append(launch)):
        run_without_launching(level=4)
    seen = set()
    for kernel, _, args, options in launches:
        signature, _, attributes, _ = compiler.specialised(kernel, args, options)
        words = [f"{k}={v}" for k, v in (options | {"args": ",".join(signature.values())}).items()]
        label = f"{kernel.fn.__module__}.{kernel.fn.__name__} {' '.join(words)}"
        if attributes:
            label += f" aligned={','.join(str(i) for (i,) in attributes)}"
        for target in targets:
            if (label, target) in seen:
                continue
            seen.add((label, target))
            compiled = compiler.compiled(kernel, args, options, target)
            found = report(ptxas(compiled.asm["ptx"])) | {"shared_bytes": compiled.metadata.shared}
            yield f"{label} sm_{target}", found


def ptxas(ptx: str) -> str:
    """What the ptxas of Triton's wheel says of a PTX text."""
    import triton

    binary = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
    arch = re.search(r"\.target (sm_\w+)", ptx).group(1)
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        command = [binary, "-v", f"--gpu-name={arch}", file.name, "-o", os.devnull]
        return subprocess.run(command, capture_output=True, text=True, check=True).stderr


def cuda_kernels(targets: tuple[int, ...]) -> Iterator[tuple[str, dict[str, int]]]:
    """(file, kernel and target, report) for each kernel of CUDA C that is launched."""
    from kernels.cuda.kernel import watched
    from kernels.lens.cuda.resources import compiled

    launched = {}

    def remember(kernel, grid, block, args, shared_mem):
        launched[kernel._module._source.filename, kernel.name, kernel._module.options] = kernel

    with watched(by=remember):
        run_without_launching(level=5)
    for (file, name, options), kernel in launched.items():
        defines = [option.removeprefix("-D") for option in options if option.startswith("-D")]
        for target in targets:
            yield f"{file} {name} {' '.join(defines)} sm_{target}", compiled(kernel, target)


def collect(targets: tuple[int, ...] = TARGETS) -> dict:
    """Versions of the compilers, and what they say of every kernel for these compute capabilities, such as 90."""
    versions = {name: importlib.metadata.version(name) for name in ("triton", "nvidia-cuda-nvrtc")}
    return {"versions": versions, "kernels": dict([*triton_kernels(targets), *cuda_kernels(targets)])}


if __name__ == "__main__":
    text = json.dumps(collect(), indent=1) + "\n"
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text)
    else:
        print(text, end="")
