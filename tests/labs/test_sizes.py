"""What is right, or costs little, for the sizes that stay alone: the second round draws others, and some are large."""

import pytest
from test_labs import solution

from kernels.grading.judging import judge
from kernels.grading.labs import exercise

# (lab, exercise): what the solution becomes, and the property that then does not hold.
FRUGAL = {
    ("coalescing", "permuted_copy"): (
        "y[i] =",
        """if (D % 8 == 0 && !(S == 32 && D == 16 || S == 4 && H == 32))
        s = i % S, d = i / S % D, h = i / S / D % H, b = i / S / D / H, i = ((b * H + h) * S + s) * D + d;
    y[i] =""",
        "x is read in the fewest sectors",
    ),
    ("transpose", "transpose_in_place"): (
        "if (two && left + j",
        "if ((two || (N % 32 == 0 && N != 96)) && left + j",
        "x is read once, in the fewest sectors",
    ),
    ("reduction", "row_argmax"): (
        "take_better(v, i, x[n], n);",
        "{ if (N % 256 == 0 && N != 1024) take_better(v, i, x[n / 8 * 8], n / 8 * 8); take_better(v, i, x[n], n); }",
        "x is read in the fewest sectors",
    ),
    ("bias_gelu", "bias_gelu"): (
        "u = x + bias",
        "u = x + bias + 0 * tl.load(x_ptr + places, mask=inside & (N > 256) & (N != 1101), other=0)",
        "x is read once",
    ),
    ("layer_norm_backward", "layer_norm_backward"): (
        "tl.store(dx_ptr + places, dx, inside)",
        "tl.store(dx_ptr + places, g, inside & (M > 96))\n        tl.store(dx_ptr + places, dx, inside)",
        "dx is written once",
    ),
}
SMALL = {
    ("coalescing", "permuted_copy"): ("y[i] =", "if (B * S * H * D < 30000) y[i] ="),
    ("transpose", "transpose_in_place"): ("if (blockIdx.x < blockIdx.y)", "if (N > 250 || blockIdx.x < blockIdx.y)"),
    ("reduction", "row_argmax"): ("n < N;", "n < min(N, 5000);"),
    ("guards", "normalise"): ("i < H && j < W", "i < H && j < min(W, 72) && i < 24"),
    ("detective", "running_sum"): ("y[i] = sum;", "y[i] = i < 4000 ? sum : 0;"),
}


def texts(changes):
    """One of them for `make test`, the others for `make exhaustive`."""
    rows = enumerate(changes.items())
    return [pytest.param(*key, *to, id=key[1], marks=[pytest.mark.slow] * (row > 0)) for row, (key, to) in rows]


@pytest.mark.parametrize(("lab", "name", "search", "replace", "broken"), texts(FRUGAL))
def test_what_is_frugal_for_the_shown_sizes_alone_is_told(lab, name, search, replace, broken):
    text = solution(lab, name)
    assert text.count(search) == 1
    text = text.replace(search, replace)
    trials = judge._BACKENDS[exercise(name).language].run(exercise(name), text, judge._calls(exercise(name), 0), 0)
    assert all(one.state == "held" for one in judge._verdicts(exercise(name).properties, trials))
    assert judge.grade(exercise(name), text).broken[0] == broken


@pytest.mark.parametrize(("lab", "name", "search", "replace"), texts(SMALL))
def test_what_is_right_for_small_sizes_alone_is_told(lab, name, search, replace):
    text = solution(lab, name)
    assert text.count(search) == 1, text
    report = judge.grade(exercise(name), text.replace(search, replace))
    assert report.broken, report
