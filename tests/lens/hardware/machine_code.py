"""The memory instructions of a kernel's machine code: which line of the source each is from, and in how many loops."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .control_flow import Flow, parse

_SPACES = {
    "LDG": ("global", "load"),
    "STG": ("global", "store"),
    "ATOMG": ("global", "atomic"),
    "RED": ("global", "atomic"),
    "REDG": ("global", "atomic"),
    "LDS": ("shared", "load"),
    "STS": ("shared", "store"),
    "ATOMS": ("shared", "atomic"),
    "LD": ("generic", "load"),
    "ST": ("generic", "store"),
    "ATOM": ("generic", "atomic"),
}
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


Lines = tuple[int, ...]  # of the source, from the innermost function that was inlined to the kernel


@dataclass(frozen=True)
class Access:
    """A memory instruction. loops: how many it is in. guards: the lines of the branches and predicates that decide whether it
    is executed, in each round of the innermost loop if it is in one."""

    opcode: str
    space: str
    kind: str
    width: int  # bytes of a lane
    lines: Lines
    loops: int
    guards: tuple[Lines, ...]


@dataclass(frozen=True)
class MachineCode:
    """The accesses of a kernel, and for each of its loops the lines of the branch that closes it."""

    accesses: tuple[Access, ...]
    loops: tuple[Lines, ...]

    def as_json(self) -> dict:
        """Lists, as JSON has them."""
        return json.loads(
            json.dumps({"accesses": [list(vars(a).values()) for a in self.accesses], "loops": self.loops})
        )

    @classmethod
    def from_json(cls, stored: dict) -> MachineCode:
        accesses = (
            Access(*rest, tuple(lines), loops, tuple(map(tuple, guards)))
            for *rest, lines, loops, guards in stored["accesses"]
        )
        return cls(tuple(accesses), tuple(map(tuple, stored["loops"])))


def disassembler() -> str | None:
    """The path of nvdisasm: a CUDA toolkit has one, and Triton's wheel, which may be too old for a cubin."""
    if found := shutil.which("nvdisasm"):
        return found
    triton = importlib.util.find_spec("triton")
    ours = Path(triton.origin).parent / "backends" / "nvidia" / "bin" / "nvdisasm" if triton else None
    return str(ours) if ours and ours.exists() else None


def disassemble(cubin: bytes) -> str:
    """What nvdisasm says of a cubin that was compiled with -lineinfo."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [disassembler(), "-c", "-gi", file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def machine_code(disassembly: str, symbol: str, filename: str) -> MachineCode:
    """The accesses of the kernel with this mangled name, with their lines in the file of this name."""
    section = re.search(rf"^\.text\.{re.escape(symbol)}:\n(.*?)(?=^//-----|\Z)", disassembly, re.DOTALL | re.MULTILINE)
    if not section:
        raise ValueError(f"the disassembly has no kernel {symbol}")
    instructions = parse(section.group(1), filename)
    flow = Flow(instructions)
    accesses = []
    for number, instruction in enumerate(instructions):
        opcode, *modifiers = instruction.opcode.split(".")
        width = next((_WIDTHS[m] for m in modifiers if m in _WIDTHS), 4)
        kinds = [("global", "load"), ("shared", "store")] if opcode == "LDGSTS" else [_SPACES.get(opcode)]
        guards = tuple(sorted({instructions[guard].lines for guard in flow.guards(number)})) if any(kinds) else ()
        depth = sum(number in body for _, _, body in flow.loops)
        for kind in filter(None, kinds):
            accesses.append(Access(instruction.opcode, *kind, width, instruction.lines, depth, guards))
    closing = [instructions[latch].lines for _, latches, _ in flow.loops for latch in latches]
    return MachineCode(tuple(accesses), tuple(sorted(closing)))
