"""The nearest numbers that small floating formats have, by their mantissas in float64: what casts are held against."""

import torch

FORMATS = {"e5m2": (2, -14, 57344.0), "e4m3": (3, -6, 448.0), "e2m1": (1, 0, 6.0)}
"""Bits of the mantissa, the lowest exponent of a normal number, and the largest number. OCP 8-bit and Microscaling
specifications, version 1.0."""


def rounded(x: torch.Tensor, format: str) -> torch.Tensor:
    """The nearest numbers of a format, float64, ties to an even mantissa; beyond the largest becomes the largest.

    x: finite, of any floating dtype. ValueError: a format of another name.
    """
    if format not in FORMATS:
        raise ValueError(f"format: got {format!r}, expected one of {', '.join(FORMATS)}")
    mantissa, lowest, largest = FORMATS[format]
    x = x.double()
    exponent = torch.frexp(x)[1].double() - 1
    step = torch.exp2(exponent.clamp(min=lowest) - mantissa)
    return ((x / step).round() * step).clamp(-largest, largest)


class Rounded:
    """What a Float8Linear of e4m3 and e5m2 makes of its inputs, call by call, in float64 and by no cast."""

    def __init__(self, scaling: str) -> None:
        self.scaling = scaling
        self.met: dict[str, list[float]] = {"input": [], "weight": [], "gradient": []}
        self.overflowed = 0

    def cast(self, x: torch.Tensor, role: str, dim: int = 1) -> torch.Tensor:
        size = x.abs().float().nan_to_num(0.0, 0.0, 0.0)
        limit = size.amax(dim, keepdim=True) if self.scaling == "row" else size.amax()
        if self.scaling == "delayed":
            if self.met[role]:
                limit = limit.new_tensor(2 * max(self.met[role]))
            self.met[role].append(float(size.amax()))
        if dim == 1:
            self.overflowed += int((x.float().abs() > limit).sum())
        format = "e5m2" if role == "gradient" else "e4m3"
        scale = limit / FORMATS[format][2]
        return rounded(x.float() / scale, format) * scale.double()

    def products(self, x: torch.Tensor, w: torch.Tensor, dy: torch.Tensor) -> dict[str, torch.Tensor]:
        x8, w8, dy8 = self.cast(x, "input"), self.cast(w, "weight"), self.cast(dy, "gradient")
        found = {"y": x8 @ w8.t()}
        columns = x8, w8, dy8
        if self.scaling == "row":  # the backward's products sum over other dimensions
            columns = self.cast(x, "input", 0), self.cast(w, "weight", 0), self.cast(dy, "gradient", 0)
        return found | {"dx": dy8 @ columns[1], "dw": columns[2].t() @ columns[0]}
