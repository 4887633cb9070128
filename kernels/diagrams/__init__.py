"""Drawings by code of what a GPU does, with words in place of the picture wherever there is none."""

from kernels.diagrams.banks import banks
from kernels.diagrams.diagram import Diagram
from kernels.diagrams.divergence import divergence
from kernels.diagrams.fragments import fragments
from kernels.diagrams.gradient_walks import gradient_walks
from kernels.diagrams.joined_parts import joined_parts
from kernels.diagrams.key_tiles import key_tiles
from kernels.diagrams.memory_hierarchy import memory_hierarchy
from kernels.diagrams.owners import owners
from kernels.diagrams.paged_cache import paged_cache
from kernels.diagrams.parts import softmax_parts
from kernels.diagrams.reads import reads
from kernels.diagrams.scan import warp_scan
from kernels.diagrams.sectors import sectors
from kernels.diagrams.shuffles import butterfly, tree
from kernels.diagrams.swizzle import swizzle
from kernels.diagrams.traffic import traffic
from kernels.diagrams.triton_block import triton_block

__all__ = [
    "Diagram",
    "banks",
    "butterfly",
    "divergence",
    "fragments",
    "gradient_walks",
    "joined_parts",
    "key_tiles",
    "memory_hierarchy",
    "owners",
    "paged_cache",
    "reads",
    "sectors",
    "softmax_parts",
    "swizzle",
    "traffic",
    "tree",
    "triton_block",
    "warp_scan",
]
