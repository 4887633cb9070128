"""Points of no list: shapes and dtypes drawn from a seed, at which the best rungs of levels 4 and 5 are timed beside peers.

Bench cases are few, and kernels are tuned at them. What is drawn has few rows and many, odd widths and float32 among it, and
two who draw with one seed time the same points.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from kernels.measure.bench import Point
from kernels.measure.contestants import DIRECTIONS, default_variants
from kernels.operation import Case, Operation, Variant
from kernels.row_cases import DTYPES

ROWS = (1, 131_072)
WIDTHS = (17, 131_072)
MOST_ELEMENTS = 2**28
COMPILED = 6
"""At so many points torch.compile takes part: it compiles anew for each."""


def drawn(op: Operation, count: int, seed: int) -> list[Point]:
    """So many points of an operation. A matrix has rows and a width between the bounds, both log-uniform, and one of
    `row_cases.DTYPES`; of other tensors the last dimension is a bench case's, and the others are at most its. Where an
    operation names the layers of models, what is drawn is a layer and the rows that it is given.

    Raises:
        ValueError: the operation has no bench case without sizes but of two dimensions.
    """
    layers = op.cases.get("layers")
    templates = layers or [case for case in op.cases["bench"] if len(case.shape) == 2 or not case.sizes]
    if not templates:
        raise ValueError(f"{op.name}: no shapes are drawn of it; time its bench cases")
    dice = random.Random(f"{op.name} {seed}")
    without_compiler = replace(op, peers=tuple(peer for peer in op.peers if peer.name != "torch.compile"))
    found = []
    for number, case in enumerate(islice(_cases(templates, dice, bool(layers)), count)):
        direction = dice.choice(DIRECTIONS) if op.backward_cost else DIRECTIONS[0]
        found.append(Point(op if number < COMPILED else without_compiler, case, direction, _best(op, direction)))
    return found


def _cases(templates: Sequence[Case], dice: random.Random, rows_alone: bool) -> Iterator[Case]:
    while True:
        template = dice.choice(templates)
        bounds = [ROWS, WIDTHS] if len(template.shape) == 2 else [(1, most) for most in template.shape[:-1]]
        if rows_alone:
            bounds = [ROWS]
        drawn = tuple(round(math.exp(dice.uniform(*map(math.log, both)))) for both in bounds)
        shape = (*drawn, *template.shape[len(drawn) :])
        dtype = template.dtype if rows_alone or template.dtype not in DTYPES else dice.choice(DTYPES)
        rows = max(math.prod(shape[:-1]), *template.sizes.values(), 1)
        if rows * shape[-1] <= MOST_ELEMENTS:
            yield replace(template, shape=shape, dtype=dtype)


def _best(op: Operation, direction: str) -> tuple[Variant, ...]:
    """The last rung of levels 4 and 5 in a direction."""
    rungs = default_variants(op, direction, "cuda")
    return tuple({variant.level: variant for variant in rungs if variant.level in (4, 5)}.values())
