"""A square matrix transposed in place: two tiles change places through shared memory, and no one reads what is overwritten."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from kernels.grading import properties
from kernels.grading.exercise import Call, Exercise, Property, Trial
from kernels.grading.properties import counters, load_balance, scratch_memory, termination

_TILE, _ROWS = 32, 8  # the launch: a block of 32 × 8 threads for each tile of 32 × 32 elements


def _call(random: torch.Generator, N: int, ends: bool = False) -> Call:
    """ends: only the first tile and the last are there, and as wide as the last."""
    x = torch.randn((2, N % _TILE, N % _TILE) if ends else (N, N), generator=random)
    x[torch.rand(x.shape, generator=random) < 1 / 8] *= 0  # or −0, which is another
    tiles = -(-N // _TILE)
    return Call(
        {"x": x, "N": N},
        expected={"x": x.mT.contiguous()},
        updated=("x",),
        grid=(tiles, tiles),
        block=(_TILE, _ROWS),
        strides={"x": ((tiles - 1) * _TILE * (N + 1), N, 1)} if ends else {},
        ends_only=ends,
    )


def _unchanged(trials: Sequence[Trial]) -> str | None:
    same = all(torch.equal(trial.outputs["x"], trial.call.args["x"]) for trial in trials)
    return "x is unchanged: no element was moved" if same else None


_same = partial(properties.right, exact=True, signed=True)
EXERCISES = (
    Exercise(
        name="transpose_in_place",
        language="cuda",
        call=_call,
        cases={
            "even": {"N": 96},
            "odd": {"N": 70},
            "small": {"N": 5},
            "large": {"N": 130},
            "thin": {"N": 33},
            "edges": {"N": 63},  # most of it
            "many": {"N": 46_335, "ends": True},  # nearly 2³¹ elements
        },
        unwatched=("many",),
        drawn={"even": {"N": range(128, 257, 32)}, "odd": {"N": range(33, 128)}, "large": {"N": range(400, 600)}},
        properties=(
            properties.stays_inside(
                hint={
                    "misaligned": "A float4 begins at a multiple of four floats. For which N do the rows of x?",
                    "of an array of": "A tile has 32 rows of 32 elements, and padding comes on top of them.",
                    "": "The last tiles extend past the edge: guard every access with its own row and column.",
                }
            ),
            termination.reaches_barriers(
                hint="All threads of a block have to reach a barrier, or none. Whole blocks may leave before it."
            ),
            termination.finishes(),
            properties.without(
                "race",
                name="no race",
                hint="Between threads of one block a barrier helps. Between blocks nothing does: a block may "
                "write only to elements that it has read itself.",
            ),
            Property("x is changed", _unchanged, "writes"),
            _same(
                "even",
                name="x becomes its transpose",
                hint="Which two tiles change places? And which tile does one on the diagonal change places with?",
            ),
            properties.without(
                "uninitialised read",
                stage="right",
                name="no element of a tile is read that was never written",
                hint="The element at row r and column c of x goes to row c and column r. The same condition holds for both.",
            ),
            _same(
                *("odd", "small", "large", "thin", "edges"), name="also for sizes that are not multiples of the tile"
            ),
            _same(
                "many",
                name="also for millions of elements",
                hint="A place in x has up to 31 bits, and a row up to 16: an int holds them, a float or a short does not. "
                "Only the first block and the last run: x[1] is the last tile.",
            ),
            counters.fewest_sectors(
                "load",
                "x",
                "even",
                ragged=("odd", "large", "thin", "edges"),
                name="x is read once, in the fewest sectors",
                advice="neighbouring threads (threadIdx.x) should read neighbours of a row, and each tile once",
            ),
            counters.fewest_sectors(
                "store",
                "x",
                "even",
                ragged=("odd", "large", "thin", "edges"),
                name="x is written once, in the fewest sectors",
                advice="neighbouring threads (threadIdx.x) should write neighbours of a row, and each tile once",
            ),
            counters.no_bank_conflicts(
                name="no two lanes use different words of one bank",
                advice="its lanes use different words of one bank",
                hint="In which banks do the elements of a column lie? Padding or a swizzle separates them.",
            ),
            load_balance.balanced("x", hint="The launch has a block for every tile. Which tiles does a block move?"),
            scratch_memory.no_scratch_memory(
                name="there is no second matrix", advice="keep what has to wait for its place in shared memory"
            ),
        ),
        bench={"N": 4096},
        peer=lambda x, N: x.copy_(x.T.clone()),
    ),
)
