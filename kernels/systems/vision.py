"""A vision transformer: proved against patches that are cut out by loops, and naive blocks; trained on digits."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from kernels.claims import Claim, Number
from kernels.measure import race
from kernels.models import ConvNet, VisionTransformer
from kernels.models.digits import digits, fit_images
from kernels.modules import NaiveBlock
from kernels.records import ModelRecord, check_model
from kernels.system import Shown, System

# pixels a side, classes, pixels a side of a patch, dim, heads, blocks, channels
SIZES = ((8, 5, 4, 16, 2, 1, 1), (12, 3, 4, 24, 3, 2, 3))


class Loops(VisionTransformer):
    """The same from the formulas: patches one by one, attention by loops, the norm and the mean written out."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        dim, heads, depth = sizes[3:6]
        self.blocks = nn.ModuleList(NaiveBlock(dim, heads) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = self.patch_size
        found: list[torch.Tensor] = []
        for top in range(0, x.shape[2], size):
            for left in range(0, x.shape[3], size):
                patch = x[:, :, top : top + size, left : left + size].reshape(len(x), -1)
                found.append(patch @ self.embedding.weight.T + self.embedding.bias + self.positions[len(found)])
        h = torch.stack(found, dim=1)
        for block in self.blocks:
            h = block(h)
        centred = h - h.mean(-1, keepdim=True)
        h = (
            centred / (centred.square().mean(-1, keepdim=True) + self.norm.eps).sqrt() * self.norm.weight
            + self.norm.bias
        )
        return h.sum(1) / len(found) @ self.head.weight.T + self.head.bias


def check(make: type[VisionTransformer], device: str) -> tuple[float, str | None]:
    """Outputs and gradients, of one channel and of three."""
    worst = 0.0
    for sizes in SIZES:
        x = torch.randn(3, sizes[6], sizes[0], sizes[0], generator=torch.Generator().manual_seed(1))
        record = ModelRecord("vision", built(make, sizes), built(Loops, sizes), partial(given, x), (), {})
        ratio, failure = check_model(record, record.build, device=device)
        if failure:
            return ratio, f"{sizes[6]} channels: {failure}"
        worst = max(worst, ratio)
    return worst, None


def given(x: torch.Tensor, seed: int) -> tuple[torch.Tensor]:
    return (x,)


def built(kind: type[VisionTransformer], sizes: tuple[int, ...]) -> Callable[[int], nn.Module]:
    def build(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        model = kind(*sizes)
        for parameter in model.parameters():  # norms and positions that show
            nn.init.normal_(parameter, std=0.3)
        return model

    return build


class ByColumns(VisionTransformer):
    """Takes the patches a column of the image at a time."""

    def patches(self, x: torch.Tensor) -> torch.Tensor:
        return super().patches(x.transpose(2, 3))


class OtherOrder(VisionTransformer):
    """The patches in columns, each patch right."""

    def patches(self, x: torch.Tensor) -> torch.Tensor:
        side = x.shape[2] // self.patch_size
        return super().patches(x).unflatten(1, (side, side)).transpose(1, 2).flatten(1, 2)


class Rows(VisionTransformer):
    """Cuts the image's memory into equal parts, which are no patches."""

    def patches(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(len(x), len(self.positions), -1)


class ChannelsLast(VisionTransformer):
    """The values of a pixel's channels beside each other."""

    def patches(self, x: torch.Tensor) -> torch.Tensor:
        return super().patches(x).unflatten(2, (x.shape[1], -1)).transpose(2, 3).flatten(2)


class SeesTheFirst(VisionTransformer):
    """Attention as in a language model: a patch sees earlier ones alone."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        block: Any
        for block in self.blocks:
            block.attention.causal = True


class FirstPatch(VisionTransformer):
    """Takes the first patch for the image, as if it were the class token that other versions have."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.embedding(self.patches(x)) + self.positions
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h)[:, 0])


class MeanBeforeNorm(VisionTransformer):
    """Averages the patches, then normalises."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.embedding(self.patches(x)) + self.positions
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h.mean(1)))


def beside_convolutions(device: str) -> Mapping[str, Number]:
    """Test images that are right after 250 steps, from three seeds, of a transformer and a convolutional network of about
    as many parameters."""
    models: dict[str, Callable[[], nn.Module]] = {
        "convolutions": partial(ConvNet, 10),
        "transformer": partial(VisionTransformer, 8, 10, dim=24),
    }
    found = {}
    for name, build in models.items():
        right = []
        for seed in range(3):
            torch.manual_seed(seed)
            right.append(100 * fit_images(build().to(device), 250, seed))
        found[name] = Number.of(right, "%")
        found[f"parameters, {name}"] = Number.exact(sum(one.numel() for one in build().parameters()), "parameters")
    return found


def demo(device: str, quick: bool) -> Shown:
    torch.manual_seed(0)
    model = VisionTransformer(8, 10).to(device)
    accuracy = fit_images(model, 30 if quick else 200)
    naive = Loops(8, 10, 4, 48, 4, 2, 1).to(device)
    naive.load_state_dict(model.state_dict())
    images = digits()[0][:16].to(device)
    with torch.inference_mode():
        raced = race({"loops": lambda: naive(images).softmax(-1), "fused": lambda: model(images).softmax(-1)}, device)
    return Shown(
        "a transformer over four patches of each handwritten digit",
        "outputs and gradients equal loops over patches, heads and positions, by the course's error bound",
        f"{100 * accuracy:.1f} % of the test images right; "
        f"{raced.ratio('loops', 'fused').median:.0f} times as fast as the loops",
        raced.plot(),
    )


SYSTEM = System(
    name="vision",
    summary="a transformer that classifies images, whose patches are its tokens",
    modules=("kernels.models.vision", "kernels.models.digits"),
    make=VisionTransformer,
    proof="loops over patches, heads and positions in float64: outputs and gradients",
    check=check,
    wrong={
        "a patch is read down its columns": ByColumns,
        "patches are numbered down the columns": OtherOrder,
        "the image's memory is cut in equal parts": Rows,
        "channels stand inside pixels": ChannelsLast,
        "a patch sees earlier ones alone": SeesTheFirst,
        "the first patch stands for the image": FirstPatch,
        "the mean comes before the norm": MeanBeforeNorm,
    },
    demo=demo,
    from_torch=("scaled_dot_product_attention", "the matrix products", "the last layer norm", "AdamW"),
    claims=(
        Claim(
            name="vision-transformers-below-resnets",
            text="When trained on mid-sized datasets such as ImageNet without strong regularization, these models yield modest "
            "accuracies of a few percentage points below ResNets of comparable size",
            source="Dosovitskiy et al., An Image is Worth 16x16 Words (2020), introduction",
            conditions="ImageNet; here, digits of 8×8 pixels and a plain convolutional network",
            verdict="partly",
            reason="on far less data, and against plain convolutions of as many parameters, it is below them by as much; "
            "ImageNet and a ResNet were not tried",
            evidence="measured",
            experiment=beside_convolutions,
        ),
    ),
)
