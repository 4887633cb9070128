"""Toy kernels registered from a schema: two outputs of which one is saved, an index without a gradient, an update in place."""

import itertools
import math

import pytest
import torch
from torch.library import opcheck

from kernels.arguments import as_rows
from kernels.machine import compiler
from kernels.registration import register
from kernels.rules import kernel_schema
from kernels.signature import Signature

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ran = []  # the names of the bare kernels that were called


def validate(x, *rest):
    if x.dim() != 2:
        raise ValueError(f"x: got {x.dim()} dimensions, expected 2")


def kernel(function):
    """A bare kernel in PyTorch's operators, on memory, without autograd."""

    @torch.no_grad()
    def call(*args):
        assert not any(isinstance(arg, torch._subclasses.FakeTensor) for arg in args)
        ran.append(function.__name__)
        return function(*args)

    return call


def registered(name, signature, forward, *backward):
    return register(signature, name, *map(kernel, (forward, *backward)))


def log_softmax(x, scale):
    lse = (x * scale).logsumexp(-1)
    return x * scale - lse[:, None], lse


def log_softmax_backward(dy, x, lse, scale):
    return scale * (dy - (x * scale - lse[:, None]).exp() * dy.sum(-1, keepdim=True))


def native_log_softmax_backward(dy, x, lse, scale):
    assert lse is None
    return log_softmax_backward(dy, x, (x * scale).logsumexp(-1), scale)


LOG_SOFTMAX = registered(
    "toy_log_softmax",
    Signature(
        "(Tensor x, float scale=1.0) -> (Tensor y, Tensor lse)",
        validate,
        lambda x, scale: ((x.shape, x.dtype), (x.shape[:1], x.dtype)),
        gradients=("x",),
        save=("x", "lse"),
        non_differentiable=("lse",),
        native_backward=native_log_softmax_backward,
    ),
    log_softmax,
    log_softmax_backward,
)


def softmax(x):
    return x.softmax(-1)


def softmax_backward(dy, y):
    return y * (dy - (dy * y).sum(-1, keepdim=True))


SOFTMAX = registered(
    "toy_softmax",
    Signature(
        "(Tensor x) -> Tensor y",
        validate,
        gradients=("x",),
        save=("y",),
        native_backward=softmax_backward,
    ),
    softmax,
    softmax_backward,
)


