"""Our modules in place of PyTorch's: the same state, the same numbers, at every level."""

import copy
import inspect
import pickle

import pytest
import torch

import kernels
from kernels.check import really_compiled
from kernels.modules import LayerNorm
from kernels.tolerance import compare

SHAPES = [(48,), (4, 12)]
SETTINGS = [{}, {"bias": False}, {"elementwise_affine": False}]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LEVELS = [None, 1, 2, 3, 4, 5, *kernels.LEVELS]


def trained(module: torch.nn.Module) -> torch.nn.Module:
    """With parameters that are not the initial ones."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape))
    return module


def test_it_is_made_as_torchs_is():
    ours, theirs = (inspect.signature(cls).parameters for cls in (LayerNorm, torch.nn.LayerNorm))
    assert [(p.name, p.default) for p in ours.values()][:-1] == [(p.name, p.default) for p in theirs.values()]
    assert list(ours)[-1] == "level"


@pytest.mark.parametrize("shape", [*SHAPES, 48, [4, 12], torch.Size([4, 12])], ids=str)
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_state_dicts_go_both_ways(shape, setting):
    ours, theirs = LayerNorm(shape, level=1, **setting), torch.nn.LayerNorm(shape, **setting)
    assert {k: (v.shape, v.dtype) for k, v in ours.state_dict().items()} == {
        k: (v.shape, v.dtype) for k, v in theirs.state_dict().items()
    }
    for name, initial in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], initial)
    for source, target in ((trained(ours), theirs), (trained(theirs), ours)):
        target.load_state_dict(source.state_dict())
        for name, value in source.state_dict().items():
            assert torch.equal(target.state_dict()[name], value)


@pytest.mark.parametrize("level", [None, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_output_and_gradients_at_every_level(level, shape, setting):
    if level == 4 and DEVICE == "cpu" and not kernels.machine.here(DEVICE).interpreting:
        pytest.skip("Triton is the compiler, and there is no GPU")
    theirs = trained(torch.nn.LayerNorm(shape, eps=0.1, device=DEVICE, **setting))
    ours = LayerNorm(shape, eps=0.1, device=DEVICE, level=level, **setting)
    ours.load_state_dict(theirs.state_dict())
    exact = copy.deepcopy(theirs).double()
    x = 1 + torch.randn(2, 3, *shape, device=DEVICE)
    dy = torch.randn_like(x)

    def results(module, x, dy):
        x = x.requires_grad_()
        y = module(x)
        return [y.detach(), *torch.autograd.grad(y, [x, *module.parameters()], dy)]

    expected, baseline = results(exact, x.double(), dy.double()), results(theirs, x.clone(), dy)
    with really_compiled():
        got = results(ours, x.clone(), dy)
    for name, *values in zip(["y", "x", "weight", "bias"], got, expected, baseline, strict=False):
        assert compare(*values, torch.float32)[1] is None, name


@pytest.mark.parametrize("level", LEVELS)
def test_it_takes_every_name_of_a_level_and_says_so(level):
    module = LayerNorm((4, 12), bias=False, level=level)
    assert repr(module) == f"{repr(torch.nn.LayerNorm((4, 12), bias=False))[:-1]}, level={level!r})"


@pytest.mark.parametrize("level", [0, 6, "tritn", 2.5, True])
def test_an_unknown_level_is_refused_when_the_module_is_made(level):
    with pytest.raises(ValueError, match="level: got .*, expected one of 1 'native'"):
        LayerNorm(48, level=level)


@pytest.mark.parametrize("shape", [(2, 47), (48, 2), (2, 3, 12), (12,), (2, 12, 4)])
def test_an_input_of_another_width_is_refused(shape):
    with pytest.raises(ValueError, match=r"input: got shape .*, expected \(\.\.\., 4, 12\)"):
        LayerNorm((4, 12))(torch.ones(shape))


@pytest.mark.parametrize("level", [1, 3, 4, 5])
def test_it_compiles_without_a_graph_break(level):
    module = trained(LayerNorm((4, 12), level=level, device=DEVICE))
    x = torch.randn(5, 4, 12, device=DEVICE)
    torch.testing.assert_close(torch.compile(module, fullgraph=True)(x), module(x))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_copies_keep_everything(duplicate):
    module = trained(LayerNorm((4, 12), eps=1e-3, level="triton", device=DEVICE))
    twin = duplicate(module)
    assert repr(twin) == repr(module)
    x = torch.randn(5, 4, 12, device=DEVICE)
    assert torch.equal(twin(x), module(x))
    with torch.no_grad():
        twin.weight.zero_()
    assert module.weight.abs().min() > 0
