"""Every operation as a citizen of PyTorch: registration, gradients, compilation, the same bits again, and errors."""

import contextlib
import inspect
import math
from dataclasses import replace

import pytest
import torch

import kernels
from kernels import replay, watch
from kernels.machine import here
from kernels.operation import LEVELS
from kernels.tolerance import compare

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
OPERATIONS = [kernels.operation(name) for name in kernels.operations()]
KERNELS = [pytest.param(op, v, id=f"{op.name}-{v.key}") for op in OPERATIONS for v in op.variants if v.level >= 4]
REGISTERED = [pytest.param(op, level, id=f"{op.name}-{level}") for op in OPERATIONS for level in ("triton", "cuda")]
LEVELS_OF = [pytest.param(op, level, id=f"{op.name}-{level}") for op in OPERATIONS for level in LEVELS]
DIFFERENTIABLE = [param for param in REGISTERED if param.values[0].gradients]
REPEATED = {"linear_cross_entropy": 0, "matmul": 1}
"""How many of forward and backward can be repeated where something in them is PyTorch's own: the products of a projection, the
row of ones by which a matrix product adds up its bias's gradient."""
HALF = {"float32": "bfloat16"}  # what stands for a dtype in a test of half precision; integers stay as they are


def plain_dtype(op):
    """float32, or of an operation on integers the first dtype that it has."""
    return op.cases["model"][0].dtype


def small_cases(op):
    """The model cases with few rows, and of the edge cases those that leave out an input or lay one out otherwise. None has a
    NaN, which equals nothing."""
    finite = (case for case in op.cases["edge"] if case.values != "nonfinite" and case.dtype == plain_dtype(op))
    unusual = (case for case in finite if case.params or case.layout != "contiguous")
    # One of each setting and layout: a reduction has all of its cases in some setting.
    unlike = {(str(case.params), str(case.sizes), case.layout): case for case in unusual if math.prod(case.shape)}
    few = {op.few(case, 3) for case in (*op.cases["model"], *unlike.values()) if math.prod(case.shape) < 10_000}
    return sorted((case for case in few if case.dtype == plain_dtype(op)), key=str)


def case_of(op):
    """A small case with every input, in float32 where the operation has it: one without params, if there is one, since a shape
    that is meant for others need not fit the defaults."""
    case = min(small_cases(op), key=lambda case: bool(case.params))
    return replace(case, params={}, layout="contiguous")


def needs(op, level, case):
    if reason := op[level].unsupported(case, here(DEVICE)):
        pytest.skip(reason)


def registered(op, level, suffix=""):
    return getattr(torch.ops.kernels, f"{op.name}_{level}{suffix}").default


def public(op):
    return getattr(kernels, op.name)


def leaves_of(op, inputs):
    """The inputs by name, those that have a gradient as leaves; and the leaves. What is updated in place comes of a leaf."""
    leaves = [inputs[name].detach().requires_grad_() for name in op.differentiable(inputs)]
    named = dict(zip(op.differentiable(inputs), leaves, strict=True))
    return inputs | {name: leaf.clone() if name in op.updates else leaf for name, leaf in named.items()}, leaves


def scalar(op, fn, inputs, power=3):
    """One differentiable number made of all outputs."""
    outputs = op.call(fn, inputs).values()
    return sum(y.double().pow(power).sum() for y in outputs if y.is_floating_point() and y.requires_grad)


@pytest.mark.parametrize(("op", "level"), REGISTERED)
def test_opcheck(op, level):
    for case in small_cases(op):
        needs(op, level, case)
        inputs, _ = leaves_of(op, op.inputs(case, DEVICE))
        torch.library.opcheck(registered(op, level), (), inputs)


