"""From CUDA C++ to the source that a C++ compiler gets. Line numbers stay as they are."""

from __future__ import annotations

import functools
import re

from kernels.cuda.cpu.elf import OWN
from kernels.cuda.cpu.returns import ends_to_mark
from kernels.cuda.source import Source, blanked

# What cannot run on a CPU, by the name that the source has for it.
_REFUSED = {
    r"\b(?:asm|__asm__|__asm)\b": "inline PTX runs on a GPU alone",
    r"<<<": "a kernel is launched from Python: leave main and its launches out of the source",
    r"\b__cluster_dims__\b": "thread block clusters run on a GPU alone",
    r"\b(?:cudaTextureObject_t|cudaSurfaceObject_t)\b": "textures and surfaces run on a GPU alone",
    r"\bcuda\s*::\s*(?:ptx|device)\s*::": "cuda::ptx and cuda::device run on a GPU alone",
}
# NVIDIA's C++ library computes on a host; kernels/host_begin.h says why that is wanted. These are not: they have headers
# of ours.
_LIBRARY_HEADER = r"[ \t]*\#[ \t]*include[ \t]*<cuda/(?!barrier>|pipeline>|ptx\b)[^>\n]*>[^\n]*\n"
# Libraries that are not there, and what does their work.
_REFUSED_LIBRARIES = {
    r"curand(?:_kernel)?\.h": "draw numbers by torch.rand or torch.randn and pass them, or write a generator in the kernel",
    r"cub/": "reduce and scan by __shfl_down_sync and shared memory, or by torch between launches",
    r"thrust/": "it is called from a host program: call torch between launches",
    r"cut(?:lass|e)/": "multiply tiles by nvcuda::wmma of <mma.h>, which runs on both",
    r"cuda/ptx\b": "it is inline PTX",
    r"(?:cublas|cudnn|cusolver|cusparse|cufft)\w*\.h": "it is called from a host program: call torch between launches",
}
_REFUSED_HEADERS = rf"""[ \t]*\#[ \t]*include[ \t]*[<"](?:{"|".join(_REFUSED_LIBRARIES)})[^>"\n]*[>"]"""
_INITIALISED = "an initialiser is not allowed for a __shared__ variable: let the threads write it, then __syncthreads()"
# What errors about these say after the place, by which they are known.
REFUSALS = (*_REFUSED.values(), _INITIALISED, "runs on a GPU alone")

