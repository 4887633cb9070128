"""The machine code that Triton's compiler makes of a kernel for an H200, on any machine.

Triton's wheel brings the whole compiler and a disassembler, so no GPU is needed. It runs in a process of its own: where
there is no GPU, Triton is imported here as an interpreter, and one process cannot have it as both.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from kernels.operation import Case, Operation, Variant, operation


@dataclass(frozen=True)
class MachineCode:
    """A compiled launch.

    Args:
        kernel: the name of the Triton function.
        options: the launch's constants and num_warps, by name.
        text: the instructions, one a line, in NVIDIA's assembler (SASS).
    """

    kernel: str
    options: dict[str, int]
    text: str

    @property
    def opcodes(self) -> Counter[str]:
        """How often each instruction stands in the text, by its full name, such as "LDG.E.EL.128"."""
        # A line is its scheduling, a tab, perhaps a condition such as @!P0, and the instruction.
        return Counter(re.findall(r"\t(?:@\S+ +)?([A-Z][\w.]*)", self.text))

    def count(self, opcode: str) -> int:
        """Instructions with all the words of `opcode`: "LDG" counts global loads, "LDG.128" those of 16 bytes a lane."""
        words = set(opcode.split("."))
        return sum(n for name, n in self.opcodes.items() if words <= set(name.split(".")))


def triton(op: Operation, variant: Variant, cases: Sequence[Case]) -> list[list[MachineCode]]:
    """For each case, the machine code of the Triton launches that `variant` of `op` makes on it.

    The launches are those of the reference target, an H200. Each case takes a second or so; nothing is launched.

    Raises:
        ValueError: `variant` is not of level 4.
        RuntimeError: the compiler failed, with what it said.
    """
    if variant.level != 4:
        raise ValueError(f"variant: got {variant.key!r} of level {variant.level}, expected one of level 4, Triton")
    asked = [op.name, variant.key, [{**asdict(case), "params": dict(case.params)} for case in cases]]
    run = subprocess.run(
        [sys.executable, "-m", "kernels.triton.machine_code", json.dumps(asked)],
        capture_output=True,
        text=True,
        env=os.environ | {"TRITON_INTERPRET": "0"},
    )
    if run.returncode:
        raise RuntimeError(f"{variant.key} was not compiled: {run.stderr.strip()}")
    return [[MachineCode(**launch) for launch in launches] for launches in json.loads(run.stdout)]


def _compile(name: str, key: str, cases: list[dict]) -> list[list[dict]]:
    """In the process of its own: record the launches, and compile each."""
    from kernels.triton import compiler
    from kernels.triton.launch import watched

    op, found = operation(name), []
    for case in cases:
        launches: list[tuple] = []
        with watched(lambda *launch, into=launches: into.append(launch)):
            op[key](**op.inputs(Case(**case | {"shape": tuple(case["shape"])}), "cpu"))
        found.append([])
        for kernel, _, args, options in launches:
            compiled = compiler.compiled(kernel, args, options)
            found[-1].append({"kernel": kernel.fn.__name__, "options": options, "text": compiled.asm["sass"]})
    return found


if __name__ == "__main__":
    print(json.dumps(_compile(*json.loads(sys.argv[1]))))
