"""Cross-entropy as a module: in place of PyTorch's own, with a level to choose."""

import torch

from kernels.operation import level_number
from kernels.ops.cross_entropy import cross_entropy


class CrossEntropyLoss(torch.nn.CrossEntropyLoss):
    """`torch.nn.CrossEntropyLoss` of integer targets, computed at a level.

    Args:
        weight: of classes; None, which is all that there is here.
        size_average, reduce: deprecated in PyTorch; None.
        ignore_index: the target of what has no loss.
        reduction: "mean" over all targets that are not ignored (NaN if all are), "sum" or "none".
        label_smoothing: the part of a target that is spread evenly over all classes.
        level: 1 to 5 or "native", "torchscript", "compiled", "triton", "cuda"; None for native on a CPU or in
            float64, else Triton, by the input.

    Shapes: the input is (C,), (N, C) or (N, C, d1, …), the target (), (N,) or (N, d1, …), int64. A loss has the input's dtype,
    rounded once, after the reduction.

    Raises:
        ValueError: an unknown level or reduction, or weights of classes, when made.
        TypeError, ValueError: when called, as `kernels.cross_entropy`.
    """

    def __init__(
        self,
        weight: torch.Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        level: int | str | None = None,
    ) -> None:
        if level is not None:
            level_number(level)
        for name, value in (("weight", weight), ("size_average", size_average), ("reduce", reduce)):
            if value is not None:
                raise ValueError(f"{name}: got {value!r}, expected None; torch.nn.CrossEntropyLoss takes it")
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction: got {reduction!r}, expected 'mean', 'sum' or 'none'")
        super().__init__(ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing)
        self.level = level

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        logits = input.movedim(1, -1) if input.dim() > 2 else input  # classes last
        loss, _ = cross_entropy(logits, target, self.ignore_index, self.label_smoothing, level=self.level)
        if self.reduction == "mean":
            loss = loss.sum() / (target != self.ignore_index).sum()
        elif self.reduction == "sum":
            loss = loss.sum()
        return loss.to(input.dtype)

    def extra_repr(self) -> str:
        return f"ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}, level={self.level!r}"
