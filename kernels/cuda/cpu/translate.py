"""From CUDA C++ to the text that a C++ compiler gets. Line numbers stay as they are."""

from __future__ import annotations

import re

from kernels.cuda.source import Source

# Comments and literals are matched first, so that nothing inside them is rewritten.
_TOKENS = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      |(?P<dynamic>\bextern\b(?=[^;{}"]*\b__shared__\b)[^;{}"]*\[\s*\]\s*;)
      |(?P<shared>\bstatic\s+__shared__\b)
      |(?P<kernel>\bstatic\s+__global__\b|\b__global__\s+static\b)
      |(?P<noinline>(?<!\()\b__noinline__\b)""",
    re.VERBOSE | re.DOTALL,
)
_ALIGNMENT = re.compile(r"\b(?:__align__|alignas|__attribute__)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
_DECLARATION = re.compile(r"(?P<type>.*?)\b(?P<name>\w+)\s*\[\s*\]\s*;", re.DOTALL)


def translate(source: Source) -> str:
    """The translation unit for a source: its text rewritten, and an entry for each kernel."""
    text = _TOKENS.sub(_rewrite, source.code)
    entries = "\n".join(f"KERNELS_ENTRY({number}, {name})" for number, name in enumerate(source.names))
    return f'#include "kernels/cuda.h"\n#line 1 "{source.filename}"\n{text}\n#line 1 "<kernels>"\n{entries}\n'


def _rewrite(match: re.Match[str]) -> str:
    text = match.group()
    if match.lastgroup == "dynamic":
        return _dynamic_shared(text) + "\n" * text.count("\n")
    if match.lastgroup == "shared":
        return "__shared__" + "\n" * text.count("\n")
    if match.lastgroup == "kernel":
        return "__global__" + "\n" * text.count("\n")
    if match.lastgroup == "noinline":
        return "__attribute__((noinline))"
    return text


def dynamic_shared_names(source: Source) -> set[str]:
    """The names under which a source declares dynamic shared memory."""
    declarations = (m.group() for m in _TOKENS.finditer(source.code) if m.lastgroup == "dynamic")
    return {match["name"] for match in map(_parse, declarations) if match}


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
