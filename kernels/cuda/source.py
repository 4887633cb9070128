"""The source of a CUDA module, before anything is compiled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

# Comments and literals, and numbers such as 1'024, whose mark opens no literal; all that with directives; brackets of
# scopes; attributes such as __launch_bounds__(256).
COMMENT_OR_LITERAL = r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'|\b\d\w*(?:'\w+)+"""
_ASIDE = re.compile(rf"{COMMENT_OR_LITERAL}|^[ \t]*\#(?:\\\n|[^\n])*", re.DOTALL | re.MULTILINE)
_SCOPES = re.compile(r'\bextern\s+""\s*\{|[{};]')
_ATTRIBUTE = re.compile(r"\b__\w+__\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")

# What NVRTC lacks of the C and C++ libraries: headers to find on its path, and what comes before every text.
NVRTC_HEADERS = Path(__file__).parent / "nvrtc"
_PRELUDE = (NVRTC_HEADERS / "prelude.h").read_text()


Line = int | str
"""A line of the file that was given, by its number; of one that it includes, as in "vectors.cuh:45"; 0 where none is known."""


@dataclass(frozen=True)
class Source:
    """CUDA C++ text, the file name its errors carry, compiler options, and the kernels wanted from it."""

    code: str  # with the files that it includes, where they are ours, in their places
    filename: str
    options: tuple[str, ...]
    names: tuple[str, ...]  # C++ expressions such as "vadd" or "layer_norm<float>"
    files: Mapping[str, str] = field(default_factory=dict, compare=False)  # that `code` is made of, if not of one

    @property
    def for_nvrtc(self) -> str:
        """The source with what NVRTC lacks of the C library before it, and with line numbers that stay as they are. Its headers
        are in NVRTC_HEADERS."""
        return f'{_PRELUDE}\n#line 1 "{self.filename}"\n{self.code}'

    @property
    def texts(self) -> Mapping[str, str]:
        """The source of each of its files by name; the first is the one that was given."""
        return self.files or {self.filename: self.code}

    def line(self, filename: str, number: int) -> Line:
        """A line of one of its files."""
        return number if filename == self.filename else f"{filename}:{number}"

    def text_of(self, line: Line) -> str:
        """What stands in a line; "" where there is none."""
        filename, number = in_order(line)
        lines = self.texts[filename or self.filename].splitlines()
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def with_errors_located(self, compiler_output: str) -> str:
        """The compiler's output, with the line of the source shown under every message about it."""
        shown = []
        for message in compiler_output.splitlines():
            shown.append(message)
            line = self._line_of(message)
            if line and (text := self.text_of(line).rstrip()):
                shown.append(f"    {in_order(line)[1]} | {text}")
        return "\n".join(shown)

    def _line_of(self, message: str) -> Line | None:
        """The line a message such as "vadd.cu:3:5: error: …" or "vadd.cu(3): error: …" is about."""
        names = "|".join(map(re.escape, self.texts))
        found = re.match(rf"({names})[:(](\d+)", message)
        return self.line(found[1], int(found[2])) if found and ": in " not in message.lower() else None


def in_order(line: Line) -> tuple[str, int]:
    """The file of a line, "" for the one that was given, and its number: lines are sorted by them."""
    filename, _, number = str(line).rpartition(":")
    return filename, int(number)


def without_asides(code: str) -> str:
    """A source without comments, directives, attributes and what is in quotes."""
    return _ATTRIBUTE.sub(" ", _ASIDE.sub(_blank, code))


def blanked(code: str) -> str:
    """A source without comments and what is in quotes. Line numbers stay as they are."""
    return re.sub(
        COMMENT_OR_LITERAL, lambda found: _blank(found) + "\n" * found.group().count("\n"), code, flags=re.DOTALL
    )


def spaced(pattern: re.Pattern[str], code: str) -> str:
    """Of the same length, with spaces where the pattern is, but for ends of lines."""
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), code)


def _blank(found: re.Match[str]) -> str:
    text = found.group()
    return '""' if text.startswith('"') else text.replace("'", "") if text[0].isdigit() else " "


def kernels_in(code: str) -> list[str]:
    """The kernels of a source by name: those at file scope that are no templates."""
    code = without_asides(code)
    found: list[str] = []
    scopes: list[bool] = []
    start = 0
    for token in _SCOPES.finditer(code):
        head = code[start : token.start()]
        start = token.end()
        if token.group() == "}":
            scopes = scopes[:-1]
        elif token.group() != ";":
            name = re.search(r"\b__global__\b.*?(\w+)\s*\(", head, re.DOTALL)
            if name and not any(scopes) and not re.search(r"\btemplate\s*<", head):
                found.append(name.group(1))
            scopes.append(token.group() == "{")  # names in extern "C" { are as at file scope
    return found
