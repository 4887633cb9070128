"""The router: which experts a token goes to, with which weights, and how evenly all tokens are spread."""

import torch
from torch import nn

from kernels.arguments import positive


class Router(nn.Module):
    """Sends a token to the `top_k` experts of highest probability.

    Args:
        dim: features of a token.
        experts: how many there are.
        top_k: how many a token goes to; their weights are divided by their sum.

    ValueError: numbers below 1, top_k that is not between 1 and experts, or tokens of another shape.
    """

    def __init__(self, dim: int, experts: int, top_k: int = 2) -> None:
        super().__init__()
        positive(dim=dim, experts=experts)
        if not 1 <= top_k <= experts:
            raise ValueError(f"top_k: got {top_k}, expected between 1 and experts, {experts}")
        self.dim, self.experts, self.top_k = dim, experts, top_k
        self.gate = nn.Linear(dim, experts, bias=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """For tokens (N, dim): weights (N, top_k), experts (N, top_k) as int64, and the load-balance loss, a scalar.

        The loss is experts · Σ_e (share of the assignments to e) · (mean probability of e): 1 where all is even, as in Fedus et
        al., "Switch Transformers" (2022), equation 4. Probabilities are computed in float32 at least.
        """
        if x.dim() != 2 or x.shape[1] != self.dim:
            raise ValueError(f"x: got shape {tuple(x.shape)}, expected (tokens, {self.dim})")
        shares = self.gate(x).to(torch.promote_types(x.dtype, torch.float32)).softmax(-1)
        weights, chosen = shares.topk(self.top_k)
        load = torch.bincount(chosen.flatten(), minlength=self.experts).to(shares) / chosen.numel()
        loss = self.experts * (load * shares.mean(0)).sum()
        return (weights / weights.sum(-1, keepdim=True)).to(x.dtype), chosen, loss
