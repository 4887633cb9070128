"""What the toys share: inputs, cases, launches and the record."""

from pathlib import Path

import torch

from kernels.case import Case, Cost
from kernels.cuda import RawModule
from kernels.operation import Operation, Peer, Variant
from kernels.unsupported import needs_compiler, needs_interpreter

CUDA = RawModule(path=Path(__file__).with_name("toys.cu"))
C_TYPES = {torch.float32: "float", torch.bfloat16: "__nv_bfloat16"}
FLOATS = ("float32", "bfloat16")


def normal(case, *shapes, device):
    """Normal random numbers of the case's seed and dtype."""
    random = torch.Generator().manual_seed(case.seed)
    found = [torch.randn(shape, generator=random).to(device, getattr(torch, case.dtype)) for shape in shapes]
    return found if len(found) > 1 else found[0]


def run(name, threads, *args):
    """A kernel of toys.cu with so many threads, in blocks of 64."""
    if threads:
        CUDA.get_function(name)(((threads + 63) // 64,), (64,), args)


def cases(*shapes, sizes=None, params=None):
    more = {"sizes": sizes or {}, "params": params or {}}
    edge = tuple(Case(shape, dtype, **more) for shape in shapes[:-1] for dtype in FLOATS)
    last = tuple(Case(shapes[-1], dtype, **more) for dtype in FLOATS)
    return {"edge": edge, "model": last, "bench": last[1:]}


def toy(name, reference, baseline, make_inputs, native, kernel, wrong, level=5, **fields):
    """The record of two variants, one of them of level 1, and a wrong one."""
    unsupported = needs_compiler if level == 5 else needs_interpreter
    return Operation(
        name=name,
        reference=reference,
        baseline=baseline,
        make_inputs=make_inputs,
        forward=(Variant(1, "eager", native, "", ()), Variant(level, "row", kernel, "", (), unsupported)),
        wrong=(Variant(1, "wrong", wrong, "", ()),),
        peers=(Peer("torch", lambda: baseline),),
        cost=lambda case: Cost(1024, 1024),
        backward_cost=(lambda case: Cost(1024, 1024)) if fields.get("gradients") else None,
        **({"gradients": ()} | fields),
    )
