"""A task that tells whether attention finds what it needs: values recalled by their keys, from one block of twenty."""

import torch
import torch.nn.functional as F
from torch import nn

from kernels.masks.sparse import SparseAttention

SYMBOLS = 160


class Recall(nn.Module):
    """Pairs of a key and a value, then keys alone: which value belonged to each? One attention, no positions."""

    def __init__(self, density: float, choose: str, dim: int = 64) -> None:
        super().__init__()
        self.key, self.value = nn.Embedding(SYMBOLS, dim), nn.Embedding(SYMBOLS + 1, dim)
        block = SYMBOLS if density == 1 else 8  # all blocks of any size are the same function, and one is the fastest
        self.attention, self.norm = SparseAttention(dim, 1, density, choose, block), nn.LayerNorm(dim)
        self.read = nn.Linear(dim, SYMBOLS)

    def forward(self, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return self.read(self.attention(self.norm(self.key(keys) + self.value(values))))


def asked(seed: int, batch: int, device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Keys and values of 20 blocks of 8, and the answers. A block has keys of its own, which its mean tells; the last block
    asks for the values of another's keys, and has none."""
    drawn, rows = torch.Generator().manual_seed(seed), torch.arange(batch)
    groups = torch.rand(batch, SYMBOLS // 8, generator=drawn).argsort(1)
    keys = torch.arange(8) + 8 * groups[..., None]
    values = torch.randint(0, SYMBOLS, keys.shape, generator=drawn)
    at = torch.randint(0, SYMBOLS // 8 - 1, (batch,), generator=drawn)
    keys[:, -1], answer = keys[rows, at], values[rows, at].clone()
    values[:, -1] = SYMBOLS  # for "which?"
    return keys.flatten(1).to(device), values.flatten(1).to(device), answer.to(device)


def trained(density: float, choose: str, device: str, steps: int) -> Recall:
    torch.manual_seed(0)
    model = Recall(density, choose).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0)
    for step in range(steps):
        keys, values, answer = asked(step, 32, device)
        loss = F.cross_entropy(model(keys, values)[:, -8:].flatten(0, 1), answer.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss < 1e-3:  # learnt; gradients this small become subnormal, which a CPU computes slowly
            break
    return model


@torch.no_grad()
def accuracy(model: Recall, device: str) -> list[float]:
    """Of recalled values, in percent, over four sets of questions."""
    scores = []
    for seed in range(4):
        keys, values, answer = asked(1_000_000 + seed, 64, device)
        scores.append(100 * float((model(keys, values)[:, -8:].argmax(-1) == answer).float().mean()))
    return scores
