"""Compiles shared libraries with the system's C++ compiler and keeps them by content in a cache folder."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from kernels import machine
from kernels.cuda.cpu.headers import cuda_headers
from kernels.cuda.cpu.translate import REFUSALS, translate
from kernels.cuda.errors import CompileError
from kernels.cuda.source import Source

_HERE = Path(__file__).parent
Rewrite = Callable[[str], str]
# Some systems' g++ protects stacks unless it is told not to: it would end the process where the lens has a finding.
_COMMON = ("-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-pipe", "-fno-stack-protector")
# nvcc assumes neither strict aliasing nor the absence of signed overflow, and sets no errno. An endless loop stays one:
# clang else drops it, and what follows runs. No contraction and no -march: the same results on every machine of an
# architecture.
_KERNEL = (
    "-w",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fno-finite-loops",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-builtin-printf",
    "-U_FORTIFY_SOURCE",
    "-ffp-contract=off",
    "-fno-exceptions",
    "-fno-asynchronous-unwind-tables",
    "-nostartfiles",
    "-Wl,-Bsymbolic",
)
# A loop that waits for such memory calls nothing of ours, so that every branch is made to call (runtime/worker.cpp).
_WAITS = re.compile(
    r"(?<!asm )(?<!asm__ )\bvolatile\b(?!\s*\()|\bcuda::(?:std::)?(?:atomic|counting_sem|binary_sem|latch)"
)
_FOR_NVRTC = re.compile(
    r"-(arch|lineinfo|G|default-device|-?(gpu-architecture|use_fast_math|ftz|prec-div|prec-sqrt|fmad|maxrregcount|"
    r"generate-line-info|device-debug|extra-device-vectorization|restrict|extended-lambda|expt-relaxed-constexpr))"
)


def kernel_library(source: Source) -> Path:
    """The library of a source's kernels, compiled unless it is in the cache."""
    return _kernels(source, "kernel", ["-fsanitize-coverage=trace-pc"] if waits(source) else [])


def instrumented_library(
    source: Source, options: Sequence[str], called: Path, rewrites: Sequence[Rewrite] = ()
) -> Path:
    """As `kernel_library`, with instrumentation by more options of the compiler. `called`: the library that it calls.
    rewrites: what becomes of clang's intermediate code before it is optimised and instrumented, and after that."""
    # Named, since -fsanitize would add a sanitizer's.
    libraries = ["-x", "none", str(called), "-nodefaultlibs", "-lstdc++", "-lm", "-lc"]
    return _kernels(source, "instrumented", options, libraries, rewrites)


def _kernels(
    source: Source,
    kind: str,
    more: Sequence[str],
    libraries: Sequence[str] = (),
    rewrites: Sequence[Rewrite] = (),
) -> Path:
    options = [*_options(source), *_KERNEL, *more]
    if is_clang():
        options += ["-fno-caret-diagnostics", "-Wno-everything"]
    else:
        options += ["-fno-gnu-unique", "-fno-diagnostics-show-caret", "-ftrack-macro-expansion=0"]
    arguments = ["-x", "c++", *options, "-", *libraries]
    result = _library(kind, arguments, translate(source), _included_by(source), rewrites)
    if isinstance(result, Path):
        return result
    raise CompileError(_explain(source, result))


def waits(source: Source) -> bool:
    """Whether a text has memory that a loop may wait for without a call of ours."""
    return bool(_WAITS.search(source.code))


def runtime_library() -> Path:
    """The library that runs kernels."""
    return library_of(_HERE / "runtime")


def library_of(folder: Path) -> Path:
    """The library of all C++ files in a folder of ours, compiled as one, so that headers are read once."""
    return _library_of(folder, compiler())


@functools.cache
def _library_of(folder: Path, command: tuple[str, ...]) -> Path:
    text = "".join(f'#include "{file}"\n' for file in sorted(folder.glob("*.cpp")))
    result = _library(folder.name, ["-std=c++17", "-pthread", "-x", "c++", "-"], text, _contents(folder))
    if isinstance(result, Path):
        return result
    raise CompileError(f"{command[0]} could not compile {folder.parent.name}/{folder.name}:\n{result}")


def is_clang() -> bool:
    """Whether the compiler is clang, which has other options."""
    return "clang" in _compiler_version(compiler())


def takes(option: str) -> bool:
    """Whether the compiler knows an option, which older ones do not."""
    return _takes(compiler(), option)


@functools.cache
def _takes(command: tuple[str, ...], option: str) -> bool:
    return not _run([*command, option, "-fsyntax-only", "-x", "c++", "-"], "").returncode


def compiler() -> tuple[str, ...]:
    """The C++ compiler's command: $CXX, else g++, c++ or clang++."""
    if command := machine.compiler():
        return command
    named = f" ($CXX is {os.environ['CXX']!r})" if os.environ.get("CXX") else ""
    raise CompileError(
        f"no C++ compiler was found{named}: CUDA kernels on a CPU need g++ or clang++. "
        "Install one (Debian and Ubuntu: apt install g++; conda: gxx_linux-64), or set CXX to its path"
    )


