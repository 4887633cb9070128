"""What sparse attention is held against: dense attention under the chosen blocks, and the choice of blocks, found anew."""

import math

import torch
from torch import nn

from kernels.masks.sparse import SparseAttention


def dense(module: SparseAttention, x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """All scores are computed; then those of other blocks are masked. A learned gate's gradient is its softmax's."""
    q, k, v = module.heads(x)
    count = x.shape[1] // module.block
    blocks = torch.zeros(*chosen.shape[:3], count, dtype=x.dtype, device=x.device).scatter(-1, chosen, 1.0)
    if module.choose == "learned":
        means = [one.view(*one.shape[:2], count, module.block, -1).mean(3) for one in (q, k)]
        scores = module.gate_q(means[0]) @ module.gate_k(means[1]).transpose(-2, -1) / math.sqrt(module.head_dim)
        if module.causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
        shares = scores.softmax(-1)
        blocks = blocks * (1 + (shares - shares.detach()))
    weights = blocks.repeat_interleave(module.block, 2).repeat_interleave(module.block, 3)
    if module.causal:
        weights = weights.tril()
    scores = (q @ k.transpose(-2, -1)) / math.sqrt(module.head_dim)
    shares = scores.exp() * weights  # without a maximum: these scores are small
    return module.out((shares / shares.sum(-1, keepdim=True) @ v).transpose(1, 2).reshape(x.shape))


@torch.no_grad()
def wrong_choice(module: SparseAttention, q: torch.Tensor, k: torch.Tensor, chosen: torch.Tensor) -> str | None:
    """What is wrong with the blocks that were chosen: found anew, a block of queries at a time."""
    if not torch.equal(chosen, module.chosen(q, k)[0]):
        return "the same queries and keys get other blocks the second time"
    count = q.shape[2] // module.block
    for b, h, i in ((b, h, i) for b in range(len(q)) for h in range(module.num_heads) for i in range(count)):
        got = chosen[b, h, i].tolist()
        if len(set(got)) != len(got) or len(got) != round(module.density * count):
            return f"block {(b, h, i)} reads {got}"
        seen = set(got) - set(range(i + 1, count)) if module.causal else set(got)
        there = list(range(i + 1 if module.causal else count))
        if module.causal and i not in seen or len(seen) != min(len(got), len(there)):
            return f"block {(b, h, i)} reads {got}"
        others = [one for one in there if one != i] if module.causal else there
        mean = q[b, h, i * module.block : (i + 1) * module.block].mean(0)
        means = [k[b, h, j * module.block : (j + 1) * module.block].mean(0) for j in range(count)]
        if module.choose == "local":
            value = {j: -abs(j - i) - (0.5 if j > i else 0) for j in others}
        elif module.choose == "random":
            continue
        else:
            gates = (module.gate_q, module.gate_k) if module.choose == "learned" else (nn.Identity(), nn.Identity())
            value = {j: float(gates[0](mean) @ gates[1](means[j])) for j in others}
        room = len(seen) - module.causal
        best = sorted(others, key=lambda j: -value[j])[:room]
        if not set(best) <= seen:
            return f"block {(b, h, i)} reads {sorted(seen)}, and the best are {sorted(best)}"
    if module.choose == "random" and len({tuple(one) for one in chosen.sort().values.flatten(0, 2).tolist()}) < count:
        return "blocks drawn at random are the same everywhere"
    return None
