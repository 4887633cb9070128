"""Activations in the host's memory: what autograd saves moves there in the forward, and back before the backward needs it."""

import weakref
from typing import NamedTuple

import torch
from torch import nn

from kernels.machine import here
from kernels.memory.link import Arrival, Link


class offload_activations(torch.autograd.graph.saved_tensors_hooks):
    """What autograd saves while this is entered moves to the host's memory, and back in the backward, with the same bits.

        with offload_activations() as moved:
            loss = model(x).sum()
        loss.backward()
        print(moved.to_host, moved.to_device)

    Memory is moved as it was allocated, once, however many views of it are saved. Parameters stay. On a GPU copies run beside
    the computation (`kernels.memory.link`), and those that the backward needs next are begun ahead. On a CPU the same is moved
    within its memory: results and bytes are those of a GPU, but nothing is spared there, and time means nothing.

    Args:
        smallest: allocations of fewer bytes stay on the device.
        resident: of what moves, the most bytes that are on the device at one time: those saved last, which the forward only
            gives up when more come, and those brought back ahead. With 0 the forward waits for every copy.
        device: "cuda" or "cpu", whose tensors are moved; None for a GPU where there is one.

    For a forward and backward on one stream of each device.

    Raises:
        ValueError: a limit below 0, a device that is not here.
        RuntimeError: in the backward, if what was saved was changed in place while it was still on the device, as without this.
    """

    def __init__(self, smallest: int = 1 << 20, resident: int = 1 << 28, device: str | None = None) -> None:
        for name, limit in (("smallest", smallest), ("resident", resident)):
            if limit < 0:
                raise ValueError(f"{name}: got {limit}, expected at least 0 bytes")
        super().__init__(self._pack, self._unpack)
        self.smallest, self.resident, self.device = smallest, resident, here(device).device
        self.links: dict[torch.device, Link] = {}
        self.order: list[weakref.ref[Saved]] = []
        self.held: list[weakref.ref[Saved]] = []  # those still on the device since the forward, the oldest first
        self.known: weakref.WeakValueDictionary[int, Saved] = weakref.WeakValueDictionary()

    def __enter__(self) -> "offload_activations":  # type: ignore[override]
        super().__enter__()
        if not any(ref() for ref in self.order):
            self.order.clear()
        return self

    @property
    def to_host(self) -> int:
        """Bytes moved so far."""
        return sum(link.to_host for link in self.links.values())

    @property
    def to_device(self) -> int:
        return sum(link.to_device for link in self.links.values())

    def moves(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor's memory is moved when it is saved."""
        owner = tensor._base if tensor._is_view() else tensor
        plain = type(tensor) is torch.Tensor and tensor.layout is torch.strided
        return (
            plain
            and tensor.device.type == self.device
            and not isinstance(owner, nn.Parameter)
            and tensor.untyped_storage().nbytes() >= max(self.smallest, 1)
        )

    def _pack(self, tensor: torch.Tensor) -> "Kept | View":
        if not self.moves(tensor):
            return Kept(tensor.detach(), tensor._version)  # an output that its own node kept would never be freed
        saved = self._saved(tensor)
        saved.views += 1
        return View(saved, tensor.dtype, tensor.size(), tensor.stride(), int(tensor.storage_offset()))

    def _unpack(self, packed: "Kept | View") -> torch.Tensor:
        if isinstance(packed, Kept):
            return packed.unchanged()
        saved, dtype, size, stride, offset = packed
        if saved.kept is None and saved.back is None:
            saved.bring()
            self._bring_ahead(saved.place)
        storage = saved.use().untyped_storage()
        return torch.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, size, stride)

    def _saved(self, tensor: torch.Tensor) -> "Saved":
        storage = tensor.untyped_storage()
        saved = self.known.get(storage._cdata)
        if saved is None or saved.of() is not storage or saved.version != tensor._version:
            if tensor.device not in self.links:
                self.links[tensor.device] = Link(tensor.device)
            saved = Saved(tensor.detach(), len(self.order), self.links[tensor.device])
            self.known[storage._cdata] = saved
            self.order.append(weakref.ref(saved))
            self.held.append(weakref.ref(saved))
            self._give_up()
        return saved

    def _give_up(self) -> None:
        """As many of those held longest as are too many."""
        held = [one for ref in self.held if (one := ref()) is not None and one.kept is not None]
        size = sum(one.host.nbytes for one in held)
        while size > self.resident:
            oldest = held.pop(0)
            oldest.leave()
            size -= oldest.host.nbytes
        self.held = [weakref.ref(one) for one in held]

    def _bring_ahead(self, place: int) -> None:
        """Those saved just before, which the backward needs next, as far as there is room."""
        room = self.resident
        for number in reversed(range(place)):
            one = self.order[number]()
            if one is not None and one.kept is None and not one.spent:
                room -= one.host.nbytes
                if room < 0:
                    break
                if one.back is None:
                    one.bring()


class Kept(NamedTuple):
    """A tensor on the device, as it was when it was saved. Autograd looks for changes only where there are no hooks."""

    tensor: torch.Tensor
    version: int

    def unchanged(self) -> torch.Tensor:
        if self.tensor._version != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[{self.tensor.dtype} {list(self.tensor.shape)}] is at version {self.tensor._version}, "
                f"expected version {self.version}"
            )
        return self.tensor


class Saved:
    """An allocation that was saved: on the host, and on the device as long as it is `kept` there, and when it is `back`."""

    def __init__(self, tensor: torch.Tensor, place: int, link: Link) -> None:
        self.of, self.version = weakref.ref(tensor.untyped_storage()), tensor._version
        self.place, self.link, self.views, self.left = place, link, 0, 0
        self.kept: Kept | None = Kept(tensor.detach(), tensor._version)
        self.back: torch.Tensor | None = None
        self.error: RuntimeError | None = None
        self.spent = False  # every view was used in a backward
        whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
        self.host, self.stream = link.on_host(whole), link.current()
        self.arrival: Arrival = link.down(self.host, whole)

    def leave(self) -> None:
        """Give the memory on the device up, which may go to others once the copy is made."""
        assert self.kept is not None
        self.arrival.wait(self.link.current())
        try:
            self.kept.unchanged()
        except RuntimeError as error:  # for the backward, if there is one
            self.error = error
        self.kept = None

    def bring(self) -> None:
        self.back, self.stream = self.link.on_device(self.host), self.link.current()
        self.arrival = self.link.up(self.back, self.host, self.arrival)
        self.left = self.views

    def use(self) -> torch.Tensor:
        """The tensor with the memory on the device, which is let go of when each view was used."""
        if self.error:
            raise self.error
        if self.kept is not None:
            return self.kept.unchanged()
        assert self.back is not None
        self.arrival.wait(self.link.current())
        back, self.left = self.back, self.left - 1
        if not self.left:
            self.back, self.spent = None, True
        return back

    def __del__(self) -> None:
        """What was brought and never used: its memory may go to others, on the stream that took it, only after the copy."""
        if self.back is not None:
            self.arrival.wait(self.stream)


class View(NamedTuple):
    """What was saved of an allocation."""

    saved: Saved
    dtype: torch.dtype
    size: torch.Size
    stride: tuple[int, ...]
    offset: int