@pytest.mark.parametrize(("op", "level"), REGISTERED)
def test_a_mode_sees_the_operator(op, level):
    """Plain calls go past the dispatcher; where someone watches it, they must not."""
    case, seen = case_of(op), []
    needs(op, level, case)

    class Names(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    inputs = op.inputs(case, DEVICE)
    with Names():
        public(op)(**inputs, level=level)
    assert seen == [f"kernels.{op.name}_{level}.default"]
    with torch._subclasses.FakeTensorMode() as mode:
        fake = {name: mode.from_tensor(v) if isinstance(v, torch.Tensor) else v for name, v in inputs.items()}
        found = op.call(lambda **inputs: public(op)(**inputs, level=level), fake)
    for name, value in op.call(op.baseline, inputs).items():
        assert type(found[name]) is not torch.Tensor and found[name].shape == value.shape


# In the interpreter programs run one after another: what it gives is the same anyway.
@pytest.mark.parametrize(
    ("op", "variant"),
    [p for p in KERNELS if p.values[1].deterministic and (DEVICE == "cuda" or p.values[1].level == 5)],
)
def test_the_same_bits_again(op, variant):
    for case in (replace(case, dtype=HALF.get(case.dtype, case.dtype)) for case in op.cases["repeated"]):
        inputs = op.inputs(case, DEVICE)
        incoming = op.incoming(case, op.results(op.baseline, inputs))
        one, other = (
            op.results(variant.fn, op.inputs(case, DEVICE), op.differentiable(inputs), incoming) for _ in range(2)
        )
        assert all(torch.equal(one[name], other[name]) for name in one), case


@pytest.mark.skipif(DEVICE == "cpu", reason="on a CPU blocks take their turns: the order of additions rarely changes")
@pytest.mark.parametrize(("op", "variant"), [p for p in KERNELS if not p.values[1].deterministic])
def test_what_is_said_to_be_not_deterministic_is_not(op, variant):
    case = max(op.cases["repeated"], key=lambda case: math.prod(case.shape[:-1]))
    case = replace(case, shape=(30_000, *case.shape[1:-1], 1_000))
    inputs = op.inputs(case, DEVICE)
    incoming = op.incoming(case, op.results(op.baseline, inputs))
    runs = [op.results(variant.fn, inputs, op.differentiable(inputs), incoming) for _ in range(10)]
    assert any(not torch.equal(run[name], runs[0][name]) for run in runs for name in run)


@pytest.mark.parametrize(("op", "variant"), [p for p in KERNELS if p.values[0].gradients])
def test_the_gradient_of_one_input_alone(op, variant):
    case = case_of(op)
    needs(op, variant.key, case)
    for wanted in op.differentiable(op.inputs(case, DEVICE)):
        found = []
        for fn in (op["native"].fn, variant.fn):
            inputs = op.inputs(case, DEVICE)
            leaf = inputs[wanted].requires_grad_()
            passed = inputs | ({wanted: leaf.clone()} if wanted in op.updates else {})
            found += torch.autograd.grad(scalar(op, fn, passed, 2), leaf)
        torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("op", "level"), DIFFERENTIABLE)
def test_gradients_of_gradients(op, level):
    needs(op, level, case_of(op))

    def penalty(level):
        inputs, leaves = leaves_of(op, op.inputs(case_of(op), DEVICE))
        loss = scalar(op, lambda **inputs: public(op)(**inputs, level=level), inputs)
        first = torch.autograd.grad(loss, leaves, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), leaves)

    for got, expected in zip(penalty(level), penalty("native"), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))


@pytest.mark.parametrize(("op", "level"), [p for p in DIFFERENTIABLE if not p.values[0].updates])
def test_torch_func(op, level):
    needs(op, level, case_of(op))
    inputs = op.inputs(case_of(op), DEVICE)
    names = op.differentiable(inputs)

    def gradients(level):
        def loss(*values):
            return scalar(op, lambda **i: public(op)(**i, level=level), inputs | dict(zip(names, values, strict=True)))

        return torch.func.grad(loss, tuple(range(len(names))))(*(inputs[name] for name in names))

    for got, expected in zip(gradients(level), gradients("native"), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("op", "level"), [p for p in LEVELS_OF if p.values[1] != "torchscript"])
