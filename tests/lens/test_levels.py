"""Counting at every level: PyTorch's operators, kernels that Inductor wrote, and layer norm's Triton ladders by formula."""

from math import ceil

import pytest
import torch

import kernels
from kernels import lens, row_parts
from kernels.machine import compiler, interpreting
from kernels.operation import LEVELS
from kernels.ops.layer_norm import triton_backward_wide, triton_forward

OP = kernels.operation("layer_norm")
needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C++ compiler, which Inductor needs")


def inputs(M, N, dtype="float16", device="cpu"):
    return OP.inputs(shape=(M, N), dtype=dtype, device=device)


def backward(key, given):
    """The backward of a rung as a call of its own."""
    given = {name: tensor.requires_grad_() for name, tensor in given.items()}
    y = OP[key](**given)
    dy = torch.ones_like(y)
    return lambda: torch.autograd.grad(y, list(given.values()), dy)


def test_level_1_by_hand():
    x, w = torch.ones(32, 8), torch.ones(8)

    def fn(x, w):
        y = (x * w)[:16].add_(1)
        return torch.mm(y, y.T, out=torch.empty(16, 16))

    found = lens.count(fn, x=x, w=w)
    assert [(one.name, one.read, one.written) for one in found.calls] == [
        ("mul", 1024 + 32, 1024),
        ("add_", 512, 512),
        ("mm", 2 * 512, 1024),  # y and its transpose are two tensors; what it writes to is not read
    ]
    assert found.totals == {"launches": 3, "bytes_requested": 2080 + 1024 + 2048}
    assert found.compiler is None and found == lens.operators(fn, x, w)
    with pytest.raises(ValueError, match="launched nothing"):
        lens.count(lambda x: x.T, x=x)


def test_the_view_inside_a_product_of_batches_is_none_of_its_operators():
    """Which PyTorch does not call a view: nothing is launched for it."""
    x, w = torch.ones(2, 3, 4), torch.ones(2, 4, 5)
    found = lens.operators(torch.matmul, x, w)
    assert found.names == ["bmm"] and found.moved == x.nbytes + w.nbytes + 2 * 3 * 5 * 4


def test_level_2_says_who_chose():
    given = inputs(16, 64)
    native, scripted = lens.count(OP["native"], **given), lens.count(OP["torchscript"], **given)
    assert (native.compiler, scripted.compiler) == (None, "TorchScript")
    assert native.calls == scripted.calls  # on a CPU nothing is fused
    assert lens.operators(torch.jit.script(abs_plus_one), torch.ones(3)).compiler == "TorchScript"


@pytest.fixture
def fusing():
    """TorchScript's fuser, which by default works on a GPU only; here it interprets what it would compile."""
    before = torch._C._jit_can_fuse_on_cpu()
    torch._C._jit_override_can_fuse_on_cpu(True)
    torch._C._jit_set_te_must_use_llvm_cpu(False)
    yield
    torch._C._jit_set_te_must_use_llvm_cpu(True)
    torch._C._jit_override_can_fuse_on_cpu(before)


def test_what_torchscript_fuses(fusing):
    scripted = torch.jit.script(kernels.ops.layer_norm.native.layer_norm)
    scripted._debug_flush_compilation_cache()  # of other tests
    x, wider = torch.ones(32, 64), torch.ones(32, 128)
    watching, *later = (lens.operators(scripted, x) for _ in range(4))
    assert watching == lens.operators(OP["native"].fn, x)
    for found in later:
        assert [(one.name, one.read, one.written) for one in found.calls] == [
            ("mean", 8192, 128),
            ("mean", 8192, 128),
            ("fused_sub_mul", 8192 + 128, 2 * 8192),
            ("fused_add_rsqrt_mul", 8192 + 128, 8192),
        ]
    # Another shape: at first it calls one operator after the other, then it fuses again and does not say for what.
    assert lens.operators(scripted, wider).names == watching.names
    scripted(wider)
    with pytest.warns(UserWarning, match="fused this function for several shapes"):
        assert lens.operators(scripted, wider).names == ["mean", "mean"]
    scripted._debug_flush_compilation_cache()


def abs_plus_one(x: torch.Tensor) -> torch.Tensor:
    return x.abs() + 1


@needs_compiler
def test_level_3_by_hand():
    def fn(x, w):
        return torch.relu(x @ w) + 1

    torch.compiler.reset()
    compiled = torch.compile(fn, dynamic=False)
    x, w = torch.ones(32, 16), torch.ones(16, 8)
    first, second = (lens.count(compiled, x=x, w=w) for _ in range(2))  # compiled in the first
    assert first == second and first.compiler == "Inductor"
    matmul, fused = first.calls
    assert (matmul.name, matmul.read, matmul.written) == ("mm", 2048 + 512, 1024)
    assert fused.name.startswith("cpp_fused") and (fused.read, fused.written) == (1024, 1024)  # in place
    assert torch.equal(compiled(x, w), fn(x, w))
    assert "as Inductor chose on this machine" in str(first.__rich__().caption)


@needs_compiler
def test_what_was_compiled_in_a_cache_that_is_gone_is_counted():
    from torch._inductor.utils import fresh_cache

    torch.compiler.reset()
    compiled, x = torch.compile(abs_plus_one, dynamic=False), torch.ones(32, 16)
    with fresh_cache(), torch.no_grad():
        compiled(x)
    found = lens.count(compiled, x=x)
    assert found.compiler == "Inductor" and found.totals == {"launches": 1, "bytes_requested": 2 * 2048}


