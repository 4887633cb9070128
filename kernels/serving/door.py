"""The door of a served model: what a request must look like, checked before the model sees anything of it."""

import json
import math
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16, "int64": torch.int64}


class Refused(ValueError):
    """A request that is at fault, with the status of HTTP that says so."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Input:
    """What an argument of the model may be.

    Args:
        name: of the argument.
        dtype: a name of DTYPES.
        shape: for each dimension its fewest and most elements.
        values: of integers, the lowest and the highest; else None, and all finite values of the dtype are taken.
    """

    name: str
    dtype: str
    shape: tuple[tuple[int, int], ...]
    values: tuple[int, int] | None = None


def read(body: bytes, inputs: tuple[Input, ...]) -> tuple[torch.Tensor, ...]:
    """The tensors of a request: a JSON object with nested lists of numbers by argument.

    Refused: anything else; the message names the argument, what came and what was expected.
    """
    try:
        given = json.loads(body.decode("utf-8"), parse_constant=_no_number)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise Refused(f"body: got no JSON: {error}") from None
    except ValueError as error:  # of an integer with thousands of digits
        raise error if isinstance(error, Refused) else Refused(f"body: {error}") from None
    if not isinstance(given, dict):
        raise Refused(f"body: got {_kind(given)}, expected an object with {', '.join(one.name for one in inputs)}")
    names = {one.name for one in inputs}
    for name in sorted(given.keys() - names):
        raise Refused(f"{name[:40]}: got an argument of that name, expected {', '.join(sorted(names))}")
    for name in sorted(names - given.keys()):
        raise Refused(f"{name}: got none, expected it with {', '.join(sorted(names))}")
    found = tuple(_tensor(given[one.name], one) for one in inputs)
    shared: dict[int, tuple[str, int]] = {}
    for one, got in zip(inputs, found, strict=True):
        for dim, (low, high) in enumerate(one.shape):
            if low < high and (first := shared.setdefault(dim, (one.name, got.shape[dim])))[1] != got.shape[dim]:
                sizes = f"{got.shape[dim]} in dimension {dim}, expected {first[1]}, as {first[0]} has"
                raise Refused(f"{one.name}: got {sizes}")
    return found


def _tensor(value: Any, of: Input) -> torch.Tensor:
    shape, inner = [], value
    while isinstance(inner, list):
        shape.append(len(inner))
        inner = inner[0] if inner and len(shape) <= len(of.shape) else None
    fits = len(shape) == len(of.shape) and all(low <= n <= high for n, (low, high) in zip(shape, of.shape, strict=True))
    if not fits:
        expected = " × ".join(str(low) if low == high else f"{low} to {high}" for low, high in of.shape)
        raise Refused(f"{of.name}: got shape {' × '.join(map(str, shape)) or 'of a single value'}, expected {expected}")
    numbers: list[Any] = [value]
    for size in shape:
        if any(not isinstance(one, list) or len(one) != size for one in numbers):
            raise Refused(f"{of.name}: got lists of different lengths, expected all of a dimension to be as long")
        numbers = [inner for one in numbers for inner in one]
    kinds = (int,) if of.dtype == "int64" else (int, float)
    for number in numbers:
        if type(number) not in kinds:
            raise Refused(f"{of.name}: got {_kind(number)}, expected dtype {of.dtype}")
        if of.values and not of.values[0] <= number <= of.values[1]:
            raise Refused(f"{of.name}: got a value of {str(number)[:20]}, expected {of.values[0]} to {of.values[1]}")
    largest = math.inf if of.dtype == "int64" else torch.finfo(DTYPES[of.dtype]).max
    if of.dtype != "int64" and any(not -largest <= number <= largest for number in numbers):
        raise Refused(f"{of.name}: got a number beyond {largest:.4g}, the largest of {of.dtype}")
    return torch.tensor(numbers, dtype=DTYPES[of.dtype]).view(shape)


def _no_number(name: str) -> NoReturn:
    raise Refused(f"body: got {name}, expected finite numbers")


def _kind(value: Any) -> str:
    names = {
        dict: "an object",
        list: "a list",
        str: "a string",
        bool: "a boolean",
        float: "a fraction",
        int: "an integer",
    }
    return names.get(type(value), "null")
