"""What a trace says that is not wrong by itself."""

import io

import pytest
import torch
from rich.console import Console
from sources import trace

from kernels import lens

TURN = """
__global__ void turn(const float* x, float* y, int n)
{
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t >= n) return;
    s[t] = x[t];
    __syncthreads();
    y[t] = s[n - 1 - t];
    __syncthreads();
    s[t] = 0;
}
"""


def shown(found):
    console = Console(width=400, record=True, file=io.StringIO())
    console.print(found)
    return console.export_text()


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("late", [False, True], ids=["the last return", "the first return"])
def test_a_barrier_after_a_return(seed, late):
    code = TURN.replace("t >= n", "t < 24").replace("n - 1 - t", "87 - t") if late else TURN
    x, y = torch.arange(64.0), torch.zeros(64)
    found = trace(code, "turn", (2,), (64,), (x, y, 40), seed=seed)
    assert y.tolist() == ([0] * 24 + [*range(63, 23, -1)] if late else [*range(39, -1, -1)] + [0] * 24)
    assert not found.findings and not found.error
    assert found.barriers == 4  # two in each of two blocks, as without the guard
    assert found.notes == (
        "line 8: 24 threads of block (0, 0, 0) had returned before this barrier. A GPU from sm_70 on waits for those that are "
        "left, as here; an older one may wait for ever",
    )
    assert "note: line 8" in found._repr_html_() and "note: line 8" in shown(found)
    assert lens.Trace.from_json(found.as_json()) == found


def test_races_around_a_barrier_after_a_return_are_seen():
    args = (torch.arange(64.0), torch.zeros(64), 40)
    first, second = (
        TURN.replace("    __syncthreads();\n    y", "    y"),
        TURN.replace("    __syncthreads();\n    s[t] = 0", "    s[t] = 0"),
    )
    assert [set(one.lines) for one in trace(first, "turn", (1,), (64,), args).findings] == [{7, 8}]
    assert [set(one.lines) for one in trace(second, "turn", (1,), (64,), args).findings] == [{9, 10}]
    assert not trace(TURN, "turn", (1,), (64,), (*args[:2], 64)).notes


LOG = "__global__ void f(const float* x, float* y, float* z) {{ int t = threadIdx.x; y[t] = {value}; z[t] = 1; }}"
X = torch.tensor([1.0, 2.0, 0.0, -1.0, -2.0, 3.0])


@pytest.mark.parametrize(
    ("value", "x", "notes"),
    [
        (
            "logf(x[t])",
            X,
            [
                "y[3] and 1 more became NaN, and nothing that the kernel read was",
                "y[2] became infinite, and nothing that the",
            ],
        ),
        ("expf(88 * x[t])", X, ["y[1] and 1 more became infinite, and nothing that the kernel read was"]),
        ("x[t] - x[t]", X, []),
        ("x[t] - x[t]", X.exp().exp().exp(), ["y[1] and 1 more became NaN"]),  # ∞ - ∞
        ("2 * x[t]", X.log(), []),
        ("logf(x[t])", X.log(), []),
    ],
)
def test_what_is_no_number(value, x, notes):
    found = trace(LOG.format(value=value), "f", (1,), (6,), (x, torch.zeros(6), torch.zeros(6)))
    assert len(found.notes) == len(notes) and not found.findings
    assert all(one.startswith(note) for one, note in zip(found.notes, notes, strict=True)), found.notes


def test_what_was_no_number_before_or_has_a_finding_gets_no_note():
    code = LOG.format(value="logf(x[t])")
    y = torch.full((6,), torch.nan)
    found = trace(code, "f", (1,), (6,), (X, y, torch.zeros(6)))
    assert [one.split(", ")[0] for one in found.notes] == ["y[2] became infinite"]
    code = LOG.format(value="x[t + 1]")  # the memory beyond is NaN
    found = trace(code, "f", (1,), (6,), (X, torch.zeros(6), torch.zeros(6)))
    assert found.findings and not found.notes


ADD = """
__global__ void add(const float* x, float* y, int M, int N)
{
    int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < M && j < N) y[i * N + j] = x[i * N + j] + 1;
}
"""


@pytest.mark.parametrize(
    ("code", "grid", "block", "notes"),
    [
        (ADD, (2,), (64,), 1),
        (ADD, (2, 1), (64, 1), 1),
        (ADD, (2, 5), (64,), 0),
        (ADD, (2,), (64, 5), 0),
        (ADD.replace("blockIdx.y * blockDim.y + threadIdx.y", "0"), (2,), (64,), 0),
        (ADD.replace("if (", "for (; i < M; i += gridDim.y) if ("), (2,), (64,), 0),  # that walks over the rows
    ],
)
def test_a_kernel_of_two_dimensions_launched_in_one(code, grid, block, notes):
    found = trace(code, "add", grid, block, (torch.ones(5, 100), torch.zeros(5, 100), 5, 100))
    assert not found.findings
    assert (
        list(found.notes)
        == [
            "the launch has one thread in y, and the kernel asks for its threadIdx or blockIdx there: of the 2,000 bytes of y "
            "it wrote 400 at most"
        ][:notes]
    )
