"""A model in one file, with the shapes, dtypes and values that it may be given."""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kernels.serving.door import DTYPES, Input

DECLARED = "inputs.json"


@dataclass(frozen=True)
class Exported:
    """A model as it was saved: `model` takes the tensors of `inputs`, in that order, and returns a tensor."""

    model: Callable[..., torch.Tensor]
    inputs: tuple[Input, ...]

    @property
    def max_batch(self) -> int:
        return self.inputs[0].shape[0][1]


def export(
    model: nn.Module,
    example: tuple[torch.Tensor, ...],
    path: str | Path,
    max_batch: int = 8,
    max_length: int | None = None,
    values: Mapping[str, tuple[int, int]] | None = None,
) -> Exported:
    """Save a model by `torch.export`, once it is seen that the saved one computes the same, and rows do not mix.

    Args:
        model: returns one tensor, batch first; in evaluation.
        example: its arguments in order, batch first, of float32, float16, bfloat16 or int64.
        path: of the file, which ends in .pt2.
        max_batch: the largest batch; the smallest is 1.
        max_length: where the second dimension may be anything from 1 on, as in sequences, the longest; else it is fixed.
        values: by argument, the lowest and highest value of integers, such as tokens; all integers need it.

    Raises:
        TypeError, ValueError: an argument that is wrong, by its name.
        ArithmeticError: the exported model returns something else, or a row depends on the others in its batch.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: got {type(model).__name__}, expected a torch.nn.Module")
    if model.training:
        raise ValueError("model: it is in training mode; call model.eval()")
    if max_batch < 2:
        raise ValueError(f"max_batch: got {max_batch}, expected at least 2")
    if Path(path).suffix != ".pt2":
        raise ValueError(f"path: got {str(path)!r}, expected a name that ends in .pt2")
    names = list(inspect.signature(model.forward).parameters)[: len(example)]
    inputs = tuple(
        _input(name, one, max_batch, max_length, values or {}) for name, one in zip(names, example, strict=True)
    )
    batch = torch.export.Dim("batch", min=1, max=max_batch)
    length = torch.export.Dim("length", min=1, max=max_length) if max_length else None
    dims = tuple({0: batch} | ({1: length} if length and one.dim() > 1 else {}) for one in example)
    # A batch of one would be taken for fixed; and rows that differ show whether they mix.
    rows = [torch.stack([one[i % len(one)].roll(i) for i in range(max_batch)]) for one in example]
    with torch.no_grad():
        try:
            program = torch.export.export(model, tuple(rows), dynamic_shapes=dims, strict=False)
        except Exception as error:  # of every kind
            raise ValueError(f"model: torch.export refuses it: {str(error).strip().splitlines()[0]}") from error
        made = program.module()
        expected, got = model(*rows), made(*rows)
        if not isinstance(expected, torch.Tensor) or expected.dim() == 0 or len(expected) != max_batch:
            raise ValueError("model: expected it to return one tensor, batch first")
        alone = torch.cat([made(*(one[row : row + 1] for one in rows)) for row in range(max_batch)])
    for what, one in (("the exported model", got), ("a row alone, beside one in a batch,", alone)):
        rtol, atol = (1e-4, 1e-5) if expected.dtype == torch.float32 else (2e-2, 2e-2)
        try:
            torch.testing.assert_close(one, expected, rtol=rtol, atol=atol)
        except AssertionError as error:
            raise ArithmeticError(f"{what} gives another result: {error}") from None
    torch.export.save(program, path, extra_files={DECLARED: json.dumps([asdict(one) for one in inputs])})
    return Exported(made, inputs)


def load(path: str | Path) -> Exported:
    """The model that `export` saved. ValueError: there is none in that file."""
    extra: dict[str, Any] = {DECLARED: ""}
    if not Path(path).is_file():
        raise ValueError(f"path: got {str(path)!r}, expected a file that kernels.serving.export wrote")
    try:
        program = torch.export.load(path, extra_files=extra)
        declared = json.loads(extra[DECLARED])
    except Exception as error:  # archives fail in every way
        raise ValueError(f"path: {str(path)!r} is no file that kernels.serving.export wrote: {error}") from None
    inputs = tuple(
        Input(one["name"], one["dtype"], tuple(map(tuple, one["shape"])), one["values"] and tuple(one["values"]))
        for one in declared
    )
    return Exported(program.module(), inputs)


def _input(
    name: str, one: torch.Tensor, max_batch: int, max_length: int | None, values: Mapping[str, tuple[int, int]]
) -> Input:
    if not isinstance(one, torch.Tensor) or one.dim() == 0 or len(one) == 0:
        raise TypeError(f"example: got {type(one).__name__} for {name}, expected a tensor with its batch first")
    dtype = str(one.dtype).removeprefix("torch.")
    if dtype not in DTYPES:
        raise TypeError(f"example: got {dtype} for {name}, expected one of {', '.join(DTYPES)}")
    if dtype == "int64" and name not in values:
        raise ValueError(f"values: got none for {name}, expected the lowest and highest integer that the model takes")
    shape = [(1, max_batch), *((size, size) for size in one.shape[1:])]
    if max_length and one.dim() > 1:
        shape[1] = (1, max_length)
    return Input(name, dtype, tuple(shape), values.get(name))
