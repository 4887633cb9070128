"""What the lens finds wrong: every seeded bug at its line, and nothing in kernels that are right."""

import re

import pytest
import torch
from random_kernels import HEAD, random_kernel
from seeded import bugs
from sources import trace

from kernels import lens
from kernels.cuda import RawKernel, RawModule

_A_MODULE = 15  # kernels that are compiled together
_modules: dict = {}


def _module(path):
    return _modules.setdefault(path, RawModule(path=path))


def test_there_are_enough_bugs():
    assert len(bugs()) >= 40
    assert all(bug.kinds for bug in bugs())


@pytest.mark.parametrize("bug", bugs(), ids=str)
def test_a_bug_is_found_at_its_line(bug):
    grid, block, args, *more = bug.arguments()
    found = lens.trace(_module(bug.path).get_function(bug.kernel), grid, block, args, *more)
    for line, kind in bug.kinds.items():
        assert any(one.kind == kind and line in one.lines for one in found.findings), found.findings
    # And nothing else.
    for one in found.findings:
        assert any(one.kind == kind and line in one.lines for line, kind in bug.kinds.items()), one


@pytest.mark.parametrize("seed", [1, 2])
def test_races_are_found_in_any_order_of_threads(seed):
    for bug in bugs():
        if bug.path.stem in ("shared_races", "warp_races"):
            grid, block, args, *more = bug.arguments()
            found = lens.trace(_module(bug.path).get_function(bug.kernel), grid, block, args, *more, seed=seed)
            for line, kind in bug.kinds.items():
                assert any(one.kind == kind and line in one.lines for one in found.findings), bug


def _no_alarm(first: int, last: int, seed: int | None = None) -> None:
    kernels = [random_kernel(number) for number in range(first, last)]
    text = HEAD + "\n".join(kernel.text for kernel in kernels)
    module = RawModule(code=text, enable_cooperative_groups=True)
    for kernel in kernels:
        function = module.get_function(kernel.name)
        found = lens.trace(function, kernel.grid, kernel.block, kernel.arguments(), kernel.shared_mem, seed=seed)
        assert not found.error, f"{kernel.text}\n{found.error}"
        assert not found.findings, f"{kernel.text}\n" + "\n".join(map(str, found.findings))


def test_random_kernels_give_no_alarm():
    _no_alarm(0, _A_MODULE)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(_A_MODULE, 120, _A_MODULE))
@pytest.mark.parametrize("seed", [None, 1])
def test_more_random_kernels_give_no_alarm(first, seed):
    _no_alarm(first, first + _A_MODULE, seed)


def test_a_finding_says_what_and_where():
    bug = next(one for one in bugs() if one.kernel == "guard_one_too_far")
    grid, block, args = bug.arguments()
    read, written = lens.trace(_module(bug.path).get_function(bug.kernel), grid, block, args).findings
    assert (read.kind, read.lines, read.address) == ("out of bounds", tuple(bug.kinds), "x[300]")
    assert read.block == (4, 0, 0) and read.threads == ((44, 0, 0),) and read.count == 1
    assert "one past the end of 300" in str(read) and "line 12" in str(read)
    assert written.address == "y[300]"


def test_a_race_names_both_threads():
    code = """extern "C" __global__ void k(float* y) {
        __shared__ float s[2];
        if (threadIdx.x == 7) s[1] = 2;
        if (threadIdx.x == 40) y[0] = s[1];
    }"""
    (race,) = trace(code, "k", (1,), (64,), (torch.zeros(1),)).findings
    assert (race.kind, race.lines, race.threads) == ("race", (3, 4), ((7, 0, 0), (40, 0, 0)))
    assert race.address == "s[1]" and "__syncthreads" in race.cause and race.other_block is None


def test_the_same_from_many_threads_is_one_finding():
    code = """extern "C" __global__ void k(float* y) { y[1000 + threadIdx.x] = 1; }"""
    (found,) = trace(code, "k", (4,), (64,), (torch.zeros(1000),)).findings
    assert found.count == 256 and "256 times" in str(found)


def test_elements_are_those_of_the_argument():
    code = """extern "C" __global__ void k(short* y) { y[40] = 1; }"""
    (found,) = trace(code, "k", (1,), (1,), (torch.zeros(48, dtype=torch.int16)[8:],)).findings
    assert found.address == "y[40]" and "one past the end of 40" in found.cause


