"""What the compiler warns of that is certain: a local variable that is used before it has a value, a printf of another type."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from kernels.cuda.cpu import compiler
from kernels.cuda.source import Source, blanked

_WARNING = r":(\d+):\d+: warning: (.*) \[-W([\w-]+)=?\]"
# Brackets of an index; a variable that is changed by its own value.
_INDEX, _CHANGED = r"(?:\s*\[[^\]]*\])*", r"\s*(?:(?:[-+*/%|&^]|<<|>>)=|\+\+|--)"


class Warned(NamedTuple):
    """Of a line of a file of the source. variable: that has no value; "" where it is about something else."""

    filename: str
    number: int
    variable: str
    words: str

    @property
    def place(self) -> str:
        return f"{self.filename}:{self.number}"


def of(source: Source, library: Path) -> list[Warned]:
    """What the compiler has said when it made a library of a source."""
    said = compiler.said_of(library)
    found = re.findall(rf"^({'|'.join(map(re.escape, source.texts))}){_WARNING}", said, re.MULTILINE)
    reported: dict[str, Warned] = {}
    for filename, number, words, option in found:
        if option == "format" and re.search("double|float", words):  # sizes of integers have other names on a GPU
            reported.setdefault(words, Warned(filename, int(number), "", words))
        name = re.search(r"[‘'](\w+)[’']", words)
        line = _first_changed(name[1], source.texts[filename]) if option.endswith("uninitialized") and name else None
        if name and line:
            meaning = f"{name[1]} is used before it has a value: a local variable holds whatever its register held"
            reported.setdefault(meaning, Warned(filename, line, name[1], meaning))
    return list(reported.values())


def _first_changed(name: str, code: str) -> int | None:
    """The line where a variable is such as `sum += x`, if it is declared without a value and this comes next of it. A compiler
    also warns where a condition gives it its value, and the same condition, which it does not know to be the same, reads it."""
    declared = rf"\b\w+[\s*]+(?:[^;(){{}}]*,\s*)?{name}\b{_INDEX}\s*(?:,[^;(){{}}]*)?;"
    code = blanked(code)
    found = re.search(rf"{declared}(?:(?!\b{name}\b).)*\b{name}\b{_INDEX}{_CHANGED}", code, re.DOTALL)
    return 1 + code.count("\n", 0, found.end()) if found else None
