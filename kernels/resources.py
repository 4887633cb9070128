"""What the compilers say of every kernel, with no GPU: registers, spills and shared memory, for sm_80 and sm_90.

    python -m kernels.resources              print the table as JSON
    python -m kernels.resources FILE         write it to FILE

Triton kernels are compiled for the launches that an operation's cases make; `.cu` files by NVRTC. Both
reports come from ptxas. Run in a process of its own, since Triton must be imported as a compiler.
"""

import importlib
import importlib.metadata
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

TARGETS = (80, 90)


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


def triton_kernels() -> Iterator[tuple[str, dict[str, int]]]:
    """(kernel and its specialisation and target, report) for each distinct Triton launch."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    import kernels
    from kernels import triton_launch

    assert not kernels.machine.interpreting(), "set TRITON_INTERPRET=0"
    triton_launch.LAUNCHES = launches = []
    for name in kernels.operations():
        op = kernels.operation(name)
        for variant in op.variants:
            if variant.level == 4:
                for case in (*op.cases["edge"], *op.cases["model"], *op.cases["bench"]):
                    # Two rows will do: no launch parameter depends on how many there are.
                    few = replace(case, shape=(min(case.shape[0], 2), *case.shape[1:])) if len(case.shape) > 1 else case
                    variant(**op.inputs(few, "cpu"))
    seen = set()
    for kernel, args, options in launches:
        signature, constants, attributes = specialise(kernel, args)
        meta = {k: v for k, v in options.items() if k in ("num_warps", "num_stages")}
        constants |= {k: v for k, v in options.items() if k not in meta}
        signature |= {k: "constexpr" for k in constants}
        words = [f"{k}={v}" for k, v in (options | {"args": ",".join(signature.values())}).items()]
        label = f"{kernel.fn.__module__}.{kernel.fn.__name__} {' '.join(words)}"
        if attributes:
            label += f" aligned={','.join(str(i) for (i,) in attributes)}"
        for target in TARGETS:
            if (label, target) in seen:
                continue
            seen.add((label, target))
            compiled = triton.compile(
                ASTSource(kernel, signature, constants, attributes), target=GPUTarget("cuda", target, 32), options=meta
            )
            found = report(ptxas(compiled.asm["ptx"], target)) | {"shared_bytes": compiled.metadata.shared}
            yield f"{label} sm_{target}", found


def specialise(kernel: object, args: tuple) -> tuple[dict[str, str], dict, dict]:
    """The signature, constants and divisibility by 16 that Triton's launcher would derive from the arguments."""
    import torch

    types = {torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*bf16"}
    signature, constants, attributes = {}, {}, {}
    for index, (name, arg) in enumerate(zip(kernel.arg_names, args, strict=False)):
        if arg is None or (isinstance(arg, int) and arg == 1):
            constants[name] = arg
        elif isinstance(arg, torch.Tensor):
            signature[name] = types[arg.dtype]
            if arg.storage_offset() * arg.itemsize % 16 == 0:
                attributes[(index,)] = [["tt.divisibility", 16]]
        elif isinstance(arg, float):
            signature[name] = "fp32"
        else:
            signature[name] = "i32" if -(2**31) <= arg < 2**31 else "i64"
            if arg % 16 == 0:
                attributes[(index,)] = [["tt.divisibility", 16]]
    order = {name: signature.get(name, "constexpr") for name in kernel.arg_names[: len(args)]}
    return order, constants, attributes


def ptxas(ptx: str, target: int) -> str:
    """What the ptxas of Triton's wheel says of a PTX text."""
    import triton

    binary = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
    arch = re.search(r"\.target (sm_\w+)", ptx).group(1)
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        command = [binary, "-v", f"--gpu-name={arch}", file.name, "-o", os.devnull]
        return subprocess.run(command, capture_output=True, text=True, check=True).stderr


def cuda_kernels() -> Iterator[tuple[str, dict[str, int]]]:
    """(kernel and target, report) for each kernel of each .cu file of each operation."""
    from cuda.core import Program, ProgramOptions

    import kernels
    from kernels.cuda import RawModule
    from kernels.cuda.cpu.build import cuda_headers

    for name in kernels.operations():
        module = importlib.import_module(f"kernels.ops.{name}.cuda")
        for raw in (value for value in vars(module).values() if isinstance(value, RawModule)):
            for target in TARGETS:
                for expression in raw.name_expressions:
                    options = ProgramOptions(
                        std="c++17",
                        arch=f"sm_{target}",
                        include_path=[str(folder) for folder in cuda_headers()],
                        ptxas_options=["-v"],
                    )
                    log = io.StringIO()
                    Program(raw.code, "c++", options).compile("cubin", name_expressions=[expression], logs=log)
                    yield f"{module.__name__} {expression} sm_{target}", report(log.getvalue())


def collect() -> dict:
    """Versions of the compilers, and what they say of every kernel."""
    versions = {name: importlib.metadata.version(name) for name in ("triton", "nvidia-cuda-nvrtc")}
    return {"versions": versions, "kernels": dict([*triton_kernels(), *cuda_kernels()])}


if __name__ == "__main__":
    text = json.dumps(collect(), indent=1) + "\n"
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text)
    else:
        print(text, end="")