def test_neighbouring_bytes_are_no_race():
    code = """extern "C" __global__ void k(unsigned char* y) { y[blockIdx.x] = blockIdx.x; }"""
    assert not trace(code, "k", (64,), (1,), (torch.zeros(64, dtype=torch.uint8),)).findings


def test_writes_of_the_same_value_are_no_race():
    code = """extern "C" __global__ void k(int* found) { if (threadIdx.x & 1) *found = %s; }"""
    args = (torch.zeros(1, dtype=torch.int32),)
    assert not trace(code % "1", "k", (2,), (64,), args).findings
    assert [one.kind for one in trace(code % "threadIdx.x", "k", (2,), (64,), args).findings] == ["race"]


_ADVICE = {
    # Statements of a thread t of block b, in order, and how the sentence about their race ends.
    "s[0] = t;": "nothing says which comes last: let one thread write, or use an atomic",
    "if (t % 32 == 0) s[0] = t;": "nothing says which comes last: let one thread write, or use an atomic",
    "y[0] = b;": "nothing says which comes last: let one thread write, or use an atomic",
    "if (t == 0) s[0] = 1;\nif (t == 1) s[0] = 2;": "do not wait for each other: put __syncwarp() or __syncthreads() between",
    "if (t == 0) s[0] = 1;\nif (t == 32) s[0] = 2;": "no barrier between them: put __syncthreads() between",
    "if (b == 0) y[0] = 1;\nif (b == 1) y[0] = 2;": "blocks run in any order: launch twice",
    "s[t] = 1;\ny[100 * b + t] = s[t ^ 1];": "do not wait for each other: put __syncwarp() or __syncthreads() between",
    "s[t] = 1;\ny[100 * b + t] = s[63 - t];": "no barrier between them: put __syncthreads() between",
    "s[t] = 1; __syncthreads();\ns[t & 32] += t;": (
        "nothing says which comes last: let one thread write, or use an atomic"
    ),
    "s[t] = 1; __syncthreads();\nif (t % 32 == 0) s[0] += t;": (
        "no barrier between them: put __syncthreads() between, or use an atomic"
    ),
    "if (t == 0) y[b] = 1;\nif (t == 0) y[2 + b] = y[1 - b];": (
        "blocks run in any order: fence and use an atomic, or launch twice"
    ),
    "if (t == 0) s[0] = 0;\nif (t == 1) atomicAdd(&s[0], 1.0f);": (
        "only one of them is atomic: put __syncwarp() or __syncthreads() between, or make both atomic"
    ),
    "if (t == 32) s[0] = 0;\nif (t == 0) atomicAdd(&s[0], 1.0f);": (
        "only one of them is atomic: put __syncthreads() between, or make both atomic"
    ),
    "if (b == 0 && t == 0) y[0] = 0;\nif (b == 1) atomicAdd(y, 1.0f);": (
        "only one of them is atomic: launch twice, or make both atomic"
    ),
}


def test_a_race_of_a_warp_where_one_of_the_block_overlaps_it_asks_for_the_block_s_barrier():
    code = """extern "C" __global__ void k(float* y) {
        __shared__ float s[64], r[64], q[64];
        const int t = threadIdx.x;
        s[t] = t;
        r[t] = t;
        y[t] = s[t ^ 1];
        y[t] += r[63 - t];
        __syncthreads();
        q[t] = t;
        y[t] += q[t ^ 1];
    }"""
    found = trace(code, "k", (1,), (64,), (torch.zeros(64),)).findings
    advice = {one.lines: one.cause.rsplit(": ")[-1] for one in found}
    assert advice == {
        (4, 6): "put __syncthreads() between",
        (5, 7): "put __syncthreads() between",
        (9, 10): "put __syncwarp() or __syncthreads() between",
    }


@pytest.mark.parametrize("statements", _ADVICE)
def test_a_race_gives_the_advice_that_mends_it(statements):
    code = f"""extern "C" __global__ void k(float* y) {{
        __shared__ float s[64];
        const int t = threadIdx.x, b = blockIdx.x;
        {statements}
    }}"""
    races = [one for one in trace(code, "k", (2,), (64,), (torch.zeros(300),)).findings if one.kind == "race"]
    assert races and all(one.cause.endswith(_ADVICE[statements]) for one in races), races


