"""The same values in memory laid out otherwise: what kernels that take pointers and strides must survive."""

import torch

LAYOUTS = ("contiguous", "rows", "transposed", "sliced", "expanded")


def lay_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """A tensor of x's shape in the given layout, with NaN in every gap, or the largest integer.

    Args:
        x: at least two dimensions, unless contiguous; three for "sliced".
        layout: "contiguous"; "rows" (rows lie further apart than their width and do not start at the allocation);
            "transposed" (columns are contiguous); "sliced" (rows are not equally far apart); "expanded" (one row in
            memory, which is every row).
    """
    if layout == "contiguous":
        return x
    gap = float("nan") if x.is_floating_point() else torch.iinfo(x.dtype).max
    if layout == "rows":
        return x.new_full((*x.shape[:-1], x.shape[-1] + 7), gap)[..., 3 : 3 + x.shape[-1]].copy_(x)
    if layout == "transposed":
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "sliced":
        *outer, rows, width = x.shape
        return x.new_full((*outer, rows + 2, width), gap)[..., 1:-1, :].copy_(x)
    if layout == "expanded":
        return x.reshape(-1, x.shape[-1])[0].contiguous().expand(x.shape)
    raise ValueError(f"layout: got {layout!r}, expected one of {', '.join(LAYOUTS)}")


def clone_memory(x: torch.Tensor) -> torch.Tensor:
    """A copy of x with its strides, its offset and all of its allocation, gaps included."""
    return x.new_empty(0).set_(x.untyped_storage().clone(), x.storage_offset(), x.shape, x.stride())


def same_memory(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether two allocations hold the same bytes, NaN and gaps included."""
    one, other = (torch.empty(0, dtype=torch.uint8, device=t.device).set_(t.untyped_storage()) for t in (x, y))
    return torch.equal(one, other)
