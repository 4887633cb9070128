"""Drawings by code of what a GPU does, with words in place of the picture wherever there is none."""

from kernels.diagrams.banks import banks
from kernels.diagrams.diagram import Diagram
from kernels.diagrams.memory_hierarchy import memory_hierarchy
from kernels.diagrams.sectors import sectors
from kernels.diagrams.shuffles import butterfly, tree

__all__ = ["Diagram", "banks", "butterfly", "memory_hierarchy", "sectors", "tree"]
