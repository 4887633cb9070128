"""What the lens finds wrong: every seeded bug at its line, and nothing in kernels that are right."""

import re

import pytest
import torch
from random_kernels import HEAD, random_kernel
from seeded import bugs

from kernels import lens
from kernels.cuda import RawKernel, RawModule
from kernels.cuda.cpu import build

_A_MODULE = 15  # kernels that are compiled together
_modules: dict = {}


def _module(path):
    return _modules.setdefault(path, RawModule(path=path))


def _trace(code, name, grid, block, args, *more, **options):
    return lens.trace(RawKernel(code, name), grid, block, args, *more, **options)


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
    (race,) = _trace(code, "k", (1,), (64,), (torch.zeros(1),)).findings
    assert (race.kind, race.lines, race.threads) == ("race", (3, 4), ((7, 0, 0), (40, 0, 0)))
    assert race.address == "s[1]" and "__syncthreads" in race.cause and race.other_block is None


def test_the_same_from_many_threads_is_one_finding():
    code = """extern "C" __global__ void k(float* y) { y[1000 + threadIdx.x] = 1; }"""
    (found,) = _trace(code, "k", (4,), (64,), (torch.zeros(1000),)).findings
    assert found.count == 256 and "256 times" in str(found)


def test_elements_are_those_of_the_argument():
    code = """extern "C" __global__ void k(short* y) { y[40] = 1; }"""
    (found,) = _trace(code, "k", (1,), (1,), (torch.zeros(48, dtype=torch.int16)[8:],)).findings
    assert found.address == "y[40]" and "one past the end of 40" in found.cause


def test_neighbouring_bytes_are_no_race():
    code = """extern "C" __global__ void k(unsigned char* y) { y[blockIdx.x] = blockIdx.x; }"""
    assert not _trace(code, "k", (64,), (1,), (torch.zeros(64, dtype=torch.uint8),)).findings


def test_writes_of_the_same_value_are_no_race():
    code = """extern "C" __global__ void k(int* found) { if (threadIdx.x & 1) *found = %s; }"""
    args = (torch.zeros(1, dtype=torch.int32),)
    assert not _trace(code % "1", "k", (2,), (64,), args).findings
    assert [one.kind for one in _trace(code % "threadIdx.x", "k", (2,), (64,), args).findings] == ["race"]


_OVERRUNS = {
    "a[threadIdx.x + 1] = 1;": ("a[32]", "one past the end of 32"),
    "a[threadIdx.x * 1000] = 1;": ("a[31000]", "30,969 past the end of 32"),
    "y[threadIdx.x] = a[-1 - int(threadIdx.x)];": ("a[-32]", "32 elements before its beginning"),
    "float* p = a; p[threadIdx.x + 1] = 1;": ("a[32]", "one past the end of 32"),
    "float* p = a; y[0] = p[-100000];": ("a[-100000]", "100,000 elements before its beginning"),
    "atomicAdd(&a[threadIdx.x + 1], 1.0f);": ("a[32]", "one past the end of 32"),
    "atomicAdd(&a[threadIdx.x + 100000], 1.0f);": ("a[100031]", "100,000 past the end of 32"),
    "own[threadIdx.x + 1] = 1;": ("own[32]", "one past the end of 32"),
    "float* p = own; p[threadIdx.x + 1] = 1;": ("own[32]", "one past the end of 32"),
    "y[threadIdx.x] = w[threadIdx.x + 1];": ("w[32]", "one past the end of 32"),
    "e[threadIdx.x + 1] = 1;": ("e[32]", "one past the end of 32"),
}


@pytest.mark.parametrize("statement", _OVERRUNS)
def test_an_overrun_is_told_in_terms_of_its_array(statement):
    # Beside it, no array but those of another kernel, and where dynamic shared memory is.
    constant = "static __constant__ float w[32];" if "w[" in statement else "static __device__ float own[32];"
    code = f"""__global__ void other(float* y) {{ __shared__ float b[32]; b[threadIdx.x] = 1; *y = b[0]; }}
    extern "C" __global__ void k(float* y) {{
        __shared__ float a[32];
        extern __shared__ float d[];
        extern __shared__ float e[];
        {constant}
        a[threadIdx.x] = d[threadIdx.x] = 0;
        __syncthreads();
        {statement}
    }}"""
    (found,) = _trace(code, "k", (1,), (32,), (torch.zeros(64),), 128).findings
    address, cause = _OVERRUNS[statement]
    assert (found.kind, found.lines, found.address) == ("out of bounds", (9,), address)
    assert cause in found.cause


