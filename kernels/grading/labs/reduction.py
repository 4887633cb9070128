"""The largest value of each row and its place, by one block: shuffles within a warp, shared memory between warps."""

from __future__ import annotations

import torch

from kernels.grading import properties
from kernels.grading.exercise import Call, Exercise
from kernels.grading.far_apart import ends_only
from kernels.grading.properties import counters, load_balance, scratch_memory, termination
from kernels.grading.properties.wide_index import BEYOND, also_far, size_t

_THREADS, _WARPS = 256, 8


def _call(random: torch.Generator, M: int, N: int, kind: str = "normal") -> Call:
    rows = 2 if kind == "ends" else M  # the first and the last
    x = torch.randn(rows, N, generator=random)
    if kind == "normal":  # the largest is in another warp in each of eight rows, at any lane and step
        places = torch.arange(M) % _WARPS * 32 + torch.randint(32, (M,), generator=random)
        places += torch.randint(N // _THREADS, (M,), generator=random) * _THREADS
        x[torch.arange(M), places] = 5 + x.max(1).values
    if kind == "positive":
        x = x.abs()
    if kind == "negative":
        x = -1e30 * (1 + x.abs())
    if kind == "infinite":  # −∞ throughout; but in the last row, the largest finite number, and then ∞
        x[:-1], x[-1] = -torch.inf, torch.finfo(x.dtype).max
        x[-1, N // 2 :] = torch.inf
    if kind == "far":
        x = torch.zeros(M, N)
    if kind in ("late", "far"):
        x[:, -1] = 5 + x.max(1).values
    if kind == "ties":
        # In every other row there are three of the largest, and the first of them is not in the first warp.
        x = torch.randint(0, 3, (M, N), generator=random).float()
        for m in range(0, M, 2):
            x[m, [40 + 32 * m, _THREADS + 3, 2 * _THREADS + 100]] = 9
        x[1, [_THREADS, 2 * _THREADS]] = 9  # in two steps of one thread
        x[:, 3] = 9 - 2**-20  # the float below 9
    if kind == "zeros":  # 0 and −0 are equal
        x = -1 - x.abs()
        x[:, [40, _THREADS + 3]] = torch.tensor([[-0.0, 0.0], [0.0, -0.0]])
    index = (x == x.max(1, keepdim=True).values).int().argmax(1).int()
    value = x[torch.arange(rows), index]
    return Call(
        {"value": torch.empty(rows), "index": torch.empty(rows, dtype=torch.int32), "x": x, "N": N},
        expected={"value": value, "index": index},
        grid=(M,),
        block=(_THREADS,),
        **(ends_only(M, value=(), index=(), x=(N,)) if kind == "ends" else {}),
    )


EXERCISES = (
    Exercise(
        name="row_argmax",
        language="cuda",
        call=_call,
        cases={
            "even": {"M": 16, "N": 1024},
            "odd": {"M": 3, "N": 777, "kind": "positive"},
            "long": {"M": 2, "N": 2503, "kind": "late"},
            "huge": {"M": 1, "N": 70_001, "kind": "late"},
            "short": {"M": 5, "N": 7, "kind": "positive"},
            "negative": {"M": 2, "N": 300, "kind": "negative"},
            "infinite": {"M": 2, "N": 600, "kind": "infinite"},
            "ties": {"M": 4, "N": 1000, "kind": "ties"},
            "zeros": {"M": 2, "N": 300, "kind": "zeros"},
            "far": {"M": 1, "N": (1 << 24) + 2, "kind": "far"},  # no float has the last place
            "ends": {"M": BEYOND // 1000, "N": 1000, "kind": "ends"},
        },
        drawn={
            "even": {"M": range(8, 25), "N": range(1280, 3073, 256)},
            "odd": {"M": range(1, 9), "N": range(257, 1024)},
            "long": {"N": range(10_001, 20_000, 2)},
            "short": {"M": range(1, 9), "N": range(1, 257)},
            "negative": {"N": range(1, 600)},
            "infinite": {"N": range(6, 600)},
        },
        properties=(
            properties.stays_inside(
                hint="A thread takes elements threadIdx.x, threadIdx.x + blockDim.x and so on, below N. "
                "And if the access is misaligned: a float4 begins at a multiple of four floats. For which N do all rows?"
            ),
            termination.reaches_barriers(
                hint="Every lane that a shuffle's mask names has to take part in it, and every thread of the "
                "block has to reach the barrier."
            ),
            termination.finishes(),
            properties.ordered(hint="One warp reads what the others wrote. What has to come between?"),
            properties.written("every row has its result", hint="One thread of each block writes value and index."),
            properties.right(
                "even",
                name="value and index are those of the largest element",
                exact=True,
                hint="A value and its index belong together: take them over together, in each of the three steps.",
            ),
            properties.right(
                "odd",
                "long",
                "short",
                name="also for rows that are not multiples of the block",
                exact=True,
                hint="A thread without an element still takes part. What must it hold, so that it never wins?",
            ),
            properties.right(
                "huge",
                "far",
                name="also for a very long row",
                exact=True,
                hint="An index may be any int. Follow it through all three steps: does it keep its 32 bits? A float has 24.",
            ),
            properties.right(
                "negative",
                name="also where all values are negative",
                exact=True,
                hint="What is smaller than every number?",
            ),
            properties.right(
                "ties",
                "zeros",
                name="of equal values, the first",
                exact=True,
                hint="Neither lanes nor warps meet in the order of positions. Compare the indices, too, when the values are "
                "equal; −0 is equal to 0, and neighbouring floats are not.",
            ),
            properties.right(
                "infinite",
                name="also where values are infinite",
                exact=True,
                hint={
                    "expected inf": "∞ is greater than every number, and may come after the largest. Does a thread see all "
                    "of its elements?",
                    "": "Where all values are −∞, none is greater. How does the first element of a thread get into its pair? "
                    "And ∞ is equal to ∞, but ∞ − ∞ is not 0.",
                },
            ),
            counters.fewest_sectors(
                "load",
                "x",
                "even",
                ragged=("odd", "long"),
                name="x is read in the fewest sectors",
                times=1.1,  # so that the best element may be read once more
                advice="in one step, neighbouring threads should read neighbouring elements, and each element is read once",
            ),
            counters.at_most(
                "shared_store_wavefronts",
                lambda M, **_: 2 * M * _WARPS,
                name="a warp writes one pair to shared memory",
                advice="within a warp, pass values and indices by shuffles",
            ),
            counters.at_most(
                "shuffles",
                lambda M, **_: 2 * M * 2 * 5 * _WARPS,  # of value and index, twice five steps, in all warps
                name="five steps within a warp",
                advice="in each step a lane takes over what half of those that are left have: 16, 8, 4, 2 and 1 lanes apart",
            ),
            counters.at_most(
                "atomics",
                lambda M, **_: 2 * M * _WARPS,
                name="lanes do not meet by atomics",
                advice="lanes that update one word take turns; within a warp, pass values and indices by shuffles",
            ),
            counters.at_most(
                "barriers",
                lambda M, **_: 2 * M,
                name="at most two barriers a row",
                advice="the lanes of a warp need none between them",
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
                name="nothing passes through global memory",
                advice="pairs go from lane to lane by shuffles, and from warp to warp through shared memory",
            ),
            also_far("ends", hint=size_t("blockIdx.x * N"), exact=True),
        ),
        unwatched=("far", "ends"),
        bench={"M": 4096, "N": 4096},
        peer=lambda x, **_: [one.to(kind) for one, kind in zip(x.max(1), (torch.float32, torch.int32), strict=True)],
    ),
)
