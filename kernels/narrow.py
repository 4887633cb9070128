"""Source code in lines that fit the book's page, broken as its author might have broken them.

Files have lines of up to 120 columns, and a page shows 78. What lies beyond its edge may be what a reader came for.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

WIDTH = 78
_STRING = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
_COMMENT = {"cuda": "//", "python": "#"}
_OPERATORS = "?:+-*/%<>=&|"
_ASSIGNMENT = re.compile(r" [-+*/|&]?= ")
_CONTROL = re.compile(r"\s*(for|if|while) \(")


def narrow(source: str, language: str) -> str:
    """The source with no line wider than a page, where places to break it are found.

    Args:
        language: "cuda" or "python"; any other source comes back as it is.
    """
    if language not in _COMMENT:
        return source
    mark = _COMMENT[language]
    lines: list[str] = []
    for group in _groups(source.split("\n"), mark):
        fits = all(len(line) <= WIDTH for line in group)
        lines += group if fits else _lines(_joined(group, mark), mark)
    return "\n".join(lines)


def _groups(lines: list[str], mark: str) -> Iterator[list[str]]:
    """Lines that belong together: a comment's, and those of a list in brackets."""
    group: list[str] = []
    for line in lines:
        if group and not _goes_on(group, line, mark):
            yield group
            group = []
        group.append(line)
    yield group


def _goes_on(group: list[str], line: str, mark: str) -> bool:
    if _is_comment(line, mark) or _is_comment(group[-1], mark):
        prose = re.compile(rf"\s*{mark} \w")  # and no empty line, and no formula, which stands further in
        return bool(prose.match(line) and prose.match(group[-1])) and _indent(line) == _indent(group[-1])
    written = " ".join(group)
    return mark not in written + line and not written.endswith("{") and bool(_open_brackets(written + " ")[-1])


def _joined(group: list[str], mark: str) -> str:
    first, *others = group
    strip = f"{mark} " if _is_comment(first, mark) else ""
    line = " ".join([first, *(line.strip().removeprefix(strip) for line in others)])
    return line if strip else re.sub(r"(?<=[(\[]) | (?=[)\]])", "", line)


def _lines(line: str, mark: str) -> Iterator[str]:
    """A comment, a docstring's first line or a statement, in lines that fit."""
    comment = re.match(rf"((?:{_STRING}|(?!{mark}).)*)({mark}.*)", line)
    if len(line) <= WIDTH:
        yield line
    elif comment and comment[1].strip():  # what stands at the end of a line goes above it
        yield from _lines(" " * _indent(line) + comment[2], mark)
        yield from _lines(comment[1].rstrip(), mark)
    elif comment or line.lstrip().startswith('"""'):
        below = " " * _indent(line) + (f"{mark} " if comment else "")
        yield from textwrap.wrap(line, WIDTH, subsequent_indent=below, break_on_hyphens=False)
    elif mark == "//" and (body := _body(line)):
        yield line[:body].rstrip()
        yield from _lines(" " * (_indent(line) + 4) + line[body:].lstrip(), mark)
    else:
        yield from _statement(line, within_brackets=mark == "#")


def _body(line: str) -> int:
    """Where the statement begins that a `for`, an `if` or a `while` has on its own line, or 0."""
    if not _CONTROL.match(line):
        return 0
    inside = _open_brackets(line)
    end = next((at for at in range(line.index("("), len(line)) if line[at] == ")" and len(inside[at] or "") == 1), 0)
    return end + 1 if line[end + 1 :].strip() not in ("", "{") else 0


def _statement(line: str, within_brackets: bool) -> Iterator[str]:
    """Breaks a statement where the fewest brackets are open, after a comma if there is one, as far right as it can.

    within_brackets: nowhere else, as Python wants it.
    """
    inside, columns = _open_brackets(line), dict[int, int]()
    begin = lead = _indent(line)
    further = lead + 4
    while len(line) - begin + lead > WIDTH:
        room = WIDTH - lead
        depths = {
            at: len(brackets)
            for at, brackets in enumerate(inside[: begin + room + 1])
            if brackets is not None
            and at > begin + room // 3
            and line[at] == " "
            and line[at - 1] not in _OPERATORS
            and not _ASSIGNMENT.match(line, at)
            and (brackets or not within_brackets)
        }
        if not depths:
            break
        at = min(depths, key=lambda at: (depths[at], line[at - 1] not in ",;", -at))
        yield " " * lead + line[begin:at]
        brackets = inside[at] or []
        for bracket in brackets:
            columns.setdefault(bracket, bracket - begin + lead)
        below = columns[brackets[-1]] + 1 if brackets else further
        begin, lead = at + 1, below if below < 0.6 * WIDTH else further
    yield " " * lead + line[begin:]


def _open_brackets(line: str) -> list[list[int] | None]:
    """Where the brackets stand that are open at each place of a line; None within a string."""
    found: list[list[int] | None] = []
    opened: list[int] = []
    for piece in re.finditer(rf"{_STRING}|.", line):
        if len(piece[0]) > 1:
            found += [None] * len(piece[0])
            continue
        found.append(list(opened))
        if piece[0] in "([{":
            opened.append(piece.start())
        elif piece[0] in ")]}" and opened:
            opened.pop()
    return found


def _is_comment(line: str, mark: str) -> bool:
    return line.lstrip().startswith(mark)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
