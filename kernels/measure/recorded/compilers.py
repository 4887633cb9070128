"""What the compilers of levels 2 and 3 make of level 1 on a GPU: recorded for layer norm by book/recorders/compilers.py."""

import json

from kernels.measure.results import FOLDER, file_name

COMPILERS = FOLDER / "compilers"


def stored(gpu: str) -> dict:
    """The committed record of a GPU by its name, such as "NVIDIA H200"."""
    return json.loads((COMPILERS / file_name(gpu)).read_text())


def triton_kernels(source: str) -> list[str]:
    """The Triton kernels in a module that Inductor wrote, each from its `def` on."""
    return [piece.split("\n'''")[0] for piece in source.split("@triton.jit\n")[1:]]
