"""Optimizer states in the host's memory: some subgroups of parameters are updated there, others on the GPU, at the same time.

Maurya et al., "Deep Optimizer States" (2024, arXiv 2410.21316): while the CPU updates one subgroup, the states of another visit
the GPU, which updates it in no time; the link, which would be idle, is what that takes. `kernels.memory.interleaving` says how
large a part should go there.
"""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

import torch

from kernels.memory.link import Arrival, Link


def offload_optimizer(
    optimizer: torch.optim.Optimizer,
    groups: int = 8,
    interleave: bool | float = True,
    in_flight: int = 2,
    mirror: bool = False,
) -> "OffloadedOptimizer":
    """An optimizer with the same steps, whose states live in the host's memory.

    It takes the place of `optimizer`, which gives up its states, in an ordinary training loop: schedulers, gradient scalers and
    checkpoints work as before. Parameters and gradients stay where they are; for the CPU's update they are copied there, and
    the parameters back. The update is the optimizer's own `step`, on tensors in another place: on one device results are equal
    to the bit, and where a CPU computes what a GPU did, up to the rounding of one and the other. Choose `fused=True` where the
    optimizer has it: on a CPU it is several times as fast.

    On a CPU the same is copied within its memory, in the same order, but nothing is spared and nothing overlaps.

    Args:
        optimizer: one that treats each parameter on its own, such as AdamW or SGD, and keeps tensors for it.
        groups: subgroups that the parameters are cut into, in their order, of about the same number of bytes.
        interleave: the share of the subgroups that is updated on the GPU, spread evenly: True for a half, False for none.
        in_flight: the most subgroups whose states are on the GPU at one time.
        mirror: whether the host keeps the parameters that it updates, so that they need not be copied there. What changes
            them meanwhile is seen by their version: under `torch.no_grad()`, but not through `.data`.

    Returns:
        a `torch.optim.Optimizer`, with `link.to_host` and `link.to_device` bytes moved. Its `state_dict` is `optimizer`'s, and
        each loads the other's.

    Raises:
        ValueError: an argument out of its range, parameters on several devices, or an optimizer that cannot be cut or moved
            (LBFGS; capturable); in a step, a sparse gradient.
    """
    for name, count in (("groups", groups), ("in_flight", in_flight)):
        if count < 1:
            raise ValueError(f"{name}: got {count}, expected at least 1")
    if not 0 <= interleave <= 1:
        raise ValueError(f"interleave: got {interleave}, expected True, False, or a share from 0 to 1")
    if isinstance(optimizer, torch.optim.LBFGS) or any(group.get("capturable") for group in optimizer.param_groups):
        raise ValueError("optimizer: got LBFGS or capturable=True, expected one that updates each parameter anywhere")
    devices = {parameter.device for group in optimizer.param_groups for parameter in group["params"]}
    if len(devices) > 1:
        raise ValueError(f"optimizer: its parameters are on {sorted(map(str, devices))}, expected one device")
    share = 0.5 if interleave is True else float(interleave)
    return OffloadedOptimizer(optimizer, groups, share, in_flight, mirror)