def test_the_guess_of_a_compare_and_swap_is_no_race():
    code = """extern "C" __global__ void k(const float* x, int* largest) {
        const int value = __float_as_int(x[blockIdx.x * blockDim.x + threadIdx.x]);
        int old = *largest;
        while (old < value) {
            const int seen = atomicCAS(largest, old, value);
            if (seen == old) break;
            old = seen;
        }
    }"""
    largest = torch.zeros(1, dtype=torch.int32)
    assert not trace(code, "k", (4,), (64,), (torch.rand(256), largest)).findings


_LOOK_AGAIN = (
    "atomicMax(largest, value)",
    "atomicOr(largest, value)",
    "atomicCAS(largest, seen, value)",
)


@pytest.mark.parametrize("atomic", _LOOK_AGAIN)
def test_a_look_before_an_atomic_that_looks_again_is_no_race(atomic):
    code = f"""extern "C" __global__ void k(const int* x, int* largest) {{
        const int value = x[blockIdx.x * 64 + threadIdx.x], seen = *largest;
        if (seen < value) {atomic};
    }}"""
    largest = torch.zeros(1, dtype=torch.int32)
    assert not trace(code, "k", (4,), (64,), (torch.arange(256, dtype=torch.int32), largest)).findings


def test_a_finding_survives_json():
    bug = next(one for one in bugs() if one.kernel == "tiles_overlap")
    grid, block, args = bug.arguments()
    found = lens.trace(_module(bug.path).get_function(bug.kernel), grid, block, args)
    again = lens.Trace.from_json(found.as_json())
    assert again.findings == found.findings and again.findings[0].other_block == (0, 0, 0)


def test_a_barrier_not_reached_says_what_the_run_says():
    bug = next(one for one in bugs() if one.kernel == "in_a_condition")
    grid, block, args = bug.arguments()
    found = lens.trace(_module(bug.path).get_function(bug.kernel), grid, block, args)
    (finding,) = found.findings
    assert finding.cause == found.error and re.search(r"48 threads wait in __syncthreads on line 7", finding.cause)


def test_a_seed_replays():
    bug = next(one for one in bugs() if one.kernel == "largest_by_plain_writes")
    grid, block, args = bug.arguments()
    kernel = _module(bug.path).get_function(bug.kernel)
    runs = [lens.trace(kernel, grid, block, bug.arguments()[2], seed=seed) for seed in (5, 5, 6)]
    assert runs[0].findings == runs[1].findings
    assert runs[0].findings[0].threads != runs[2].findings[0].threads


def test_what_a_thread_does_alone_names_the_first():
    kernel = RawKernel("__global__ void k(float* x) { x[100 + threadIdx.x] = 1; }", "k")
    (found,) = lens.trace(kernel, (2,), (64,), (torch.zeros(100),)).findings
    assert (found.block, found.threads, found.count) == ((0, 0, 0), ((0, 0, 0),), 128)


def test_sizes_that_are_no_tuples_err_as_in_a_launch():
    kernel = RawKernel("__global__ void k(float* x) { x[0] = 1; }", "k")
    for sizes in (((1,), 256), (1, (32,))):
        with pytest.raises(TypeError, match="must be a tuple of one to three integers"):
            lens.trace(kernel, *sizes, (torch.zeros(100),))


@pytest.mark.parametrize(
    ("body", "kind", "line"),
    [
        (
            "float sum;\nfor (int i = 0; i < n; ++i)\nsum += x[i];\nif (threadIdx.x == 99) x[0] = sum;",
            "uninitialised read",
            4,
        ),
        ("if (threadIdx.x < 16)\nx[0] = __shfl_sync(0xffff0000, x[0], 1);", "wrong mask", 3),
        ("if (threadIdx.x < 16)\nn = __shfl_sync(0xffffffff, n, 20);\nx[threadIdx.x] = n;", "wrong mask", 3),
        ("n = __shfl_sync(0xffffffff, n, 0, 12);\nx[threadIdx.x] = n;", "wrong width", 2),
        ("assert(n == 3);", "failed assertion", 2),
    ],
)
def test_what_no_access_shows_is_a_finding(body, kind, line):
    kernel = RawKernel(f"__global__ void k(float* x, int n) {{\n{body}\n}}", "k")
    (found,) = lens.trace(kernel, (1,), (32,), (torch.zeros(100), 4)).findings
    assert (found.kind, found.lines) == (kind, (line,))
