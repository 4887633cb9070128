"""A traced launch, in the worker process."""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import re
import signal
from collections.abc import Sequence
from dataclasses import replace

import torch

from kernels.cuda import Kernel, LaunchError, arguments, cpu, order
from kernels.cuda.cpu import build, symbols, translate, warnings
from kernels.cuda.source import in_order
from kernels.hardware import WARP
from kernels.lens.arrays import Array, named_arrays
from kernels.lens.cuda import findings, instrumented, notes
from kernels.lens.cuda.buffers import surrounded
from kernels.lens.cuda.launch_setup import SPACES, launch_setup, regions
from kernels.lens.request import Request, first_of
from kernels.lens.result import Access, Trace
from kernels.worker.tensors import copy_storage

# `Kind` of cpu/events.h. An asynchronous copy loads from where it comes and stores to where it goes.
_KINDS = ("load", "store", "atomic", "load", "store", "load", "store")


def run(
    kernel: Kernel,
    variables: dict[str, bytes],
    grid: tuple,
    block: tuple,
    args: tuple,
    shared_mem: int,
    seed: int | None,
    sampled: int | None,
) -> tuple[Trace, tuple, dict[str, bytes]]:
    """The trace, the tensors as the launch left them, and those of the source's variables that it changed."""
    signal.signal(signal.SIGINT, lambda *_: None)  # as in isolated
    grid, block = arguments.dimensions(grid, "grid"), arguments.dimensions(block, "block")
    arguments.block_threads(block)
    loaded = instrumented.load(kernel)
    source = loaded.source
    shared_mem = arguments.shared_bytes(shared_mem, loaded.function.static_shared_bytes, kernel._raised)
    loaded.function.put_back(variables)
    memory = loaded.function.memory
    before = {symbol: bytes(value) for symbol, value in memory.items()}
    copies, buffers = surrounded(args)
    layout = arguments.Layout(loaded.function.sizes, loaded.function.offsets, kernel._declared)
    packed = layout.pack(copies, arguments.device_of(copies))
    names = [parameter.name if parameter else "" for parameter in kernel._declared]

    count = math.prod(grid)
    sample = _sample(count, sampled)
    if sample and kernel._module._cooperative:
        raise ValueError("blocks: a cooperative launch cannot be sampled, since its blocks wait for each other")
    known = regions(loaded, buffers, names)
    prepared = launch_setup(loaded, math.prod(block), shared_mem, known, sample, build.waits(source))
    lens = instrumented.lens()
    traced = lens.kernels_lens_prepare(ctypes.byref(prepared))
    function = loaded.function
    function.guarded = False  # the lens has zones of its own
    function._kernel = cpu._Kernel.from_address(traced)
    os.environ["KERNELS_CPU_THREADS"] = "1"
    with order(seed) if seed is not None else contextlib.nullcontext():
        error = function.launch(grid, block, copies, packed, shared_mem, kernel._module._cooperative)
    if error and (at := re.search(r" at code (\d+)", error)):
        code = int(at[1]) + 1  # as of what returns there
        filename, number = in_order(symbols.source_lines(loaded.path, source, [code])[code].line)
        error = error.replace(at[0], f" on line {number} of {filename or source.filename}" if number else "")
    if error and error.startswith("interrupted"):
        raise LaunchError(error)
    raw = json.loads(lens.kernels_lens_result())

    # Regions by number, as cpu/launch.cpp has them; the last is dynamic shared memory.
    named = [region.name for region in known] + [" ".join(sorted(translate.dynamic_shared_names(source)))]
    pcs = {count[0] for count in raw["counts"]} | findings.pcs(raw["findings"]) | {*raw["without"][:1]}
    code = symbols.source_lines(loaded.path, source, pcs)
    lines = {pc: at.line for pc, at in code.items()}
    arrays = named_arrays(known, args, source, named[-1], shared_mem)
    accesses = _accesses(raw["counts"], code, named, arrays, grid)
    scale = count / raw["blocks_run"] if sample and raw["blocks_run"] else 1
    found = findings.read(raw["findings"], lines, arrays, grid, block, error, source)
    found += findings.without_a_value(warnings.of(source, loaded.path), source)
    said = [*notes.returned(raw["without"], lines, grid)]
    if not error and not found:
        own = [names[number] if number < len(names) else "" for number in range(len(args))]
        own = [name or f"argument {number}" for number, name in enumerate(own)]
        said += notes.no_numbers(args, copies, own, accesses)
        said += notes.idle_dimension(source, kernel.name, grid, block, dict(zip(own, args, strict=True)), accesses)
    changed: dict[str, bytes] = {}
    if not sample and not error:
        changed = {symbol: bytes(value) for symbol, value in memory.items() if bytes(value) != before[symbol]}
        for arg, copy in zip(args, copies, strict=True):
            if isinstance(arg, torch.Tensor):
                copy_storage(copy.untyped_storage(), arg.untyped_storage())
    return (
        Trace(
            kernel=kernel.name,
            grid=grid,
            block=block,
            shared_mem=shared_mem,
            source=source.texts[source.filename],
            filename=source.filename,
            headers={name: text for name, text in source.texts.items() if name != source.filename},
            accesses=tuple(_scaled(access, scale) for access in accesses),
            barriers=round(raw["barriers"] * scale),
            shuffles=round(raw["shuffles"] * scale),
            simt_efficiency=raw["steps_of_lanes"] / (WARP * raw["steps"]) if raw["steps"] else 1.0,
            blocks_run=len(sample) if sample else count,
            blocks=count,
            findings=found,
            error=error,
            busiest={name: most for name, most in zip(named, raw["busiest"], strict=False) if most},
            notes=tuple(said),
        ),
        args,
        changed,
    )


