"""Our modules in place of PyTorch's: the same state, the same numbers, at every level."""

import copy
import inspect
import pickle
from functools import partial

import pytest
import torch

import kernels
from kernels.check import really_compiled
from kernels.modules import MLP, Embedding, GeGLU, LayerNorm, RMSNorm, Softmax, SwiGLU, swap
from kernels.tolerance import compare
from kernels.validation import in_float64

SHAPES = [(48,), (4, 12)]
NORMS = [(LayerNorm, setting) for setting in ({}, {"bias": False}, {"elementwise_affine": False})]
NORMS += [(RMSNorm, setting) for setting in ({}, {"elementwise_affine": False})]
SETTINGS = [pytest.param(*norm, id=f"{norm[0].__name__}-{norm[1]}") for norm in NORMS]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LEVELS = [None, 1, 2, 3, 4, 5, *kernels.LEVELS]


def trained(module: torch.nn.Module) -> torch.nn.Module:
    """With parameters that are not the initial ones."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape))
    return module


@pytest.mark.parametrize("cls", [Embedding, LayerNorm, RMSNorm, Softmax])
def test_it_is_made_as_torchs_is(cls):
    ours, theirs = (inspect.signature(one).parameters for one in (cls, getattr(torch.nn, cls.__name__)))
    assert [(p.name, p.default) for p in ours.values()][:-1] == [(p.name, p.default) for p in theirs.values()]
    assert list(ours)[-1] == "level"


@pytest.mark.parametrize("shape", [*SHAPES, 48, [4, 12], torch.Size([4, 12])], ids=str)
@pytest.mark.parametrize(("cls", "setting"), SETTINGS)
def test_state_dicts_go_both_ways(shape, cls, setting):
    ours, theirs = cls(shape, level=1, **setting), getattr(torch.nn, cls.__name__)(shape, **setting)
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
@pytest.mark.parametrize(("cls", "setting"), SETTINGS)
def test_output_and_gradients_at_every_level(level, shape, cls, setting):
    theirs = trained(getattr(torch.nn, cls.__name__)(shape, eps=0.1, device=DEVICE, **setting))
    ours = cls(shape, eps=0.1, device=DEVICE, level=level, **setting)
    ours.load_state_dict(theirs.state_dict())
    as_right_as(ours, theirs, 1 + torch.randn(2, 3, *shape, device=DEVICE))


def as_right_as(ours, theirs, x):
    """Output and gradients within the error bound, which is by their errors."""
    if ours.level == 4 and DEVICE == "cpu" and not kernels.machine.here(DEVICE).interpreting:
        pytest.skip("Triton is the compiler, and there is no GPU")
    exact, dy = in_float64(theirs), torch.randn_like(theirs(x))

    def results(module, x, dy):
        x = x.requires_grad_()
        y = module(x)
        return [y.detach(), *torch.autograd.grad(y, [x, *module.parameters()], dy)]

    expected, baseline = results(exact, x.double(), dy.double()), results(theirs, x.clone(), dy)
    with really_compiled():
        got = results(ours, x.clone(), dy)
    for name, *values in zip(["y", "x", *dict(ours.named_parameters())], got, expected, baseline, strict=True):
        assert compare(*values, torch.float32)[1] is None, name


@pytest.mark.parametrize("level", [None, 1, 4, 5])
@pytest.mark.parametrize("dim", [-1, 2, 0, -2])
def test_softmax_over_any_dimension(level, dim):
    as_right_as(Softmax(dim, level), torch.nn.Softmax(dim), torch.randn(2, 3, 5, device=DEVICE))


def test_rms_norm_has_torchs_eps_where_none_is_given():
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        x = torch.full((2, 48), 1e-4, dtype=dtype)
        torch.testing.assert_close(RMSNorm(48, dtype=dtype)(x), torch.nn.RMSNorm(48, dtype=dtype)(x))


@pytest.mark.parametrize("level", [1, 4, 5])
@pytest.mark.parametrize("cls", [MLP, SwiGLU, GeGLU])
def test_mlps_at_a_level(level, cls):
    theirs = trained(cls(12, 20, level=1).to(DEVICE))
    ours = copy.deepcopy(theirs)
    ours.level = level
    as_right_as(ours, theirs, torch.randn(2, 3, 12, device=DEVICE))


@pytest.mark.parametrize("level", [4, 5])
def test_an_mlp_calls_what_has_taken_the_place_of_its_first_layer(level):
    mlp, x = trained(MLP(12, 20, level=level).to(DEVICE)), torch.randn(3, 12, device=DEVICE)
    expected = mlp(x)
    hook = mlp.up.register_forward_hook(lambda module, args, output: 0 * output)
    torch.testing.assert_close(mlp(x), mlp.down.bias.expand(3, 12))
    hook.remove()
    mlp.up = torch.nn.Sequential(mlp.up)
    torch.testing.assert_close(mlp(x), expected)
    with torch.autocast(DEVICE, torch.bfloat16):
        assert mlp(x).dtype == torch.bfloat16
        mlp.up = mlp.up[0]
        assert mlp(x).dtype == torch.bfloat16


def test_swap_replaces_norms_and_softmax_and_keeps_their_parameters():
    model = torch.nn.Sequential(
        torch.nn.RMSNorm(12, 1e-3), torch.nn.LayerNorm(12), torch.nn.Softmax(-1), torch.nn.Softmax()
    )
    before, x = copy.deepcopy(trained(model)[:3]), torch.randn(5, 12)
    parameters = list(model.parameters())
    done = swap(model, level="cuda")
    assert done.replaced == ("0", "1", "2") and "no dimension" in done.left["3"]
    assert all(one is other for one, other in zip(model.parameters(), parameters, strict=True))
    assert [type(one) for one in model[:3]] == [RMSNorm, LayerNorm, Softmax]
    torch.testing.assert_close(model[:3](x), before(x))


@pytest.mark.parametrize("level", LEVELS)
def test_it_takes_every_name_of_a_level_and_says_so(level):
    module = LayerNorm((4, 12), bias=False, level=level)
    assert repr(module) == f"{repr(torch.nn.LayerNorm((4, 12), bias=False))[:-1]}, level={level!r})"


@pytest.mark.parametrize("level", [0, 6, "tritn", 2.5, True])
def test_an_unknown_level_is_refused_when_the_module_is_made(level):
    for make in (LayerNorm, RMSNorm, MLP, SwiGLU, partial(Softmax, -1)):
        with pytest.raises(ValueError, match="level: got .*, expected one of 1 'native'"):
            make(*([] if isinstance(make, partial) else [48]), level=level)


@pytest.mark.parametrize("cls", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("shape", [(2, 47), (48, 2), (2, 3, 12), (12,), (2, 12, 4)])
def test_an_input_of_another_width_is_refused(cls, shape):
    with pytest.raises(ValueError, match=r"input: got shape .*, expected \(\.\.\., 4, 12\)"):
        cls((4, 12))(torch.ones(shape))


@pytest.mark.parametrize("level", [1, 3, 4, 5])
@pytest.mark.parametrize(
    "make", [partial(LayerNorm, (4, 12)), partial(RMSNorm, 12), partial(MLP, 12), partial(SwiGLU, 12)]
)
def test_it_compiles_without_a_graph_break(level, make):
    module = trained(make(level=level).to(DEVICE))
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


@pytest.mark.parametrize("level", [None, 4, 5])
@pytest.mark.parametrize("padding_idx", [None, -2])
def test_embedding_is_torchs(level, padding_idx):
    theirs = torch.nn.Embedding(9, 40, padding_idx, device=DEVICE)
    ours = Embedding(9, 40, padding_idx, device=DEVICE, level=level)
    ours.load_state_dict(theirs.state_dict())
    index, dy = torch.randint(0, 9, (3, 20), device=DEVICE), torch.randn(3, 20, 40, device=DEVICE)
    outputs = [module(index) for module in (ours, theirs)]
    for y in outputs:
        y.backward(dy)
    assert torch.equal(*outputs)
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)


def test_what_embedding_does_not_take_is_named():
    for option in ({"max_norm": 1.0}, {"scale_grad_by_freq": True}, {"sparse": True}):
        with pytest.raises(ValueError, match=rf"{next(iter(option))}: got .*, expected PyTorch's default"):
            Embedding(3, 4, **option)
