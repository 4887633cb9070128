"""A softmax in two readings: largest value and sum of a row found together, and merged by threads, lanes and warps."""

from __future__ import annotations

import torch

from kernels.grading import properties
from kernels.grading.exercise import Call, Exercise
from kernels.grading.far_apart import ends_only
from kernels.grading.properties import counters, load_balance, scratch_memory, termination
from kernels.grading.properties.wide_index import BEYOND, also_far, size_t

_THREADS, _WARPS = 256, 8


def _call(random: torch.Generator, M: int, N: int, kind: str = "normal") -> Call:
    x = 3 * torch.randn(2 if kind == "ends" else M, N, generator=random)  # the first row and the last
    if kind == "large":  # in turn far above 0 and far below
        x += torch.where(torch.arange(M) % 2 == 0, 1e4, -1e6)[:, None]
    if kind == "lowest":  # of such values, one is equal to the largest, or adds nothing
        x = torch.full((M, N), -3.402e38)
        x[:, N // 5 :: 7] = -3.401e38
        x[-1] = torch.finfo(torch.float32).min  # of the whole row
    if kind == "small":  # but for one value, all are so far below it that only together they are a share of the sum
        x = -20 - 0.5 * torch.rand(M, N, generator=random)
        x[:, N // 3] = 0.0
    if kind == "infinite":  # most of a row is masked, for many threads all of it; another column is left in each row
        left = torch.arange(M) % N
        kept = x[torch.arange(M), left]
        x[:, : N - N // 4], x[:, 1::3] = -torch.inf, -torch.inf
        x[torch.arange(M), left] = kept
    return Call(
        {"y": torch.empty_like(x), "x": x, "N": N},
        expected={"y": torch.softmax(x.double(), 1)},
        baseline={"y": torch.softmax(x, 1)},
        grid=(M,),
        block=(_THREADS,),
        **(ends_only(M, y=(N,), x=(N,)) if kind == "ends" else {}),
    )


EXERCISES = (
    Exercise(
        name="online_softmax",
        language="cuda",
        call=_call,
        cases={
            "even": {"M": 6, "N": 1024},
            "odd": {"M": 3, "N": 777},
            "long": {"M": 2, "N": 2503},
            "wide": {"M": 1, "N": 40_008},  # no shared memory holds it without asking
            "short": {"M": 5, "N": 7},
            "a warp's": {"M": 4, "N": 32},
            "large": {"M": 4, "N": 512, "kind": "large"},
            "lowest": {"M": 2, "N": 300, "kind": "lowest"},
            "small": {"M": 1, "N": 40_000, "kind": "small"},
            "infinite": {"M": 3, "N": 600, "kind": "infinite"},
            "ends": {"M": BEYOND // 1000, "N": 1000, "kind": "ends"},
        },
        unwatched=("ends",),
        drawn={
            "even": {"M": range(4, 10), "N": range(1280, 3073, 256)},
            "odd": {"M": range(1, 6), "N": range(257, 1024)},
            "long": {"N": range(5_001, 9_000, 2)},
            "short": {"M": range(1, 9), "N": range(1, 256)},
            "large": {"N": range(300, 900)},
            "lowest": {"N": range(8, 600)},
            "infinite": {"N": range(400, 900)},
        },
        properties=(
            properties.stays_inside(
                hint="A thread takes elements threadIdx.x, threadIdx.x + blockDim.x and so on, below N. How long may a "
                "row be that you keep? And a float4 begins at a multiple of four floats: for which N do all rows?"
            ),
            termination.reaches_barriers(
                hint="Every lane that a shuffle's mask names has to take part in it, and every thread of the block has to "
                "reach the barrier, those without an element among them."
            ),
            termination.finishes(),
            properties.ordered(hint="One warp reads what the others wrote. What has to come between?"),
            properties.right(
                "even",
                name="each row of y is the softmax of its row of x",
                hint="Whose sum is scaled when two parts meet, and by what? Each by exp of its own largest value, less "
                "the largest of both. And all threads need the two numbers of the whole row. What is NaN was not written, or "
                "comes of infinity minus infinity or infinity times 0.",
            ),
            properties.right(
                "odd",
                "long",
                "wide",
                "short",
                "a warp's",
                name="also for rows that are not multiples of the block",
                hint="A thread without an element still has a part. With which largest value and which sum does it change "
                "no other? Infinity less infinity is NaN.",
            ),
            properties.right(
                "large",
                name="also where all values are far from 0",
                hint="exp of 1e4 is infinite, and exp of -1e4 is 0. Which value has to be taken away before, in every row?",
            ),
            properties.right(
                "small",
                name="also where thousands of small terms are a share of the sum",
                hint="exp of -20 is 2e-9, and 40,000 of them are 8e-5: none may be left out.",
            ),
            properties.right(
                "lowest",
                name="also where all values are near the lowest float",
                hint="With what do the largest value and the sum begin? No value may lie below the first: neither -1e7 nor "
                "-1e30 is low enough. The lowest finite float is -3.402823466e38f.",
            ),
            properties.right(
                "infinite",
                name="also where some values are −∞",
                hint="A thread may have seen nothing but −∞. Its largest value is then −∞, if it began with that; and "
                "−∞ minus −∞ is NaN. Is there a lowest number that is finite?",
            ),
            counters.fewest_sectors(
                "load",
                "x",
                "even",
                "wide",
                "a warp's",
                name="x is read at most twice, in the fewest sectors",
                times=2.0,
                advice="one reading finds the largest value and the sum together, another writes y; neighbouring threads "
                "read neighbouring elements",
            ),
            counters.fewest_sectors(
                "store",
                "y",
                "even",
                name="y is written once, in the fewest sectors",
                advice="divide before you store",
            ),
            counters.at_most(
                "barriers",
                lambda M, N, **_: M * (4 + N // _THREADS),
                name="no barrier at every step",
                advice="lanes of a warp need none between them, and between warps one or two are enough",
            ),
            load_balance.balanced(
                "x",
                "even",
                "odd",
                "long",
                name="all warps of all blocks share the rows",
                slack=1.5,
                hint="A block handles a row, and each of its threads some of the elements.",
            ),
            scratch_memory.no_scratch_memory(
                name="nothing passes through memory of its own",
                advice="parts go from lane to lane by shuffles, and from warp to warp through shared memory",
            ),
            also_far("ends", hint=size_t("blockIdx.x * N")),
        ),
    ),
)