def rotated(q, angle):
    a, b = q.chunk(2, -1)
    return torch.cat((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1)


def rotate(q, k, angle):
    for tensor in (q, k):
        tensor.data.copy_(rotated(tensor, angle))  # as a kernel does, unseen by autograd


def rotate_backward(dq, dk, angle):
    return rotated(dq, -angle), rotated(dk, -angle)


ROTATE = registered(
    "toy_rotate",
    Signature(
        "(Tensor(a!) q, Tensor(b!) k, Tensor angle) -> ()",
        validate,
        gradients=("q", "k"),
        save=("angle",),
        native_backward=rotate_backward,
    ),
    rotate,
    rotate_backward,
)


def argmax(x):
    return x.argmax(-1)


ARGMAX = registered(
    "toy_argmax",
    Signature("(Tensor x) -> Tensor index", validate, lambda x: ((x.shape[:1], torch.int64),)),
    argmax,
)


def out_of_place(q, k, angle):
    q, k = q.clone(), k.clone()
    ROTATE(q, k, angle)
    return q, k


X = torch.randn(3, 8, dtype=torch.float64, device=DEVICE)
ANGLE = torch.randn(4, dtype=torch.float64, device=DEVICE)
# function of the toy, the same in PyTorch's operators, both of one tensor to differentiable results
DIFFERENTIABLE = {
    "two outputs": (lambda x: LOG_SOFTMAX(x, 0.5)[0], lambda x: log_softmax(x, 0.5)[0]),
    "a saved output": (SOFTMAX, softmax),
    "updates": (
        lambda x: torch.cat(out_of_place(x, x + 1, ANGLE)),
        lambda x: torch.cat((rotated(x, ANGLE), rotated(x + 1, ANGLE))),
    ),
}
toys = pytest.mark.parametrize("toy, native", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)


@pytest.mark.parametrize("requires_grad", [True, False])
def test_opcheck(requires_grad):
    x = X.clone().requires_grad_(requires_grad)
    for args in ((x,), (x, 0.5)):
        opcheck(torch.ops.kernels.toy_log_softmax.default, args)
    opcheck(torch.ops.kernels.toy_softmax.default, (x,))
    opcheck(torch.ops.kernels.toy_rotate.default, (x.clone(), 2 * x, ANGLE))
    opcheck(torch.ops.kernels.toy_argmax.default, (X,))
    opcheck(torch.ops.kernels.toy_log_softmax_backward.default, (X, X, X[:, 0], 1.0))
    opcheck(torch.ops.kernels.toy_softmax_backward.default, (X, X))
    opcheck(torch.ops.kernels.toy_rotate_backward.default, (X, X, ANGLE))


@toys
def test_values_gradients_and_their_gradients(toy, native):
    x = X.clone().requires_grad_()
    ran.clear()
    torch.testing.assert_close(toy(x), native(x))
    toy(x).sin().sum().backward()
    assert sum(name.endswith("backward") for name in ran) == 1
    assert torch.autograd.gradcheck(toy, x)
    assert torch.autograd.gradgradcheck(toy, x)


@toys
def test_torch_func(toy, native):
    def loss(function):
        return lambda x: function(x).sin().sum()

    torch.testing.assert_close(torch.func.grad(loss(toy))(X), torch.func.grad(loss(native))(X))
    hessian = [torch.func.jacrev(torch.func.grad(loss(f))) for f in (toy, native)]
    torch.testing.assert_close(hessian[0](X), hessian[1](X))
    batch = torch.stack((X, X + 1, X * 2))
    if toy is DIFFERENTIABLE["updates"][0]:
        with pytest.raises(RuntimeError, match="Batching rule not implemented"):
            torch.func.vmap(toy)(batch)
        return
    torch.testing.assert_close(torch.func.vmap(toy)(batch), torch.func.vmap(native)(batch))


@toys
@pytest.mark.skipif(DEVICE == "cpu" and compiler() is None, reason="no C++ compiler")
def test_compiles_whole_and_keeps_its_gradient(toy, native):
    torch.compiler.reset()
    compiled = torch.compile(lambda x: toy(torch.sin(x)), fullgraph=True)
    x = X.clone().requires_grad_()
    torch.testing.assert_close(compiled(x), native(x.sin()))
    ran.clear()
    gradients = (torch.autograd.grad(f(x).sin().sum(), x)[0] for f in (compiled, lambda x: native(x.sin())))
    torch.testing.assert_close(*gradients)
    assert len(ran) == 2, f"a forward and a backward, not {ran}"


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "no_grad"])
def test_a_compiled_function_updates_what_it_is_given(recorded):
    """The gradient is turned back where the update is recorded, and passes by one under no_grad."""

    def loss(q, k):
        with torch.set_grad_enabled(recorded):
            ROTATE(q, k, ANGLE)
        return q.sin().sum() + (q * k).sum()

    def run(loss):
        leaves = [(X + n).requires_grad_() for n in (0, 1)]
        q, k = (leaf * 2 for leaf in leaves)
        gradients = torch.autograd.grad(loss(q, k), leaves)
        return *gradients, q.detach(), k.detach(), type(q.grad_fn).__name__ if not recorded else None

    torch.compiler.reset()
    one, other = run(torch.compile(loss, fullgraph=True, backend="aot_eager")), run(loss)
    torch.testing.assert_close(one[:4], other[:4])
    assert one[4] == other[4], "no_grad leaves the history of a tensor as it is"


def test_an_operation_without_a_gradient():
    x = X.clone().requires_grad_()
    assert torch.equal(ARGMAX(x), X.argmax(-1))
    assert torch.equal(torch.compile(lambda x: ARGMAX(x) + 1, fullgraph=True, backend="aot_eager")(x), X.argmax(-1) + 1)
    y, lse = LOG_SOFTMAX(x)
    assert y.requires_grad
    assert not lse.requires_grad


