"""Modules of transformers and their optimizer: the operations in place of PyTorch's own, and what is built of them."""

from kernels.modules.attention import GroupedQueryAttention, MultiHeadAttention, NaiveAttention
from kernels.modules.block import NaiveBlock, TransformerBlock
from kernels.modules.embedding import Embedding
from kernels.modules.loss import CrossEntropyLoss
from kernels.modules.mlp import MLP, GeGLU, SwiGLU
from kernels.modules.norms import LayerNorm, RMSNorm
from kernels.modules.prepare import Prepared, prepare
from kernels.modules.rotary import RotaryEmbedding
from kernels.modules.softmax import Softmax
from kernels.modules.swap import Swapped, swap
from kernels.optimizers.adamw import AdamW

__all__ = [
    "MLP",
    "AdamW",
    "Embedding",
    "GeGLU",
    "CrossEntropyLoss",
    "GroupedQueryAttention",
    "LayerNorm",
    "MultiHeadAttention",
    "NaiveAttention",
    "NaiveBlock",
    "Prepared",
    "RMSNorm",
    "RotaryEmbedding",
    "Softmax",
    "SwiGLU",
    "Swapped",
    "TransformerBlock",
    "prepare",
    "swap",
]
