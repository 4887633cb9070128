"""Source code as a notebook's output: as it stands in text, and coloured by whatever shows the notebook.

The coloured form is a fenced block of Markdown. JupyterLab and the book colour it as they colour code cells, in the light
and in the dark, and a stored output holds no colours that could differ from theirs. Its lines fit the book's page.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kernels.narrow import narrow

_ASIDE = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'""", re.DOTALL)
# JupyterLab's editor knows no CUDA C; the book takes C++ in an output for CUDA C.
_FENCED_AS = {"cuda": "cpp"}


@dataclass(frozen=True, repr=False)
class Listing:
    """Source code that shows itself as the last value of a notebook's cell. `print` and `repr` give the source as it is.

    language: "cuda", "python" or "ptx", "diff" for what changed in a source; any other is shown without colours.
    """

    source: str
    language: Literal["cuda", "python", "ptx", "diff", "text"] = "cuda"

    @classmethod
    def from_kernel(cls, where: str | Path | Iterable[Path], *names: str) -> Listing:
        """The functions of these names, each with its comment and its template line, from CUDA C source, a file or files.

        Raises:
            LookupError: there is no function of that name.
        """
        paths = [where] if isinstance(where, str | Path) else where
        source = "\n\n".join(path.read_text() if isinstance(path, Path) else path for path in paths)
        return cls("\n\n".join(_function(source, name) for name in names))

    @classmethod
    def from_python(cls, *functions: Callable[..., Any]) -> Listing:
        """Functions or classes written in Python, Triton kernels among them."""
        sources = [inspect.getsource(getattr(one, "fn", one)) for one in functions]
        return cls("\n\n".join(textwrap.dedent(source).strip() for source in sources), "python")

    def __repr__(self) -> str:
        return self.source.strip("\n")

    def _repr_markdown_(self) -> str:
        return f"```{_FENCED_AS.get(self.language, self.language)}\n{narrow(repr(self), self.language)}\n```"


def _function(source: str, name: str) -> str:
    """The definition of a CUDA C function, with the lines that stand directly above it."""
    code = _ASIDE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), source)  # as long as it was
    lines, code_lines = source.splitlines(), code.splitlines()
    for head in re.finditer(rf"\b{re.escape(name)}\s*(?=\()", code):
        after = _closing(code, head.end(), "()")
        body = re.compile(r"[\s\w]*(?=\{)").match(code, after)
        if body:
            first = source.count("\n", 0, head.start())
            while first and _belongs_below(lines[first - 1], code_lines[first - 1]):
                first -= 1
            last = source.count("\n", 0, _closing(code, body.end(), "{}"))
            return textwrap.dedent("\n".join(lines[first : last + 1]))
    raise LookupError(f"name: got {name!r}, expected a function that the source defines")


def _belongs_below(line: str, code: str) -> bool:
    """Whether a line is a comment on the next or begins it, as `template <typename T>` does."""
    return bool(line.strip()) and not code.lstrip().startswith("#") and not code.rstrip().endswith(("{", "}", ";"))


def _closing(code: str, opening: int, brackets: str) -> int:
    """The place behind the bracket that closes the one at `opening`."""
    depth = 0
    for place in range(opening, len(code)):
        depth += (code[place] == brackets[0]) - (code[place] == brackets[1])
        if not depth:
            return place + 1
    raise ValueError(f"source: got one that leaves a {brackets[0]} open, expected that it is closed")
