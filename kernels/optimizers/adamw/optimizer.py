"""AdamW in place of PyTorch's: its arguments, groups and state dict, with a level to choose."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import torch

from kernels.operation import level_number
from kernels.optimizers.adamw import cuda, native, triton
from kernels.optimizers.adamw.native import Step, Update

STATES = ("exp_avg", "exp_avg_sq")


class AdamW(torch.optim.AdamW):
    """`torch.optim.AdamW`, whose step is computed at a level. State dicts go both ways; states are float32 in ours.

    Args:
        params, lr, betas, eps, weight_decay, maximize: PyTorch's; parameters are float32, float16 or bfloat16, contiguous.
        level: 1 to 5 or "native", "torchscript", "compiled", "triton", "cuda"; None: native on a CPU, Triton on a GPU, by
            where a parameter is.

    Raises:
        ValueError: an unknown level, or numbers that PyTorch refuses, when made; a parameter that is not contiguous.
        TypeError: a parameter or a gradient of another dtype.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        *,
        maximize: bool = False,
        level: int | str | None = None,
    ) -> None:
        self.level = None if level is None else level_number(level)
        super().__init__(params, lr, betas, eps, weight_decay, maximize=maximize)

    def update(self, device: torch.device) -> Update:
        """What computes a step for parameters on the device."""
        return UPDATES[self.level or (4 if device.type == "cuda" else 1)]

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient. closure: computes the loss again, and the gradients; it is returned."""
        with torch.enable_grad():
            loss = closure() if closure is not None else None
        for group in self.param_groups:
            alike = defaultdict(list)  # what one launch takes: one dtype, device and number of steps
            for p in group["params"]:
                if p.grad is not None:
                    state = self.started(p)
                    state["step"] += 1
                    alike[p.dtype, p.device, int(state["step"])].append(p)
            for (_, device, t), parameters in alike.items():
                beta1, beta2 = group["betas"]
                step = Step(
                    keep=1 - group["lr"] * group["weight_decay"], beta1=beta1, beta2=beta2,
                    size=group["lr"] / (1 - beta1**t), root=(1 - beta2**t) ** 0.5, eps=group["eps"],
                )  # fmt: skip
                gradients = [-p.grad if group["maximize"] else p.grad.contiguous() for p in parameters]
                ms, vs = ([self.state[p][name] for p in parameters] for name in STATES)
                self.update(device)(parameters, gradients, ms, vs, step)
        return loss

    def started(self, p: torch.Tensor) -> dict[str, torch.Tensor]:
        """The state of a parameter; of one that is new, zeros."""
        if p.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            raise TypeError(f"params: got a parameter of dtype {p.dtype}, expected float32, float16 or bfloat16")
        if not p.is_contiguous():
            raise ValueError(f"params: got a parameter with strides {p.stride()}, expected a contiguous one")
        if (gradient := p.grad) is not None and (gradient.dtype != p.dtype or gradient.is_sparse):
            raise TypeError(
                f"grad: got {gradient.dtype}, {gradient.layout}, expected a dense {p.dtype} like its parameter"
            )
        state = self.state[p]
        if not state:
            state["step"] = torch.tensor(0.0)
            state |= {name: torch.zeros(p.shape, dtype=torch.float32, device=p.device) for name in STATES}
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As PyTorch's, which rounds states to the dtype of their parameter; here they stay float32."""
        super().load_state_dict(state_dict)
        saved = chain.from_iterable(group["params"] for group in state_dict["param_groups"])
        own = chain.from_iterable(group["params"] for group in self.param_groups)
        for number, p in zip(saved, own, strict=True):
            for name in STATES if number in state_dict["state"] else ():
                value = state_dict["state"][number][name]
                self.state[p][name] = value.to(p.device, torch.float32, copy=True).contiguous()


UPDATES: dict[int, Update] = {one.level: one.fn for one in (*native.UPDATES, *triton.UPDATES, *cuda.UPDATES)}
"""The last of each level."""


def made_by(update: Update, **setting: Any) -> Callable[[list[torch.Tensor]], AdamW]:
    """A function that makes the optimizer whose steps `update` computes."""

    class Made(AdamW):
        def update(self, device: torch.device) -> Update:
            return update

    return lambda parameters: Made(parameters, **setting)
