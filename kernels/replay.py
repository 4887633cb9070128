"""A call that comes again repeats its launches.

What the Python side of a kernel works out, such as checks, views, tiles, which kernel, and what Triton specialises it for,
follows from the shapes, strides, dtypes and alignments (to 16 bytes) of its tensors and from the values of its other
arguments: never from what is in the tensors or from a state elsewhere. So a call on a GPU that comes a second time is recorded:
what it allocates, and its launches, in which each argument is a constant or an address. From then on it costs a look-up, the
allocations and the launches. A call that asks more of PyTorch, such as a copy of a tensor whose rows do not lie as a kernel
needs them, is made each time as the first time. Launches are those of `kernels.triton.launch` and `kernels.cuda`.
"""

import itertools
import threading
from collections.abc import Callable
from operator import is_, itemgetter
from typing import Any

import torch
from torch import Tensor
from torch._C import _get_deterministic_algorithms as fills_memory  # with NaN, where a test wants that
from torch._C._dynamo import guards
from torch.autograd import _profiler_enabled as profiled
from torch.nn import Parameter
from torch.utils._python_dispatch import TorchDispatchMode

from kernels.signature import picker
from kernels.watch import Watch, seen

MOST = 1_024  # kinds of calls that are known of a kernel, before all are forgotten
FEW = 4  # kinds that are asked for at once: a model calls an operation on few shapes, again and again
ALIGNED = 256  # bytes, of what a call allocates for itself, which is one piece of memory when it is repeated
aten = torch.ops.aten
ALLOCATIONS = (
    aten.empty.memory_format,
    aten.empty_like.default,
    aten.empty_strided.default,
    aten.new_empty.default,
    aten.new_empty_strided.default,
)
Again = Callable[[tuple], None]  # repeats a launch with these arguments, addresses in place of tensors
THREAD = threading.local()
UNLIKE = object()


def is_recording() -> bool:
    return getattr(THREAD, "recorder", None) is not None


def launched(args: tuple | list, again: Again | None) -> None:
    """A launcher says what it has launched; None for `again` where that cannot be repeated."""
    if again:
        THREAD.recorder.launches.append((args, again))
    else:
        THREAD.recorder.only_launches = False


def replaying(kernel: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[[tuple], Any]]:
    """A bare kernel, called with plain tensors and what is no tensor, whose calls on a GPU are recorded and repeated.

    Returns the kernel, and what repeats one of the last few calls that were looked up, if the arguments that it is given, a
    tuple, are like its and PyTorch asks for nothing but the result; else it returns UNLIKE.
    """
    known: dict[tuple, Callable[..., Any] | None] = {}
    latest: tuple[Callable[[tuple], Any], ...] = ()

    def call(*args):
        nonlocal latest
        facts: list[Any] = []
        addresses: list[int] = []
        for arg in args:
            what = type(arg)
            if what is Tensor or what is Parameter:
                address, device = arg.data_ptr(), arg.get_device()
                if device < 0:
                    return kernel(*args)
                facts += arg.shape, arg.stride(), arg.dtype, address & 15, device
                addresses.append(address)
            else:
                facts.append(repr(arg))  # which tells 1 from 1.0 and True, and 0.0 from -0.0
        kind = tuple(facts)
        if kind not in known:  # what does not come again is not worth a recording
            if len(known) >= MOST:
                known.clear()
            known[kind] = record
            return kernel(*args)
        repeat = known[kind]
        if repeat is None or not may_repeat(device):
            return kernel(*args)
        if repeat is record:
            result, known[kind] = record(kernel, args, addresses)
            return result
        latest = (shortcut(args, addresses, repeat), *latest[: FEW - 1])
        return repeat(addresses)

    def repeat_if_alike(args):
        for one in latest:
            if (result := one(args)) is not UNLIKE:
                return result
        return UNLIKE

    return call, repeat_if_alike


def shortcut(args: tuple, addresses: list[int], repeat: Callable[[list[int]], Any]) -> Callable[[tuple], Any]:
    """What repeats a call if its arguments are like these, and else returns UNLIKE.

    PyTorch's compiler asks whether tensors are like those that it compiled for, before it runs the code. That is one
    question, where a look-up takes five to each tensor. The answer is no inside a mode or a transform, too.
    """
    places = range(len(args))
    pick = picker(places, [place for place in places if isinstance(args[place], Tensor)])
    pick_others = picker(places, [place for place in places if not isinstance(args[place], Tensor)])
    others, past_16 = pick_others(args), [address & 15 for address in addresses]
    device = pick(args)[0].get_device()
    alike = guards.TensorGuards(*pick(args), dynamic_dims_sizes=None, dynamic_dims_strides=None).check

    def repeat_this(args):
        tensors = pick(args)
        if not alike(*tensors) or not all(map(is_, pick_others(args), others)):
            return UNLIKE
        addresses = [*map(Tensor.data_ptr, tensors)]
        if [address & 15 for address in addresses] != past_16 or not may_repeat(device) or profiled():
            return UNLIKE
        return repeat(addresses)

    return repeat_this