# Comments and literals are matched first, so that nothing inside them is rewritten.
_SKIP = r"""//[^\n]*|/\*.*?\*/|R"(?P<mark>[^()\s]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
# A declaration of shared memory up to the value that it gives, in one line: = 0, {0} or (0). Not ==, and no macro.
_VALUE = r"""(?<![=<>!])=(?!=) | \w[ \t]*(?:\[[^\]\n]*\][ \t]*)*\{[^;{}\n]*\}[ \t]*[;,]
      | (?<!__shared__)[ \t]\w+[ \t]*\([^()\n]*\)[ \t]*[;,]"""
_TOKENS = re.compile(
    rf"""(?P<skip>{_SKIP})
      |(?P<dynamic>\bextern\b(?=[^;{{}}"]*\b__shared__\b)[^;{{}}"]*\[\s*\]\s*;)
      |(?P<valued>(?:\bstatic[ \t]+)?\b__shared__\b(?:/\*.*?\*/|[=<>!]=|[^;{{}}=/\n]|/(?![*/]))*?(?:{_VALUE}))
      |(?P<aligned>(?:\bstatic\s+)?\b__shared__\s+(?P<alignas>alignas\s*\((?:[^()]|\([^()]*\))*\)))
      |(?P<shared>\bstatic\s+__shared__\b)
      |(?P<kept>\b(?:static\s+__device__|__device__\s+static)\b(?=[^;={{}}()\[]*[;={{\[]))
      |(?P<kernel>\bstatic\s+__global__\b|\b__global__\s+static\b)
      |(?P<noinline>(?<!\()\b__noinline__\b)
      |(?P<unroll>\#[ \t]*pragma[ \t]+unroll\b[ \t]*(?P<factor>\(?[ \t]*\d+[ \t]*\)?)?(?=[ \t]*(?:$|//|/\*)))
      |(?P<header>^{_REFUSED_HEADERS})
      |(?P<library>^{_LIBRARY_HEADER})
      |(?P<refused>{"|".join(_REFUSED)})""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
# Functions of the C library, which a GPU has not: a variable of the source may have their names, with OWN before them here.
_VARIABLE = r"\b__(?:device|constant|managed)__\b[^;()]*?[\s,*]"
_LIBRARY_NAMES = {name: re.compile(rf"{_VARIABLE}{name}\s*[=\[;,{{]") for name in ("time", "div", "remove")}
_BRACKETS = re.compile(rf"(?:{_SKIP})|[(){{;]", re.DOTALL)
_BOUNDS = re.compile(rf"(?P<skip>{_SKIP})|\b__launch_bounds__\s*(?=\()", re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ALIGNMENT = re.compile(r"\b(?:__align__|alignas|__attribute__)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
_DECLARATION = re.compile(r"(?P<type>.*?)\b(?P<name>\w+)\s*\[\s*\]\s*;", re.DOTALL)


def translate(source: Source) -> str:
    """The translation unit for a source: rewritten, and with an entry for each kernel."""
    code = blanked(source.code)
    own = "".join(f"#define {name} {OWN}{name}\n" for name, found in _LIBRARY_NAMES.items() if found.search(code))
    marked = source.code
    for position in sorted(ends_to_mark(source), reverse=True):
        marked = f"{marked[:position]}::kernels::at_end(); {marked[position:]}"
    text = _TOKENS.sub(_rewrite, _with_bounds_checked(marked))
    entries = "\n".join(f"KERNELS_ENTRY({number}, {name})" for number, name in enumerate(source.names))
    return f'#include "kernels/cuda.h"\n{own}#line 1 "{source.filename}"\n{text}\n#line 1 "<kernels>"\n{entries}\n'


def _rewrite(match: re.Match[str]) -> str:
    text, lines = match.group(), "\n" * match.group().count("\n")
    kind = next(name for name in _TOKENS.groupindex if match[name])
    if kind == "dynamic":
        return _dynamic_shared(text) + lines
    if kind == "aligned":  # C++ wants alignas before the rest of a declaration, CUDA's compilers do not mind
        return f"{match['alignas']} __shared__{lines}"
    if kind == "shared":
        return "__shared__" + lines
    if kind == "kept":  # a variable, not a function
        return f"{text} KERNELS_KEPT"
    if kind == "kernel":
        return "__global__" + lines
    if kind == "noinline":
        return "__attribute__((noinline))"
    if kind == "unroll":
        # Without a number: as far as a GPU's compiler would usually go.
        factor = (match["factor"] or "").strip("() \t")
        return f"KERNELS_UNROLL_BY({factor})" if factor else "KERNELS_UNROLL(16)"
    if kind == "header":
        name = re.split('[<"]', text)[1].rstrip(">")
        advice = next(advice for pattern, advice in _REFUSED_LIBRARIES.items() if re.match(pattern, name))
        return f"#error {name} runs on a GPU alone: {advice}"
    if kind == "library":
        line = _line_at(match.string, match.end())
        return f'#include "kernels/host_begin.h"\n{text}#include "kernels/host_end.h"\n#line {line}\n'
    if kind in ("refused", "valued"):
        reason = next((reason for pattern, reason in _REFUSED.items() if re.fullmatch(pattern, text)), _INITIALISED)
        return f' _Pragma("GCC error \\"{reason}\\"") {text}'
    return text


def _line_at(code: str, position: int) -> int:
    """The number of the line that a position is in, in the file that the last #line before it names."""
    code = code[:position]
    *_, last = [None, *re.finditer(r'^#line (\d+) ".*"\n', code, re.MULTILINE)]
    return int(last[1]) + code.count("\n", last.end()) if last else code.count("\n") + 1


def _closing(code: str, opening: int) -> int:
    """The position after the bracket that closes the one at `opening`; the end of the source if none does."""
    depth = 0
    for match in _BRACKETS.finditer(code, opening):
        depth += {"(": 1, ")": -1}.get(match.group(), 0)
        if depth == 0:
            return match.end()
    return len(code)


def _with_bounds_checked(code: str) -> str:
    """The source with a check at the start of each kernel that has __launch_bounds__."""
    checks: dict[int, str] = {}
    for match in _BOUNDS.finditer(code):
        if match["skip"]:
            continue
        end = _closing(code, match.end())
        bounds = " ".join(_COMMENT.sub(" ", code[match.end() + 1 : end - 1]).split())
        # The brackets that follow are of other attributes, then of the parameters; the body begins after the last.
        for bracket in _BRACKETS.finditer(code, end):
            if bracket.start() < end or bracket.group() not in "(;{":
                continue
            if bracket.group() != "(":
                if bracket.group() == "{":
                    checks[bracket.end()] = f" ::kernels::at_most_threads({bounds});"
                break
            end = _closing(code, bracket.start())
    for position in sorted(checks, reverse=True):
        code = code[:position] + checks[position] + code[position:]
    return code


@functools.lru_cache
def dynamic_shared_names(source: Source) -> frozenset[str]:
    """The names under which a source declares dynamic shared memory."""
    declarations = (m["dynamic"] for m in _TOKENS.finditer(source.code) if m["dynamic"])
    return frozenset(match["name"] for match in map(_parse, declarations) if match)


def _parse(declaration: str) -> re.Match[str] | None:
    plain = _ALIGNMENT.sub(" ", re.sub(r"\b(?:extern|__shared__)\b", " ", declaration))
    return _DECLARATION.fullmatch(" ".join(plain.split()))


def _dynamic_shared(declaration: str) -> str:
    """`extern __shared__ T name[];` as a reference to the block's dynamic shared memory."""
    parts = _parse(declaration)
    if not parts:
        return declaration
    element, name = parts["type"].strip(), parts["name"]
    return f"static thread_local {element} (&{name})[] = ::kernels::dynamic_shared<{element}>();"