class OffloadedOptimizer(torch.optim.Optimizer):
    """What `offload_optimizer` returns."""

    def __init__(self, like: torch.optim.Optimizer, groups: int, share: float, in_flight: int, mirror: bool) -> None:
        super().__init__(like.param_groups, like.defaults)
        self.like, self.groups, self.share, self.in_flight, self.mirror = like, groups, share, in_flight, mirror
        self.link = Link(self.param_groups[0]["params"][0].device)
        self.fused: set[torch.Tensor] = set()
        self.mirrors: dict[torch.Tensor, tuple[torch.Tensor, int, int]] = {}
        self._take(like.state)
        like.state = defaultdict(dict)

    def subgroups(self) -> list[tuple[list[torch.Tensor], bool]]:
        """The parameters of each subgroup, in the order of their updates, and whether it is updated on the GPU."""
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        whole, before = max(sum(parameter.nbytes for parameter in parameters), 1), 0
        parts: list[list[torch.Tensor]] = [[] for _ in range(self.groups)]
        for parameter in parameters:
            parts[min(self.groups * (2 * before + parameter.nbytes) // (2 * whole), self.groups - 1)].append(parameter)
            before += parameter.nbytes
        parts = [part for part in parts if part]
        visiting = round(len(parts) * self.share)
        up = [-(-number * visiting // len(parts)) for number in range(len(parts) + 1)]
        return [(part, up[number] < up[number + 1]) for number, part in enumerate(parts)]

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient; the states are complete in the host's memory when it returns."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        parts = [([one for one in part if one.grad is not None], up) for part, up in self.subgroups()]
        if any(parameter.grad.is_sparse for part, _ in parts for parameter in part):  # type: ignore[union-attr]
            raise ValueError("gradient: got a sparse one, expected dense ones")
        self.fused = {one for group in self.param_groups if group.get("fused") for one in group["params"]}
        on_cpu = deque(part for part, up in parts if not up)
        fetched: deque[tuple[dict[torch.Tensor, torch.Tensor], list[Arrival]]] = deque()
        visits: deque[tuple[States, list[Arrival]]] = deque()
        arrivals: list[Arrival] = []
        for part, up in parts:
            while on_cpu and len(fetched) < 2:  # before what the GPU is given now: copies wait for that
                fetched.append(self._fetch(on_cpu.popleft()))
            if up:
                while len(visits) >= self.in_flight:
                    _wait_here(visits[0][1])  # until then the states live
                    visits.popleft()
                visits.append(self._visit(part))
            else:
                arrivals += self._update_here(*fetched.popleft())
        for _, back in visits:
            _wait_here(back)
        for arrival in arrivals:
            arrival.wait(self.link.current())
        if self.mirror:
            here = (one for part, up in parts if not up for one in part)
            self.mirrors |= {one: (self.mirrors[one][0], one._version, one.data_ptr()) for one in here}  # as it arrived
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what this or a resident optimizer saved; the states go to the host's memory at once."""
        super().load_state_dict({**state_dict, "state": {}})
        saved = [number for group in state_dict["param_groups"] for number in group["params"]]
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        of = dict(zip(saved, parameters, strict=True))
        self._take({of[number]: state for number, state in state_dict["state"].items()})

    def _take(self, states: Any) -> None:
        """Copies of states of any device, in the host's memory and the parameter's dtype."""
        self.state = defaultdict(dict)
        for parameter, state in states.items():
            for name, value in state.items():
                if isinstance(value, torch.Tensor) and name != "step" and parameter.is_floating_point():
                    value = self.link.on_host(value.to(parameter.dtype)).copy_(value)
                elif isinstance(value, torch.Tensor):
                    value = value.detach().clone().cpu()
                self.state[parameter][name] = value

    def _fetch(self, part: list[torch.Tensor]) -> tuple[dict[torch.Tensor, torch.Tensor], list[Arrival]]:
        """Begin to copy parameters and gradients to the host: by parameter, what stands for it there."""
        stands, arrivals = {}, []
        for parameter in part:
            stand, version, address = self.mirrors.get(parameter, (None, -1, -1))
            if stand is None or (version, address) != (parameter._version, parameter.data_ptr()):
                stand = self.link.on_host(parameter.detach())
                arrivals.append(self.link.down(stand, parameter.detach()))
            assert parameter.grad is not None
            stand.grad = self.link.on_host(parameter.grad)
            arrivals.append(self.link.down(stand.grad, parameter.grad))
            stands[parameter] = stand
        return stands, arrivals

    def _update_here(self, stands: dict[torch.Tensor, torch.Tensor], arrivals: list[Arrival]) -> list[Arrival]:
        """Update on the CPU, and begin to copy the parameters back."""
        _wait_here(arrivals)
        self._update(stands, {parameter: self.state[parameter] for parameter in stands})
        back = []
        for parameter, stand in stands.items():
            stand.grad = None
            back.append(self.link.up(parameter, stand))
            if self.mirror:
                self.mirrors[parameter] = stand, -1, -1  # until it has arrived
        return back

    def _visit(self, part: list[torch.Tensor]) -> tuple["States", list[Arrival]]:
        """Bring states to the GPU, update there, and begin to bring them back; they live there until they have arrived."""
        states: States = {}
        for parameter in part:
            states[parameter] = dict(self.state[parameter])
            for name, value in self.state[parameter].items():
                if self._travels(parameter, name, value):
                    states[parameter][name] = self.link.on_device(value)
                    self.link.up(states[parameter][name], value).wait(self.link.current())
        self._update({parameter: parameter for parameter in part}, states)
        back = []
        for parameter, state in states.items():
            at_home = self.state[parameter]
            for name, value in state.items():
                if self._travels(parameter, name, value):
                    at_home.setdefault(name, self.link.on_host(value))
                    back.append(self.link.down(at_home[name], value))
                else:
                    at_home[name] = value
        return states, back

    def _travels(self, parameter: torch.Tensor, name: str, value: Any) -> bool:
        """As PyTorch loads states: the number of steps stays on the host, unless the update is fused."""
        return isinstance(value, torch.Tensor) and (name != "step" or parameter in self.fused)

    def _update(self, stands: dict[torch.Tensor, torch.Tensor], states: "States") -> None:
        """The optimizer's own step, with tensors that stand for some of its parameters."""
        part = object.__new__(type(self.like))
        part.__dict__ = {name: value for name, value in vars(self.like).items() if name != "step"}  # a scheduler's
        part._optimizer_step_pre_hooks, part._optimizer_step_post_hooks = OrderedDict(), OrderedDict()
        groups = [
            {**group, "params": [stands[p] for p in group["params"] if p in stands]} for group in self.param_groups
        ]
        part.param_groups = [group for group in groups if group["params"]]
        part.state = defaultdict(dict, {stands[parameter]: state for parameter, state in states.items()})
        if part.param_groups:
            part.step()


States = dict[torch.Tensor, dict[str, Any]]


def _wait_here(arrivals: Iterable[Arrival]) -> None:
    for arrival in arrivals:
        arrival.synchronize()
