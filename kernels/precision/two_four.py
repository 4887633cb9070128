"""Two of four weights: the pattern that tensor cores of NVIDIA's Ampere and later multiply without the zeros.

After "Accelerating Sparse Deep Neural Networks" (Mishra et al., 2021), section 3: prune by magnitude once, then train on with
the pattern kept.
"""

import torch
import torch.nn.functional as F
from torch import nn

from kernels.modules import Swapped
from kernels.precision.replacing import replace_linears


def mask_2_4(weight: torch.Tensor) -> torch.Tensor:
    """True for the two of each four neighbours along the input features that are largest in magnitude; of equals, the first.

    weight: (N, K). Returns bool (N, K). ValueError: K is no multiple of 4; NaN.
    """
    if weight.shape[1] % 4:
        raise ValueError(f"in_features: got {weight.shape[1]}, expected a multiple of 4")
    if weight.isnan().any():
        raise ValueError("weight: got NaN, expected numbers that can be ordered")
    fours = weight.detach().abs().unflatten(1, (-1, 4))
    order = fours.argsort(dim=-1, descending=True, stable=True)
    return torch.zeros_like(fours, dtype=torch.bool).scatter_(-1, order[..., :2], True).flatten(1)


class TwoFourLinear(nn.Linear):
    """A linear layer of which two of four weights are 0, and stay so: their gradient is 0.

    It multiplies by all weights, the zeros as well, since training needs them; `compressed()` is what is faster.

    Args:
        linear: its weight is pruned in place and shared with the new layer, as is its bias.

    Raises:
        ValueError: in_features is no multiple of 4; NaN among the weights.
    """

    mask: torch.Tensor

    def __init__(self, linear: nn.Linear) -> None:
        mask = mask_2_4(linear.weight)
        super().__init__(linear.in_features, linear.out_features, False, device="meta")
        self.weight, self.bias = linear.weight, linear.bias
        self.register_buffer("mask", mask)
        with torch.no_grad():
            self.weight *= mask

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight * self.mask, self.bias)

    def compressed(self) -> torch.Tensor:
        """The weight as torch's sparse semi-structured tensor, which F.linear takes: values and places of two in four.

        Raises:
            ValueError: the layer is not on a GPU: torch has no such kernel elsewhere.
        """
        if not self.weight.is_cuda:
            raise ValueError(f"device: got {self.weight.device}, expected cuda, where torch's sparse kernel is")
        return torch.sparse.to_sparse_semi_structured((self.weight * self.mask).detach())


def prune_2_4(model: nn.Module) -> Swapped:
    """Prune two of each four weights of every nn.Linear, by magnitude; the model is changed in place.

    An ordinary training loop keeps the pattern afterwards. An optimizer made before has momentum for what is now 0; that
    changes the parameter but never the output.

    Returns:
        the layers that were pruned, and those that were left, with the reason: widths that are no multiple of 4, or NaN.

    Raises:
        TypeError: the model itself is an nn.Linear.
    """
    return replace_linears(model, TwoFourLinear)