def test_compiles_whole_and_keeps_its_gradient(op, level):
    needs(op, level, case_of(op))

    def loss(named):
        return scalar(op, lambda **inputs: public(op)(**inputs, level=level), named, 2)

    def run(loss):
        inputs, leaves = leaves_of(op, op.inputs(case_of(op), DEVICE))
        if not op.gradients:
            return tuple(op.call(lambda **inputs: public(op)(**inputs, level=level), inputs).values())
        return torch.autograd.grad(loss(inputs), leaves)

    expected = run(loss)
    torch.compiler.reset()
    for one, other in zip(run(torch.compile(loss, fullgraph=True)), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("op", [op for op in OPERATIONS if op.gradients], ids=lambda op: op.name)
def test_gradcheck_in_float64(op):
    inputs = op.inputs(case_of(op), "cpu")
    names = op.differentiable(inputs)
    few = {name: v[..., :7] if isinstance(v, torch.Tensor) else v for name, v in inputs.items()}
    if op.name == "matmul":  # the rows of w meet the columns of x
        few["w"] = few["w"][:7]
    if op.name == "rope":  # as many pairs as there are angles
        few |= {name: inputs[name][..., :14] for name in names}
    if op.name == "cross_entropy":  # of seven classes
        few["target"] = few["target"] % 7
    leaves = [few[name].double().requires_grad_() for name in names]

    def fn(*values):
        named = dict(zip(names, values, strict=True))
        passed = few | {name: v.clone() if name in op.updates else v for name, v in named.items()}
        return tuple(y for y in op.call(op["native"].fn, passed).values() if y.requires_grad)

    assert torch.autograd.gradcheck(fn, leaves)


@pytest.mark.parametrize(("op", "level"), LEVELS_OF)
def test_a_wrong_tensor_is_named(op, level):
    """Each tensor argument in turn: no tensor, another dtype, another device."""
    inputs = op.inputs(case_of(op), DEVICE)
    tensors = [name for name, value in inputs.items() if isinstance(value, torch.Tensor)]
    for name in tensors:
        wrong = [("tensor", TypeError, "got str"), (inputs[name].to(torch.complex64), TypeError, "got dtype")]
        wrong += [(inputs[name].to("meta"), ValueError, "is on meta")] if name != tensors[0] else []
        for value, error, words in wrong:
            with pytest.raises(error, match=rf"{name}: {words}"):
                public(op)(**(inputs | {name: value}), level=level)


@pytest.mark.parametrize(("op", "level"), [p for p in REGISTERED if plain_dtype(p.values[0]) == "float32"])
def test_registered_operators_refuse_float64(op, level):
    inputs = op.inputs(case_of(op), DEVICE)
    wide = {
        name: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for name, v in inputs.items()
    }
    with pytest.raises(TypeError, match="got dtype torch.float64, expected float32, float16 or bfloat16"):
        registered(op, level)(**wide)


@pytest.mark.parametrize(("op", "level"), DIFFERENTIABLE)
def test_the_backward_validates_too(op, level):
    """Its first argument is the gradient of the first output."""
    forward, backward = registered(op, level), registered(op, level, "_backward")
    inputs = op.inputs(case_of(op), DEVICE)
    outputs = op.call(op.baseline, inputs)
    result = forward(**inputs)
    returned = zip(forward._schema.returns, result if isinstance(result, tuple | list) else (result,), strict=False)
    kept = {
        one.name: value for one, value in returned if one.name and one.name not in outputs
    }  # for the backward alone
    defaults = {a.name: a.default_value for a in forward._schema.arguments if a.has_default_value()}
    known = defaults | inputs | outputs | kept | {f"d{name}": torch.ones_like(v) for name, v in outputs.items()}
    names = [argument.name for argument in backward._schema.arguments]
    given = {name: known[name] for name in names if name in known}
    saved = any(isinstance(value, torch.Tensor) for name, value in given.items() if not name.startswith("d"))
    for name in (name for name in names if name.startswith("d") and isinstance(given.get(name), torch.Tensor)):
        with pytest.raises(ValueError, match=f"{name}: got shape") if saved else contextlib.nullcontext():
            backward(**(given | {name: given[name][..., :-1] if given[name].dim() else given[name].expand(2)}))
        with pytest.raises(TypeError, match=f"{name}: got dtype"):
            backward(**(given | {name: given[name].to(torch.float64)}))


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_levels_go_by_number_and_name(op):
    for number, name in enumerate(LEVELS, 1):
        if op[name].unsupported(case_of(op), here(DEVICE)) is None:
            one, other = (
                op.call(lambda level=level, **i: public(op)(**i, level=level), op.inputs(case_of(op), DEVICE))
                for level in (number, name)
            )
            for output in one:  # level 3 may add with several threads, in no order
                torch.testing.assert_close(one[output], other[output])
    for level in (0, 6, "tritium", True, 2.0):
        with pytest.raises(ValueError, match=r"level: got .*, expected one of 1 'native'"):
            public(op)(**op.inputs(case_of(op), DEVICE), level=level)


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_the_docstring_says_what_operations_have_in_common(op):
    said = inspect.getdoc(public(op))
    assert said.count("\n    level: 1 to 5") == 1 and said.index("Args:") < said.index("level: 1 to 5")
    if "Returns and raises what" not in said:
        raised = said.partition("\n\nRaises:\n")[2].split("\n    ")
        assert [line.split(":")[0].strip() for line in raised if ": " in line and "Error" in line] == [
            "TypeError, ValueError",
            "NotImplementedError",
            "kernels.cuda.CompileError",
        ]


@pytest.mark.parametrize(("op", "level"), DIFFERENTIABLE)
def test_forward_mode_is_refused_rather_than_zero(op, level):
    inputs = op.inputs(case_of(op), DEVICE)
    name = op.differentiable(inputs)[0]
    with pytest.raises(NotImplementedError, match="reverse mode only"):
        torch.func.jvp(
            lambda x: public(op)(**(inputs | {name: x}), level=level), (inputs[name],), (torch.ones_like(inputs[name]),)
        )


@pytest.mark.skipif(DEVICE == "cpu", reason="2^31 elements take a GPU's memory and speed")
@pytest.mark.parametrize(("op", "variant"), KERNELS)
def test_more_than_2_to_the_31_elements(op, variant):
    """Judged by the last rows, of outputs and gradients that have a row for each row of the input."""
    for case in op.cases["huge"]:
        inputs = op.inputs(case, DEVICE)
        rows = [name for name in op.differentiable(inputs) if inputs[name].shape == case.shape]

        def ends(values, M=case.shape[0]):
            return {n: v[-7:].clone() if getattr(v, "shape", [0])[:1] == (M,) else v for n, v in values.items()}

        few = ends(inputs)  # before what is updated in place is
        incoming = ends(op.incoming(case, op.results(op.baseline, inputs)))
        found = ends(op.results(variant.fn, inputs, rows, op.incoming(case, op.results(op.baseline, inputs))))
        exact = {n: v.double() if getattr(v, "is_floating_point", bool)() else v for n, v in few.items()}
        baseline = op.results(op.baseline, few, rows, incoming)
        expected = op.results(op.reference, exact, rows, {n: dy.double() for n, dy in incoming.items()})
        for name, value in found.items():
            _, failure = compare(value, expected[name], baseline[name], baseline[name].dtype)
            assert failure is None, f"{case} {name}: {failure}"


@pytest.mark.parametrize(("op", "level"), REGISTERED)
def test_calls_that_come_again_give_the_same_bits(op, level, monkeypatch):
    """What kernels.replay repeats, against the kernels' own Python. On a CPU, tensors say that they are on a GPU."""
    case, repetition, repeated = case_of(op), replay.repetition, []
    needs(op, level, case)
    if DEVICE == "cpu":
        if level == "triton":
            pytest.skip("Triton's interpreter is never repeated")
        monkeypatch.setattr(torch.Tensor, "get_device", lambda tensor: 0)
        monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)
    monkeypatch.setattr(replay, "repetition", lambda *args: repeated.append(repetition(*args)) or repeated[-1])

    def results(inputs):
        named, leaves = leaves_of(op, inputs)
        outputs = [*op.call(op[level].fn, named).values()]
        loss = sum(y.float().pow(3).sum() for y in outputs if y.requires_grad)
        return outputs + [*torch.autograd.grad(loss, leaves)] if leaves else outputs

    for seed in range(4):
        inputs = op.inputs(case, device=DEVICE, seed=seed)
        with watch.seen():
            expected = results(inputs)
        for one, other in zip(results(inputs), expected, strict=True):
            assert torch.equal(one, other)
    can_be = REPEATED.get(op.name, 1 + bool(op.gradients))
    assert len(repeated) == can_be, "the forward and the backward of its contiguous inputs can be repeated"


@pytest.mark.parametrize(("op", "level"), LEVELS_OF)
def test_no_rows_again_and_again(op, level):
    """Compilers that watch calls before they compile have compiled for tensors without elements by then."""
    case = replace(case_of(op), dtype=HALF.get(plain_dtype(op), plain_dtype(op)), shape=(0, *case_of(op).shape[1:]))
    needs(op, level, case)
    inputs = op.inputs(case, device=DEVICE)
    for _ in range(5):
        outputs = op.call(op[level].fn, inputs)
    for name, expected in op.call(op.baseline, inputs).items():
        torch.testing.assert_close(outputs[name], expected, equal_nan=True)
