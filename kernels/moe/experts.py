"""A mixture of experts: tokens sorted by expert, one grouped product for all experts, and back to their places."""

import torch
import torch.nn.functional as F
from torch import nn

from kernels.moe.router import Router

METHODS = ("grouped", "loop")


class MixtureOfExperts(nn.Module):
    """Each token goes through `top_k` of the experts, two layers with a GELU between them: Shazeer et al. (2017).

    Args:
        dim: features.
        experts: how many.
        top_k: to how many a token goes.
        hidden: features inside an expert, 4 · dim unless said.
        capacity: how many assignments an expert takes; later tokens' are dropped and give zero. None takes all.
        method: "grouped" is one product for all experts, `F.grouped_mm`, whose rows must be multiples of 16 bytes, and which on
            a GPU takes bfloat16 alone; "loop" is one product for each; None takes the first where it can.

    Shapes: x is (..., dim); the output as x, and the load-balance loss, a scalar.

    ValueError: an argument out of its range; "grouped" where it can not be.
    """

    def __init__(
        self,
        dim: int,
        experts: int,
        top_k: int = 2,
        hidden: int | None = None,
        capacity: int | None = None,
        method: str | None = None,
    ) -> None:
        super().__init__()
        hidden = hidden or 4 * dim
        if capacity is not None and capacity < 1:
            raise ValueError(f"capacity: got {capacity}, expected at least 1, or None")
        if method not in (None, *METHODS):
            raise ValueError(f"method: got {method!r}, expected one of {', '.join(METHODS)}, or None")
        self.router, self.capacity, self.method = Router(dim, experts, top_k), capacity, method
        self.up = nn.Parameter(torch.empty(experts, dim, hidden).uniform_(-(dim**-0.5), dim**-0.5))
        self.down = nn.Parameter(torch.empty(experts, hidden, dim).uniform_(-(hidden**-0.5), hidden**-0.5))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = x.reshape(-1, x.shape[-1])
        weights, chosen, loss = self.router(tokens)
        order = self.order(chosen)
        place = order // self.router.top_k  # the token of an assignment
        counts = torch.bincount(chosen.flatten()[order], minlength=self.router.experts)
        computed = self.compute(tokens[place], counts) * weights.flatten()[order, None]
        return torch.zeros_like(tokens).index_add(0, place, computed).view(x.shape), loss

    def order(self, chosen: torch.Tensor) -> torch.Tensor:
        """The assignments (token · top_k + which) by expert, and by token within one; those beyond the capacity left out."""
        order = chosen.flatten().argsort(stable=True)
        if self.capacity is None:
            return order
        expert = chosen.flatten()[order]
        counts = torch.bincount(expert, minlength=self.router.experts)
        within = torch.arange(len(order), device=order.device) - (counts.cumsum(0) - counts)[expert]
        return order[within < self.capacity]

    def compute(self, rows: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """The experts' outputs for rows that are sorted by expert; `counts` of each."""
        reason = self.why_not_grouped(rows)
        if self.method == "grouped" and reason:
            raise ValueError(f"method: got 'grouped', {reason}; expected 'loop'")
        if self.method == "loop" or reason:
            each = rows.split(counts.tolist())
            return torch.cat(
                [F.gelu(part @ up) @ down for part, up, down in zip(each, self.up, self.down, strict=True)]
            )
        ends = counts.cumsum(0).to(torch.int32)
        return F.grouped_mm(F.gelu(F.grouped_mm(rows, self.up, offs=ends)), self.down, offs=ends)

    def why_not_grouped(self, rows: torch.Tensor) -> str | None:
        """The reason, or None where one product can serve all experts."""
        taken = (torch.bfloat16,) if rows.is_cuda else (torch.bfloat16, torch.float32)
        if not hasattr(F, "grouped_mm"):
            return "which this version of torch does not have"
        if rows.dtype not in taken:
            return f"which takes no {rows.dtype} on {rows.device.type}"
        if any(size * rows.element_size() % 16 for size in self.up.shape[1:]):
            return f"whose rows must be multiples of 16 bytes, and dim and hidden are {tuple(self.up.shape[1:])}"
        return None
