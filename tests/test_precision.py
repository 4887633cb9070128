"""Fewer bits: errors that name the argument, edge cases, and every value that bfloat16 has."""

import pytest
import torch
from torch import nn

from kernels.modules import Swapped
from kernels.precision import (
    Float8Linear,
    allocate_bits,
    convert_back,
    convert_to_float8,
    overflows,
    prune_2_4,
    quantize_weights,
)
from kernels.precision.evenly import evenly
from kernels.precision.four_bits import E2M1, pack, to_e2m1, unpack
from kernels.precision.rounding import rounded
from kernels.systems import float8


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))


def test_float8_keeps_the_parameters_and_comes_back():
    model, x = mlp(), torch.randn(16, 32)
    expected, state = model(x), {name: value.clone() for name, value in model.state_dict().items()}
    done = convert_to_float8(model)
    assert done.replaced == ("0",) and done.left == {"2": "out_features: got 10, expected a multiple of 16"}
    assert model.state_dict().keys() == state.keys()
    assert 0 < (model(x) - expected).norm() / expected.norm() < 0.06
    assert convert_back(model).replaced == ("0",)
    assert torch.equal(model(x), expected)
    assert overflows(model) == {}


def test_float8_adds_its_bias_and_takes_any_leading_sizes():
    layer, x = Float8Linear(32, 48), torch.randn(2, 8, 32)
    with_bias = layer(x)
    bias, layer.bias = layer.bias, None
    assert torch.allclose(layer(x) + bias, with_bias, atol=1e-6)
    assert with_bias.shape == (2, 8, 48)
    assert not layer(torch.zeros(16, 32)).any()


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"forward": "e5m2"}, "forward: got 'e5m2', expected one of e4m3"),
        ({"backward": "e3m4"}, "backward: got 'e3m4', expected one of e4m3, e5m2"),
        ({"scaling": "block"}, "scaling: got 'block', expected one of tensor, row, delayed"),
    ],
)
def test_a_wrong_float8_setting_is_named(setting, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        convert_to_float8(mlp(), **setting)


def test_sizes_that_float8_cannot_multiply_are_named():
    with pytest.raises(ValueError, match="^in_features: got 17, expected a multiple of 16"):
        Float8Linear(17, 32)
    with pytest.raises(ValueError, match="^x: got 3 rows to train on, expected a multiple of 16"):
        Float8Linear(32, 32)(torch.randn(3, 32))
    with pytest.raises(ValueError, match="^x: got 16 features, expected in_features, 32"):
        Float8Linear(32, 32)(torch.randn(16, 16))
    with torch.no_grad():
        assert Float8Linear(32, 32)(torch.randn(3, 32)).shape == (3, 32)
    with pytest.raises(TypeError, match="^model: got a Linear"):
        convert_to_float8(nn.Linear(16, 16))


def test_a_training_loop_skips_the_step_that_overflowed():
    plain, _ = float8.train(None, "cpu", 10, -1)
    eight, skipped = float8.train("delayed", "cpu", 10, -1)
    assert skipped == [] and eight[-1] == pytest.approx(plain[-1], rel=0.1)
    losses, skipped = float8.train("delayed", "cpu", 10, 5)
    assert skipped == [5] and losses[5] == pytest.approx(losses[4], rel=0.02)  # rounded otherwise: the scale saw it
    assert losses[:5] == eight[:5]


def test_numbers_of_small_formats():
    for format, dtype in (("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)):
        codes = torch.arange(256, dtype=torch.uint8).view(dtype).double()
        codes = codes[codes.isfinite()]
        assert torch.equal(rounded(codes, format), codes)  # the format has them all, and no cast is needed to say so
        assert rounded(torch.tensor(1e9), format) == codes.max()
    assert rounded(torch.tensor([0.25, 0.3, 5.0, -7.0]), "e2m1").tolist() == [0.0, 0.5, 4.0, -6.0]
    with pytest.raises(ValueError, match="^format: got 'e3m2', expected one of e5m2, e4m3, e2m1"):
        rounded(torch.ones(1), "e3m2")


def test_four_bits_on_every_value_of_bfloat16():
    x = torch.arange(2**16).to(torch.int16).view(torch.bfloat16)
    x = x[x.isfinite()]
    table = torch.tensor([*E2M1, *(-value for value in E2M1)])
    assert torch.equal(table[to_e2m1(x).int()].double(), rounded(x, "e2m1"))
    codes = torch.arange(16, dtype=torch.uint8)
    assert pack(codes)[:2].tolist() == [0x10, 0x32] and torch.equal(unpack(pack(codes)), codes)


def test_quantized_weights_name_what_they_leave():
    model = nn.Sequential(nn.Linear(32, 10), nn.Linear(10, 32), nn.Linear(32, 4))
    model[2].weight.data[0, 0] = float("nan")
    x = torch.randn(3, 32, requires_grad=True)
    assert quantize_weights(model) == Swapped(
        ("0",),
        {
            "1": "in_features: got 10, expected a multiple of nvfp4's group, 16",
            "2": "weight: got infinities or NaN, expected finite values",
        },
    )
    model[0](x).sum().backward()
    assert x.grad is not None and [name for name, _ in model[0].named_parameters()] == ["bias"]
    with pytest.raises(ValueError, match="^format: got 'int4', expected one of nvfp4, mxfp4"):
        quantize_weights(mlp(), "int4")


def test_pruned_layers_keep_their_parameters_and_name_what_is_left():
    model = nn.Sequential(nn.Linear(32, 6), nn.Linear(6, 8), nn.Linear(8, 4))
    model[2].weight.data[0, 0] = float("nan")
    weight = model[0].weight
    assert prune_2_4(model) == Swapped(
        ("0",),
        {
            "1": "in_features: got 6, expected a multiple of 4",
            "2": "weight: got NaN, expected numbers that can be ordered",
        },
    )
    assert model[0].weight is weight and torch.equal(
        weight.unflatten(1, (-1, 4)).count_nonzero(-1), torch.full((6, 8), 2)
    )
    with pytest.raises(ValueError, match="^device: got cpu, expected cuda"):
        model[0].compressed()


def test_weights_that_are_evenly_spaced():
    torch.manual_seed(0)
    x = torch.randn(6, 40, dtype=torch.bfloat16)
    for bits in (2, 3, 8):
        values = evenly(x, bits)
        assert values.dtype == x.dtype and values.shape == x.shape
        for group in (*values[:, :32], *values[:, 32:]):  # the last has 8 weights, and a scale of its own
            assert 1 < len(group.unique()) < 2**bits
    assert (evenly(x, 8) - x).norm() < 0.02 * x.norm() < (evenly(x, 2) - x).norm()
    assert not evenly(torch.zeros(2, 32), 4).any()


@pytest.mark.parametrize("by", ["uniform", "entropy", "error", "fisher"])
def test_bits_are_given_to_layers_that_are_shared_frozen_or_not_used(by):
    torch.manual_seed(0)
    shared, unused = nn.Linear(16, 16), nn.Linear(16, 8)
    model = nn.Sequential(shared, nn.ReLU(), nn.Linear(16, 16).requires_grad_(False))
    model.append(nn.Linear(16, 16))
    model[3].weight = shared.weight
    model.unused = unused
    model.forward = lambda x: model[3](model[2](model[1](model[0](x))))
    before = unused.weight.clone()
    with torch.no_grad():
        given = allocate_bits(model, torch.randn(4, 16), bits=8, by=by)
    assert given == {"0": 8, "2": 8, "unused": 8}
    assert model[3].weight is shared.weight and not torch.equal(unused.weight, before)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_fisher_gives_bits_to_layers_that_the_output_depends_on():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32))
    model.forward = lambda x: model[0](x) + 1e-3 * model[1](x)  # the last is not used at all
    assert allocate_bits(model, torch.randn(64, 32), bits=4, by="fisher") == {"0": 8, "1": 2, "2": 2}


def test_bits_that_do_not_suffice_for_a_large_layer_go_to_a_small_one():
    assert allocate_bits(mlp(), torch.randn(8, 32), bits=2.5, by="uniform") == {"0": 2, "2": 4}


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"by": "magic"}, "by: got 'magic', expected one of uniform, entropy, error, fisher"),
        ({"bits": 1.5}, "bits: got 1.5, expected 2 to 8"),
        ({"bits": float("nan")}, "bits: got nan, expected 2 to 8"),
        ({"model": nn.Sequential(nn.ReLU())}, "model: got Sequential without an nn.Linear, expected one at least"),
    ],
)
def test_a_wrong_allocation_is_named(setting, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        allocate_bits(setting.pop("model", None) or mlp(), torch.randn(4, 32), **setting)


def test_weights_that_have_no_bits_are_named_before_any_is_rounded():
    model = mlp()
    model[2].weight.data[0, 0] = float("inf")
    before = model[0].weight.clone()
    with pytest.raises(ValueError, match="^2.weight: got infinities or NaN, expected finite values"):
        allocate_bits(model, torch.randn(4, 32))
    assert torch.equal(model[0].weight, before)
