"""What the compilers say of every kernel, with no GPU: registers, spills and shared memory.

    python tests/stored/resources.py                      print the table of each operation
    python tests/stored/resources.py FOLDER [OPERATION]   write them to FOLDER/<operation>.json

Kernels are compiled for the launches that an operation's cases make, forward and backward: Triton's by Triton, `.cu` files
by NVRTC. Both reports come from ptxas. Run in a process of its own, since Triton must be imported as a compiler.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import kernels
from kernels import machine
from kernels.cuda.kernel import watched as watched_cuda
from kernels.hardware import TARGETS, Target
from kernels.lens.cuda.resources import compiled, own_target, report
from kernels.operation import Case, Operation

Report = dict[str, int]
"""Registers of a thread, spilled bytes and static shared bytes; of Triton, where all is dynamic, all shared bytes."""

STORED = ("sm_80", "sm_90", "sm_90a")  # what is stored of other targets is spills alone
# Triton compiles for all that a GPU has; in CUDA C a kernel asks for it, by -arch=sm_90a, and is compiled in its target's turn.
GPUS = tuple(target for target in TARGETS.values() if not target.name.endswith("a"))


def cases(op: Operation) -> list[Case]:
    """Those that the operation has for it, or all: edge cases in bfloat16 alone, since what is compiled differs by width,
    alignment and missing arguments. Two rows will do."""
    edge = [case for case in op.cases["edge"] if case.dtype == "bfloat16"]
    return [op.few(case, 2) for case in op.cases.get("compiled", (*edge, *op.cases["model"], *op.cases["bench"]))]


def plan(op: Operation, level: int, target: Target, chosen: Sequence[Case]) -> None:
    """Every variant of a level on every case that it supports, with its gradients, as on a GPU of the target. For a caller
    who watches the launches: nothing is to run."""
    gpu = machine.with_gpu(target)
    with machine.planning(target):
        for case in chosen:
            inputs = op.inputs(case, "cpu")
            coming = op.incoming(case, op.results(op.baseline, inputs)).items()
            incoming = {name: dy.contiguous() for name, dy in coming}
            for variant in op.variants:
                if variant.level == level and variant.unsupported(case, gpu) is None:
                    op.results(variant.fn, inputs, op.differentiable(inputs), incoming)


def triton_kernels(
    op: Operation, target: Target, chosen: Sequence[Case]
) -> dict[str, Callable[[], tuple[str, Report]]]:
    """What compiles each distinct Triton launch, by kernel and specialisation: it gives the target's name and the report."""
    from kernels.triton import compiler
    from kernels.triton.launch import watched

    assert not machine.interpreting(), "set TRITON_INTERPRET=0"
    launches: list[tuple] = []
    with watched(lambda *launch: launches.append(launch)):
        plan(op, 4, target, chosen)
    found: dict[str, Callable[[], tuple[str, Report]]] = {}
    for kernel, _, args, options in launches:
        signature, constants, attributes, _ = compiler.specialised(kernel, args, options, target)
        # A constant that has its place among the arguments, such as a width, makes a kernel of its own, too.
        types = [
            f"{constants.get((place,))}" if kind == "constexpr" and name not in options else kind
            for place, (name, kind) in enumerate(signature.items())
        ]
        words = [f"{k}={v}" for k, v in (options | {"args": ",".join(types)}).items()]
        label = f"{kernel.fn.__module__}.{kernel.fn.__name__} {' '.join(words)}"
        if attributes:
            label += f" aligned={','.join(str(i) for (i,) in attributes)}"
        found.setdefault(label, partial(_triton, kernel, args, options, target))
    return found


def _triton(kernel: Any, args: tuple, options: dict[str, Any], target: Target) -> tuple[str, Report]:
    from kernels.triton import compiler

    found = compiler.compiled(kernel, args, options, target)
    _fits(found.metadata.shared, target)
    return target.name, report(_ptxas(found.asm["ptx"])) | {"shared_bytes": found.metadata.shared}


