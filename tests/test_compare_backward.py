"""measure.compare, backward, and what a call keeps the host busy."""

import dataclasses
import time

import pytest
import torch

import kernels
from kernels import measure
from kernels.measure.contestants import Contestant, default_variants, prepared, timed_call
from kernels.operation import Peer, Variant


def alone():
    """Layer norm with torch as its one peer, which spares compiling another."""
    op = kernels.operation("layer_norm")
    return dataclasses.replace(op, peers=tuple(peer for peer in op.peers if peer.name == "torch"))


def backward(op=None, **fields):
    op = op or kernels.operation("layer_norm")
    return measure.compare(op, shape=(8, 32), direction="backward", device="cpu", **fields)


def test_backward_times_gradients_of_every_level_and_peer_and_counts_their_bytes():
    compared = backward()
    op = kernels.operation("layer_norm")
    assert {row.contestant for row in compared.rows} >= {"native/eager", "compiled/inductor", "torch", "copy"}
    assert {row.direction for row in compared.rows} == {"backward"}
    # Read dy, x and weight; write dx, dweight and dbias.
    assert op.backward_cost(kernels.Case((8, 32))).bytes == 4 * (3 * 8 * 32 + 3 * 32)
    row = compared["torch"]
    assert row.gbps == pytest.approx(4 * (3 * 8 * 32 + 3 * 32) / row.median_ms / 1e6)
    assert 0 < row.max_error_ratio <= 1
    assert row.host_us is None


class _WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, which, factor):
        ctx.save_for_backward(x, weight, bias)
        ctx.which, ctx.factor = which, factor
        return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias)

    @staticmethod
    def backward(ctx, dy):
        leaves = [tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
        with torch.enable_grad():
            y = torch.nn.functional.layer_norm(leaves[0], leaves[0].shape[-1:], leaves[1], leaves[2])
        gradients = list(torch.autograd.grad(y, leaves, dy))
        gradients[ctx.which] = gradients[ctx.which] * ctx.factor if ctx.factor else None
        return *gradients, None, None


@pytest.mark.parametrize(("which", "name"), list(enumerate(["dx", "dweight", "dbias"])))
@pytest.mark.parametrize("factor", [1.01, 0])
def test_a_wrong_gradient_gets_no_time(which, name, factor):
    variant = Variant(1, "wrong", lambda x, weight, bias: _WrongGradient.apply(x, weight, bias, which, factor), "", ())
    with pytest.raises(ArithmeticError, match=rf"native/wrong backward .*: {name}: "):
        backward(variants=(variant,), op=alone())
    right = Variant(1, "right", lambda x, weight, bias: _WrongGradient.apply(x, weight, bias, which, 1.0), "", ())
    assert backward(variants=(right,), op=alone())["native/right"].max_error_ratio <= 1


def test_a_level_takes_part_in_the_backward_by_its_rungs_or_else_by_its_default():
    op = kernels.operation("layer_norm")
    rungs = tuple(Variant(4, name, op["native"].fn, "", ()) for name in ("atomics", "partials"))
    found = default_variants(dataclasses.replace(op, backward=rungs), "backward", "cuda")
    assert [v.key for v in found if v.level == 4] == ["triton/atomics", "triton/partials"]
    assert [v for v in found if v.level == 2] == [op.default(2)]
    assert {v.level for v in default_variants(op, "backward", "cpu")} == {1, 2, 3}


def test_a_peer_without_gradients_is_absent_from_the_backward_with_its_reason():
    op = kernels.operation("layer_norm")
    peer = Peer("half", lambda: op.baseline, no_backward="has no backward kernel")
    op = dataclasses.replace(op, peers=(peer,))
    assert measure.compare(op, shape=(8, 32), variants=(), direction="backward", device="cpu").absent == {
        "half": "has no backward kernel"
    }
    assert measure.compare(op, shape=(8, 32), variants=(), device="cpu")["half"].kind == "peer"


def test_a_direction_that_cannot_be_timed_is_refused():
    op = kernels.operation("layer_norm")
    with pytest.raises(ValueError, match="direction: got 'sideways', expected one of 'forward', 'backward'"):
        measure.compare(op, shape=(8, 32), direction="sideways", device="cpu")
    with pytest.raises(ValueError, match="layer_norm says no backward_cost"):
        measure.compare(dataclasses.replace(op, backward_cost=None), shape=(8, 32), direction="backward", device="cpu")


def test_the_host_time_is_that_of_a_call_without_rows(monkeypatch):
    """A contestant that keeps the host a millisecond even for no rows shows it, and no rows is what it is given."""
    shapes = []

    def slow(x, weight, bias):
        shapes.append(tuple(x.shape))
        assert not torch.is_grad_enabled()
        until = time.perf_counter() + 1e-3
        while time.perf_counter() < until:
            pass
        return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias)

    slow = Variant(1, "slow", slow, "", ())
    compared = measure.compare(alone(), shape=(8, 32), variants=(slow,), device="cpu")
    assert compared["native/slow"].host_us >= 1000
    assert 0 < compared["torch"].host_us < 1000
    assert shapes[-1] == (0, 32)
    assert compared["copy"].host_us is None


def test_a_peer_that_refuses_no_rows_has_no_host_time():
    def refuses(x, weight, bias):
        assert len(x)
        return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias)

    op = dataclasses.replace(kernels.operation("layer_norm"), peers=(Peer("refuses", lambda: refuses),))
    compared = measure.compare(op, shape=(8, 32), variants=(op["native"],), device="cpu")
    assert compared["refuses"].host_us is None
    assert compared["native/eager"].host_us > 0


class _InPlace(torch.autograd.Function):
    """As Liger's SwiGLU: the gradient goes to where an input was, and to where that of the output was."""

    @staticmethod
    def forward(ctx, gate, up):
        ctx.save_for_backward(gate, up)
        return torch.nn.functional.silu(gate) * up

    @staticmethod
    def backward(ctx, dy):
        gate, up = ctx.saved_tensors
        with torch.enable_grad():
            leaves = gate.clone().requires_grad_(), up.clone().requires_grad_()
            dgate, dup = torch.autograd.grad(torch.nn.functional.silu(leaves[0]) * leaves[1], leaves, dy)
        for overwritten, value in ((dy, 1e9), (gate, dgate), (up, dup)):
            overwritten.data.copy_(torch.as_tensor(value))  # as a kernel writes: autograd does not see it
        return dgate, dup


def test_a_peer_that_overwrites_its_inputs_overwrites_nobody_elses():
    op = kernels.operation("swiglu")
    peer = Peer("in place", lambda: lambda gate, up, activation="silu": _InPlace.apply(gate, up))
    op = dataclasses.replace(op, peers=(peer,))
    compared = backward(op, variants=default_variants(op, "backward", "cpu")[:1])
    assert all(row.max_error_ratio <= 1 for row in compared.rows if row.kind == "variant")
    inputs = dict(gate=torch.randn(4, 8), up=torch.randn(4, 8))
    contestant = Contestant(peer.name, "peer", None, peer.load())
    data = {"inputs": inputs, "incoming": {"y": torch.ones(4, 8)}}
    before = [one.clone() for one in (*inputs.values(), data["incoming"]["y"])]
    timed_call(contestant, "backward")(prepared(op, contestant, "backward", data))
    assert all(map(torch.equal, before, (*inputs.values(), data["incoming"]["y"])))
