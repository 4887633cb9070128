"""Compiles kernels, and what runs them, to shared libraries that are kept by their content."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from kernels.cuda.cpu import compiler, precompiled
from kernels.cuda.cpu.headers import cuda_headers
from kernels.cuda.cpu.messages import explained
from kernels.cuda.cpu.translate import translate
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
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fno-finite-loops",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-builtin-printf",
    "-U_FORTIFY_SOURCE",
    "-ffp-contract=off",
    "-fno-exceptions",
    "-fstack-clash-protection",  # a large frame meets the guard of a stack, and does not step over it
    "-fno-asynchronous-unwind-tables",
    "-nostartfiles",
    "-Wl,-Bsymbolic",
    "-Wl,-z,noseparate-code,-z,norelro",  # two mappings a library, not five, of the 65,530 that Linux gives a process
)
# Of what a learner is told: see warnings.py.
_WARNED = ("-Wuninitialized", "-Wformat")
# A loop that waits for such memory calls nothing of ours, so that every branch is made to call (runtime/worker.cpp).
_WAITS = re.compile(
    r"(?<!asm )(?<!asm__ )\bvolatile\b(?!\s*\()|\bcuda::(?:std::)?(?:atomic|counting_sem|binary_sem|latch)"
)
_FOR_NVRTC = re.compile(
    r"-(arch|lineinfo|G|default-device|-?(gpu-architecture|use_fast_math|ftz|prec-div|prec-sqrt|fmad|maxrregcount|"
    r"generate-line-info|device-debug|extra-device-vectorization|restrict|extended-lambda|expt-relaxed-constexpr))"
)


def kernel_library(source: Source, lines: bool = False) -> Path:
    """The library of a source's kernels, compiled unless it is in the cache. lines: with which code is of which line."""
    more = ["-fsanitize-coverage=trace-pc"] if waits(source) else []
    return _kernels(source, "lines" if lines else "kernel", [*more, *["-g1", "-gdwarf-4"] * lines])


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
    own, standard = _options(source)
    options = [standard, *_KERNEL, *more]
    if compiler.is_clang():
        options += ["-fno-caret-diagnostics", "-Wno-everything", *_WARNED, "-Wsometimes-uninitialized"]
    else:
        options += ["-fno-gnu-unique", "-fno-diagnostics-show-caret", "-ftrack-macro-expansion=0"]
        options += [*_WARNED, "-Wmaybe-uninitialized", "-Wno-format-extra-args", "-Wno-format-zero-length"]
    arguments = ["-x", "c++", *own, *options, "-", *libraries]
    result = _library(kind, arguments, translate(source), _included_by(source), rewrites, options)
    if isinstance(result, Path):
        return result
    raise CompileError(explained(source, result))


def waits(source: Source) -> bool:
    """Whether a source has memory that a loop may wait for without a call of ours."""
    return bool(_WAITS.search(source.code))


def runtime_library() -> Path:
    """The library that runs kernels."""
    return library_of(_HERE / "runtime")


def library_of(folder: Path) -> Path:
    """The library of all C++ files in a folder of ours, compiled as one, so that headers are read once."""
    return _library_of(folder, compiler.command())


@functools.cache
def _library_of(folder: Path, command: tuple[str, ...]) -> Path:
    text = "".join(f'#include "{file}"\n' for file in sorted(folder.glob("*.cpp")))
    result = _library(folder.name, ["-std=c++17", "-pthread", "-x", "c++", "-"], text, compiler.contents(folder))
    if isinstance(result, Path):
        return result
    raise CompileError(f"{command[0]} could not compile {folder.parent.name}/{folder.name}:\n{result}")


def _library(
    kind: str,
    arguments: list[str],
    text: str,
    included: bytes,
    rewrites: Sequence[Rewrite] = (),
    options_of_header: Sequence[str] = (),
) -> Path | str:
    """Compiles to a library named by the content of all that goes into it; the compiler's output if that fails.
    options_of_header: those for the precompiled header of a kernel."""
    includes = [f"-I{_HERE / 'include'}", *(f"-isystem{folder}" for folder in cuda_headers())]
    # The first folder on the path is ours: its cuda_fp16.h includes NVIDIA's, which is the next.
    common = [*_COMMON, *includes]
    arguments = [*common, *arguments]
    rewriters = (Path(rewrite.__code__.co_filename).read_bytes() for rewrite in rewrites)
    digest = compiler.digest(arguments, (compiler.contents(_HERE / "include"), included, *rewriters, text.encode()))

    def make(library: str) -> subprocess.CompletedProcess[str]:
        if rewrites:
            return _rewritten(arguments, text, rewrites, library)
        header = precompiled.found_by([*common, *options_of_header]) if options_of_header else []
        done = compiler.run([*compiler.command(), *header, *arguments, "-o", library], text)
        if done.returncode and header:  # what is said of an error is as without it
            done = compiler.run([*compiler.command(), *arguments, "-o", library], text)
        return done

    return compiler.kept(compiler.cache_folder() / f"{kind}-{digest}.so", make)


def _rewritten(
    arguments: Sequence[str], text: str, rewrites: Sequence[Rewrite], library: str
) -> subprocess.CompletedProcess[str]:
    """Compiles with clang, whose intermediate code is rewritten before it is optimised and instrumented, and after that."""
    unoptimised, warned = ["-Xclang", "-disable-llvm-passes"], ""
    for rewrite, passes in zip(rewrites, (unoptimised, []), strict=True):
        # Everything before the input file, but the linker's options, is the compiler's.
        front = arguments[: arguments.index("-")]
        done = compiler.run([*compiler.command(), *front, *passes, "-S", "-emit-llvm", "-o-", "-"], text)
        if done.returncode:
            return done
        text, warned = rewrite(done.stdout), warned + done.stderr
        arguments = ["ir" if one == "c++" else one for one in arguments]
    done = compiler.run([*compiler.command(), *unoptimised, *arguments, "-o", library], text)
    done.stderr = warned + done.stderr
    return done


def _options(source: Source) -> tuple[list[str], str]:
    """The learner's options for the host's compiler, and the standard. Those about a GPU's code have no meaning here."""
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
    return kept, standard


def _included_by(source: Source) -> bytes:
    """The content of the files that the source includes from the learner's own -I folders."""
    folders = [Path(option[2:]) for option in _options(source)[0] if option.startswith("-I")]
    found: dict[Path, bytes] = {}
    texts = [source.code.encode()] if folders else []
    while texts:
        for name in re.findall(rb'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)', texts.pop(), re.MULTILINE):
            for path in (folder / name.decode() for folder in folders):
                if path not in found and path.is_file():
                    found[path] = path.read_bytes()
                    texts.append(found[path])
    return b"\0".join(content for _, content in sorted(found.items()))
