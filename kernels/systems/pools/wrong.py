"""Pools with the mistakes that people make with fits, neighbours, rounding, growth and peaks."""

from kernels.memory.pools import SMALL, UNIT, Pool


class ForgetsPeaks(Pool):
    """Takes what is there now for the peaks."""

    def free(self, tensor):
        super().free(tensor)
        self.peak_reserved, self.peak_allocated = self.reserved, self.allocated


class GrowsByAll(Pool):
    """Grows by all that is asked for, though the end is free."""

    def _grown(self, size, small):
        last = self.blocks[small][-1] if self.expandable and self.blocks[small] else None
        if last is None or not last.free:
            return super()._grown(size, small)
        last.free = False
        block = super()._grown(size, small)
        last.free = True
        return block


class FreesAnything(Pool):
    def free(self, tensor):
        if tensor in self.held:
            super().free(tensor)


class NeverMerges(Pool):
    def _merge(self, block, blocks):
        return block


class FirstFit(Pool):
    """Takes the first free block that has room."""

    def allocate(self, tensor, size):
        for blocks in self.blocks.values():
            blocks.sort(key=lambda block: (block.segment, block.start))
        size_up = -(-size // UNIT) * UNIT
        first = next((b for b in self.blocks[size_up <= SMALL] if b.free and b.size >= size_up), None)
        hidden = [b for b in self.blocks[size_up <= SMALL] if b.free and b is not first]
        for block in hidden:
            block.free = False
        super().allocate(tensor, size)
        for block in hidden:
            block.free = True


class Unrounded(Pool):
    """Rounds to 64 bytes."""

    def allocate(self, tensor, size):
        super().allocate(tensor, size)
        self.allocated -= (-(-size // UNIT) * UNIT) - (-(-size // 64) * 64)
