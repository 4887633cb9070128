"""A convolutional network: proved against patches that are multiplied, trained on digits."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from kernels.claims import Claim, Number
from kernels.machine import one_thread
from kernels.measure import race
from kernels.models import ConvNet
from kernels.models.digits import digits, fit_images, split
from kernels.records import ModelRecord, check_model_in_float64
from kernels.system import Shown, System


class Unfolded(ConvNet):
    """The same network from the formulas: a convolution is a product of its weight with all 3×3 patches."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        convolution: Any
        for number, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            x = convolve(x, convolution.weight)
            x = normalised(x, norm).clamp(min=0)
            if number < 2:
                x = x[..., : x.shape[2] // 2 * 2, : x.shape[3] // 2 * 2]
                x = x.unflatten(3, (-1, 2)).unflatten(2, (-1, 2)).amax((3, 5))
        return x.flatten(2).mean(2) @ self.head.weight.T + self.head.bias


def convolve(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    patches = F.unfold(x, 3, padding=1)  # B, channels · 9, pixels
    return (weight.flatten(1) @ patches).unflatten(2, x.shape[2:])


def normalised(x: torch.Tensor, norm: Any) -> torch.Tensor:
    """nn.BatchNorm2d, whose running variance is the unbiased one."""
    dims, count = (0, 2, 3), x.numel() // x.shape[1]
    mean, variance = x.mean(dims), x.var(dims, correction=0)
    if norm.training:
        with torch.no_grad():
            norm.running_mean.lerp_(mean, norm.momentum)
            norm.running_var.lerp_(variance * count / (count - 1), norm.momentum)
            norm.num_batches_tracked += 1
    else:
        mean, variance = norm.running_mean, norm.running_var
    shape = (-1, 1, 1)
    x = (x - mean.view(shape)) / (variance.view(shape) + norm.eps).sqrt()
    return x * norm.weight.view(shape) + norm.bias.view(shape)


def check(make: type[ConvNet], device: str) -> tuple[float, str | None]:
    """Outputs, gradients and running statistics of even and odd images in training, then outputs in evaluation."""
    worst = 0.0
    for channels, height, width, training in ((1, 8, 8, True), (3, 9, 6, True), (2, 8, 11, False)):
        x = torch.randn(2, channels, height, width, generator=torch.Generator().manual_seed(1))
        build, twin = (partial(built, kind, channels, training) for kind in (make, Unfolded))
        record = ModelRecord("convolution", build, twin, partial(given, x), (), {})
        ratio, failure = check_model_in_float64(record, record.build, device=device)
        if failure:
            return ratio, f"{channels}×{height}×{width}, {'training' if training else 'evaluation'}: {failure}"
        worst = max(worst, ratio)
    return worst, None


def given(x: torch.Tensor, seed: int) -> tuple[torch.Tensor]:
    return (x,)


def built(kind: type[ConvNet], channels: int, training: bool, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    model = kind(5, channels, 8).train(training)
    norm: Any
    for norm in model.norms:  # not what they are made with
        for some in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
            nn.init.uniform_(some, 0.2, 0.6)
    return model


class Flipped(ConvNet):
    """Convolves as mathematics does, with the weight turned round; a network's convolution is a correlation."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        convolution: Any
        for convolution in self.convolutions:
            convolution.forward = lambda x, one=convolution: F.conv2d(x, one.weight.flip(2, 3), padding=1)


class WrapsRound(ConvNet):
    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        convolution: Any
        for convolution in self.convolutions:
            convolution.padding_mode = "circular"
            convolution._reversed_padding_repeated_twice = [1, 1, 1, 1]


class AveragePool(ConvNet):
    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.pool = nn.AvgPool2d(2)


class AlwaysOfTheBatch(ConvNet):
    """Normalises by the batch's statistics in evaluation too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        norm: Any
        for norm in self.norms:
            norm.track_running_stats = self.training
            norm.train(True)
        return super().forward(x)


class BiasedVariance(ConvNet):
    """Keeps the variance that the batch is normalised by, divided by the count, for evaluation."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        norms: Any = self.norms
        before = [norm.running_var.clone() for norm in norms]
        counts = [len(x) * (x.shape[2] // size) * (x.shape[3] // size) for size in (1, 2, 4)]
        y = super().forward(x)
        if self.training:
            for norm, old, count in zip(norms, before, counts, strict=True):
                kept = old * (1 - norm.momentum)
                norm.running_var = kept + (norm.running_var - kept) * (count - 1) / count  # autograd has the old tensor
        return y


class NormLast(ConvNet):
    """ReLU before the norm."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        norm: Any
        for number, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            x = norm(convolution(x).relu())
            if number < 2:
                x = self.pool(x)
        return self.head(x.mean((2, 3)))


class WithoutNorms(ConvNet):
    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.norms = nn.ModuleList(nn.Identity() for _ in self.norms)


def rates(device: str) -> Mapping[str, Number]:
    """Test images that are right after 100 steps of gradient descent, with batch norm and without it, from three seeds."""
    found = {}
    for rate, weights in ((0.1, 1.0), (1.0, 1.0), (0.1, 0.3)):
        for name, kind in (("with", ConvNet), ("without", WithoutNorms)):
            right = [100 * learnt(kind, rate, weights, seed) for seed in range(3)]
            said = f", initial weights × {weights}" if weights != 1 else ""
            found[f"{name} batch norm, rate {rate}{said}"] = Number.of(right, "%")
    return found


def learnt(kind: type[ConvNet], rate: float, weights: float, seed: int) -> float:
    torch.manual_seed(seed)
    model, (images, classes), (train, test) = kind(10), digits(), split(seed=seed)
    with torch.no_grad():
        for convolution in model.convolutions:
            for parameter in convolution.parameters():
                parameter.mul_(weights)
    optimizer = torch.optim.SGD(model.parameters(), rate)
    with one_thread():
        for some in train[torch.randint(len(train), (100, 64))]:
            optimizer.zero_grad()
            F.cross_entropy(model(images[some]), classes[some]).backward()
            optimizer.step()
    with torch.inference_mode():
        return float((model.eval()(images[test]).argmax(-1) == classes[test]).float().mean())


def demo(device: str, quick: bool) -> Shown:
    torch.manual_seed(0)
    model = ConvNet(10).to(device)
    accuracy = fit_images(model, 30 if quick else 250)
    naive = Unfolded(10).to(device).eval()
    naive.load_state_dict(model.state_dict())
    images = digits()[0][:64].to(device)
    # On a GPU convolutions of float32 are rounded more, unless asked not to be.
    with torch.inference_mode(), torch.backends.cudnn.flags(allow_tf32=False):
        raced = race(
            {
                "patches, multiplied": lambda: naive(images).softmax(-1),
                "convolutions": lambda: model(images).softmax(-1),
            },
            device,
        )
    return Shown(
        "three convolutions with batch norm, trained on handwritten digits of 8×8 pixels",
        "outputs, gradients and running statistics equal those of multiplied patches in float64",
        f"{100 * accuracy:.1f} % of the test images right; "
        f"{raced.ratio('patches, multiplied', 'convolutions').median:.1f} times as fast as with patches",
        raced.plot(),
    )


SYSTEM = System(
    name="convolution",
    summary="a convolutional network for small images, with batch norm",
    modules=("kernels.models.convolution", "kernels.models.digits"),
    make=ConvNet,
    proof="patches multiplied by the weights in float64, batch norm from its formula: outputs, gradients, running statistics",
    check=check,
    wrong={
        "the weights are turned round": Flipped,
        "the border wraps round": WrapsRound,
        "pooling takes the mean": AveragePool,
        "the batch's statistics in evaluation": AlwaysOfTheBatch,
        "the running variance is the biased one": BiasedVariance,
        "ReLU comes before the norm": NormLast,
    },
    demo=demo,
    from_torch=("convolution", "batch norm", "pooling", "AdamW"),
    claims=(
        Claim(
            name="batch-norm-rates",
            text="Batch Normalization allows us to use much higher learning rates and be less careful about initialization",
            source="Ioffe and Szegedy, Batch Normalization (2015), abstract",
            conditions="none given",
            verdict="confirmed",
            reason="of a small network on digits: with it training succeeds at rates and from initial weights with which, "
            "without it, little is learnt in as many steps",
            evidence="measured",
            experiment=rates,
            devices=("cpu",),
        ),
    ),
)
