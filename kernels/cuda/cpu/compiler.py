"""The system's C++ compiler, and the folder that keeps what it makes."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from kernels import machine
from kernels.cuda.errors import CompileError


def command() -> tuple[str, ...]:
    """The C++ compiler's command: $CXX, else g++, c++ or clang++."""
    if found := machine.compiler():
        return found
    named = f" ($CXX is {os.environ['CXX']!r})" if os.environ.get("CXX") else ""
    raise CompileError(
        f"no C++ compiler was found{named}: CUDA kernels on a CPU need g++ or clang++. "
        "Install one (Debian and Ubuntu: apt install g++; conda: gxx_linux-64), or set CXX to its path"
    )


def is_clang() -> bool:
    """Whether the compiler is clang, which has other options."""
    return "clang" in _version(command())


def takes(option: str) -> bool:
    """Whether the compiler knows an option, which older ones do not."""
    return _takes(command(), option)


@functools.cache
def _takes(command: tuple[str, ...], option: str) -> bool:
    return not run([*command, option, "-fsyntax-only", "-x", "c++", "-"], "").returncode


def run(arguments: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
    """Of a command that reads a source."""
    return subprocess.run(arguments, input=text, capture_output=True, text=True)


@functools.cache
def _version(command: tuple[str, ...]) -> str:
    return run([*command, "--version"], "").stdout


def cache_folder() -> Path:
    """Where what is compiled is kept: $KERNELS_CACHE, else `kernels` in the user's cache folder."""
    if os.environ.get("KERNELS_CACHE"):
        return Path(os.environ["KERNELS_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernels"


def digest(arguments: Sequence[str], contents: Iterable[bytes]) -> str:
    """Names what the compiler makes of its arguments and the contents of what it reads."""
    words = "\n".join((platform.machine(), *command(), _version(command()), *arguments))
    return hashlib.sha256(b"\0".join((words.encode(), *contents))).hexdigest()[:32]


@functools.cache
def contents(folder: Path) -> bytes:
    """Of all files in a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return b"".join(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() for path in files)


_SAID = ".warnings"


def said_of(library: Path) -> str:
    """What the compiler said when it made a file of the cache."""
    said = library.with_suffix(_SAID)
    return said.read_text() if said.exists() else ""


def kept(path: Path, make: Callable[[str], subprocess.CompletedProcess[str]]) -> Path | str:
    """A file of the cache, made unless it is there; the compiler's output if that fails."""
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    # Another process may be making the same: each writes its own file, and the last to finish replaces the others'.
    handle, temporary = tempfile.mkstemp(suffix=path.suffix, prefix="building-", dir=path.parent)
    os.close(handle)
    try:
        done = make(temporary)
        if done.returncode:
            return done.stderr
        if done.stderr:
            path.with_suffix(_SAID).write_text(done.stderr)
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return path
