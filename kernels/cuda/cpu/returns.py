"""Where the threads of a kernel may return before its end: a barrier that comes later does not wait for them."""

from __future__ import annotations

import re
from typing import NamedTuple

from kernels.cuda.source import COMMENT_OR_LITERAL, Source, blanked, spaced

_RETURN = re.compile(r"\breturn\s*;")  # without a value, which those of lambdas mostly have
_LOOP = re.compile(r"\b(?:for|while)\b\s*(?=\()|\bdo\b")
_LINE = re.compile(r'^#line (\d+) "(.*)"\n', re.MULTILINE)
_CLOSING = {"(": ")", "{": "}"}


class Returns(NamedTuple):
    """Lines of `file`: the body of a kernel, and that of its first `return`, or of the loop around it, whose next rounds come
    after it. first: 0 where there is none."""

    file: str
    begin: int
    end: int
    first: int


def body_of(source: Source, name: str) -> tuple[int, str]:
    """The body of a kernel without comments, by its name expression, and the number of lines of `source.code` before it;
    "" where none is found, as where a macro makes it."""
    code = blanked(source.code)
    opening, end = _body(code, name)
    return code.count("\n", 0, opening), code[opening:end]


def ends_to_mark(source: Source) -> set[int]:
    """Positions in `source.code` of the brackets that close kernels which may also return before."""
    code = spaced(re.compile(COMMENT_OR_LITERAL, re.DOTALL), source.code)
    bodies = [_body(code, name) for name in source.names]
    return {end - 1 for opening, end in bodies if _RETURN.search(code, opening, end) and code[end - 1] == "}"}


def _body(code: str, name: str) -> tuple[int, int]:
    """Where the body of a kernel begins and ends, of code without comments; (0, 0) where there is none."""
    plain = re.fullmatch(r"(?:\w*::)*(\w+)\s*(?:<.*>)?", name.strip(), re.DOTALL)
    for head in re.finditer(rf"\b__global__\b[^;{{}}]*?\b{plain[1]}\s*(?=\()", code) if plain else ():
        opening = code.find("{", _end(code, head.end()))
        if opening >= 0 and ";" not in code[_end(code, head.end()) : opening]:
            return opening, _end(code, opening)
    return 0, 0


def returns_of(source: Source, name: str) -> Returns:
    """Where a kernel, by its name expression, returns before its end."""
    before, body = body_of(source, name)
    file, shift = source.filename, 0
    for line in _LINE.finditer(source.code):
        number = source.code.count("\n", 0, line.end())  # of the lines up to the next
        if number > before:
            break
        file, shift = line[2], int(line[1]) - 1 - number

    def line_at(position: int) -> int:
        return before + body.count("\n", 0, position) + 1 + shift

    loops = [(loop.start(), _end_of_statement(body, loop.end())) for loop in _LOOP.finditer(body)]
    first = [
        min([begin for begin, end in loops if begin < found.start() < end], default=found.start())
        for found in _RETURN.finditer(body)
    ]
    return Returns(file, line_at(0), line_at(len(body)), line_at(min(first)) if first else 0)


def _end(code: str, opening: int) -> int:
    """The position after the bracket that closes the one at `opening`; the end of the code if none does."""
    ours = code[opening]
    depth = 0
    for found in re.compile(f"[{ours}{_CLOSING[ours]}]").finditer(code, opening):
        depth += 1 if found[0] == ours else -1
        if not depth:
            return found.end()
    return len(code)


def _end_of_statement(code: str, start: int) -> int:
    """Of what a loop repeats: from its condition or, of do, its body."""
    if code.startswith("(", start):
        start = _end(code, start)
    found = re.compile(r"[;{]").search(code, start)
    if not found:
        return len(code)
    return _end(code, found.start()) if found[0] == "{" else found.end()
