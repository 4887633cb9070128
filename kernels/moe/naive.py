"""The mixture of experts as its formulas say it, which the fast one is held against."""

import torch
import torch.nn.functional as F

from kernels.moe.experts import MixtureOfExperts


class NaiveMixture(MixtureOfExperts):
    """A token at a time, its experts one by one."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        count, rows = self.router.experts, []
        taken, first = [0] * count, [0.0] * count
        shares = (x.reshape(-1, x.shape[-1]) @ self.router.gate.weight.T).softmax(-1)
        for token, share in zip(x.reshape(-1, x.shape[-1]), shares, strict=True):
            chosen = sorted(range(count), key=lambda e: -share[e].item())[: self.router.top_k]
            total, row = sum(share[e] for e in chosen), torch.zeros_like(token)
            for e in chosen:
                first[e] += 1 / (len(shares) * self.router.top_k)
                taken[e] += 1
                if self.capacity is None or taken[e] <= self.capacity:
                    row = row + share[e] / total * (F.gelu(token @ self.up[e]) @ self.down[e])
            rows.append(row)
        loss = count * torch.stack([first[e] * shares[:, e].mean() for e in range(count)]).sum()
        return torch.stack(rows).view(x.shape), loss
