"""The forward of attention in one kernel, which walks over blocks of keys and never has a whole row of scores."""

from __future__ import annotations

from functools import partial

from kernels.grading import properties
from kernels.grading.exercise import Exercise
from kernels.grading.labs.attention import costs, large, products
from kernels.grading.labs.attention.calls import ALONE, BEGINS, BEYOND, FORMULA, LSE, MASK, OFFSET, call
from kernels.grading.properties import known_mistakes, launches, scratch_memory
from kernels.grading.python import devices, triton_compile

_FULL, _CAUSAL = ("even", "odd"), ("causal", "more keys", "more queries")
_both = partial(known_mistakes.right, "y", "lse")

EXERCISES = (
    Exercise(
        name="flash_attention",
        language="triton",
        call=call,
        cases={
            "even": {"H": 2, "M": 64, "N": 96, "D": 32},
            "odd": {"H": 1, "M": 45, "N": 77, "D": 16},
            # One key or query less than a block, and one more.
            "below": {"H": 1, "M": 31, "N": 33, "D": 64},
            "above": {"H": 1, "M": 65, "N": 63, "D": 16},
            "again": {"H": 1, "M": 65, "N": 63, "D": 16},
            "one": {"H": 2, "M": 1, "N": 1, "D": 16},
            "long": {"H": 1, "M": 5, "N": 2_100, "D": 16},
            "strided": {"H": 3, "M": 40, "N": 50, "D": 16, "kind": "strided"},
            "large": {"H": 1, "M": 34, "N": 70, "D": 16, "kind": "large"},
            "lowest": {"H": 1, "M": 3, "N": 70, "D": 16, "kind": "lowest"},
            "deep": {"H": 1, "M": 3, "N": 70, "D": 16, "kind": "deep"},
            "causal": {"H": 2, "M": 128, "N": 128, "D": 16, "causal": True},
            "more keys": {"H": 1, "M": 37, "N": 101, "D": 16, "causal": True},
            "more queries": {"H": 1, "M": 75, "N": 35, "D": 16, "causal": True},
            "float16": {"H": 1, "M": 33, "N": 600, "D": 32, "dtype": "float16"},
            "bfloat16": {"H": 2, "M": 50, "N": 70, "D": 32, "causal": True, "dtype": "bfloat16"},
            "far": {"H": 3, "M": 64, "N": 64, "D": 16, "dtype": "float16", "kind": "far"},
        },
        drawn={
            "even": {"M": range(40, 137, 8), "N": range(33, 130)},
            "odd": {"M": range(17, 70), "N": range(17, 100)},
            "strided": {"M": range(20, 60), "N": range(20, 60)},
            "causal": {"M": range(72, 137, 8), "N": range(66, 140)},
            "more keys": {"M": range(33, 60), "N": range(66, 128)},
            "more queries": {"M": range(66, 100), "N": range(17, 60)},
        },
        properties=(
            properties.stays_inside(
                hint="The last block of queries has rows beyond M, and the last block of keys has rows beyond N. Loads and "
                "stores need a mask for each of them."
            ),
            triton_compile.finishes(
                {
                    "must be same dtype": "tl.dot takes two blocks of one type: p.to(v.dtype)",
                    "must have the same dtype": "tl.dot takes two blocks of one type: p.to(v.dtype)",
                }
            ),
            triton_compile.compiles(),
            devices.together(),
            properties.inputs_unchanged(),
            launches.written(
                "even",
                name="every element of y and lse is written",
                hint="A program stores its BLOCK_M rows of y, and a number of lse for each.",
            ),
            known_mistakes.right(
                "y",
                cases=["even"],
                name="y is the mean of the values, weighted by the softmax of the scores",
                likes=FORMULA,
                hint="When a larger score comes, what must fade? The sum and the output, both by exp(largest - larger). And "
                "which value is taken away in the exponent, before and after? One value a query is a column beside a block of "
                "scores: larger[:, None].",
            ),
            known_mistakes.right(
                "lse",
                cases=["even"],
                name="lse is the logarithm of the sum of exponentials",
                likes=LSE,
                hint="The sum that you have is that of exp(s - largest). What has to be added to its logarithm?",
            ),
            _both(
                cases=["odd", "below", "above", "one", "long"],
                name="also for lengths that are not multiples of a block",
                likes=BEYOND,
                hint="What is loaded for a key beyond the end, and which score and which weight does it get? A weight of 0 "
                "comes of a score of -∞.",
            ),
            _both(cases=["again"], name="also for other values in the same shape", likes={}),
            _both(
                cases=["strided"],
                name="also where rows and heads lie elsewhere in memory",
                likes={},
                hint="q, k and v have strides of their own: a row begins q_row elements after the one before, and a head "
                "q_head after the one before. y and lse have none, and lie row by row.",
            ),
            _both(
                cases=["large", "lowest"],
                name="stable where scores are near 10,000 or -10,000",
                likes={},
                hint="exp of 1e4 is infinite, and exp of -1e4 is 0. Which value has to be taken away before, and what is it "
                "before the first key?",
            ),
            _both(
                cases=["deep"],
                name="stable however far below 0 all scores lie",
                likes=BEGINS,
                hint="Before the first key, the largest score lies below any that may come: -1e38 is near the lowest float32.",
            ),
            _both(
                cases=["causal"],
                name="causal: a query sees no key after its own",
                likes=MASK,
                hint="Which scores are -∞? Compare the places of keys, along a row of the block, with those of its queries.",
            ),
            _both(
                cases=["more keys", "more queries"],
                name="causal: the last query stands at the last key",
                likes=OFFSET | ALONE,
                hint="Query i stands at the key i + N - M. With fewer keys than queries that may be less than 0: such a query "
                "has y = 0 and lse = -∞, which somebody has to write. -∞ minus -∞ is NaN, and so is 0 / 0.",
            ),
            _both(
                cases=["float16", "bfloat16"],
                name="also in float16 and bfloat16",
                likes={**BEYOND, **MASK},
                hint="What lives from block to block is float32: the largest score, the sum, and the output. Only q, k, v and "
                "the weights that tl.dot multiplies have the tensors' type, and y when it is stored; scores are scaled after "
                "the product.",
            ),
            products.in_float32("products of float32 are not rounded, on a GPU either"),
            _both(
                cases=["far"],
                name="also where a head begins beyond 2³¹ elements",
                likes={},
                hint="tl.program_id has 32 bits, and so has its product with a stride of 32 bits.",
            ),
            large.stored_inside(
                "also where a head of y begins beyond 2³¹ elements",
                hint="Where a row of y begins is a number of 64 bits, if head or row is: tl.cast(head, tl.int64) * M + rows.",
            ),
            properties.without("race", name="no program depends on another", stage="right"),
            launches.one_launch(
                hint="q.new_empty allocates and launches nothing; what is contiguous already need not be made so."
            ),
            launches.read_once(
                "q",
                cases=[*_FULL, "causal"],
                name="q is read once",
                advice="a block of queries is loaded before the loop, and stays",
            ),
            costs.once(
                *_FULL,
                "long",
                name="a block of queries loads each key and value once",
                hint="Largest score, sum and output can be kept up to date in one loop: that is what makes it online.",
            ),
            costs.skipped(
                *_CAUSAL,
                name="causal: blocks of keys that no query sees are not loaded",
                hint="Where does the loop end? The last query of the block sees the most keys.",
            ),
            costs.bounded("long", name="a block of scores does not grow with the number of keys"),
            launches.written_once(
                "y",
                "lse",
                cases=["even", "causal"],
                name="y and lse are written once, and no scores",
                advice="divide when the loop has ended, and then store",
            ),
            costs.shared(
                "causal",
                "strided",
                name="the programs share the queries",
                hint="program_id(0) says which block of queries, and program_id(1) which head.",
            ),
            scratch_memory.no_scratch_memory(
                name="nothing passes through memory of its own", advice="a score is used at once, and not kept"
            ),
        ),
        unwatched=("far",),
        observe=large.observed,
        prelude="import torch, triton, triton.language as tl",
        seconds=60,
    ),
)
