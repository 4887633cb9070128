"""Our loss in place of PyTorch's, and rotary embedding: the same numbers at every level."""

import inspect

import pytest
import torch

import kernels
from kernels.modules import CrossEntropyLoss, RotaryEmbedding

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = [(9,), (6, 9), (3, 9, 4), (2, 9, 3, 2)]
SETTINGS = [{}, {"ignore_index": 2}, {"label_smoothing": 0.2, "reduction": "sum"}, {"reduction": "none"}]


def test_it_is_made_as_torchs_is():
    ours, theirs = (inspect.signature(cls).parameters for cls in (CrossEntropyLoss, torch.nn.CrossEntropyLoss))
    assert [(p.name, p.default) for p in ours.values()][:-1] == [(p.name, p.default) for p in theirs.values()]
    assert list(ours)[-1] == "level" and not CrossEntropyLoss().state_dict()


@pytest.mark.parametrize("level", [None, 1, 2, 4, 5])
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_loss_and_gradient_at_every_level(level, setting):
    if level == 4 and DEVICE == "cpu" and not kernels.machine.here(DEVICE).interpreting:
        pytest.skip("Triton is the compiler, and there is no GPU")
    ours, theirs = CrossEntropyLoss(level=level, **setting), torch.nn.CrossEntropyLoss(**setting)
    for shape in SHAPES:
        x = 3 * torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(DEVICE)
        target = (
            torch.arange(x.numel() // 9, device=DEVICE).reshape(
                [n for i, n in enumerate(shape) if i != min(1, len(shape) - 1)]
            )
            % 9
        )
        found = []
        for module in (ours, theirs):
            leaf = x.clone().requires_grad_()
            loss = module(leaf, target)
            found.append((loss, torch.autograd.grad(loss.square().sum(), leaf)[0]))
        torch.testing.assert_close(found[0], found[1])


def test_all_ignored_is_nan_as_in_torch_and_what_it_does_not_take_is_named():
    x, target = torch.randn(3, 5, device=DEVICE), torch.full((3,), -100, device=DEVICE)
    assert CrossEntropyLoss()(x, target).isnan() and torch.nn.CrossEntropyLoss()(x, target).isnan()
    for wrong in ({"weight": torch.ones(5)}, {"reduction": "median"}, {"level": 6}, {"reduce": True}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}: got"):
            CrossEntropyLoss(**wrong)


@pytest.mark.parametrize("level", [None, 2, 4, 5])
@pytest.mark.parametrize("shape", [(2, 3, 5, 8), (5, 8), (3, 5, 8)])
def test_rotary_embedding_at_every_level(level, shape):
    if level == 4 and DEVICE == "cpu" and not kernels.machine.here(DEVICE).interpreting:
        pytest.skip("Triton is the compiler, and there is no GPU")
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(DEVICE).requires_grad_()
    found = []
    for module in (RotaryEmbedding(8, level=level), RotaryEmbedding(8, level=1)):
        y = module(x, start=7)
        found.append((y, torch.autograd.grad(y.pow(3).sum(), x)[0]))
    torch.testing.assert_close(found[0], found[1])
    with pytest.raises(ValueError, match="level: got 9"):
        RotaryEmbedding(8, level=9)
