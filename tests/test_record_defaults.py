"""What a record takes from its levels."""

from types import SimpleNamespace

import pytest
import torch

from kernels import levels
from kernels.operation import Output, Variant
from kernels.signature import Signature


def modules(schema, kernel, **fields):
    """A native module and two of kernels, as the files of an operation would be, each with one rung."""
    signature = Signature(schema, lambda *args: None, **fields)
    native = SimpleNamespace(
        __file__="native.py", toy_of_modules=kernel, validate=signature.validate, SIGNATURE=signature
    )
    ladder = [SimpleNamespace(FORWARD=(Variant(n, "row", kernel, "", ()),)) for n in (4, 5)]
    return native, *ladder


def test_outputs_and_gradients_come_from_the_signature():
    native, triton, cuda = modules(
        "(Tensor x) -> (Tensor loss, Tensor lse)",
        lambda x: (x.sum(-1), x.logsumexp(-1)),
        non_differentiable=("lse",),
    )
    fields = levels.from_modules("toy_of_modules", native, triton, cuda, lse="float32")
    assert fields["outputs"] == (Output("loss"), Output("lse", "float32", differentiable=False))
    assert fields["updates"] == fields["gradients"] == fields["backward"] == ()
    assert [rung.level for rung in fields["forward"]] == [1, 2, 3, 4, 5]
    x = torch.randn(3, 4)
    for rung in fields["forward"][3:]:
        assert torch.equal(rung(x)[1], x.logsumexp(-1))


def test_a_dtype_of_no_output_is_refused():
    with pytest.raises(TypeError, match="got ls, expected outputs of toy_of_modules: q"):
        levels.from_modules("toy_of_modules", *modules("(Tensor(a!) q) -> ()", torch.Tensor.neg_), ls="float32")


@pytest.mark.parametrize(
    ("device", "dtype", "number"),
    [("cpu", torch.float32, 1), ("cuda", torch.float32, 4), ("cuda", torch.bfloat16, 4), ("cuda", torch.float64, 1)],
)
def test_the_level_of_a_call_that_names_none(device, dtype, number):
    with torch._subclasses.FakeTensorMode():
        assert levels.chosen(None, torch.empty(2, device=device, dtype=dtype)) == number
    assert levels.chosen("cuda", None) == 5
