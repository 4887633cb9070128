"""A convolutional network for small images."""

import torch
from torch import nn

from kernels.arguments import positive


class ConvNet(nn.Module):
    """Three 3×3 convolutions, each with batch norm and ReLU; the first two halve the image; then the mean over the image and
    a linear layer. Ioffe and Szegedy, "Batch Normalization" (2015).

    Args:
        num_classes: logits of an image.
        channels: of the images.
        width: channels of the first convolution; the others have twice as many.

    Shapes: x is (B, channels, H, W), H and W at least 4; the logits are (B, num_classes).

    ValueError: numbers below 1, or an x of another shape.
    """

    def __init__(self, num_classes: int, channels: int = 1, width: int = 16) -> None:
        super().__init__()
        positive(num_classes=num_classes, channels=channels, width=width)
        sizes = (channels, width, 2 * width, 2 * width)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(a, b, 3, padding=1, bias=False) for a, b in zip(sizes, sizes[1:], strict=False)
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(size) for size in sizes[1:])
        self.pool: nn.Module = nn.MaxPool2d(2)
        self.head = nn.Linear(sizes[-1], num_classes)
        self.channels = channels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dim() != 4 or x.shape[1] != self.channels or min(x.shape[2:]) < 4:
            raise ValueError(
                f"x: got shape {tuple(x.shape)}, expected (B, {self.channels}, H, W) of at least 4×4 pixels"
            )
        for number, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            x = norm(convolution(x)).relu()
            if number < 2:
                x = self.pool(x)
        return self.head(x.mean((2, 3)))
