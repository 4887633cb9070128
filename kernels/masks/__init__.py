"""Attention patterns: who sees whom, and how scores change by position; and attention that reads some blocks of keys alone."""

from kernels.masks.attention import attention
from kernels.masks.blocks import Blocks, blocks
from kernels.masks.pattern import Pattern
from kernels.masks.patterns import alibi, causal, custom, document, prefix, sliding_window, softcap
from kernels.masks.picture import picture
from kernels.masks.sparse import SparseAttention

__all__ = [
    "Blocks",
    "Pattern",
    "SparseAttention",
    "alibi",
    "attention",
    "blocks",
    "causal",
    "custom",
    "document",
    "picture",
    "prefix",
    "sliding_window",
    "softcap",
]
