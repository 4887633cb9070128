"""What a submission in Python may not do: change the libraries that count what it does, or look for the answer.

It runs in the process that counts its launches and operators, so a text that changes torch or Triton there could change the
counts. Its values are judged elsewhere in any case.
"""

from __future__ import annotations

import ast

_IMPORTS = {"torch", "triton", "math", "functools", "typing", "__future__"}
_NAMES = {"setattr", "delattr", "getattr", "exec", "eval", "compile", "__import__", "globals", "vars", "open"}
_FRAMES = {"tb_frame", "f_back", "f_locals", "f_globals", "gi_frame", "cr_frame"}
_MODULES = {"sys", "os", "modules", "builtins", "importlib", "threading", "multiprocessing", "overrides"}
_OWN = {"__init__", "__name__", "__doc__"}


def unmannerly(source: str) -> str | None:
    """The first thing that a text may not do, or None. A text that cannot be parsed is for the compiler to judge."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    imported: set[str] = set()
    nodes = list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imported |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    for node in sorted(nodes, key=lambda node: getattr(node, "lineno", 0)):
        if what := _wrong(node, imported):
            line = source.splitlines()[node.lineno - 1]
            return f"a submission may not {what}\n    {node.lineno} | {line}"
    return None


def _wrong(node: ast.AST, imported: set[str]) -> str | None:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or "."]
        if other := [name for name in modules if name.split(".")[0] not in _IMPORTS]:
            return f"import {other[0]}: it needs no more than {', '.join(sorted(_IMPORTS - {'__future__'}))}"
    if isinstance(node, ast.Name) and node.id in _NAMES:
        return f"use {node.id}"
    if isinstance(node, ast.Attribute):
        if isinstance(node.ctx, (ast.Store, ast.Del)) and _root(node) in imported:
            return f"change {ast.unparse(node)}"
        if node.attr in _FRAMES | _MODULES or (node.attr.startswith("_") and node.attr not in _OWN):
            return f"use {ast.unparse(node)}"
    return None


def _root(node: ast.AST) -> str | None:
    """The name at the beginning of `torch.nn.functional.gelu`."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
