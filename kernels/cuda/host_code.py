"""Files with a program around their kernels: `main`, launchers with `<<<…>>>`, checks of errors. A launch is Python's here."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernels.cuda.source import COMMENT_OR_LITERAL, spaced

_PROGRAM = re.compile(r"<<<|\bmain\s*\(|\bPYBIND11_MODULE\b|\bTORCH_LIBRARY\b")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
_OF_DEVICE = re.compile(r"\b(?:__global__|__device__|constexpr)\b")
_OF_HOST = re.compile(r"\b(?:std|torch|at|c10|pybind11|py)::|\busing\s+namespace\s+std\b|\bcuda[A-Z]\w*")
_SCOPE = re.compile(r"\b(?:namespace\b[\w\s:]*|extern\s*)$")
_HOST_HEADER = re.compile(
    r"""^[ \t]*\#[ \t]*include[ \t]*[<"](?:(?:torch|ATen|c10|pybind11|sys)/[^>"\n]*|helper_\w+\.h|unistd\.h|(?:iostream|fstream|
    sstream|iomanip|string|vector|map|unordered_map|set|memory|chrono|random|numeric|thread|mutex|stdexcept|exception|cassert))
    [>"][^\n]*""".replace("\n    ", ""),
    re.MULTILINE,
)


def without_host_code(code: str) -> tuple[str, list[str]]:
    """A source without the functions of its program and the headers that only they need, and their names. Lines stay.

    Of a source that has no program, nothing is taken out: a function that lacks `__device__` is then a mistake.
    """
    bare = spaced(re.compile(COMMENT_OR_LITERAL, re.DOTALL), code)
    if not _PROGRAM.search(bare):
        return code, []
    parts = list(_parts(spaced(_DIRECTIVE, bare)))
    names = [name[1] for _, _, head in parts if "(" in head and (name := re.search(r"([\w:~]+)\s*\(", head))]
    if not parts:
        return code, []
    for begin, end, _ in parts:  # but for directives, which may lie in them
        kept = [*_DIRECTIVE.finditer(bare, begin, end)]
        for start, stop in zip(
            (begin, *(one.end() for one in kept)), (*(one.start() for one in kept), end), strict=True
        ):
            code = code[:start] + re.sub(r"[^\n]", " ", code[start:stop]) + code[stop:]
    return _HOST_HEADER.sub("", code), names


def _parts(code: str) -> Iterator[tuple[int, int, str]]:
    """What is the host's at file scope, from its beginning to its end, with what stands before its first brace."""
    start = 0
    tokens = re.finditer(r"[{};]", code)
    for token in tokens:
        head, end = code[start : token.start()], token.end()
        is_scope = token[0] == "{" and bool(_SCOPE.search(head))
        if token[0] == "{" and not is_scope:
            depth = 1
            while depth and (inner := next(tokens, None)):
                depth += {"{": 1, "}": -1}.get(inner[0], 0)
                end = inner.end()
        is_function = token[0] == "{" and "(" in head and "=" not in head.split("(")[0]
        part = code[start:end]
        is_host = (is_function or _OF_HOST.search(part)) and not _OF_DEVICE.search(part)
        if is_host and not is_scope and token[0] != "}":
            yield start, end, head if is_function else ""
        start = end
