"""Validation of modules: what is refused by its name, and what else is found wrong or right."""

import pytest
import torch
from torch import nn

import kernels


class Scaled(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 1.001


def test_a_right_module_gives_its_errors_and_stays_as_it_is():
    module = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
    found = kernels.validate(module, torch.randn(4, 8))
    assert {"output 0", "gradient of input 0", "gradient of 0.weight"} <= {*found.errors}
    assert max(found.errors.values()) <= 1 and "gradient of 1.bias" in found._repr_mimebundle_()["text/plain"]
    assert module[1].num_batches_tracked == 0 and module[0].weight.grad is None


def test_tokens_and_frozen_parameters_are_taken():
    module = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 4))
    module[1].requires_grad_(False)
    found = kernels.validate(module, torch.tensor([[1, 2, 8]]))
    assert {*found.errors} == {"output 0", "gradient of 0.weight"}


def test_another_formula_shows_against_a_reference():
    x = torch.randn(4, 8)
    kernels.validate(Scaled(8, 8), x)
    with pytest.raises(ArithmeticError, match="^Scaled is wrong: output 0: "):
        kernels.validate(Scaled(8, 8), x, reference=nn.Linear(8, 8))


@pytest.mark.parametrize(
    ("error", "said", "call"),
    [
        (TypeError, "^module: got builtin", lambda x: kernels.validate(abs, x)),
        (TypeError, "^reference: got builtin", lambda x: kernels.validate(nn.ReLU(), x, reference=abs)),
        (ValueError, "^module: two calls .* results; call module.eval", lambda x: kernels.validate(nn.Dropout(), x)),
        (ValueError, "^module: neither it nor", lambda x: kernels.validate(nn.ReLU(), x.long())),
        (ValueError, "^module: it returns no tensors", lambda x: kernels.validate(Nothing(), x)),
        (
            ValueError,
            "^reference: its state dict differs from the module's in bias, weight",
            lambda x: kernels.validate(nn.Linear(8, 8), x, reference=nn.Linear(8, 4)),
        ),
    ],
)
def test_what_cannot_be_validated_is_named(error, said, call):
    with pytest.raises(error, match=said):
        call(torch.randn(4, 8))


class Nothing(nn.Module):
    def forward(self, x):
        return 3
