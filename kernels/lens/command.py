"""python -m kernels lens: trace a kernel of a file, with arguments made from their descriptions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from rich.console import Console

from kernels.cuda import CompileError, Kernel, LaunchError, RawModule
from kernels.lens.cuda.trace import trace
from kernels.lens.rendering import wasteful
from kernels.worker import WorkerError

_FLOATS = {"double": float, "half": np.float16, "__half": np.float16}


def lens(
    kernel: Annotated[str, typer.Argument(metavar="FILE.cu::KERNEL", help="KERNEL may be a template's: 'row<float>'")],
    grid: Annotated[str, typer.Option(help="blocks, such as 64 or 8,8")],
    block: Annotated[str, typer.Option(help="threads of a block, such as 256 or 32,8")],
    arg: Annotated[
        list[str] | None,
        typer.Option(
            help="once for each parameter: a number; 'null'; or a tensor as dtype:shape, such as float32:64x768, of "
            "random numbers (integers: 0, 1, 2 …), or int32:1024=0 of one number"
        ),
    ] = None,
    shared_mem: Annotated[int, typer.Option(help="bytes of dynamic shared memory")] = 0,
    blocks: Annotated[int | None, typer.Option(help="trace so many blocks only, and scale")] = None,
    seed: Annotated[int | None, typer.Option(help="start blocks and threads in this random order")] = None,
    option: Annotated[list[str] | None, typer.Option(help="of the compiler, such as -DTILE=32")] = None,
    json_path: Annotated[Path | None, typer.Option("--json", help="write the trace")] = None,
) -> None:
    """Trace a CUDA C kernel: what each line asks of a GPU's memory system. Exit 1 if something is wrong with it."""
    path, _, name = kernel.partition("::")
    if not name or not Path(path).is_file():
        raise typer.BadParameter(f"expected FILE.cu::KERNEL with a file that is here, got {kernel!r}")
    function = RawModule(path=path, options=tuple(option or ())).get_function(name)
    torch.manual_seed(0)
    try:
        args = tuple(_argument(number, text, function) for number, text in enumerate(arg or ()))
        found = trace(
            function, _sizes("--grid", grid), _sizes("--block", block), args, shared_mem, seed=seed, blocks=blocks
        )
    except (CompileError, LaunchError, TypeError, ValueError, WorkerError) as error:
        Console(stderr=True).print(str(error), markup=False, highlight=False)
        raise typer.Exit(1) from None
    out = Console()
    out.print(found)
    for sentence in wasteful(found):
        out.print(sentence, style="bold red", markup=False, highlight=False)
    if json_path is not None:
        json_path.write_text(found.as_json())
    raise typer.Exit(int(bool(found.findings or found.error)))


def _sizes(option: str, text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d+([,x]\d+){0,2}", text):
        raise ValueError(f"{option}: expected one to three sizes such as 8,8, got {text!r}")
    return tuple(map(int, re.split("[,x]", text)))


def _argument(number: int, text: str, kernel: Kernel) -> Any:
    """The argument that a text describes."""
    if text == "null":
        return None
    if tensor := re.fullmatch(r"(\w+):(\d+(?:x\d+)*)(?:=(.+))?", text):
        name, shape, value = tensor.groups()
        dtype = getattr(torch, name, None)
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"--arg {text}: {name!r} is no dtype of torch's, such as float32")
        sizes = tuple(map(int, shape.split("x")))
        if value is not None:
            return torch.full(sizes, float(value)).to(dtype)
        if dtype.is_floating_point:
            return torch.randn(sizes).to(dtype)
        return torch.arange(int(np.prod(sizes))).to(dtype).view(sizes)
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"--arg {text}: expected a number, 'null', or a tensor such as float32:1024") from None
    declared = kernel._declared[number] if number < len(kernel._declared) else None
    return _FLOATS.get(declared.type if declared else "", np.float32)(value)