def cache_folder() -> Path:
    """Where compiled libraries are kept: $KERNELS_CACHE, else `kernels` in the user's cache folder."""
    if os.environ.get("KERNELS_CACHE"):
        return Path(os.environ["KERNELS_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernels"


def _library(
    kind: str, arguments: list[str], text: str, included: bytes, rewrites: Sequence[Rewrite] = ()
) -> Path | str:
    """Compiles to a library named by the content of all that goes into it; the compiler's output if that fails."""
    command = compiler()
    includes = [f"-I{_HERE / 'include'}", *(f"-isystem{folder}" for folder in cuda_headers())]
    # The first folder on the path is ours: its cuda_fp16.h includes NVIDIA's, which is the next.
    arguments = [*_COMMON, *includes, *arguments]
    digest = hashlib.sha256(
        b"\0".join(
            (
                "\n".join((platform.machine(), *command, _compiler_version(command), *arguments)).encode(),
                _contents(_HERE / "include"),
                included,
                *(Path(rewrite.__code__.co_filename).read_bytes() for rewrite in rewrites),
                text.encode(),
            )
        )
    ).hexdigest()
    folder = cache_folder()
    library = folder / f"{kind}-{digest[:32]}.so"
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    # Another process may be compiling the same: each writes its own file, and the last to finish replaces the others'.
    handle, temporary = tempfile.mkstemp(suffix=".so", prefix="building-", dir=folder)
    os.close(handle)
    try:
        unoptimised = ["-Xclang", "-disable-llvm-passes"]
        for rewrite, passes in zip(rewrites, (unoptimised, []), strict=bool(rewrites)):
            # Everything before the input file, but the linker's options, is the compiler's.
            front = arguments[: arguments.index("-")]
            done = _run([*command, *front, *passes, "-S", "-emit-llvm", "-o-", "-"], text)
            if done.returncode:
                return done.stderr
            text = rewrite(done.stdout)
            arguments = ["ir" if one == "c++" else one for one in arguments]
        done = _run([*command, *(unoptimised if rewrites else []), *arguments, "-o", temporary], text)
        if done.returncode:
            return done.stderr
        os.replace(temporary, library)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return library


def _run(command: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=text, capture_output=True, text=True)


@functools.cache
def _compiler_version(command: tuple[str, ...]) -> str:
    return subprocess.run([*command, "--version"], capture_output=True, text=True).stdout


@functools.cache
def _contents(folder: Path) -> bytes:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return b"".join(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() for path in files)


def _options(source: Source) -> list[str]:
    """The learner's options for the host's compiler. Those about a GPU's code have no meaning here."""
    kept, standard = [], "-std=c++17"
    for option in source.options:
        if option.startswith(("-std=", "--std=")):
            # The entries of kernels need C++17.
            standard = "-std=c++17" if option.endswith(("03", "11", "14")) else "-std=" + option.split("=")[1]
        elif option.startswith(("-D", "-U", "-I")):
            kept.append(option)
        elif option.startswith(("--define-macro=", "--undefine-macro=", "--include-path=")):
            kept.append({"d": "-D", "u": "-U", "i": "-I"}[option[2]] + option.split("=", 1)[1])
        elif not _FOR_NVRTC.match(option):
            raise CompileError(f"option {option!r} is not one that kernels are compiled with: use -D, -U, -I or -std=")
    return [*kept, standard]


def _included_by(source: Source) -> bytes:
    """The content of the files that the text includes from the learner's own -I folders."""
    folders = [Path(option[2:]) for option in _options(source) if option.startswith("-I")]
    found: dict[Path, bytes] = {}
    texts = [source.code.encode()] if folders else []
    while texts:
        for name in re.findall(rb'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)', texts.pop(), re.MULTILINE):
            for path in (folder / name.decode() for folder in folders):
                if path not in found and path.is_file():
                    found[path] = path.read_bytes()
                    texts.append(found[path])
    return b"\0".join(content for _, content in sorted(found.items()))


def _explain(source: Source, output: str) -> str:
    """What the compiler said, about the learner's text if any of it is."""
    name = Path(compiler()[0]).name
    # What follows from a refusal is not told, nor a column that is not the text's own.
    refused = [line for line in output.splitlines() if "error: " in line and any(words in line for words in REFUSALS)]
    if refused:
        output = "\n".join(re.sub(r"(:\d+):\d+: (.*)error: (?:#error )?", r"\1: \2error: ", line) for line in refused)
    if f"{source.filename}:" not in output and "<kernels>:" in output:
        wanted = ", ".join(source.names)
        return (
            f"{source.filename} has no kernel for each of the names asked for ({wanted}), or its last brace is missing. "
            f"{name} says:\n{output.strip()}"
        )
    return f"{source.filename} does not compile ({name}):\n{source.with_errors_located(output.strip())}"