def may_repeat(device: int) -> bool:
    return not Watch.watching and torch._C._cuda_getDevice() == device and not fills_memory()


class Recorder(TorchDispatchMode):
    """What a call allocates and launches, and whether that is all that it asks of PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.allocated: list[Tensor] = []  # kept, so that no two have the same memory
        self.launches: list[tuple[tuple | list, Again]] = []
        self.only_launches = True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func in ALLOCATIONS:
            self.allocated.append(result)
        elif not func.is_view:
            self.only_launches = False
        return result


def record(kernel: Callable[..., Any], args: tuple, addresses: list[int]) -> tuple[Any, Callable[..., Any] | None]:
    """The result of a call, and what repeats it, (addresses of tensors) → result, or None."""
    recorder = THREAD.recorder = Recorder()
    try:
        with seen(), recorder:
            torch.empty(0)  # a first allocation
            result = kernel(*args)
    finally:
        THREAD.recorder = None
    # Where PyTorch goes past modes, not even that one was seen.
    if not recorder.allocated or not recorder.only_launches or not recorder.launches:
        return result, None
    try:
        return result, repetition([arg for arg in args if isinstance(arg, Tensor)], addresses, recorder, result)
    except LookupError:
        return result, None


def repetition(inputs: list[Tensor], addresses: list[int], recorder: Recorder, result: Any) -> Callable[..., Any]:
    """What repeats a recorded call. LookupError: it is not clear which memory a launch or an output is to have."""
    outputs = [output for output in (result if type(result) is tuple else (result,)) if output is not None]
    owned = [memory(output) for output in outputs]
    whole = [output.untyped_storage().nbytes() == output.numel() * output.itemsize for output in outputs]
    if not all(whole) or len({*owned}) < len(owned) or not {*owned} <= {*map(memory, recorder.allocated)}:
        raise LookupError("an output has not memory of its own")

    # Addresses are numbered: those of the inputs, of the outputs, and of one piece of memory for all else that is allocated.
    starts, scratch = {of: (len(inputs) + number, 0) for number, of in enumerate(owned)}, 0
    for tensor in recorder.allocated:
        if memory(tensor) not in starts:
            starts[memory(tensor)] = len(inputs) + len(outputs), scratch
            scratch += -(-tensor.untyped_storage().nbytes() // ALIGNED) * ALIGNED

    def source(tensor: Tensor) -> tuple[int, int]:
        """The number of an address, and the bytes from there."""
        if memory(tensor) in starts:
            number, start = starts[memory(tensor)]
            return number, start + int(tensor.storage_offset()) * tensor.itemsize
        same = [number for number, arg in enumerate(inputs) if memory(arg) == memory(tensor)]
        same = [number for number in same if addresses[number] == tensor.data_ptr()] or same
        if len(same) != 1:
            raise LookupError("several inputs have this memory, or none has")
        return same[0], tensor.data_ptr() - addresses[same[0]]

    # Launches are given addresses, named by (number, bytes from there), and constants, named by (None, number).
    constants: list[Any] = []

    def name(value: Any) -> tuple[int | None, int]:
        if isinstance(value, Tensor):
            return source(value)
        constants.append(value)
        return None, len(constants)

    wanted = [[name(value) for value in values] for values, _ in recorder.launches]
    used = dict.fromkeys(itertools.chain(*wanted))
    allocations = [(tuple(output.shape), output.stride(), output.dtype) for output in outputs]
    if scratch or any(number == len(inputs) + len(outputs) for number, _ in used):
        allocations.append(((scratch,), (1,), torch.uint8))
    starting = [(number, 0) for number in range(len(inputs) + len(allocations))]
    within = [(number, distance) for number, distance in used if number is not None and distance]
    names = [*starting, *within, *(one for one in used if one[0] is None)]
    launches = [(again, picker(names, each)) for each, (_, again) in zip(wanted, recorder.launches, strict=True)]
    allocate = getattr(guards, f"_empty_strided_{inputs[0].device.type}")  # half the cost of torch.empty_strided
    several = type(result) is tuple and itemgetter(*(-1 if of is None else owned.index(memory(of)) for of in result))

    def repeat(addresses):
        made = [*itertools.starmap(allocate, allocations)]
        addresses += map(Tensor.data_ptr, made)
        for number, distance in within:
            addresses.append(addresses[number] + distance)
        known = (*addresses, *constants)
        for again, pick in launches:
            again(pick(known))
        return several((*made, None)) if several else made[0] if owned else None

    return repeat


def memory(tensor: Tensor) -> int:
    """The same for tensors that share their memory."""
    return tensor.untyped_storage()._cdata