@needs_compiler
def test_five_levels_in_one_table():
    given = inputs(64, 256, "float32")
    found = {level: lens.count(OP[level], **given).totals for level in LEVELS}
    least = OP.cost(kernels.Case((64, 256))).bytes
    asked = {level: totals["bytes_requested"] for level, totals in found.items()}
    # Of its nine operators' tensors, twelve have the size of x, eight that of a column, two that of weight.
    assert asked["native"] == asked["torchscript"] == (12 * 64 * 256 + 8 * 64 + 2 * 256) * 4
    # One kernel, which leaves two numbers a row behind.
    assert asked["compiled"] == least + 2 * 64 * 4
    # Weight and bias once for every row.
    assert asked["triton"] == least + (64 - 1) * 2 * 256 * 4
    assert {level: totals["launches"] for level, totals in found.items()} == dict(
        zip(LEVELS, (9, 9, 1, 1, 1), strict=True)
    )


@pytest.mark.slow
@needs_compiler
def test_the_backward_at_levels_1_and_3():
    counts = [lens.count(backward(level, inputs(16, 128, "float32"))) for level in ("native", "compiled")]
    assert [one.compiler for one in counts] == [None, "Inductor"]
    native, compiled = (one.totals for one in counts)
    assert compiled["launches"] < native["launches"]
    assert compiled["bytes_requested"] < native["bytes_requested"] / 3


def forward_bytes(rung, M, N, e, room):
    """x, weight, bias and y, in elements of e bytes, on a GPU that has room for all rows at a time or not."""
    if N > 1024:  # wide rows: kept, or x three times
        return e * (6 if rung == "passes" else 4) * M * N
    if rung == "passes" and room:
        return e * 4 * M * N
    return e * (2 * M * N + ceil(M / (1 if rung == "row" else 4)) * 2 * N)


@pytest.mark.parametrize(("M", "N", "room"), [(5, 768, True), (5, 768, False), (2, 9000, True)])
@pytest.mark.parametrize("rung", ["row", "rows", "passes"])
def test_the_forward_ladder_of_triton(rung, M, N, room, monkeypatch):
    monkeypatch.setattr(triton_forward, "few_rows", lambda *_: False)
    if not room:
        monkeypatch.setattr(row_parts, "THREADS_AT_ONCE", 1)
    given = inputs(M, N, "bfloat16")
    found = lens.count(OP[f"triton/{rung}"], **given)
    assert found.totals["bytes_requested"] == forward_bytes(rung, M, N, e=2, room=room)
    assert found.totals["launches"] == 1 and found.traces[0].findings == ()
    assert found == lens.count(OP[f"triton/{rung}"], **given)


def partials_bytes(M, N, e, programs):
    """dy, x and dx once, weight once a program, and the sums, in float32, written by programs and read again."""
    return e * (3 * M * N + programs * N + 2 * N) + 4 * (4 * programs * N)


def backward_bytes(rung, M, N, e):
    if N > 8192:
        across = ceil(N / 512)
        statistics = e * 3 * M * N + 4 * 4 * M * (1 + across)
        return statistics + partials_bytes(M, N, e, programs=ceil(M / 4))
    if rung == "atomics":
        return e * 4 * M * N + 4 * 2 * M * N
    return partials_bytes(M, N, e, programs=M)  # of few rows each has one on the rung prefetch, too


@pytest.mark.parametrize(("M", "N"), [(9, 768), (2, 8200)])
@pytest.mark.parametrize("rung", ["atomics", "partials", "prefetch"])
def test_the_backward_ladder_of_triton(rung, M, N, monkeypatch):
    monkeypatch.setattr(triton_backward_wide, "few_rows", lambda *_, **__: False)
    device = "cpu" if interpreting() else "cuda"  # where the forward before it can run
    found = lens.count(backward(f"triton/{rung}", inputs(M, N, device=device)))
    names = [one.kernel for one in found.traces]
    of_rung = {"atomics": ["atomics"], "partials": ["partials", "column_sums"], "prefetch": ["in_steps", "column_sums"]}
    expected = ["statistics", "columns", "column_sums"] if N > 8192 else of_rung[rung]
    assert [name.removeprefix("layer_norm_backward_").removesuffix("_kernel") for name in names] == expected
    assert found.totals["bytes_requested"] == backward_bytes(rung, M, N, e=2)
    assert all(one.findings == () and one.error is None for one in found.traces)


def test_a_small_matrix_has_its_backward_in_one_launch():
    M, N = 4, 768
    found = lens.count(backward("triton/prefetch", inputs(M, N, device="cpu" if interpreting() else "cuda")))
    assert found.totals["launches"] == 1
    assert found.totals["bytes_requested"] == 2 * (3 * M * N + 3 * N)  # x, dy, dx; weight and both sums


def test_few_wide_rows_are_divided_among_programs():
    device, M, N, parts = "cpu" if interpreting() else "cuda", 2, 8200, 9
    found = lens.count(backward("triton/partials", inputs(M, N, device=device)))
    names = [one.kernel.removeprefix("layer_norm_backward_").removesuffix("_kernel") for one in found.traces]
    assert names == ["parts", "joined", "columns", "column_sums"]
    # Four numbers of each part are written and read, and the first part's mean once more.
    part_bytes = M * 4 * (2 * 4 * parts + 1)
    assert found.totals["bytes_requested"] == backward_bytes("partials", M, N, e=2) + part_bytes
    assert all(one.findings == () and one.error is None for one in found.traces)
