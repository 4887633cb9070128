"""A Triton kernel that is sent to another process: by name where it can be imported there, else as text.

A kernel of a notebook's cell lives in a module that no other process has. It is a few lines of source, and names: of modules,
constants and other such functions. Those go along.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import linecache
import pickle
import sys
import textwrap
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

Kernel = JITFunction | InterpretedFunction  # what @triton.jit makes, as a compiler and as an interpreter


@dataclass(frozen=True)
class _Module:
    name: str


@dataclass(frozen=True)
class Portable:
    """A kernel in a form that pickle takes. `source`: the source of its file or cell.

    module: from which it is imported. Where it cannot be: None, and `line` is where its own source begins, `names` what that
    source refers to.
    """

    name: str
    filename: str
    source: str
    module: str | None
    line: int = 0
    text: str = ""
    names: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, kernel: Kernel) -> Portable:
        fn = kernel.fn
        filename = fn.__code__.co_filename
        source = "".join(linecache.getlines(filename))
        if _importable(kernel):
            return cls(fn.__name__, filename, source, fn.__module__)
        lines, line = inspect.getsourcelines(fn)
        text = textwrap.dedent("".join(lines))
        used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)} & fn.__globals__.keys()
        # The interpreter looks for the language among the globals, even if the source does not name it.
        used |= {name for name, value in fn.__globals__.items() if value is triton.language}
        names = ((name, _portable(fn.__globals__[name])) for name in sorted(used - {fn.__name__}))
        kept = tuple((name, value) for name, value in names if value is not _LEFT)
        return cls(fn.__name__, filename, source, None, line, text, kept)

    def load(self) -> Kernel:
        """The kernel, in this process."""
        if self.module:
            return getattr(importlib.import_module(self.module), self.name)
        # Both Triton and messages read the source by the name of its file.
        linecache.cache[self.filename] = (len(self.source), None, self.source.splitlines(True), self.filename)
        scope = {name: _restored(value) for name, value in self.names}
        exec(compile("\n" * (self.line - 1) + self.text, self.filename, "exec"), scope)
        return scope[self.name]

    @property
    def short_filename(self) -> str:
        """The name of its file; of a cell, whose file's name changes from run to run, that of the kernel."""
        return Path(self.filename).name if self.module or Path(self.filename).is_file() else f"{self.name}.py"


_LEFT = object()


def _portable(value: Any) -> Any:
    """In a form that pickle takes, or _LEFT: if the kernel needs it, it fails with its name."""
    if isinstance(value, Kernel):
        return Portable.of(value)
    if isinstance(value, types.ModuleType):
        return _Module(value.__name__)
    try:
        pickle.dumps(value)
    except Exception:
        return _LEFT
    return value


def _restored(value: Any) -> Any:
    if isinstance(value, Portable):
        return value.load()
    return importlib.import_module(value.name) if isinstance(value, _Module) else value


def _importable(kernel: Kernel) -> bool:
    module = sys.modules.get(kernel.fn.__module__)
    found = getattr(module, kernel.fn.__name__, None)
    return found is kernel and module.__name__ != "__main__" and module.__spec__ is not None
