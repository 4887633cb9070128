"""Layer norm as a citizen of PyTorch: registration, gradients, compilation; and the same bits again."""

import pytest
import torch

import kernels
from kernels.check import check
from kernels.machine import compiler
from kernels.operation import Case
from kernels.ops.layer_norm import triton_backward, triton_backward_wide

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
REGISTERED = ("layer_norm_triton", "layer_norm_cuda")
needs_compiler = pytest.mark.skipif(DEVICE == "cpu" and compiler() is None, reason="no C++ compiler")


@pytest.fixture
def inputs():
    return kernels.operation("layer_norm").inputs(shape=(6, 40), device=DEVICE)


@pytest.mark.parametrize("name", REGISTERED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@needs_compiler
def test_opcheck(name, dtype):
    op = getattr(torch.ops.kernels, name).default
    x = torch.randn(3, 5, 40, device=DEVICE, dtype=dtype, requires_grad=True)
    weight = torch.randn(40, device=DEVICE, dtype=dtype, requires_grad=True)
    bias = torch.randn(40, device=DEVICE, dtype=dtype, requires_grad=True)
    for args in ((x, weight, bias, 1e-5), (x, None, None), (x.detach().transpose(0, 1), weight, None, 1e-3)):
        torch.library.opcheck(op, args)


@pytest.mark.parametrize("name", REGISTERED)
@pytest.mark.parametrize("given", [(True, True), (True, False), (False, True), (False, False)])
@needs_compiler
def test_opcheck_of_the_backward(name, given):
    op = getattr(torch.ops.kernels, f"{name}_backward").default
    dy, x = torch.randn(2, 3, 40, device=DEVICE)
    weight, bias = (torch.randn(40, device=DEVICE) if there else None for there in given)
    torch.library.opcheck(op, (dy, x, weight, bias, 1e-5))


KERNEL_RUNGS = [v for v in kernels.operation("layer_norm").variants if v.level >= 4]
ATOMIC = [v for v in KERNEL_RUNGS if v.name == "atomics"]


def gradients(variant, inputs, dy):
    leaves = {name: value.detach().requires_grad_() for name, value in inputs.items()}
    return torch.autograd.grad(variant(**leaves), list(leaves.values()), dy)


# In the interpreter programs run one after another: what it gives is the same anyway.
@pytest.mark.parametrize(
    "variant", [v for v in KERNEL_RUNGS if v not in ATOMIC and (DEVICE == "cuda" or v.level == 5)], ids=lambda v: v.key
)
@pytest.mark.parametrize("shape", [(300, 40), (9, 9_000)], ids=str)
@needs_compiler
def test_all_rungs_but_atomics_give_the_same_bits_again(variant, shape):
    inputs = kernels.operation("layer_norm").inputs(shape=shape, dtype="bfloat16", device=DEVICE)
    dy = torch.randn_like(inputs["x"])
    for one, other in zip(gradients(variant, inputs, dy), gradients(variant, inputs, dy), strict=True):
        assert torch.equal(one, other)


@pytest.mark.skipif(DEVICE == "cpu", reason="on a CPU blocks take their turns: the order of additions rarely changes")
@pytest.mark.parametrize("variant", ATOMIC, ids=lambda v: v.key)
def test_atomics_are_not_deterministic(variant):
    inputs = kernels.operation("layer_norm").inputs(shape=(30_000, 1_000), device=DEVICE)
    dy = torch.randn_like(inputs["x"])
    first = gradients(variant, inputs, dy)[1]
    assert any(not torch.equal(gradients(variant, inputs, dy)[1], first) for _ in range(10))


@pytest.mark.parametrize("key", ["triton/partials", "triton/prefetch"])
def test_programs_walk_over_many_rows(key, monkeypatch):
    """As on a GPU with one multiprocessor: every loop over rows goes round several times."""
    for module in (triton_backward, triton_backward_wide):
        monkeypatch.setattr(module, "multiprocessors", lambda device: 1)
    op = kernels.operation("layer_norm")
    cases = (Case((70, 33)), Case((35, 1_500), "bfloat16"), Case((9, 8_200), "float16"))
    assert not [result for result in check(op, (op[key],), cases, DEVICE) if result.failure]


@pytest.mark.parametrize("variant", KERNEL_RUNGS, ids=lambda v: v.key)
@pytest.mark.parametrize("wanted", ["x", "weight", "bias"])
@needs_compiler
def test_the_gradient_of_one_input_alone(variant, wanted, inputs):
    leaf = inputs[wanted].requires_grad_()
    expected = torch.autograd.grad(kernels.layer_norm(**inputs, level=1).square().sum(), leaf)[0]
    got = torch.autograd.grad(variant(**inputs).square().sum(), leaf)[0]
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("level", [4, 5])
@needs_compiler
def test_gradients_of_gradients(level, inputs):
    def penalty(level):
        leaves = [value.detach().requires_grad_() for value in inputs.values()]
        first = torch.autograd.grad(kernels.layer_norm(*leaves, level=level).pow(3).sum(), leaves, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), leaves)

    for got, expected in zip(penalty(level), penalty(1), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))


