"""A transformer for images: patches are its tokens. Dosovitskiy et al., "An Image is Worth 16x16 Words" (2021)."""

import torch
from torch import nn

from kernels.arguments import positive
from kernels.modules import TransformerBlock


class VisionTransformer(nn.Module):
    """Classifies square images. The blocks' outputs are averaged over the patches, as in the paper's appendix D.3.

    Args:
        image_size: pixels a side, a multiple of patch_size.
        num_classes: logits of an image.
        patch_size: pixels a side of what becomes one token.
        dim, num_heads, depth: of the blocks.
        channels: of the images.

    Shapes: x is (B, channels, image_size, image_size); the logits are (B, num_classes).

    ValueError: numbers below 1 or that do not divide, or an x of another shape.
    """

    def __init__(
        self,
        image_size: int,
        num_classes: int,
        patch_size: int = 4,
        dim: int = 48,
        num_heads: int = 4,
        depth: int = 2,
        channels: int = 1,
    ) -> None:
        super().__init__()
        positive(image_size=image_size, num_classes=num_classes, patch_size=patch_size, depth=depth, channels=channels)
        if image_size % patch_size:
            raise ValueError(f"image_size: got {image_size}, expected a multiple of patch_size, {patch_size}")
        self.shape, self.patch_size = (channels, image_size, image_size), patch_size
        self.embedding = nn.Linear(channels * patch_size**2, dim)
        self.positions = nn.Parameter(0.02 * torch.randn((image_size // patch_size) ** 2, dim))
        self.blocks = nn.ModuleList(TransformerBlock(dim, num_heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if tuple(x.shape[1:]) != self.shape:
            raise ValueError(f"x: got shape {tuple(x.shape)}, expected (B, {', '.join(map(str, self.shape))})")
        h = self.embedding(self.patches(x)) + self.positions
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h).mean(1))

    def patches(self, x: torch.Tensor) -> torch.Tensor:
        """(B, patches, channels · patch_size²): rows of patches from the top, each patch channel by channel, row by row."""
        size = self.patch_size
        grid = x.unflatten(3, (-1, size)).unflatten(2, (-1, size))  # B, channels, rows, size, columns, size
        return grid.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