def _ptxas(ptx: str) -> str:
    """What the ptxas of Triton's wheel says of a PTX text."""
    from triton.backends.nvidia.compiler import get_ptxas

    arch, number = re.search(r"\.target (sm_(\d+)\w*)", ptx).groups()
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        command = [get_ptxas(int(number)).path, "-v", f"--gpu-name={arch}", file.name, "-o", "/dev/null"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stderr


def cuda_kernels(op: Operation, target: Target, chosen: Sequence[Case]) -> dict[str, Callable[[], tuple[str, Report]]]:
    """As triton_kernels, by file, kernel and macros."""
    found: dict[str, Callable[[], tuple[str, Report]]] = {}

    def remember(kernel, grid, block, args, shared_mem):
        macros = [option.removeprefix("-D") for option in kernel._module.options if option.startswith("-D")]
        label = " ".join((kernel._module._source.filename, kernel.name, *macros))
        found.setdefault(label, partial(_cuda, kernel, shared_mem, own_target(kernel) or target))

    with watched_cuda(remember):
        plan(op, 5, target, chosen)
    return found


def _cuda(kernel: Any, shared_mem: int, target: Target) -> tuple[str, Report]:
    found = compiled(kernel, target)
    _fits(found["shared_bytes"] + shared_mem, target)
    return target.name, found


def _fits(shared_bytes: int, target: Target) -> None:
    if shared_bytes > (most := target.shared_bytes_per_block):
        raise ValueError(
            f"the launch takes {shared_bytes:,} bytes of shared memory, and a block has {most:,} on {target}"
        )


def compile_all(op: Operation, chosen: Mapping[Target, Sequence[Case]]) -> dict[str, dict[str, Report]]:
    """What the compilers say of each kernel by target, as it is stored: of some targets the spilled bytes, if there are any.

    chosen: the cases for each target."""
    found: dict[str, dict[str, Report]] = {}
    for gpu, gpu_resources in chosen.items():
        for label, compile in (triton_kernels(op, gpu, gpu_resources) | cuda_kernels(op, gpu, gpu_resources)).items():
            try:
                target, said = compile()
            except Exception as error:
                raise RuntimeError(f"{op.name}: {label} on {gpu}: {error}") from error
            kernel_resources = found.setdefault(label, {})
            if target in STORED:
                kernel_resources[target] = said
            elif said["spilled_bytes"]:
                kernel_resources[target] = {"spilled_bytes": said["spilled_bytes"]}
    return found


def unsupported(op: Operation) -> dict[str, dict[str, str]]:
    """Why rungs of levels 4 and 5 cannot run on GPUs of some targets, on all cases or on some: the targets by reason."""
    found: dict[
        str, dict[str, dict[str, None]]
    ] = {}  # a rung of the forward and one of the backward may have the same key
    for variant in (one for one in op.variants if one.level >= 4):
        for gpu in GPUS:
            for reason in sorted({variant.unsupported(case, machine.with_gpu(gpu)) for case in cases(op)} - {None}):
                found.setdefault(variant.key, {}).setdefault(reason, {})[gpu.name] = None
    return {
        key: {reason: " ".join(gpus) for reason, gpus in rung_reasons.items()} for key, rung_reasons in found.items()
    }


def versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in ("triton", "nvidia-cuda-nvrtc")}


def as_json(op: Operation, found: Mapping[str, Mapping[str, Report]]) -> str:
    """A line for each kernel, so that a change shows as the lines that it is about."""
    rows = (f"  {json.dumps(label)}: {json.dumps(said)}" for label, said in found.items())
    head = {"versions": versions(), "unsupported": unsupported(op)}
    return json.dumps(head, indent=1)[:-2] + ',\n "kernels": {\n' + ",\n".join(rows) + "\n }\n}\n"


if __name__ == "__main__":
    folder, names = sys.argv[1:2], sys.argv[2:] or kernels.operations()
    for op in map(kernels.operation, names):
        text = as_json(op, compile_all(op, dict.fromkeys(GPUS, cases(op))))
        if folder:
            Path(folder[0], f"{op.name}.json").write_text(text)
        else:
            print(text, end="")
