"""A call of a function or kernel, with what must come of it: what the check of an operation and the labs' checks judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Call:
    """One call.

    Args:
        args: by the names of the parameters, in their order: tensors, and NumPy or Python scalars.
        expected: what must come of it, by name: in float64, or exact in its dtype.
        baseline: PyTorch's own result in the dtype of the output, by name: the yardstick of error (see
            `kernels.tolerance`).
        updated: names of the arguments that the call starts from and changes.
    """

    args: Mapping[str, Any]
    expected: Mapping[str, torch.Tensor]
    baseline: Mapping[str, torch.Tensor] = field(default_factory=dict)
    updated: tuple[str, ...] = ()
