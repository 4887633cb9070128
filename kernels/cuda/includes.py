"""`#include "…"` of our own files: their source is put in the place of the directive.

A source is then one text wherever it goes: to the cache of what is compiled, to a worker, to CuPy. `#line` keeps the file and
the number of every line.
"""

from __future__ import annotations

import re
from pathlib import Path

from kernels.cuda.source import blanked

DEVICE = Path(__file__).parent / "device"
"""The folder of the headers that kernels share."""

_INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"')
_INCLUDE_LINES = re.compile(rf"^{_INCLUDE.pattern}", re.MULTILINE)
_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(\w+)(?:[ \t]+(once)\b)?")


def expanded(code: str, filename: str, folder: Path | None) -> tuple[str, dict[str, str]]:
    """A text with its included files in place, and the source of each of its files by the name that errors have for it.

    folder: of the file that the source is from. A file is looked for in the folder of the one that includes it, then in
    DEVICE. What is in neither is left to the compiler. ValueError: two files have the same name.
    """
    texts = {filename: code}
    paths: dict[str, Path | None] = {filename: None}

    def placed(code: str, name: str, folder: Path | None, within: tuple[Path, ...]) -> str:
        once, lines = False, []
        for number, (line, bare) in enumerate(zip(code.split("\n"), blanked(code).split("\n"), strict=True), 1):
            directive, only_once = found.groups() if (found := _DIRECTIVE.match(bare)) else (None, None)
            path = _own(line, folder) if directive == "include" else None
            once |= bool(only_once)
            lines.append(included(path, name, within) if path else "" if only_once else line)
            # What an #if leaves out may have #line directives in it, too: the numbers begin anew behind it.
            if path or (directive in ("elif", "else", "endif") and not line.endswith("\\")):
                lines.append(f'#line {number + 1} "{name}"')
        whole = "\n".join((f'#line 1 "{name}"', *lines)) if within else "\n".join(lines)
        guard = "KERNELS_ONCE_" + re.sub(r"\W", "_", name)
        return f"#ifndef {guard}\n#define {guard}\n{whole}\n#endif" if once and within else whole

    def included(path: Path, by: str, within: tuple[Path, ...]) -> str:
        name = path.name
        if paths.setdefault(name, path) != path:
            raise ValueError(
                f"{by} includes {path}, and another file of the source is called {name}: rename one, since errors and "
                "traces name a line by its file's name"
            )
        texts.setdefault(name, path.read_text())
        return "" if path in within else placed(texts[name], name, path.parent, (*within, path))

    return placed(code, filename, folder, ()) if _INCLUDE.search(code) else code, texts


def with_includes(path: Path) -> list[Path]:
    """The file and those of ours that it includes, directly or through others."""
    found = [path]
    for file in found:
        lines = (match.group() for match in _INCLUDE_LINES.finditer(file.read_text()))
        found += [own for line in lines if (own := _own(line, file.parent)) and own not in found]
    return found


def _own(line: str, folder: Path | None) -> Path | None:
    """The file of ours that a line includes."""
    if not (found := _INCLUDE.match(line)):
        return None
    folders = (DEVICE,) if folder is None else (folder, DEVICE)
    return next((path.resolve() for path in (one / found[1] for one in folders) if path.is_file()), None)