def test_static_variables_of_functions_are_seen():
    code = """static __device__ int total;
    extern "C" __global__ void k(float* y) {
        static __device__ float written[32], own[32];
        written[threadIdx.x] = 1;
        own[threadIdx.x] += 1;
        if (threadIdx.x == 0) total += 1;
        __syncthreads();
        static __constant__ float weights[32] = {1, 2};
        y[threadIdx.x] = weights[threadIdx.x] + own[threadIdx.x];
    }"""
    module, y = RawModule(code=code), torch.zeros(32)
    for times in (1, 2):
        found = lens.trace(module.get_function("k"), (1,), (32,), (y,))
        assert y.tolist() == [1.0 + times, 2.0 + times, *[float(times)] * 30]
    module.get_function("k")((1,), (32,), (y,))
    assert y[2] == 3
    assert not found.findings
    assert [(one.line, one.kind, one.space, one.names) for one in found.accesses] == [
        (4, "store", "global", ("written",)),
        (5, "load", "global", ("own",)),
        (5, "store", "global", ("own",)),
        (6, "load", "global", ("total",)),
        (6, "store", "global", ("total",)),
        (9, "load", "constant", ("weights",)),
        (9, "load", "global", ("own",)),
        (9, "store", "global", ("y",)),
    ]


_PAST_AN_ARRAY = """extern "C" __global__ void k(float* y) {
    __shared__ float %s;
    float own[4];
    const int t = threadIdx.x;
    %s
    %s
    s[t] = 1;
    s[t + 32] = 1;
    %s
    y[t] = s[63 - t] + s[t];
    %s
}"""


@pytest.mark.parametrize(
    ("declared", "past"),
    [
        ("s[64]", "if (t == 5) s[64] = 1;"),
        ("s[64]", "own[t / 7] = y[t]; y[t] = own[1];"),
        ("before[64], s[64], after[64]", "s[t + 48] = 1;"),  # 16 lanes write into the next array
        ("before[64], s[64], after[64]", "if (t < 16) y[t] += s[t + 64];"),  # and read
    ],
)
def test_an_index_past_an_array_is_not_blamed_on_others(declared, past):
    fill, use = (
        ("before[t] = after[t] = 0;", "y[t] += before[31 - t] + after[31 - t];") if "," in declared else ("", "")
    )
    for barrier, others in (("__syncthreads();", []), ("", [("race", (8, 10))])):
        code = _PAST_AN_ARRAY % (declared, fill, past, barrier, use)
        found = _trace(code, "k", (1,), (32,), (torch.zeros(64),)).findings
        assert {(one.kind, one.lines) for one in found} >= {("out of bounds", (6,)), *others}, found
        assert barrier == "" or len(found) == 1, found


