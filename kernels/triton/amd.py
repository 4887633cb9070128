"""Triton's kernels compiled for AMD's GPUs, on any machine: the registers that they take, and whether they spill.

Triton's wheel brings AMD's compiler too. Nothing runs: what this says is that a kernel compiles, and into what. It compiles
in a process of its own: where there is no GPU, Triton is imported here as an interpreter.
"""

import functools
import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Any

from kernels.hardware import WARP
from kernels.operation import Case, Operation, Variant, operation

LANES = {"gfx942": 64, "gfx1100": 32}
"""The lanes of a wavefront by architecture: of an MI300, and of a Radeon RX 7900."""


@dataclass(frozen=True)
class AmdCode:
    """A launch, compiled for a GPU of AMD's.

    Args:
        kernel: the name of the Triton function.
        warps: of a program on a GPU of NVIDIA's.
        wavefronts: of a program here, with as many threads where a wavefront is not more than that.
        assembly: the compiler's text, which ends with what the loader is to know.
    """

    kernel: str
    warps: int
    wavefronts: int
    assembly: str

    @property
    def vector_registers(self) -> int:
        """Of a lane. On gfx942 those for matrix products are among them: 512 in all."""
        return self.said("vgpr_count")

    @property
    def scalar_registers(self) -> int:
        """Of a wavefront."""
        return self.said("sgpr_count")

    @property
    def spilled(self) -> int:
        """Registers that had to go to memory."""
        return self.said("vgpr_spill_count") + self.said("sgpr_spill_count")

    def said(self, field: str) -> int:
        """A number of the code object's metadata, such as "max_flat_workgroup_size" (LLVM's AMDGPU guide, code object V5)."""
        found = re.search(rf"^\s*\.{field}:\s+(\d+)$", self.assembly, re.MULTILINE)
        assert found, f"no {field} in the metadata of {self.kernel}"
        return int(found[1])


def amd(op: Operation, variant: Variant, case: Case) -> dict[str, list[AmdCode]]:
    """By architecture, the Triton launches of a forward and a backward of `variant`, as compiled for a GPU of AMD's.

    Raises:
        ValueError: `variant` is not of level 4.
        RuntimeError: the compiler failed, with what it said.
    """
    if variant.level != 4:
        raise ValueError(f"variant: got {variant.key!r} of level {variant.level}, expected one of level 4, Triton")
    asked = json.dumps([op.name, variant.key, asdict(case) | {"params": dict(case.params)}])
    return {name: [AmdCode(**launch) for launch in codes] for name, codes in json.loads(_answered(asked)).items()}


@functools.cache
def _answered(asked: str) -> str:
    command = [sys.executable, "-m", "kernels.triton.amd", asked]
    run = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"TRITON_INTERPRET": "0"})
    if run.returncode:
        raise RuntimeError(f"{asked} was not compiled: {run.stderr.strip()}")
    return run.stdout


def _compile(name: str, key: str, fields: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """In the process of its own: record the launches, and compile each for every architecture."""
    from triton.backends.compiler import GPUTarget

    from kernels.triton import compiler
    from kernels.triton.launch import watched

    op, case = operation(name), Case(**fields | {"shape": tuple(fields["shape"])})
    inputs = op.inputs(case, "cpu")
    coming = op.incoming(case, op.results(op.baseline, inputs))
    launches: list[tuple] = []
    with watched(lambda *launch: launches.append(launch)):
        op.results(op[key].fn, inputs, op.differentiable(inputs), coming)
    found: dict[str, list[dict[str, Any]]] = {architecture: [] for architecture in LANES}
    for architecture, lanes in LANES.items():
        for kernel, _, args, options in launches:
            warps = options.get("num_warps", 4)  # Triton's default
            wavefronts = max(1, warps * WARP // lanes)
            target = GPUTarget("hip", architecture, lanes)
            code = compiler.compiled(kernel, args, {**options, "num_warps": wavefronts}, target)
            found[architecture].append(asdict(AmdCode(kernel.fn.__name__, warps, wavefronts, code.asm["amdgcn"])))
    return found


if __name__ == "__main__":
    print(json.dumps(_compile(*json.loads(sys.argv[1]))))
