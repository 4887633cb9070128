"""What a host's C++ compiler says of a kernel, in words about the learner's source alone."""

from __future__ import annotations

import re
from pathlib import Path

from kernels.cuda.cpu import compiler
from kernels.cuda.cpu.elf import OWN
from kernels.cuda.cpu.translate import REFUSALS
from kernels.cuda.source import Source, blanked, without_asides

# What a message means where it names what the learner has not written.
_MEANINGS = (
    (
        r"exception handling disabled.*|cannot use 'throw' with exceptions disabled",
        "a kernel cannot throw: a GPU has no exceptions",
    ),
    (r"static assertion failed(?: due to requirement '[^']*')?: ", ""),
    (r"static_assert failed(?: due to requirement '[^']*')? \"([^\"]*)\"", r"\1"),
    (r"(?:kernels::)?self(?:\.|->)(?:kernels::Thread::)?thread_index", "threadIdx"),
    (r"(?:kernels::)?self(?:\.|->)(?:kernels::Thread::)?block_index", "blockIdx"),
    (r"(?:kernels::)?self(?:\.|->)(?:kernels::Thread::)?block_dim", "blockDim"),
    (r"(?:kernels::)?self(?:\.|->)(?:kernels::Thread::)?grid_dim", "gridDim"),
    (rf"\bkernels::(?=\w)|\b{OWN}", ""),
)
# Built-in variables are macros here.
_BUILT_IN = re.compile(
    r"\b(?:int|unsigned|long|float|double|bool|char|auto|u?int\d+_t|size_t|u?int[1-4]|dim3)\s+(threadIdx|blockIdx|blockDim|gridDim)\b"
)
_STARTED = re.compile(r"_GLOBAL__sub_I|__dso_handle|__cxa_atexit")


def explained(source: Source, output: str) -> str:
    """The compiler's output of an attempt that failed, without what is about headers of ours, our entries and the linker."""
    name = Path(compiler.command()[0]).name
    # What follows from a refusal is not reported, nor a column that is not the source's own.
    refused = [line for line in output.splitlines() if "error: " in line and any(words in line for words in REFUSALS)]
    if refused:
        output = "\n".join(re.sub(r"(:\d+):\d+: (.*)error: (?:#error )?", r"\1: \2error: ", line) for line in refused)
        return _located(source, name, output)
    for number, line in enumerate(blanked(source.code).splitlines(), 1):
        if found := _BUILT_IN.search(line):
            said = f"{source.filename}:{number}: error: {found[1]} is CUDA's own name, and no variable can have it on a CPU"
            return _located(source, name, said)
    if own := _source_lines(source, output):
        return _located(source, name, own)
    if reason := _kernel_reason(source):
        return f"{source.filename}: {reason}"
    if _STARTED.search(output):
        return (
            f"{source.filename} does not compile: it uses what a program makes when it starts, such as std::cout; on a GPU "
            "nothing runs before the kernel: print by printf"
        )
    if missing := re.findall(r"undefined (?:reference to|symbol:) [`']?([\w:]+)", output):
        names = ", ".join(dict.fromkeys(map(_plain, missing)))
        return f"{source.filename} does not compile: {names} is declared, and defined nowhere"
    if "<kernels>:" in output:
        wanted = ", ".join(source.names)
        return (
            f"{source.filename} has no kernel for each of the names asked for ({wanted}), or its last brace is missing"
        )
    return _located(source, name, output.strip())


def _located(source: Source, name: str, output: str) -> str:
    return f"{source.filename} does not compile ({name}):\n{source.with_errors_located(output)}"


def _source_lines(source: Source, output: str) -> str:
    """The messages about the source's own lines; "" if no error is. An error in a header of ours is about the line that led
    there, which g++ names before it and clang after it."""
    own = re.compile(rf"((?:{'|'.join(map(re.escape, source.texts))})(?::\d+)*):")
    shown: list[str] = []
    led_here = ""
    header_line = ""
    for line in output.splitlines():
        at = own.match(line)
        if at and ": warning: " in line:
            continue
        if at and "required from" in line:
            led_here = at[1]
        elif at and header_line and "requested here" in line:
            shown.append(f"{at[1]}: error: {header_line}")
            header_line = ""
        elif at:
            shown.append(line)
        elif ": error: " in line:
            header_line = line.split(": error: ", 1)[1]
            if led_here:
                shown.append(f"{led_here}: error: {header_line}")
    text = "\n".join(shown)
    for pattern, words in _MEANINGS:
        text = re.sub(pattern, words, text)
    return text if "error: " in text else ""


def _plain(symbol: str) -> str:
    """The name of a function, if its mangled one is in no namespace."""
    mangled = re.match(r"_Z(\d+)(\w+)", symbol)
    return mangled[2][: int(mangled[1])] if mangled else symbol


def _kernel_reason(source: Source) -> str | None:
    """What is wrong with how a kernel is declared, which shows where it is entered alone."""
    code = without_asides(source.code)
    for name in source.names:
        plain = re.escape(name.split("<")[0].split("::")[-1])
        head = re.search(rf"([^;{{}}]*)\b__global__\b([^;{{}}()]*?)\b{plain}\s*\(", code)
        if head and "void" not in head[2] and "void" not in head[1]:
            given = head[2].strip() or "a value"
            return f"the kernel {name} returns {given}: a kernel returns void, and writes what it finds to memory"
        if head and re.search(r"\btemplate\s*<", head[1]) and "<" not in name:
            return f"{name} is a template: ask for an instance of it, such as {name}<float>"
    return None
