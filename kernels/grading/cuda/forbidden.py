"""What a submission in CUDA C may not do: switch off what counts it, or be another text for the compiler that is watched.

Its accesses are counted by instrumentation that the compiler puts into the same text. What is refused here NVRTC refuses, too,
or has no meaning on a GPU. Comments and what is in quotes are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernels.cuda import CompileError
from kernels.cuda.cpu.headers import cuda_headers
from kernels.cuda.source import NVRTC_HEADERS, blanked

_NAMES = r"""
   \b(?:__(?:t|a|m|ub)san|__sanitizer|KERNELS_|_Pragma|asm|__asm)\w* | \bkernels\s*:: | \bnamespace\s+kernels\b
 | \b__(?:GNUC|clang|CUDACC|NVCC|SANITIZE|OPTIMIZE|GLIBC|BASE_FILE|has_|x86|amd64|aarch64|linux)\w*  # which compiler it is
 | \b__attribute(?:__)?\b(?!\s*\(\(\s*(?:__)?aligned(?:__)?\s*\([^(),]*\)\s*\)\))
 | \b__builtin_(?!(?:assume|assume_aligned|expect|unreachable)\b)\w+
 | \b(?:w?mempcpy|memccpy|bcopy|wmem\w+|swab|dlsym|mprotect|syscall)\b  # of C's library, which is not instrumented
 | \#[ \t]*(?:line|include_next|import|\d+)\b | \#[ \t]*pragma\b(?![ \t]+(?:unroll|nounroll|once)\b)[ \t]*\w*
 | \#\# | %: | \?\?[=/'()!<>-] | \b(?:u8|[uUL])?R(?="")  # by which any of these can be written otherwise
"""
_WITH_BODY = r"[^;{}]*\b__(?:global|device)__[^;{}]*\{"
_WITHOUT_BODY = rf'\bextern\s+""(?!\s*\{{|{_WITH_BODY})'
_C_LINKAGE = 'use extern "C" but before __global__ or __device__ with a body'
_REFUSED = {
    "use {}": _NAMES,
    "use the attribute {}": r"\[\s*\[(?!\s*(?:maybe_unused|nodiscard|noreturn|fallthrough|likely|unlikely)\s*\])[\s\w:]*",
    "define {}: such names are the compiler's": r"(?:(?<=define)|(?<=undef))[ \t]+__\w+",
    _C_LINKAGE: _WITHOUT_BODY,
    "split a word over two lines": r"\w\\[ \t]*\n\w",
    "leave a {} open": """['"](?!")(?<!"")""",
    "include {}: NVRTC finds no such header": r"^[ \t]*\#[ \t]*include\b.*",
}


def violation(source: str) -> str | None:
    """The first thing that a text may not do, or None."""
    lines, code = source.splitlines(), blanked(source)
    found = []
    for what, pattern in _REFUSED.items():
        for match in re.finditer(pattern, code, re.VERBOSE | re.MULTILINE):
            line = code.count("\n", 0, match.start()) + 1
            name = match.group().strip()
            if what.startswith("include"):
                name = re.sub(r".*?include\s*[<\"]?|[>\"].*", "", lines[line - 1])
                if _is_header(name):
                    continue
            found.append((line, what.format(name)))
    found += [(line, _C_LINKAGE) for line in _without_body_in_blocks(code)]
    if not found:
        return None
    line, what = min(found, key=lambda one: one[0])
    return f"a submission may not {what}\n    {line} | {lines[line - 1]}"


def _without_body_in_blocks(code: str) -> Iterator[int]:
    """The lines in blocks after extern "C" that begin anything else than a kernel or a function: C's library has the rest."""
    code = re.sub(r"^[ \t]*\#.*", lambda directive: " " * len(directive.group()), code, flags=re.MULTILINE)
    for block in re.finditer(r'\bextern\s+""\s*\{', code):
        depth, start = 1, block.end()
        for token in re.finditer(r"[{};]", code[block.end() :]):
            end = block.end() + token.start()
            head = code[start:end].lstrip()
            if depth == 1 and head and not re.match(_WITH_BODY, head + token.group()):
                yield code.count("\n", 0, end - len(head)) + 1
            depth += {"{": 1, "}": -1}.get(token.group(), 0)
            if depth == 0:
                break
            start = end + 1


def _is_header(name: str) -> bool:
    """Whether it is one of NVIDIA's, or stands in for one of C's."""
    try:
        folders = (NVRTC_HEADERS, *cuda_headers())
    except CompileError:  # they are not installed, and the compiler will say so
        return True
    return not name.startswith("/") and ".." not in name and any((folder / name).is_file() for folder in folders)
