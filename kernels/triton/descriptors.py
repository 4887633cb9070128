"""Triton's TMA descriptors among the arguments of a kernel: each stands for the tensor that it describes, its base."""

import dataclasses
from typing import Any

from triton.tools.tensor_descriptor import TensorDescriptor


def base_of(arg: Any) -> Any:
    """The tensor that a descriptor describes; other arguments are their own."""
    return arg.base if isinstance(arg, TensorDescriptor) else arg


def with_base(arg: Any, base: Any) -> Any:
    """The argument with another base."""
    return dataclasses.replace(arg, base=base) if isinstance(arg, TensorDescriptor) else base
