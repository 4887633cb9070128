"""The way between a device's memory and the host's: copies that are made beside what the device computes, and counted."""

from functools import cache

import torch


class Arrived:
    """What a copy gives that is made when it returns, as on a CPU; on a GPU it is an event."""

    def wait(self, stream: torch.cuda.Stream | None = None) -> None: ...

    def synchronize(self) -> None: ...


Arrival = Arrived | torch.cuda.Event


class Link:
    """Copies to the host's memory and back, with `to_host` and `to_device` bytes.

    On a GPU each direction has a stream of its own, and the host's memory is pinned, so that neither the current stream nor
    the CPU waits. A copy begins after all that the current stream was given before it, and gives an event: `wait()` lets the
    current stream wait for it, `synchronize()` the CPU. Both ends must live until then: the link keeps none of them. On a CPU
    both ends are in its memory, and a copy is made when it returns.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.to_host = self.to_device = 0
        self._down: torch.cuda.Stream | None
        self._up: torch.cuda.Stream | None
        self._down, self._up = _streams(device) if device.type == "cuda" else (None, None)

    def on_host(self, like: torch.Tensor) -> torch.Tensor:
        """Memory of the host for a tensor: of its shape, dtype and, where it has no gaps, its strides."""
        return torch.empty_like(like, device="cpu", pin_memory=self.device.type == "cuda")

    def on_device(self, like: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(like, device=self.device)

    def down(self, target: torch.Tensor, source: torch.Tensor) -> Arrival:
        """Begin to copy what is on the device to the host."""
        self.to_host += source.nbytes
        return self._copy(self._down, target, source, Arrived())

    def up(self, target: torch.Tensor, source: torch.Tensor, after: Arrival | None = None) -> Arrival:
        """Begin to copy what is on the host, after its own arrival there, to the device."""
        self.to_device += source.nbytes
        return self._copy(self._up, target, source, after or Arrived())

    def current(self) -> torch.cuda.Stream | None:
        """The stream on which the device computes now."""
        return torch.cuda.current_stream(self.device) if self.device.type == "cuda" else None

    def _copy(
        self, stream: torch.cuda.Stream | None, target: torch.Tensor, source: torch.Tensor, after: Arrival
    ) -> Arrival:
        if stream is None:
            target.copy_(source)
            return Arrived()
        stream.wait_stream(torch.cuda.current_stream(self.device))
        after.wait(stream)
        with torch.cuda.stream(stream):
            target.copy_(source, non_blocking=True)
        return stream.record_event()


@cache
def _streams(device: torch.device) -> tuple[torch.cuda.Stream, torch.cuda.Stream]:
    return torch.cuda.Stream(device), torch.cuda.Stream(device)
