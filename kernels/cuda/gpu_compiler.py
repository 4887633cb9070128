"""NVRTC, NVIDIA's compiler, which needs no GPU: where it is installed, what it refuses is refused on a CPU too."""

from __future__ import annotations

import functools
import importlib.util
import re
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from kernels.cuda.cpu import compiler
from kernels.cuda.cpu.headers import cuda_headers
from kernels.cuda.errors import CompileError
from kernels.cuda.source import NVRTC_HEADERS, Source
from kernels.hardware import REFERENCE

ARCHITECTURE = re.compile(r"-(?:arch|-gpu-architecture)=(.+)")


@functools.cache
def is_installed() -> bool:
    """Whether NVRTC is here, with what calls it."""
    try:
        return importlib.util.find_spec("cuda.bindings.nvrtc") is not None and bool(call("Version"))
    except Exception:  # its library may be missing, each in its own way
        return False


def call(function: str, *args: Any) -> Any:
    """What a function of NVRTC's returns. RuntimeError."""
    from cuda.bindings import nvrtc

    error, *found = getattr(nvrtc, f"nvrtc{function}")(*args)
    if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise RuntimeError(f"nvrtc{function} failed: {error.name}")
    return found[0] if len(found) == 1 else found


class Compiled(NamedTuple):
    """What the compiler said of a source, the mangled name of a kernel, and the PTX."""

    log: str
    symbol: str
    ptx: str


def compiled(source: Source, options: Sequence[str], name: str) -> Compiled:
    """A source compiled for a kernel of it. CompileError, with the learner's own lines.

    options: beside the source's own, which but for the architecture come after them.
    """
    from cuda.bindings import nvrtc

    folders = (NVRTC_HEADERS, *cuda_headers())
    words = [*options, *(f"-I{folder}" for folder in folders)]
    words += [option for option in source.options if not ARCHITECTURE.fullmatch(option)]
    if not any("-std=" in option for option in words):
        words.append("-std=c++17")
    program = call("CreateProgram", source.for_nvrtc.encode(), source.filename.encode(), 0, [], [])
    try:
        call("AddNameExpression", program, name.encode())
        (error,) = nvrtc.nvrtcCompileProgram(program, len(words), [word.encode() for word in words])
        log = bytearray(call("GetProgramLogSize", program))
        call("GetProgramLog", program, log)
        text = log.decode(errors="replace").rstrip("\0")
        if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompileError(
                f"{source.filename} does not compile (NVRTC):\n{source.with_errors_located(text.strip())}"
            )
        ptx = bytearray(call("GetPTXSize", program))
        call("GetPTX", program, ptx)
        symbol = call("GetLoweredName", program, name.encode()).decode()
        return Compiled(text, symbol, ptx.decode().rstrip("\0"))
    finally:
        nvrtc.nvrtcDestroyProgram(program)


@functools.cache
def _begin() -> None:
    """NVRTC's first compile in a process, of nothing. While it lasts, NVRTC has a handler of its own for an interrupt, which
    ends the process, unless interrupts are ignored; later compiles have none. Only the main thread may ignore them."""
    if threading.current_thread() is not threading.main_thread() or (before := signal.getsignal(signal.SIGINT)) is None:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        program = call("CreateProgram", b"", b"nothing.cu", 0, [], [])
        call("CompileProgram", program, 0, [])
        call("DestroyProgram", program)
    finally:
        signal.signal(signal.SIGINT, before)


def verdict(source: Source) -> Callable[[], None]:
    """Begins to compile a source for a GPU, unless its verdict is known. To call what this returns waits for the end and
    raises a CompileError if NVRTC refuses the source; nothing where it is not installed."""
    if not is_installed():
        return lambda: None
    contents = (compiler.contents(NVRTC_HEADERS), source.for_nvrtc.encode())
    path = compiler.cache_folder() / f"nvrtc-{compiler.digest([*source.options, *map(str, call('Version'))], contents)}"
    if path.exists():
        refused = path.read_text()
        return functools.partial(_raise, refused) if refused else lambda: None
    _begin()
    executor = ThreadPoolExecutor(1)
    asked = executor.submit(_refusal, source)
    executor.shutdown(wait=False)

    def ask() -> None:
        refused = asked.result()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(refused)
        if refused:
            _raise(refused)

    return ask


def _raise(refused: str) -> None:
    raise CompileError(refused)


def _refusal(source: Source) -> str:
    """Why NVRTC does not take a source; "" if it does, or if that is not about the source."""
    own = next((found[1] for option in source.options if (found := ARCHITECTURE.fullmatch(option))), str(REFERENCE))
    architecture = f"--gpu-architecture={own.replace('sm_', 'compute_')}"  # without ptxas: it takes longer
    try:
        compiled(source, [architecture], source.names[0])
    except CompileError as error:
        return str(error) if any(re.search(rf"{re.escape(name)}\(\d+\)", str(error)) for name in source.texts) else ""
    except RuntimeError:
        return ""
    return ""
