"""Fewer bytes: what memory a training step takes, and what can be computed again or put elsewhere."""

from kernels.memory.activations import offload_activations
from kernels.memory.checkpointing import checkpoint
from kernels.memory.optimizer_states import offload_optimizer
from kernels.memory.segments import Segmented
from kernels.memory.tracking import Peak, track

__all__ = ["Peak", "Segmented", "checkpoint", "offload_activations", "offload_optimizer", "track"]
