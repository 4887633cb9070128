"""The header that every kernel begins with, compiled beforehand: to read it is most of the work of compiling a kernel."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from kernels.cuda.cpu import compiler
from kernels.cuda.cpu.headers import cuda_headers

_INCLUDE = Path(__file__).parent / "include"
HEADER = "kernels/cuda.h"  # as kernels include it (translate.py)


def found_by(options: Sequence[str]) -> list[str]:
    """The option by which g++ finds it, compiled with just these options; none for clang, which wants it in another way.

    Where it does not hold, as with a macro of the learner's whose name the header has, g++ reads the header itself."""
    if compiler.is_clang():
        return []
    # Of NVIDIA's headers, this one names their version.
    read = compiler.contents(_INCLUDE), (cuda_headers()[0] / "cuda_runtime_api.h").read_bytes()
    header_folder = compiler.cache_folder() / f"header-{compiler.digest(options, ())}"
    folder = header_folder / compiler.digest((), read)
    path = folder / f"{HEADER}.gch"
    if not path.exists():  # it takes 20 MB: what was made of the headers before they changed is removed
        for older in set(header_folder.glob("*")) - {folder}:
            shutil.rmtree(older, ignore_errors=True)
    # -c: options for the linker would have it called.
    arguments = [*compiler.command(), *options, "-c", "-x", "c++-header", str(_INCLUDE / HEADER)]
    made = compiler.kept(path, lambda to: compiler.run([*arguments, "-o", to], ""))
    return [f"-I{folder}"] if isinstance(made, Path) else []
