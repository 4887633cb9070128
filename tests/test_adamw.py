"""AdamW against PyTorch's: its steps, its state dict in both directions, and what it does not take."""

import copy

import pytest
import torch

from kernels import lens
from kernels.check import quiet
from kernels.machine import here
from kernels.modules import AdamW
from kernels.operation import Case
from kernels.optimizers.adamw import RECORD, cuda, triton
from kernels.optimizers.adamw.native import Step
from kernels.records import check_optimizer

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
COMPILED = [v for v in RECORD.variants if v.level == 3]


@pytest.mark.parametrize("variant", [v for v in RECORD.variants if v not in COMPILED], ids=lambda v: v.key)
def test_its_steps(variant):
    if reason := variant.unsupported(Case((1,)), here(DEVICE)):
        pytest.skip(reason)
    with quiet():
        assert check_optimizer(RECORD, variant, DEVICE)[1] is None


@pytest.mark.slow
def test_its_steps_compiled():
    assert all(check_optimizer(RECORD, variant, DEVICE)[1] is None for variant in COMPILED)


@pytest.mark.parametrize(("dtype", "fewest"), [(torch.float32, 28), (torch.bfloat16, 22)])
@pytest.mark.parametrize("module", [triton, cuda])
def test_a_kernel_asks_for_the_fewest_bytes(module, dtype, fewest):
    """p, g, m and v are read once, p, m and v written once."""
    (p,), (g,), (m,), (v,) = ([torch.ones(600, dtype=one)] for one in (dtype, dtype, torch.float32, torch.float32))
    step = Step(keep=0.9, beta1=0.8, beta2=0.9, size=0.1, root=0.1, eps=1e-8)
    total = lens.count(lambda: module.each([p], [g], [m], [v], step)).totals
    assert total["bytes_requested"] == fewest * p.numel()


@pytest.mark.parametrize("variant", RECORD.wrong, ids=lambda v: v.name)
def test_a_wrong_step_is_rejected(variant):
    if reason := variant.unsupported(Case((1,)), here(DEVICE)):
        pytest.skip(reason)
    assert "parameter" in check_optimizer(RECORD, variant, DEVICE)[1]


@pytest.mark.parametrize("level", [None, "triton", 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_state_dicts_go_both_ways(level, dtype):
    torch.manual_seed(0)
    one = [torch.randn(size, device=DEVICE, dtype=dtype).requires_grad_() for size in (40, 7)]
    other = copy.deepcopy(one)
    made = {AdamW: {"level": level}, torch.optim.AdamW: {}}
    ours, theirs = (
        cls([{"params": p[:1], "lr": 0.1}, {"params": p[1:]}], **made[cls])
        for cls, p in zip(made, (one, other), strict=True)
    )
    for _ in range(4):
        for p, q in zip(one, other, strict=True):
            p.grad = torch.randn_like(p)
            q.grad = p.grad.clone()
        ours.step(), theirs.step()
        if dtype == torch.float32:  # PyTorch's states of bfloat16 are bfloat16
            torch.testing.assert_close(one, other)
        saved = ours.state_dict()
        assert saved.keys() == theirs.state_dict().keys()
        assert all(set(group) >= {"lr", "betas", "eps", "weight_decay"} for group in saved["param_groups"])
        theirs.load_state_dict(copy.deepcopy(saved))
        ours.load_state_dict(copy.deepcopy(saved))
        for state in saved["state"].values():
            assert state["exp_avg"].dtype == state["exp_avg_sq"].dtype == torch.float32
        for before, after in zip(saved["state"].values(), ours.state_dict()["state"].values(), strict=True):
            assert all(torch.equal(before[name], after[name]) for name in before)


def test_what_it_does_not_take_is_named():
    with pytest.raises(ValueError, match="level: got 6"):
        AdamW([torch.zeros(3, requires_grad=True)], level=6)
    for p, error, words in (
        (torch.zeros(3, dtype=torch.float64), TypeError, "dtype torch.float64"),
        (torch.zeros(3, 4).t(), ValueError, r"strides \(1, 4\)"),
    ):
        p = p.requires_grad_()
        p.grad = torch.zeros_like(p)
        with pytest.raises(error, match=f"params: got a parameter .*{words}"):
            AdamW([p]).step()


def test_a_closure_is_called_once():
    p = torch.ones(3, requires_grad=True)

    def loss():
        p.grad = None
        (value := p.square().sum()).backward()
        return value

    assert AdamW([p], lr=0.1, maximize=True).step(loss) == 3 and (p > 1 - 0.1 * 0.01).all()