_ADVICE = {
    # Statements of a thread t of block b, in order, and how the sentence about their race ends.
    "s[0] = t;": "nothing says which comes last: let one thread write, or use an atomic",
    "if (t % 32 == 0) s[0] = t;": "nothing says which comes last: let one thread write, or use an atomic",
    "y[0] = b;": "nothing says which comes last: let one thread write, or use an atomic",
    "if (t == 0) s[0] = 1;\nif (t == 1) s[0] = 2;": "do not wait for each other: put __syncwarp() between",
    "if (t == 0) s[0] = 1;\nif (t == 32) s[0] = 2;": "no barrier between them: put __syncthreads() between",
    "if (b == 0) y[0] = 1;\nif (b == 1) y[0] = 2;": "blocks run in any order: launch twice",
    "s[t] = 1;\ny[100 * b + t] = s[t ^ 1];": "do not wait for each other: put __syncwarp() between",
    "s[t] = 1;\ny[100 * b + t] = s[63 - t];": "no barrier between them: put __syncthreads() between",
    "s[t] = 1; __syncthreads();\ns[t & 32] += t;": "do not wait for each other: put __syncwarp() between, or use an atomic",
    "s[t] = 1; __syncthreads();\nif (t % 32 == 0) s[0] += t;": (
        "no barrier between them: put __syncthreads() between, or use an atomic"
    ),
    "if (t == 0) y[b] = 1;\nif (t == 0) y[2 + b] = y[1 - b];": (
        "blocks run in any order: fence and use an atomic, or launch twice"
    ),
    "if (t == 0) s[0] = 0;\nif (t == 1) atomicAdd(&s[0], 1.0f);": (
        "only one of them is atomic: put __syncwarp() between, or make both atomic"
    ),
    "if (t == 32) s[0] = 0;\nif (t == 0) atomicAdd(&s[0], 1.0f);": (
        "only one of them is atomic: put __syncthreads() between, or make both atomic"
    ),
    "if (b == 0 && t == 0) y[0] = 0;\nif (b == 1) atomicAdd(y, 1.0f);": (
        "only one of them is atomic: launch twice, or make both atomic"
    ),
}


@pytest.mark.parametrize("statements", _ADVICE)
def test_a_race_gives_the_advice_that_mends_it(statements):
    code = f"""extern "C" __global__ void k(float* y) {{
        __shared__ float s[64];
        const int t = threadIdx.x, b = blockIdx.x;
        {statements}
    }}"""
    races = [one for one in _trace(code, "k", (2,), (64,), (torch.zeros(300),)).findings if one.kind == "race"]
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
    assert not _trace(code, "k", (4,), (64,), (torch.rand(256), largest)).findings


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
    assert not _trace(code, "k", (4,), (64,), (torch.arange(256, dtype=torch.int32), largest)).findings


def test_a_local_variable_of_no_value_holds_the_same_in_every_run():
    if not build.takes("-ftrivial-auto-var-init=pattern"):
        pytest.skip("this compiler cannot fill variables")
    code = """extern "C" __global__ void k(float* y, int n) {
        float sum;
        for (int i = 0; i < n; ++i) sum += y[i];
        y[threadIdx.x] = sum;
    }"""
    left = []
    for _ in range(2):
        y = torch.zeros(64)
        found = _trace(code, "k", (1,), (64,), (y, 2))
        assert [(one.line, one.kind) for one in found.accesses] == [(3, "load"), (4, "store")]
        left.append(y)
    assert not (left[0].abs() < 1e30).any()  # or NaN
    assert torch.equal(*(one.view(torch.int32) for one in left))


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


def test_a_fill_of_a_known_size_is_a_write():
    code = """extern "C" __global__ void f(float* y) {
        __shared__ float bins[32];
        if (threadIdx.x == 0) memset(bins, 0, sizeof bins);
        __syncthreads();
        y[threadIdx.x] = bins[threadIdx.x];
    }"""
    found = _trace(code, "f", (1,), (32,), (torch.ones(32),))
    assert not found.findings
    assert [(one.kind, one.bytes) for one in found.line(3)] == [("store", 128)]


@pytest.mark.parametrize("size", [12, 32, 100, 132])
def test_a_copy_of_a_known_size_is_seen(size):
    code = f'extern "C" __global__ void f(float* y, const float* x) {{ memcpy(y, x, {size}); }}'
    found = _trace(code, "f", (1,), (1,), (torch.zeros(64), torch.ones(32)))
    assert found.totals["bytes_requested"] == 2 * size
    assert [one.address for one in found.findings] == ["x[32]"] * (size > 128)


@pytest.mark.parametrize("function", ["memcpy", "memmove"])
def test_a_copy_of_a_size_that_only_the_run_knows_is_seen(function):
    code = f'extern "C" __global__ void f(float* y, const float* x, int n) {{ {function}(y, x, n); }}'
    x, y = torch.ones(4), torch.zeros(8)
    inside, outside = (_trace(code, "f", (1,), (1,), (y, x, size)) for size in (16, 20))
    assert inside.totals["bytes_requested"] == 32
    assert not inside.findings
    assert [one.kind for one in outside.findings] == ["out of bounds"]
    assert "x[4]" in str(outside.findings[0])
