"""From addresses of code to lines of the learner's source."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kernels.cuda.source import Line, Source


class SourceLine(NamedTuple):
    """A line of the source, 0 where there is none, and the mangled name of the innermost function, which may be a header's."""

    line: Line
    function: str


def source_lines(library: Path, source: Source, addresses: Iterable[int]) -> dict[int, SourceLine]:
    """The line of each return address in a library compiled from a source.

    A call of a function that was put in its place belongs to the innermost function that stands in a file of the source:
    `atomicAdd(…)` is an access of the line that has it. Lines are kept in a file beside the library, so that later runs
    need not ask again.
    """
    kept = library.with_suffix(".places")
    known = json.loads(kept.read_text()) if kept.exists() else {}
    known = {int(at): SourceLine(*line) for at, line in known.items()}
    missing = sorted(set(addresses) - known.keys())
    if missing:
        known |= zip(missing, _ask(library, source, missing), strict=True)
        temporary = kept.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(known))
        os.replace(temporary, kept)
    return known


def _ask(library: Path, source: Source, addresses: list[int]) -> list[SourceLine]:
    command = shutil.which("addr2line") or shutil.which("llvm-addr2line")
    if command is None:
        raise RuntimeError(
            "the lens needs addr2line to find lines: install binutils (Debian and Ubuntu: apt install binutils)"
        )
    # One byte before the address that a call returns to is the call. With -a, each answer begins with its address; then
    # come, from the innermost outwards, two lines for each function: its name, and its file and line.
    asked = "".join(f"{at - 1:#x}\n" for at in addresses)
    answer = subprocess.run(
        [command, "-a", "-f", "-i", "-e", str(library)], input=asked, capture_output=True, text=True, check=True
    ).stdout
    found: list[SourceLine] = []
    rows = iter(answer.splitlines())
    for row in rows:
        if row.startswith("0x"):
            found.append(SourceLine(0, ""))
            continue
        path, _, line = next(rows).split(" (discriminator")[0].rpartition(":")
        place = found[-1]
        filename = next((one for one in source.texts if path == one or path.endswith(f"/{one}")), None)
        here = source.line(filename, int(line)) if filename and line.isdigit() else 0
        found[-1] = SourceLine(place.line or here, place.function or row)
    return found