def _sample(blocks: int, wanted: int | None) -> list[int]:
    """The numbers of the blocks to run, evenly spread; empty when all are."""
    if wanted is None or wanted >= blocks:
        return []
    return [(2 * index + 1) * blocks // (2 * wanted) for index in range(wanted)]


# NVIDIA's headers copy a pair of halves one by one on a host; a GPU does at once. (C4 is how g++ names a constructor.)
_PAIR = re.compile(r"_ZN(7__half2|14__nv_bfloat162)(aS|C[124])")


def _accesses(
    counts: list[list], code: dict[int, symbols.SourceLine], names: Sequence[str], arrays: Sequence[Array], grid: tuple
) -> list[Access]:
    """The counts of instructions, added up by line and by what they touch."""
    merged: dict[tuple, list[int]] = {}  # the first number: of instructions
    samples: dict[tuple, list[list[Request]]] = {}
    for pc, kind, space, width, seen, *numbers, sampled in counts:
        touched = tuple(dict.fromkeys(name for bit, name in enumerate(names) if seen >> min(bit, 63) & 1))
        numbers = [1, *numbers]
        if width == 2 and _PAIR.match(code[pc].function):
            width, numbers = 4, _half_of_pair(*numbers)
            sampled = [one for one in sampled if one[-1][0] % 4 == 0]
        key = code[pc].line, _KINDS[kind], SPACES[space], width, touched
        so_far = merged.setdefault(key, [0] * len(numbers))
        merged[key] = [one + other for one, other in zip(so_far, numbers, strict=True)]
        samples.setdefault(key, []).append([_request(arrays, grid, width, *one) for one in sampled])
    ordered = sorted(merged.items(), key=lambda one: (in_order(one[0][0]), *one[0][1:]))
    return [Access(*key, *map(int, numbers), first_of(samples[key])) for key, numbers in ordered]


def _request(
    arrays: Sequence[Array],
    grid: tuple,
    width: int,
    block: int,
    warp: int,
    region: int,
    first: int,
    lanes: list,
    offsets: list,
) -> Request:
    """A request of so many bytes a lane, but for them as cpu/samples.cpp writes it."""
    x, rest = block % grid[0], block // grid[0]
    array = arrays[region]
    origin = first + array.first
    at = (x, rest % grid[1], rest // grid[1])
    return Request(at, warp, array.name, array.element or width, origin, tuple(lanes), tuple(offsets))


def _half_of_pair(
    instructions: int, requests: int, lanes: int, asked: int, sectors: int, fewest_sectors: int, *wavefronts: int
) -> list[float]:
    """An access of 2 bytes as its half of one of 4 bytes, in the same sectors and words."""
    fewest = min(2 * fewest_sectors, sectors)
    halved = (number / 2 for number in (sectors, fewest, *wavefronts))
    return [instructions / 2, requests / 2, lanes / 2, asked, *halved]


def _scaled(access: Access, scale: float) -> Access:
    if scale == 1:
        return access
    names = ("requests", "lanes", "bytes", "sectors", "fewest_sectors", "wavefronts", "fewest_wavefronts")
    return replace(access, **{name: round(getattr(access, name) * scale) for name in names})