def test_a_mode_sees_the_operator():
    class Names(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    seen = []
    with Names():
        LOG_SOFTMAX(X, scale=2.0)
        ROTATE(X.clone(), X + 1, ANGLE)
        SOFTMAX(X)
        ARGMAX(X)
    assert [name for name in seen if name.startswith("kernels")] == [
        f"kernels.toy_{name}.default" for name in ("log_softmax", "rotate", "softmax", "argmax")
    ]


@pytest.mark.parametrize("call", [ROTATE, torch.ops.kernels.toy_rotate], ids=["function", "operator"])
@pytest.mark.parametrize("grad", [False, True])
def test_autograd_learns_of_an_update(call, grad):
    """A backward that would see a saved tensor after its update is refused, as with PyTorch's own operators."""
    q, k = (X + n for n in (0, 1))
    one = torch.ones((), dtype=X.dtype, device=DEVICE, requires_grad=True)
    product = (one * q).sum()
    with torch.set_grad_enabled(grad):
        assert call(q, k, ANGLE) is None
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
    leaf = X.clone().requires_grad_()
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        call(leaf, k, ANGLE)
    with torch.inference_mode():
        q = X.clone()
        call(q, k.clone(), ANGLE)
    assert torch.equal(q, rotated(X, ANGLE))


def test_arguments_are_bound_and_checked_first():
    ran.clear()
    assert torch.equal(LOG_SOFTMAX(scale=2.0, x=X)[0], log_softmax(X, 2.0)[0])
    assert len(ran) == 1
    for args, kwargs, error in (((), {}, "'x'"), ((X, 1.0, 2), {}, "too many"), ((X,), {"size": 1}, "'size'")):
        with pytest.raises(TypeError, match=error):
            LOG_SOFTMAX(*args, **kwargs)
    for call in (LOG_SOFTMAX, torch.ops.kernels.toy_log_softmax):
        with pytest.raises(ValueError, match="x: got 1 dimensions, expected 2"):
            call(X[0])
    assert len(ran) == 1


@pytest.mark.parametrize("count", range(5))
def test_arguments_are_bound_as_python_binds_them(count):
    signature = Signature("(Tensor x, Tensor? weight=None, float eps=1e-5) -> Tensor y", validate)
    args, words = tuple(range(count)), ("x", "weight", "eps", "other")

    def by_python(kwargs):
        bound = signature.python.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args

    def told(bind, *given):
        try:
            return bind(*given)
        except TypeError as error:
            return str(error)

    for number in range(len(words) + 1):
        for given in itertools.combinations(words, number):
            kwargs = dict.fromkeys(given, "given")
            assert told(signature.bind, args, kwargs) == told(by_python, kwargs)


def test_a_backward_holds_gradients_and_saved_outputs_to_the_shapes_of_outputs():
    signature = Signature(
        "(Tensor x) -> (Tensor y, Tensor lse)",
        validate,
        lambda x: ((x.shape, x.dtype), (x.shape[:1], torch.float32)),
        gradients=("x",),
        save=("x", "lse"),
        non_differentiable=("lse",),
        native_backward=softmax_backward,
    )
    x = torch.ones(3, 4, dtype=torch.bfloat16)
    y, lse = signature.empty_outputs(x)
    assert (y.shape, y.dtype, lse.shape, lse.dtype) == ((3, 4), torch.bfloat16, (3,), torch.float32)
    rules = kernel_schema(signature).validate_backward
    rules(y, x, lse)
    with pytest.raises(ValueError, match=r"dy: got shape \(3,\), expected \(3, 4\) like the forward's y"):
        rules(y[:, 0], x, lse)
    with pytest.raises(ValueError, match=r"lse: got shape \(2,\), expected \(3,\) like the forward's lse"):
        rules(y, x, lse[:2])
    with pytest.raises(TypeError, match="lse: got dtype torch.float64, expected torch.float32 like the forward's lse"):
        rules(y, x, lse.double())


@pytest.mark.parametrize("shape", [(3, 0), (2, 3, 0), (0, 4), (0,), (2, 3, 4)])
def test_rows_without_columns_are_rows(shape):
    assert as_rows(torch.zeros(shape)).shape == (math.prod(shape[:-1]), shape[-1])


def test_a_signature_names_what_is_in_its_schema():
    with pytest.raises(ValueError, match="lse: is neither a parameter nor an output of the schema"):
        Signature("(Tensor x) -> Tensor y", validate, save=("x", "lse"))
    with pytest.raises(ValueError, match="native_backward: got None"):
        Signature("(Tensor x) -> Tensor y", validate, gradients=("x",))
    signature = Signature("(Tensor x, int[] sizes, float? cap=None) -> (Tensor y, Tensor index)", validate)
    assert signature.backward_schema == "(Tensor dy, Tensor dindex, int[] sizes, float? cap) -> ()"
