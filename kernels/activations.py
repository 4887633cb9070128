"""Activations of MLPs in PyTorch operators: their values, and their slopes for backward passes. The names are all levels'.

silu        x · 1 / (1 + exp(-x))                            (Elfwing, Uchibe and Doya 2017; also called swish)
gelu        x · Phi(x), Phi of the normal distribution       (Hendrycks and Gimpel 2016)
gelu_tanh   its approximation there, which is x · 1 / (1 + exp(-2u)) with u = sqrt(2 / pi) · (x + 0.044715 x³)
"""

import math

import torch
import torch.nn.functional as F

NAMES = ("silu", "gelu", "gelu_tanh")
GELU = {"none": "gelu", "tanh": "gelu_tanh"}
"""Names by what PyTorch calls `approximate`."""


def activated(x: torch.Tensor, name: str) -> torch.Tensor:
    if name == "silu":
        return F.silu(x)
    return F.gelu(x, approximate="tanh" if name == "gelu_tanh" else "none")


def slope(x: torch.Tensor, name: str) -> torch.Tensor:
    """The derivative of `activated` at x."""
    if name == "silu":
        return torch.sigmoid(x) * (1 + x * torch.sigmoid(-x))
    if name == "gelu":
        return 0.5 * (1 + torch.erf(x * math.sqrt(0.5))) + x * torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    twice = 2 * math.sqrt(2 / math.pi)
    double_u = twice * (x + 0.044715 * x * x * x)
    s, rest = torch.sigmoid(double_u), torch.sigmoid(-double_u)  # 1 - s would round
    return s + x * s * rest * twice * (1 + 3 * 0.044715 * x * x)
