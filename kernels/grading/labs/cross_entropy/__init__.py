"""Cross-entropy and its gradient in one kernel: a row's loss by one reading of its logits, and dx by another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from kernels.grading import properties
from kernels.grading.exercise import Exercise, Property, Trial
from kernels.grading.labs.cross_entropy import costs, large
from kernels.grading.labs.cross_entropy.calls import DX_LIKES, IGNORED, LOSS_LIKES, WIDEST, call
from kernels.grading.properties import counters, known_mistakes, launches, load_balance, scratch_memory
from kernels.grading.properties.rounding import rounded_once
from kernels.grading.python import devices, triton_compile


def _loss(*cases: str, name: str, hint: str) -> Property:
    """Judged before dx is written, so that the loss can be finished first."""
    return replace(known_mistakes.right("loss", cases=cases, name=name, likes=LOSS_LIKES, hint=hint), stage="writes")


_dx = partial(known_mistakes.right, "dx", likes=DX_LIKES)


def _counted(name: str, broken: Callable[[Trial], str | None], hint: str, *cases: str) -> Property:
    return counters.counted(name, cases, broken, hint)


def _shared(name: str, hint: str) -> Property:
    return load_balance.balanced("x", "even", "odd", name=name, least=4, hint=hint)


_ALWAYS: Sequence[str] = ("even", "odd", "long", "wide", "short", "one")

EXERCISES = (
    Exercise(
        name="cross_entropy",
        language="triton",
        call=call,
        cases={
            "even": {"M": 6, "N": 8192},
            "odd": {"M": 5, "N": 777},
            "long": {"M": 2, "N": 9001},
            "wide": {"M": 1, "N": 2 * WIDEST + 7_001},  # more than 16 bits count
            "short": {"M": 7, "N": 5},
            "one": {"M": 1, "N": 1},
            "ignored": {"M": 8, "N": 300, "kind": "ignored"},
            "all ignored": {"M": 3, "N": 64, "kind": "all ignored"},
            "no class": {"M": 9, "N": 100, "kind": "no class"},
            "far": {"M": 4, "N": 512, "kind": "far"},
            "lowest": {"M": 3, "N": 300, "kind": "lowest"},
            "infinite": {"M": 3, "N": 600, "kind": "infinite"},
            "masked": {"M": 1, "N": WIDEST + 5_000, "kind": "masked"},
            "float16": {"M": 5, "N": 400, "dtype": "float16"},
            "bfloat16": {"M": 5, "N": 400, "dtype": "bfloat16"},
            "again": {"M": 8, "N": 300},  # as where rows were ignored
        },
        drawn={
            "even": {"M": range(4, 9), "N": range(5120, 9217, 1024)},
            "odd": {"M": range(4, 9), "N": range(513, 1024)},
            "long": {"N": range(8_193, 12_000, 2)},
            "short": {"M": range(1, 9), "N": range(2, 100)},
            "ignored": {"M": range(5, 12), "N": range(200, 500)},
            "no class": {"N": range(60, 300)},
            "far": {"M": range(2, 7), "N": range(300, 900)},
            "infinite": {"N": range(400, 900)},
        },
        properties=(
            properties.stays_inside(
                hint="The last block of a row has lanes beyond it, which need a mask. And which load goes by the target? "
                "That may be no class at all."
            ),
            triton_compile.finishes({"['fp32', 'fp64'] but got": "convert what was loaded: tl.load(…).to(tl.float32)"}),
            triton_compile.compiles(),
            devices.together(),
            properties.inputs_unchanged(),
            _loss(
                "even",
                name="loss is the log-sum-exp less the logit at the target",
                hint="What is NaN was not written, or comes of infinity minus infinity. The sum so far is scaled by exp of "
                "the old largest value less the new one, and only then added to.",
            ),
            _loss(
                "odd",
                "long",
                "wide",
                "short",
                "one",
                name="loss: for any number of classes",
                hint="A lane beyond the row must change neither the largest value nor the sum. Which logit does neither? And "
                "from the second block on, the sum so far has to be scaled.",
            ),
            _loss(
                "ignored",
                "all ignored",
                name=f"loss: 0 where the target is {IGNORED}",
                hint="Such a row has no logit at its target, but its loss has to be stored: tl.where(condition, a, b) chooses.",
            ),
            _loss(
                "no class",
                name="loss: NaN where the target is no class",
                hint="Classes are 0 to N - 1. A target is 64 bits wide. `other` of a load may be NaN.",
            ),
            _loss(
                "far",
                "lowest",
                name="loss: where all logits are far from 0",
                hint="exp of 1e4 is infinite. The largest logit so far begins with the lowest finite float. And a float32 near "
                "1e4 has three digits behind the point: of the largest value and the logit at the target, take the "
                "difference first, then add the log.",
            ),
            _loss(
                "infinite",
                "masked",
                name="loss: where some logits are −∞",
                hint="The first blocks may hold nothing but −∞. −∞ minus −∞ is NaN; the lowest finite float is a better "
                "start. And what does the loss become where the target is −∞?",
            ),
            _loss(
                "float16",
                "bfloat16",
                name="loss: float32, also of float16 and bfloat16",
                hint="Convert the logits as they are loaded.",
            ),
            replace(
                launches.written(*_ALWAYS, name="every element of dx is written", hint="A second loop over the row."),
                stage="right",
            ),
            _dx(
                cases=["even"],
                name="dx is the gradient of the mean loss",
                hint="The softmax less one at the target, divided by the number of rows that count. The logits are read "
                "once more, when largest value and sum are known.",
            ),
            _dx(
                cases=["odd", "long", "wide", "short", "one"],
                name="dx: for any number of classes",
                hint="In which column is a lane of the last block?",
            ),
            _dx(
                cases=["ignored", "all ignored"],
                name="dx: ignored rows do not count, and get zeros",
                hint="The mean is over rows that are not ignored. If there are none, 1 / 0 is infinite, and 0 · ∞ is NaN: "
                "choose by tl.where, not by a product.",
            ),
            replace(
                _counted(
                    "dx: the count holds for any number of rows",
                    costs.narrow_count,
                    "By default, sum() of booleans is a number of 64 bits.",
                    "even",
                    "float16",
                    "bfloat16",
                ),
                stage="right",
            ),
            _dx(
                cases=["no class"],
                name="dx: NaN where the target is no class",
                hint="All of its row. The row is not ignored, and so it counts.",
            ),
            _dx(
                cases=["far", "lowest"],
                name="dx: where all logits are far from 0",
                hint="A log-sum-exp near 1e4 has three digits behind the point. What do you know of the row that is small?",
            ),
            _dx(
                cases=["infinite", "masked"],
                name="dx: where some logits are −∞",
                hint="exp of −∞ is 0, and a gradient is finite even where the loss is not.",
            ),
            _dx(
                cases=["float16", "bfloat16"],
                name="dx: in the dtype of x",
                hint="Compute in float32, and let tl.store round.",
            ),
            rounded_once(
                "dx",
                "float16",
                "bfloat16",
                name="dx: rounded once",
                hint="Until tl.store, all is float32: the softmax, too, and the count.",
            ),
            known_mistakes.right(
                "loss", "dx", cases=["again"], name="also for other values in the same shape", likes={}
            ),
            properties.without(
                "race",
                name="no program depends on another",
                stage="right",
                hint="Programs run in any order, and at the same time. What one needs of all targets is counted before.",
            ),
            _counted(
                "it is one kernel",
                costs.one_kernel,
                "Two loops in one kernel: the second follows when the first has found largest value and sum.",
            ),
            _counted(
                "PyTorch only counts targets",
                costs.little_else,
                "torch.empty and torch.empty_like write nothing; (target != -100).sum() is small.",
                "even",
            ),
            _counted(
                "the host never waits for the GPU",
                costs.never_waits,
                "Hand the count to the kernel as a tensor of one element, and let the kernel load it.",
            ),
            _counted(
                "x is read at most twice, in the fewest sectors",
                costs.reads,
                "Largest value and sum come of one reading: when a larger value turns up, scale the sum. The gradient takes "
                "the other.",
                "even",
                "odd",
                "long",
                "wide",
            ),
            _counted(
                "an ignored row is not read",
                costs.ignored_is_read,
                "Load with a mask that no lane of such a row passes, or leave the loop out. And which load goes by the target?",
                "ignored",
                "all ignored",
            ),
            launches.written_once(
                "dx", cases=["even"], name="dx is written once", advice="compute in variables, and store the result"
            ),
            _counted(
                f"a block has at most {WIDEST:,} logits",
                costs.wide_block,
                "Choose one block size, and let a longer row take more turns of the loop.",
                "wide",
                "masked",
            ),
            _shared("the programs share the rows", hint="A program for each row: grid = (M,)."),
            large.launched_for_all(
                "many rows are launched, too",
                hint="The first axis of a grid takes 2³¹ - 1 programs, the others 65,535 each.",
            ),
            scratch_memory.no_scratch_memory(
                "even",
                "ignored",
                name="no copies of x",
                advice="between the loops, two numbers of a row stay in variables",
                most=lambda trial: trial.call.args["x"].nbytes // 4,
            ),
        ),
        observe=large.observed,
        prelude="import torch, triton, triton.language as tl",
        seconds=60,
    ),
)
