"""Block-sparse attention with the mistakes that people make with blocks, causality, softmax and a gate."""

import math

import torch

from kernels.masks import SparseAttention


class RoundsDown(SparseAttention):
    def kept(self, length):
        return max(1, int(self.density * (length // self.block)))


class LaterOfEquals(SparseAttention):
    """Takes the later of two blocks that are equally near."""

    def chosen(self, q, k):
        if self.choose != "local" or self.causal:
            return super().chosen(q, k)
        last = q.shape[2] // self.block - 1
        return last - super().chosen(q, k)[0].flip(2), None


class DenseThenMasked(SparseAttention):
    """The same numbers, and the work of all blocks."""

    def attend(self, q, k, v, chosen, gate=None):
        count = q.shape[2] // self.block
        weights = torch.zeros(*chosen.shape[:3], count, dtype=q.dtype, device=q.device)
        weights = weights.scatter(-1, chosen, torch.ones_like(chosen, dtype=q.dtype) if gate is None else gate)
        mask = weights.log().repeat_interleave(self.block, 2).repeat_interleave(self.block, 3)
        if self.causal:
            mask = mask.masked_fill(torch.ones_like(mask, dtype=torch.bool).triu(1), -math.inf)
        return (q @ k.transpose(-2, -1) / math.sqrt(self.head_dim) + mask).softmax(-1) @ v


class CausalByBlocks(SparseAttention):
    """Leaves later blocks out, and forgets the later positions of the queries' own."""

    def attend(self, q, k, v, chosen, gate=None):
        causal, self.causal = self.causal, False
        try:
            return super().attend(q, k, v, chosen, gate)
        finally:
            self.causal = causal


class SeparateSoftmax(SparseAttention):
    """Averages the attention to each block, where all blocks share a softmax."""

    def attend(self, q, k, v, chosen, gate=None):
        parts = [super(SeparateSoftmax, self).attend(q, k, v, one) for one in chosen.split(1, -1)]
        return torch.stack(parts).nan_to_num().mean(0)


class WorstBlocks(SparseAttention):
    def chosen(self, q, k):
        return super().chosen(-q, k)


class DeadGate(SparseAttention):
    """Selects by the gate, which gets no gradient."""

    def chosen(self, q, k):
        blocks, gate = super().chosen(q, k)
        return blocks, gate if gate is None else gate.detach() + 0 * gate


class KeysChoose(SparseAttention):
    """Takes the blocks of queries that each block of keys would like."""

    def chosen(self, q, k):
        return super().chosen(k, q)


class OneHeadChooses(SparseAttention):
    """All heads read the blocks of the first."""

    def chosen(self, q, k):
        blocks, gate = super().chosen(q, k)
        return blocks[:, :1].expand_as(blocks), gate
