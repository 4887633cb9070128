"""A cost of an array that no line was seen to touch is not low: it is unknown, and the property is broken."""

from test_cheats import SOLUTION

from kernels.grading import cuda
from kernels.grading.judging import judge
from kernels.grading.labs import exercise
from kernels.grading.properties import counters, load_balance


def test_an_array_that_nothing_was_seen_to_touch_has_no_low_cost():
    copy = exercise("permuted_copy")
    trials = cuda.run(copy, SOLUTION, judge._calls(copy, 0), 0)
    few = counters.fewest_sectors("load", "y", "even", name="few", advice="advice")
    assert few.broken(trials) == "no line reads an array y\n(with B = 2, S = 32, H = 4, D = 16)"
    assert load_balance.balanced("z").broken(trials) == "no line reads or writes an array z"
    assert load_balance.balanced("y").broken(trials) is None


def test_a_case_without_work_is_shared_by_all():
    image = exercise("normalise")
    text = """__global__ void normalise(float* y, const unsigned char* x, float mean, float std, int H, int W, int s, int t)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < H && j < W) y[i * t + j] = (x[i * s + j] / 255.0f - mean) / std;
}"""
    trials = cuda.run(image, text, judge._calls(image, 0), 0)
    assert not any(one.accesses for one in trials if one.case == "empty")
    assert load_balance.balanced("y").broken(trials) is None
