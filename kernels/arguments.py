"""Rules that the arguments of operations have in common: what is accepted, and in which memory kernels read it.

Each rule raises a TypeError or ValueError that names the argument, what came and what was expected, before any launch.
"""

import numbers
from collections.abc import Callable, Sequence
from operator import mul
from typing import Any

import torch
from torch._C._functorch import peek_interpreter_stack

KERNEL_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
"""What the kernels of levels 4 and 5 are written for."""
FLOATING_DTYPES = (torch.float64, *KERNEL_DTYPES)


def positive(**given: int) -> None:
    """Integers of at least 1, by name, such as the sizes of a module."""
    for name, value in given.items():
        if not isinstance(value, numbers.Integral) or value < 1:
            raise ValueError(f"{name}: got {value!r}, expected an integer of at least 1")


def floating(name: str, value: object, shape: str = "(..., N)") -> None:
    """A strided tensor of a floating dtype with at least one dimension; `shape` says what it should look like."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name}: got {type(value).__name__}, expected a torch.Tensor")
    if value.dtype not in FLOATING_DTYPES:
        raise TypeError(
            f"{name}: got dtype {value.dtype}, expected float32, float16 or bfloat16; convert with {name}.float()"
        )
    if value.layout != torch.strided:
        raise TypeError(f"{name}: got layout {value.layout}, expected torch.strided; convert with {name}.to_dense()")
    if value.dim() == 0:
        raise ValueError(f"{name}: got a tensor without dimensions, expected shape {shape}")


def for_kernels(name: str, value: torch.Tensor) -> None:
    """A dtype that the kernels of levels 4 and 5 take."""
    if value.dtype not in KERNEL_DTYPES:
        raise TypeError(f"{name}: got dtype {value.dtype}, expected float32, float16 or bfloat16 at levels 4 and 5")


def like(
    name: str,
    value: object,
    shape: Sequence[int],
    other: str,
    of: torch.Tensor,
    why: str = "",
    optional: bool = False,
    dtype: torch.dtype | None = None,
) -> None:
    """A tensor of that shape, with the dtype and device of the argument `of`, which is called `other`.

    why: where the shape comes from, such as "the last dimension of x". optional: None is accepted too. dtype: not that of `of`.
    """
    dtype = dtype or of.dtype
    if optional and value is None:
        return
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name}: got {type(value).__name__}, expected a torch.Tensor{' or None' if optional else ''}")
    if value.shape != torch.Size(shape):
        raise ValueError(
            f"{name}: got shape {tuple(value.shape)}, expected {tuple(shape)}{', ' + why if why else f' like {other}'}"
        )
    if value.dtype != dtype:
        raise TypeError(f"{name}: got dtype {value.dtype}, expected {dtype} like {other}")
    if value.device != of.device:
        raise ValueError(f"{name}: is on {value.device}, expected {of.device} like {other}")


def integers(
    name: str,
    value: object,
    shape: Sequence[int] | None = None,
    other: str = "",
    of: torch.Tensor | None = None,
    why: str = "",
    dtype: torch.dtype = torch.int64,
) -> None:
    """A tensor of such integers; of that shape and on the device of the argument `of`, which is called `other`, where these are
    given. why: as in `like`."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name}: got {type(value).__name__}, expected a torch.Tensor")
    if value.dtype != dtype:
        convert = "long" if dtype == torch.int64 else "int"
        raise TypeError(f"{name}: got dtype {value.dtype}, expected {dtype}; convert with {name}.{convert}()")
    if shape is not None and value.shape != torch.Size(shape):
        raise ValueError(f"{name}: got shape {tuple(value.shape)}, expected {tuple(shape)}, {why}")
    if of is not None and value.device != of.device:
        raise ValueError(f"{name}: is on {value.device}, expected {of.device} like {other}")


def known(value: torch.Tensor) -> bool:
    """Whether the values of a tensor can be looked at without waiting: on a CPU, where nothing traces or transforms them."""
    if type(value) is not torch.Tensor or value.get_device() >= 0 or torch.compiler.is_compiling():
        return False
    return peek_interpreter_stack() is None


def below(name: str, value: torch.Tensor, limit: int, ignored: int | None = None) -> None:
    """Integers from 0 to limit - 1, or `ignored`: looked at on a CPU alone. On a GPU a look would wait for all that is queued
    there: kernels themselves assert it, as PyTorch's do."""
    if not known(value):
        return
    value = value.long()  # of the integers of 8 bits none is 256
    outside = (value < 0) | (value >= limit)
    if ignored is not None:
        outside &= value != ignored
    if outside.any():
        at = tuple(outside.nonzero()[0].tolist())
        otherwise = "" if ignored is None else f", or {ignored}, which is ignored"
        raise ValueError(f"{name}: got {value[at].item()} at {at}, expected 0 to {limit - 1}{otherwise}")


def number(name: str, value: object, least: float = 0, most: float = float("inf")) -> None:
    """A real number of at least `least` and at most `most`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not least <= value <= most:
        limits = f"of at least {least:g}" if most == float("inf") else f"from {least:g} to {most:g}"
        raise ValueError(f"{name}: got {value!r}, expected a number {limits}")


def choice(name: str, value: object, known: Sequence[str]) -> None:
    """One of the words that are known."""
    if value not in known:
        raise ValueError(f"{name}: got {value!r}, expected one of {', '.join(map(repr, known))}")


def checked(validate: Callable[..., None] | None, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which holds its arguments to the rules first, where there are any."""
    if validate is None:
        return function

    def call(*args: Any) -> Any:
        validate(*args)
        return function(*args)

    return call


def fits(value: object, dtype: torch.dtype, shape: torch.Size, device: torch.device) -> bool:
    """Whether `like` has nothing against it, asked at a fraction of the cost: messages are for those who need one."""
    return isinstance(value, torch.Tensor) and value.dtype is dtype and value.shape == shape and value.device == device


def as_rows(x: torch.Tensor) -> torch.Tensor:
    """x as M×N with neighbouring columns; a view where the layout allows it, else a copy."""
    if x.dim() == 2 and x.stride(1) == 1:
        return x
    rows = x.reshape(x.shape[:-1].numel(), x.shape[-1])  # not -1, which no columns leave open
    return rows if rows.stride(1) == 1 or rows.shape[1] == 1 else rows.contiguous()


def as_columns(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """A vector with neighbouring elements; a copy only where they are not."""
    return tensor if tensor is None else tensor.contiguous()


def empty_contiguous(x: torch.Tensor) -> torch.Tensor:
    """A contiguous, uninitialised tensor of x's shape, dtype and device."""
    # Naming the format costs a fifth more, and is needed only where x has another.
    return torch.empty_like(x) if x.is_contiguous() else torch.empty_like(x, memory_format=torch.contiguous_format)


def in_32_bits(*tensors: torch.Tensor) -> bool:
    """Whether integers of 32 bits count the elements of each tensor, in its memory and without gaps, and hold its strides."""
    return all(max(one.numel(), sum(map(mul, one.shape, one.stride()))) < 2**31 for one in tensors)