@pytest.mark.parametrize("level", [4, 5])
@needs_compiler
def test_torch_func(level, inputs):
    x, weight, bias = inputs.values()

    def loss(x, weight, level=level):
        return kernels.layer_norm(x, weight, bias, level=level).pow(3).sum()

    for got, expected in zip(
        torch.func.grad(loss, (0, 1))(x, weight),
        torch.func.grad(lambda *a: loss(*a, level=1), (0, 1))(x, weight),
        strict=True,
    ):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("level", [4, 5])
@needs_compiler
def test_a_mode_sees_the_operator(level, inputs):
    """Plain calls go past the dispatcher; where somebody watches it, they must not."""

    class Names(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    seen = []
    with Names():
        kernels.layer_norm(**inputs, level=level)
    assert seen == [f"kernels.layer_norm_{kernels.LEVELS[level - 1]}.default"]
    with torch._subclasses.FakeTensorMode() as mode:
        fake = kernels.layer_norm(mode.from_tensor(inputs["x"]), level=level)
    assert type(fake) is not torch.Tensor
    assert fake.shape == inputs["x"].shape


@pytest.mark.skipif(DEVICE == "cpu", reason="2^31 elements take a GPU's memory and speed")
@pytest.mark.parametrize("variant", KERNEL_RUNGS, ids=lambda v: v.key)
@pytest.mark.parametrize("N", [64, 4_096, 32_768])
def test_more_than_2_to_the_31_elements(variant, N):
    M = 2**31 // N + 5
    x = torch.randn(M, N, device=DEVICE, dtype=torch.bfloat16)
    weight, bias = torch.randn(2, N, device=DEVICE, dtype=torch.bfloat16)
    y = variant(x, weight, bias)
    last = slice(-7, None)
    expected = torch.nn.functional.layer_norm(x[last].float(), (N,), weight.float(), bias.float())
    torch.testing.assert_close(y[last].float(), expected, rtol=1e-2, atol=1e-2)
    del y
    dx, _, dbias = gradients(
        variant, {"x": x, "weight": weight, "bias": bias}, torch.ones((), device=DEVICE, dtype=x.dtype).expand(x.shape)
    )
    expected = torch.func.grad(lambda x: torch.nn.functional.layer_norm(x, (N,), weight.float(), bias.float()).sum())(
        x[last].float()
    )
    torch.testing.assert_close(dx[last].float(), expected, rtol=1e-2, atol=1e-2)
    # Row by row, float32 counts ones up to 2^24 and no further: the next one is lost in rounding. Partial sums are short.
    total = float(min(M, 2**24) if variant.name == "atomics" else M)
    torch.testing.assert_close(dbias.float(), torch.full((N,), total, device=DEVICE), rtol=1e-2, atol=0)


@pytest.mark.parametrize("level", [1, 3, 4, 5])
@needs_compiler
def test_compiles_whole_and_keeps_its_gradient(level, inputs):
    def loss(x, weight, bias):
        return (kernels.layer_norm(torch.sin(x), weight, bias, level=level) ** 2).sum()

    for tensor in inputs.values():
        tensor.requires_grad_()
    expected = torch.autograd.grad(loss(*inputs.values()), inputs.values())
    torch.compiler.reset()
    got = torch.autograd.grad(torch.compile(loss, fullgraph=True)(*inputs.values()), inputs.values())
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_gradcheck_in_float64():
    x, weight, bias = (torch.randn(n, dtype=torch.float64, requires_grad=True) for n in ((3, 7), (7,), (7,)))
    assert torch.autograd.gradcheck(lambda *args: kernels.layer_norm(*args, level=1), (x, weight, bias))
