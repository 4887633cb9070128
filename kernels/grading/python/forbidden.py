"""What a submission in Python may not do: change the libraries that count what it does, or look for the answer.

It runs in the process that counts its launches and operators, so a text that changes torch or Triton there could change the
counts. Its values are judged elsewhere in any case.
"""

from __future__ import annotations

import ast

_IMPORTS = {"torch", "triton", "math", "functools", "typing", "__future__"}
_NAMES = {"setattr", "delattr", "getattr", "exec", "eval", "compile", "__import__", "globals", "vars", "open"}
_FRAMES = {"tb_frame", "f_back", "f_locals", "f_globals", "gi_frame", "cr_frame"}
_MODULES = {"sys", "os", "modules", "builtins", "importlib", "threading", "multiprocessing", "overrides", "interpreter"}
_OPERATORS = {"Library", "impl", "register_kernel"}  # of torch.library: another kernel for an operator of PyTorch's
_MEMORY = {"numpy", "tolist", "item", "untyped_storage", "storage"}  # what the host would compute with
_ON_A_GPU = {
    "autotune": "it times the configurations on a GPU, and there may be none: choose one",
    "libdevice": "Triton's interpreter does not support it: tl has erf, exp, log and more",
}
_OWN = {"__init__", "__name__", "__doc__", "_check", "_assert_async"}  # the last two are torch's, and for everybody


def violation(source: str, language: str, given: int = 0) -> str | None:
    """The first thing that a text may not do, or None. A text that cannot be parsed is for the compiler to judge.

    What is for a Triton kernel to compute, the host may not: it would be neither a launch nor an operator of PyTorch's.
    given: so many lines at its beginning are the exercise's own, and not judged.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    imported: set[str] = set()  # and other names for what was
    for node in sorted(ast.walk(tree), key=lambda node: getattr(node, "lineno", 0)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imported |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        if isinstance(node, ast.Assign) and _root(node.value) in imported:
            imported |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        if getattr(node, "lineno", 0) <= given:
            continue
        language_rule = {"triton": _on_the_host, "torch": _to_the_cpu}.get(language, lambda _: None)
        if what := _wrong(node, imported) or language_rule(node):
            line = source.splitlines()[node.lineno - 1]
            return f"a submission may not {what}\n    {node.lineno} | {line}"
    return None


def _wrong(node: ast.AST, imported: set[str]) -> str | None:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        module = "" if isinstance(node, ast.Import) else f"{node.module or ''}."
        for name in (f"{module}{alias.name}" for alias in node.names):
            first, *rest = name.split(".")
            if first not in _IMPORTS:
                return f"import {name}: all you need is {', '.join(sorted(_IMPORTS - {'__future__'}))}"
            if any(map(_private, rest)):
                return f"import {name}"
    if isinstance(node, ast.Name) and node.id in _NAMES:
        return f"use {node.id}"
    if isinstance(node, ast.Attribute):
        if isinstance(node.ctx, (ast.Store, ast.Del)) and _root(node) in imported:
            return f"change {ast.unparse(node)}"
        if _private(node.attr):
            why = ": it can replace operators of PyTorch's" if node.attr in _OPERATORS else ""
            return f"use {ast.unparse(node)}{why}"
    return None


def _on_the_host(node: ast.AST) -> str | None:
    names = (
        [alias.name.split(".")[-1] for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
    )
    names += [node.attr] if isinstance(node, ast.Attribute) else []
    for name in names:
        if name in _MEMORY:
            return f"use {ast.unparse(node)}: leave values to the kernel"
        if name in _ON_A_GPU:
            return f"use {name}: {_ON_A_GPU[name]}"
    return None


def _to_the_cpu(node: ast.AST) -> str | None:
    """What would make a GPU's values the CPU's, where the graph does not show it: here all tensors are on the CPU.

    `.cpu()`, `.to("cpu")` and `.item()` are seen in the graph.
    """
    if isinstance(node, ast.Attribute) and node.attr in ("numpy", "from_numpy"):
        return f"use {ast.unparse(node)}: NumPy's arrays are on the CPU, and values would have to be copied there from a GPU"
    if isinstance(node, ast.Call):
        makes = isinstance(node.func, (ast.Name, ast.Attribute)) and ast.unparse(node.func).endswith("device")
        named = [one.value for one in node.keywords if one.arg == "device" or (makes and one.arg == "type")]
        for one in (*named, *(node.args[:1] if makes else ())):
            if isinstance(one, ast.Constant) and str(one.value).partition(":")[0] == "cpu":
                return f"name the CPU: {ast.unparse(node)}; put a tensor where others are with x.device"
    return None


def _private(name: str) -> bool:
    """Whether an attribute or a module leads to what is none of a submission's business."""
    return name in _FRAMES | _MODULES | _OPERATORS or (name.startswith("_") and name not in _OWN)


def _root(node: ast.AST) -> str | None:
    """The name at the beginning of `torch.nn.functional.gelu`."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
