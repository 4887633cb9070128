"""Ways to offload that lose bits, places, bytes or errors."""

import torch

from kernels.memory.activations import View, offload_activations


class Rounds(offload_activations):
    """Moves half of the bits of each number."""

    def _unpack(self, packed):
        back = super()._unpack(packed)
        return back.bfloat16().to(back.dtype) if isinstance(packed, View) and back.dtype == torch.float32 else back


class ForgetsOffsets(offload_activations):
    def _pack(self, tensor):
        packed = super()._pack(tensor)
        return packed._replace(offset=0) if isinstance(packed, View) else packed


class MovesEveryView(offload_activations):
    def _saved(self, tensor):
        self.known.clear()
        return super()._saved(tensor)


class NeverGivesUp(offload_activations):
    def _give_up(self):
        pass


class LooksAway(offload_activations):
    """Takes what was changed in place for what was saved."""

    def _unpack(self, packed):
        kept = packed.saved.kept if isinstance(packed, View) else packed
        if kept is None:
            return super()._unpack(packed)
        if not isinstance(packed, View):
            return packed.tensor
        packed.saved.kept = kept._replace(version=kept.tensor._version)
        return super()._unpack(packed)
