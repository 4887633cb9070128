"""A matrix product by tiles: a block's in shared memory, a thread's in registers, counted for each multiply-add."""

from __future__ import annotations

from collections.abc import Callable

import torch

from kernels.grading import properties
from kernels.grading.exercise import Call, Exercise, Property, Trial
from kernels.grading.properties import counters, load_balance, scratch_memory, termination
from kernels.hardware import WARP
from kernels.lens import Access
from kernels.lens.rendering import in_words

_SIDE = 64  # the launch: a block of 16 × 16 threads for each tile of 64 × 64 elements of y
_DEEPEST = 32  # of the tiles of x and w, as far as the bounds grant it
_FEWEST_BYTES = 2 * 4 / _SIDE  # a multiply-add: every number of a block's rows and columns once
_MOST_PASSES = 0.7  # a warp's multiply-add. 4 × 4 outputs a thread take 0.5, 2 × 8 take 0.63, and one output takes 2
_CONFLICTS = 1.15  # times the fewest wavefronts: filling, which is seldom, may take some more
# Times the fewest sectors of each request: a number that lanes share may lie in two rows. And where rows begin anywhere, so
# that four neighbours cannot be loaded at once.
_SLACK, _ELSEWHERE = 1.4, 5


def _call(random: torch.Generator, M: int, N: int, K: int, kind: str = "normal") -> Call:
    x, w = torch.randn(M, K, generator=random), torch.randn(K, N, generator=random)
    if kind == "infinite":  # in the last k, and in one that lies in a tile where another tile ends
        for at in (15, K - 1):
            x[at % M, at], w[at, at % N] = torch.inf, torch.inf
            x[(at + 5) % M, at], w[at, (at + 3) % N] = 0, 0  # 0 · ∞, either way
        x[8:12], w[:, 8:12], w[:, 24:28] = 0, 0, 0  # all that a thread has of x, or of w
        x[3, 0] = torch.inf  # which follows row 2 in memory, where a tile reaches beyond K
        x[7, 15], x[7, K - 1], w[15, 2], w[K - 1, 2] = torch.inf, -torch.inf, 1, 1  # ∞ - ∞
    if kind == "zeros":  # all that a block has of x at some k, or of w
        x[:, :_DEEPEST], w[_DEEPEST:] = 0, 0
        w[7, 2], x[3, -7] = torch.inf, torch.inf
    return Call(
        {"y": torch.empty(M, N), "x": x, "w": w, "M": M, "N": N, "K": K},
        expected={"y": x.double() @ w.double()},
        baseline={"y": x @ w},
        grid=(-(-N // _SIDE), -(-M // _SIDE)),
        block=(16, 16),
    )


def _multiply_adds(trial: Trial) -> int:
    """Those of whole tiles."""
    return trial.call.grid[0] * trial.call.grid[1] * _SIDE**2 * -(-trial.sizes["K"] // _DEEPEST) * _DEEPEST


def _loads(trial: Trial, space: str) -> list[Access]:
    return [one for one in trial.accesses if (one.kind, one.space) == ("load", space)]


def _asked(trial: Trial) -> str | None:
    loads, work = _loads(trial, "global"), _multiply_adds(trial)
    if (asked := sum(one.bytes for one in loads) / work) <= _FEWEST_BYTES:
        return None
    worst = max(loads, key=lambda one: one.bytes)
    return (
        f"{asked:.3g} bytes of x and w are asked for at each multiply-add, where {_FEWEST_BYTES:.3g} would do; most by line "
        f"{worst.line}, which reads {', '.join(worst.names)}: a block loads each number that it needs once, into shared memory"
    )


def _moved(trial: Trial) -> str | None:
    loads = _loads(trial, "global")
    most = _SLACK if trial.case == "even" else _ELSEWHERE
    if sum(one.sectors for one in loads) <= most * sum(one.fewest_sectors for one in loads):
        return None
    worst = max(loads, key=lambda one: one.sectors - one.fewest_sectors)
    return (
        f"{in_words(worst, ', '.join(worst.names))}\nneighbouring threads should load neighbours of a row, and eight or more "
        "of each row at a time"
    )


def _conflicts(trial: Trial) -> str | None:
    shared = [one for one in trial.accesses if one.space == "shared"]
    fewest = [one.requests * max(1, one.width // 4) for one in shared]  # four for a float4, also where lanes share it
    if sum(one.wavefronts for one in shared) <= _CONFLICTS * sum(fewest):
        return None
    worst, least = max(zip(shared, fewest, strict=True), key=lambda pair: pair[0].wavefronts - pair[1])
    verb = "reads" if worst.kind == "load" else "writes"
    each, would_do = worst.wavefronts / worst.requests, least / worst.requests
    return (
        f"line {worst.line} {verb} {', '.join(worst.names)}: a request of a warp takes {each:.3g} wavefronts, and "
        f"{would_do:.3g} would do; its lanes use different words of one bank"
    )


def _passes(trial: Trial) -> str | None:
    loads, work = _loads(trial, "shared"), _multiply_adds(trial) / WARP
    if not loads:
        return "no line reads shared memory"
    shuffles = sum(trace.shuffles or 0 for trace in trial.traces)
    if (passes := (sum(one.wavefronts for one in loads) + shuffles) / work) <= _MOST_PASSES:
        return None
    most = max(loads, key=lambda one: one.wavefronts)
    return (
        f"{passes:.3g} wavefronts and shuffles for each multiply-add of a warp, where 0.5 would do; most by line {most.line}, "
        f"which reads {', '.join(most.names)}: a thread that owns 4 × 4 outputs reads 8 numbers for 16 multiply-adds, if it "
        "keeps them in variables of its own"
    )


def _counted(
    name: str, broken: Callable[[Trial], str | None], hint: str, cases: tuple[str, ...] = ("even", "odd", "deep")
) -> Property:
    return counters.counted(name, cases, broken, hint)


EXERCISES = (
    Exercise(
        name="tiled_matmul",
        language="cuda",
        call=_call,
        cases={
            "even": {"M": 128, "N": 128, "K": 32},
            "odd": {"M": 67, "N": 35, "K": 41},
            "deep": {"M": 9, "N": 5, "K": 300},
            "thin": {"M": 1, "N": 130, "K": 20},
            "one": {"M": 65, "N": 1, "K": 1},
            "infinite": {"M": 20, "N": 30, "K": 21, "kind": "infinite"},
            "zeros": {"M": 5, "N": 6, "K": 2 * _DEEPEST, "kind": "zeros"},
            "empty": {"M": 3, "N": 66, "K": 0},
            "large": {"M": 263, "N": 301, "K": 260},  # more than 2^16 elements each, and 5 × 5 blocks
        },
        drawn={
            "even": {"M": range(64, 129, 64), "N": range(128, 193, 64), "K": range(32, 65, 32)},
            "odd": {"M": range(65, 128), "N": range(33, 64), "K": range(33, 64)},
            "deep": {"M": range(1, 64), "N": range(1, 64), "K": range(129, 250)},
            "thin": {"M": range(1, 9), "N": range(65, 190), "K": range(1, 33)},
        },
        unwatched=("large",),
        properties=(
            properties.stays_inside(
                hint="A row of x has K numbers, a row of w and of y has N. The last tiles reach past the edges of x, w and y, "
                "and the last step past K: ask before each access whether its own row and column are inside. And if the access "
                "is misaligned: a float4 begins at a multiple of four floats. For which K do all rows of x, and for which N "
                "those of w?"
            ),
            termination.reaches_barriers(
                hint="A thread without an output still loads for others, and every thread of the block has to reach the "
                "barriers. Guard the access, not the thread."
            ),
            termination.finishes(),
            properties.ordered(
                hint="A tile is read by threads that have not written it, and is then overwritten. What has to come between, "
                "each time?"
            ),
            properties.written(
                "every element of y is written", hint="Which thread writes this element? Also where K is 0."
            ),
            properties.right(
                "even",
                name="y is the product of x and w",
                hint="y[i][j] is the sum over k of x[i][k] · w[k][j]. A row of x has K numbers, a row of w and of y has N. "
                "With what do the sums begin, are they kept from tile to tile, and with which k does a tile begin?",
            ),
            properties.right(
                "odd",
                "deep",
                "thin",
                "one",
                "large",
                name="also for sizes that are not multiples of a tile",
                hint="Where a tile reaches past K, what it holds there must add nothing. And an index is kept in an int: a "
                "float skips numbers beyond 2²⁴.",
            ),
            properties.right("empty", name="also for K of 0", hint="A sum of nothing is 0."),
            properties.right(
                *("infinite", "zeros"),
                name="also where values are infinite",
                hint={
                    "expected nan": "0 · ∞ is NaN, so a product with a 0 must not be left out.",
                    "": "0 · ∞ is NaN. So it is not enough that one of two factors is 0 beyond K: the other must not be a "
                    "number of somewhere else.",
                },
            ),
            _counted(
                "a block loads each number of x and w once",
                _asked,
                "64 × 64 outputs need 64 rows of x and 64 columns of w. All threads of the block copy a piece of both to "
                "shared memory, a barrier, and then all of them read there.",
            ),
            _counted(
                "x and w come in the fewest sectors",
                _moved,
                "The number of a thread in the block is threadIdx.y * 16 + threadIdx.x. Let it run along the rows of the "
                "piece, for both matrices.",
                ("even", "odd"),
            ),
            _counted(
                "hardly any bank conflicts",
                _conflicts,
                "threadIdx.x is the same in two lanes of a warp, and else goes from 0 to 15. In which banks are the words of "
                "neighbouring lanes? Outputs of a thread may lie 16 apart; or pad the rows.",
                ("even", "odd"),
            ),
            _counted(
                "a thread uses what it reads from shared memory several times",
                _passes,
                "At each k, first four numbers of x and four of w into arrays of the thread, then 16 multiply-adds with those.",
            ),
            counters.fewest_sectors(
                "store",
                "y",
                "even",
                name="y is written once, in the fewest sectors",
                advice="sums stay in registers until they are complete, and neighbouring threads store neighbours",
            ),
            counters.at_most(
                "barriers",
                lambda M, N, K, **_: -(-M // _SIDE) * -(-N // _SIDE) * (2 * -(-K // 8) + 2),
                name="two barriers for each piece",
                advice="one between filling and reading, one between reading and the next filling",
            ),
            counters.at_most(
                "atomics",
                lambda **_: 0,
                name="no atomics",
                advice="a thread owns its outputs: no other adds to them",
            ),
            *(
                load_balance.balanced(array, "even", name=f"all warps {verb} {array}", slack=slack, hint=hint)
                for array, verb, slack, hint in (
                    ("x", "load", 2.5, "256 threads copy 64 rows of a piece: four numbers each, if it is 16 wide."),
                    (
                        "w",
                        "load",
                        2.5,
                        "256 threads copy a piece with 64 columns: four numbers each, if it is 16 high.",
                    ),
                    ("y", "store", 1.5, "4,096 outputs are 16 for each of the 256 threads."),
                )
            ),
            scratch_memory.no_scratch_memory(
                name="nothing passes through memory of its own",
                advice="what a block shares is in shared memory, and what a thread keeps in its variables",
            ),
        ),
    ),
)
