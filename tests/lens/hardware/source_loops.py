"""The loops of a CUDA C text: their lines, and how often they run where the source alone says it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ASIDE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_LOOP = re.compile(r"\b(for|while|do)\b")
_CONSTANT = re.compile(
    r"\bconstexpr\s+\w+\s+(?P<name>\w+)\s*=\s*(?P<value>[^;,]+);|#\s*define\s+(?P<macro>\w+)\s+(?P<text>[\w() +*/-]+)$",
    re.MULTILINE,
)
_ARITHMETIC = re.compile(r"[\w\s+\-*/%<>=!()]+")
_MOST_TRIPS = 4096


@dataclass(frozen=True)
class Loop:
    """Lines first to last, the head included. trips: how often it runs, where that is constant."""

    first: int
    last: int
    trips: int | None

    def __contains__(self, line: int) -> bool:
        return self.first <= line <= self.last


def source_loops(text: str, kernel: str) -> list[Loop]:
    """The loops of a source, outer before inner. kernel: as it is launched: "tiled<16>" gives its template's parameters."""
    code = _ASIDE.sub(lambda aside: re.sub(r"[^\n]", " ", aside.group()), text)
    constants = _template_arguments(code, kernel)
    for found in _CONSTANT.finditer(code):
        value = _value(found["value"] or found["text"], constants)
        if value is not None:
            constants[found["name"] or found["macro"]] = value
    loops, closed_by_do = [], set()
    for found in _LOOP.finditer(code):
        if found.start() in closed_by_do:
            continue
        if found.group() == "do":
            end = _statement_end(code, found.end())
            tail = code.index("while", end)
            closed_by_do.add(tail)
            loops.append(_loop(code, found.start(), code.index(";", tail), None))
            continue
        opening = code.index("(", found.end())
        closing = _closing(code, opening)
        trips = _trips(code[opening + 1 : closing - 1], constants) if found.group() == "for" else None
        loops.append(_loop(code, found.start(), _statement_end(code, closing), trips))
    return loops


def _loop(code: str, start: int, end: int, trips: int | None) -> Loop:
    return Loop(code.count("\n", 0, start) + 1, code.count("\n", 0, end) + 1, trips)


def _template_arguments(code: str, kernel: str) -> dict[str, int]:
    name, _, arguments = kernel.rstrip(">").partition("<")
    head = re.search(rf"template\s*<([^>]*)>[^;{{]*?\b{re.escape(name)}\s*\(", code)
    if not arguments or not head:
        return {}
    parameters = [parameter.split()[-1] for parameter in head.group(1).split(",")]
    values = dict(zip(parameters, arguments.split(","), strict=False))
    return {key: int(value) for key, value in values.items() if value.strip().isdigit()}


def _closing(code: str, opening: int) -> int:
    """The position behind the bracket that closes the one at `opening`."""
    pairs = {"(": ")", "{": "}"}
    depth = 0
    for position in range(opening, len(code)):
        depth += (code[position] == code[opening]) - (code[position] == pairs[code[opening]])
        if depth == 0:
            return position + 1
    return len(code)


def _statement_end(code: str, start: int) -> int:
    """The position of the last character of the statement that begins at or after `start`."""
    position = start + len(code[start:]) - len(code[start:].lstrip())
    if code[position] == "{":
        return _closing(code, position) - 1
    if head := re.compile(r"(?:for|while|if)\b\s*(?=\()").match(code, position):
        end = _statement_end(code, _closing(code, head.end()))
        otherwise = re.compile(r"\s*else\b").match(code, end + 1)
        return _statement_end(code, otherwise.end()) if otherwise else end
    return code.index(";", position)


def _trips(head: str, constants: dict[str, int]) -> int | None:
    """How often a `for` runs, from what is in its brackets."""
    parts = [part.strip() for part in head.split(";")]
    if len(parts) != 3 or not (begin := re.fullmatch(r"(?:\w+\s+)*(\w+)\s*=\s*(.+)", parts[0])):
        return None
    name, known = begin.group(1), dict(constants)
    step = re.fullmatch(rf"(?:\+\+{name}|{name}\+\+)|(?:--{name}|{name}--)|{name}\s*([-+*/]|<<|>>)=\s*(.+)", parts[2])
    known[name] = value = _value(begin.group(2), constants)
    if value is None or not step:
        return None
    next_value = f"{name} {step.group(1)} ({step.group(2)})" if step.group(1) else f"{name} {parts[2].strip(name)[0]} 1"
    for trips in range(_MOST_TRIPS):
        goes_on = _value(parts[1], known)
        if goes_on is None:
            return None
        if not goes_on:
            return trips
        known[name] = _value(next_value, known)
    return None


def _value(expression: str, constants: dict[str, int]) -> int | None:
    """The value of integer arithmetic on constants, or None."""
    expression = expression.strip()
    names = set(re.findall(r"[A-Za-z_]\w*", expression))
    if not _ARITHMETIC.fullmatch(expression) or not names <= constants.keys():
        return None
    try:
        return int(eval(expression.replace("/", "//"), {"__builtins__": {}}, constants))
    except (SyntaxError, ZeroDivisionError):
        return None
