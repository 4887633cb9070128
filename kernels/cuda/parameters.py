"""What a kernel's source says about its parameters. A compiler reports their sizes alone, and an int is as large as a float."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import torch

from kernels.cuda.source import without_asides

_FLOATS = {"float": 4, "double": 8, "half": 2, "__half": 2, "nv_bfloat16": 2, "__nv_bfloat16": 2}
_SIZES = {**_FLOATS, "*": 8}
_INTEGERS = {"char", "short", "int", "long", "signed", "unsigned", "bool", "size_t"}
_INTEGERS |= {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_QUALIFIERS = {"const", "volatile", "__restrict__", "__restrict", "__grid_constant__"}
_ATTRIBUTE = r"\[\[.*?\]\]"


class Parameter(NamedTuple):
    """A parameter as it is declared: its name, "" if it has none, its type, without qualifiers and "*" for a pointer, and
    what the pointer points to, "" where the source does not tell."""

    name: str
    type: str
    pointee: str = ""

    @property
    def kind(self) -> str:
        return "pointer" if self.type == "*" else "floating point" if self.type in _FLOATS else "integer"


def declared(code: str, name: str) -> list[Parameter | None]:
    """The parameters of a kernel, by its name expression. None for one whose type the source does not tell: a type of the
    source's own, of a template or of a macro, or one that differs between declarations. Empty if there is no such kernel."""
    if not (plain := re.fullmatch(r"(?:\w*::)*(\w+)\s*(?:<.*>)?", name.strip(), re.DOTALL)):
        return []
    code = without_asides(code)
    heads = re.finditer(rf"\b__global__\b[^;{{}}()]*?\b{plain.group(1)}\s*\(", code)
    found = [[_parameter(one) for one in _split(code, head.end())] for head in heads]
    if len({len(one) for one in found}) != 1:
        return []
    return [_common(same) for same in zip(*found, strict=True)]


def _common(declarations: tuple[Parameter | None, ...]) -> Parameter | None:
    """What several declarations of a parameter say."""
    first = declarations[0]
    if first is None or any(one is None or one.type != first.type for one in declarations):
        return None
    return first if len({one.pointee for one in declarations if one}) == 1 else first._replace(pointee="")


def _split(code: str, start: int) -> list[str]:
    """The parts of a list between commas, from after its opening bracket."""
    parts, depth = [""], 0
    for character in code[start:]:
        depth += (character in "([{<") - (character in ")]}>")
        if depth < 0:
            break
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part.strip() not in ("", "void")]


def _parameter(text: str) -> Parameter | None:
    words = re.findall(r"\w+|[^\w\s]", re.sub(_ATTRIBUTE, " ", text.split("=")[0].replace("std::", "")))
    words = [word for word in words if word not in _QUALIFIERS]
    if "*" in words and not {"(", "<"} & set(words):
        star = words.index("*")
        pointee = " ".join(words[:star]) if words.count("*") == 1 and not {"[", ":", "&"} & set(words) else ""
        return Parameter(words[-1] if words[-1].isidentifier() else "", "*", pointee)
    types = next((i for i, word in enumerate(words) if word not in _FLOATS and word not in _INTEGERS), len(words))
    name = words[types:]
    if not types or len(name) > 1 or (name and not name[0].isidentifier()):
        return None
    if types > 1 and any(word in _FLOATS for word in words[:types]):
        return None  # "long double", which a GPU does not have
    return Parameter("".join(name), " ".join(words[:types]))


def refuse_other_kind(index: int, arg: Any, parameter: Parameter, size: int) -> None:
    """TypeError where the argument is an integer and the parameter, of `size` bytes, floating point, or the like."""
    kind, kind_of_arg = parameter.kind, _kind(arg)
    if kind_of_arg in (None, kind) or _SIZES.get(parameter.type, size) != size:
        return
    if {kind, kind_of_arg} == {"pointer", "integer"}:
        return  # an address; its size is checked
    if parameter.type.endswith("bfloat16") and isinstance(arg, np.uint16):
        return  # its bits: NumPy has no scalar of that type
    raise TypeError(
        f"argument {index} is {_described(arg)}, but the parameter {parameter.name or index} is "
        f"{'a pointer' if kind == 'pointer' else parameter.type}: {_remedy(arg, parameter, size)}"
    )


def _kind(arg: Any) -> str | None:
    if isinstance(arg, torch.Tensor) or arg is None:
        return "pointer"
    if isinstance(arg, (int, np.integer, np.bool_)):
        return "integer"
    return "floating point" if isinstance(arg, (float, np.floating)) else None


def _described(arg: Any) -> str:
    if isinstance(arg, torch.Tensor) or arg is None:
        return "None" if arg is None else "a tensor"
    name = f"numpy.{arg.dtype.name}" if isinstance(arg, np.generic) else f"Python {type(arg).__name__}"
    return f"a {name}" if isinstance(arg, (bool, np.bool_)) else f"the {name} {arg}"


def _remedy(arg: Any, parameter: Parameter, size: int) -> str:
    if parameter.kind == "pointer":
        return "pass a torch tensor, or None for a null pointer"
    if isinstance(arg, torch.Tensor) or arg is None:
        value = "…"
    elif parameter.kind == "integer":
        return f"pass int({arg})" if np.isfinite(arg) else "pass an int"
    else:
        value = str(int(arg))
    if parameter.type.endswith("bfloat16"):
        return f"pass its bits, torch.tensor({value}, dtype=torch.bfloat16).view(torch.uint16).numpy()[()]"
    return f"pass np.float{8 * size}({value})"
