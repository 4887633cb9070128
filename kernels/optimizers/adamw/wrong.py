"""Deliberately wrong steps of AdamW, which the check must reject."""

from collections.abc import Callable
from pathlib import Path

from kernels.operation import Variant
from kernels.optimizers.adamw.cuda import each
from kernels.optimizers.adamw.native import adamw, one_by_one
from kernels.unsupported import needs_compiler, never
from kernels.wrong import edited


def coupled(p, g, m, v, keep, *step) -> None:
    adamw(p, g + (1 - keep) * p, m, v, 1.0, *step)  # as if lr were 1


def without_correction(p, g, m, v, keep, beta1, beta2, size, root, eps) -> None:
    adamw(p, g, m, v, keep, beta1, beta2, size, 1.0, eps)


def eps_inside(p, g, m, v, keep, beta1, beta2, size, root, eps) -> None:
    before = p.float()
    adamw(p, g, m, v, keep, beta1, beta2, 0.0, root, eps)
    p.copy_(before * keep - size * m / ((v / root**2 + 0.1).sqrt()))


def without_decay(p, g, m, v, keep, *step) -> None:
    adamw(p, g, m, v, 1.0, *step)


def narrow_state(p, g, m, v, *step) -> None:
    adamw(p, g, m, v, *step)
    m.copy_(m.bfloat16())
    v.copy_(v.bfloat16())


def wrong(name: str, idea: str, of: Callable[..., None]) -> Variant:
    return Variant(1, name, one_by_one(lambda: of), idea, (Path(__file__),), never)


SHORT = edited(each, "if (i < n) update", "if (i < n / 2 * 2) update")
UPDATES = (
    wrong("coupled-decay", "adds the decay to the gradient, as Adam does", coupled),
    wrong("no-correction", "takes v as it is, which is small at first", without_correction),
    wrong("large-eps-inside", "adds a large eps under the root", eps_inside),
    wrong("no-decay", "forgets the decay", without_decay),
    wrong("narrow-state", "rounds the states to bfloat16", narrow_state),
    Variant(5, "short", SHORT, "leaves out the last of an odd number", (Path(__file__),), needs_compiler),
)
