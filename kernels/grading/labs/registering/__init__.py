"""Working kernels, made operators of PyTorch: one with a gradient, and one that changes its argument."""

from __future__ import annotations

import torch

from kernels.grading.exercise import Call, Exercise
from kernels.grading.labs.registering import layouts, observers, properties
from kernels.grading.python import devices, triton_compile

_IMPORTS = "import torch; from kernels.grading.labs.registering.starter import "


def _rms_norm(x: torch.Tensor, eps: float) -> torch.Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def _gradient(dy: torch.Tensor, x: torch.Tensor, eps: float) -> torch.Tensor:
    rms = (x.square().mean(-1, keepdim=True) + eps).sqrt()
    n = x / rms
    return (dy - n * (dy * n).mean(-1, keepdim=True)) / rms


def _normed(
    random: torch.Generator,
    M: int,
    N: int,
    dtype: str = "float32",
    eps: float = 1e-5,
    x: str = layouts.CONTIGUOUS,
    dy: str = layouts.CONTIGUOUS,
) -> Call:
    """x, dy: how they lie in memory."""
    x_is, dy_is = x, dy
    x, dy = torch.randn(2, M, N, generator=random).to(getattr(torch, dtype))
    if dy_is == layouts.ONE_VALUE:
        dy = dy[:1, :1].repeat(M, N)
    exact = x.double(), dy.double()
    wanting = x.clone().requires_grad_()
    y = torch.nn.functional.rms_norm(wanting, (N,), eps=eps)
    (dx,) = torch.autograd.grad(y, wanting, dy)
    return Call(
        {"x": x, "eps": eps, "dy": dy, "x_is": x_is, "dy_is": dy_is},
        expected={"y": _rms_norm(exact[0], eps), "dx": _gradient(exact[1], exact[0], eps)},
        baseline={"y": y.detach(), "dx": dx},
    )


def _averaged(
    random: torch.Generator,
    M: int,
    N: int,
    decay: float,
    dtype: str = "float32",
    average: str = layouts.CONTIGUOUS,
    value: str = layouts.CONTIGUOUS,
) -> Call:
    """average, value: how they lie in memory."""
    average_is, value_is = average, value
    average, value = torch.randn(2, M, N, generator=random).to(getattr(torch, dtype))
    exact = decay * average.double() + (1 - decay) * value.double()
    return Call(
        {"average": average, "value": value, "decay": decay, "average_is": average_is, "value_is": value_is},
        expected={"average": exact},
        baseline={"average": (decay * average.float() + (1 - decay) * value.float()).to(average.dtype)},
        updated=("average",),
    )


_CONTIGUOUS = ("first", "other", "more", "again", "float16", "no rows")
_STRIDED = ("spread", "part", "one column")

EXERCISES = (
    Exercise(
        name="rms_norm",
        language="torch",
        call=_normed,
        cases={
            "first": {"M": 2, "N": 6},
            "float16": {"M": 2, "N": 12, "eps": 0.5, "dtype": "float16"},
            "part": {"M": 3, "N": 7, "x": layouts.PART, "dy": layouts.SPREAD},
            "spread": {"M": 2, "N": 8, "x": layouts.SPREAD, "dy": layouts.PART},
            "one column": {"M": 4, "N": 1, "eps": 0.5, "x": layouts.PART, "dy": layouts.ONE_VALUE},
            "other": {"M": 3, "N": 5},
            "more": {"M": 4, "N": 9},
            "again": {"M": 2, "N": 6},
            "no rows": {"M": 0, "N": 4},
        },
        drawn={
            "more": {"M": range(4, 8), "N": range(10, 200)},
            "spread": {"M": range(2, 5), "N": range(9, 40)},
            "part": {"M": range(2, 5), "N": range(9, 40)},
        },
        prelude=_IMPORTS + "launch_backward, launch_forward",
        parameters=("x", "eps"),
        observe=observers.differentiable,
        modules=observers.MODULES,
        seconds=60,
        properties=(
            triton_compile.finishes(properties.ADVICE),
            properties.an_operator("rms_norm"),
            devices.together(),
            properties.right(
                "y",
                *_CONTIGUOUS,
                name="y is what the kernel computes",
                stage="compiles",
                hint="launch_forward(x, eps) returns y.",
            ),
            properties.right(
                "y",
                *_STRIDED,
                name="also where x is not contiguous",
                stage="compiles",
                hint="The kernel takes the elements in the order of memory, whatever the strides. "
                "x.contiguous() is x itself, or a copy in that order.",
            ),
            properties.fact_property(
                "strides",
                "y is contiguous",
                "compiles",
                lambda found, _: found and f"y has the strides {found}, and the kernel's result is contiguous",
                "Return what launch_forward returns. empty_like keeps the strides of x, and so does clone.",
            ),
            properties.fact_property(
                "fake",
                "the fake implementation describes the result",
                "compiles",
                lambda found, _: found,
                "It is given x without memory, and returns a new tensor without memory: x.new_empty(…) has x's dtype and "
                "device, and is contiguous, as the kernel's result is. empty_like keeps the strides of x.",
            ),
            properties.fact_property(
                "gradient",
                "autograd has a gradient",
                "writes",
                lambda said, _: said,
                "rms_norm.register_autograd(backward, setup_context=save): one gradient for each argument, and None "
                "where it has none.",
            ),
            properties.fact_property(
                "backward operators",
                "the backward is an operator, too",
                "right",
                properties.backward_operator,
                "Register launch_backward as a second operator, with a fake implementation, and call that.",
            ),
            properties.right(
                "dx",
                *_CONTIGUOUS,
                name="dx is what the backward kernel computes",
                stage="right",
                hint="launch_backward(dy, x, eps) returns dx.",
                **{"the gradient with dy and x exchanged": lambda x, dy, eps, **_: {"dx": _gradient(x, dy, eps)}},
            ),
            properties.right(
                "dx",
                *_STRIDED,
                name="also where dy or x is not contiguous",
                stage="right",
                hint="launch_backward assumes that both are contiguous. dy may be transposed, columns of a wider matrix, or "
                "one value with strides of 0.",
            ),
            properties.fact_property(
                "mixed",
                "a backward has the x of its own forward",
                "right",
                properties.mixed,
                "ctx belongs to one call. A variable outside has what the last call has left in it.",
            ),
            properties.fact_property(
                "unnoticed",
                "a change of x before the backward is noticed",
                "right",
                properties.unnoticed,
                "A tensor that is kept by ctx.save_for_backward is compared with its version. One that is an attribute "
                "of ctx is not.",
            ),
            properties.fact_property("kept", "nothing but x is kept", "right", properties.kept),
            properties.on_a_gpu(),
            properties.fact_property(
                "schemas",
                "the schemas declare what is changed",
                "right",
                lambda found, _: found and properties.schema(*found),
                "mutates_args has the names of the arguments that an operator writes to, and no others.",
            ),
            properties.launched_once(
                "forward and backward are one launch each",
                {"launched": "rms_norm_kernel", "backward launched": "rms_norm_backward_kernel"},
            ),
            properties.fact_property(
                "backward fake",
                "the backward's fake implementation describes the result, too",
                "costs",
                lambda found, _: found,
                "dx has the shape and the dtype of x, which are passed on as they are, and is contiguous, whatever dy and x "
                "are.",
            ),
            properties.opcheck(),
            properties.one_graph(),
            properties.compiled_once(),
        ),
    ),
    Exercise(
        name="ema_",
        language="torch",
        call=_averaged,
        cases={
            "first": {"M": 4, "N": 6, "decay": 0.9},
            "float16": {"M": 3, "N": 5, "decay": 0.5, "dtype": "float16"},
            "spread": {"M": 5, "N": 8, "decay": 0.25, "average": layouts.SPREAD, "value": layouts.PART},
            "part": {"M": 6, "N": 7, "decay": 0.75, "average": layouts.PART, "value": layouts.SPREAD},
            "again": {"M": 6, "N": 7, "decay": 0.75, "average": layouts.PART, "value": layouts.PART},
        },
        drawn={
            "first": {"M": range(2, 30), "N": range(2, 30)},
            "spread": {"M": range(2, 9), "N": range(9, 40)},
            "part": {"M": range(2, 9), "N": range(9, 40)},
        },
        prelude=_IMPORTS + "launch_ema",
        parameters=("average", "value", "decay"),
        observe=observers.in_place,
        modules=observers.MODULES,
        seconds=60,
        properties=(
            triton_compile.finishes(properties.ADVICE),
            properties.an_operator("ema_"),
            devices.together(),
            properties.right(
                "average",
                "first",
                "float16",
                name="average is what the kernel makes of it",
                stage="compiles",
                hint="launch_ema(average, value, decay) changes average.",
            ),
            properties.right(
                "average",
                "spread",
                "part",
                "again",
                name="also where it is not contiguous",
                stage="compiles",
                hint="Both are assumed to be contiguous: copy what is not, by contiguous(), since clone() keeps the order of a "
                "transposed one. What is written to a copy has to be copied back: average.copy_(…) writes to average, "
                "wherever that lies.",
            ),
            properties.fact_property(
                "around",
                "what lies around average does not change",
                "compiles",
                lambda changed, _: "elements of the wider matrix outside average were changed" if changed else None,
            ),
            properties.fact_property(
                "schema",
                "the schema declares what is changed",
                "writes",
                lambda found, _: properties.schema(*found),
                "mutates_args has the names of the arguments that the operator writes to, and -> None says that it returns "
                "nothing.",
            ),
            properties.on_a_gpu(),
            properties.launched_once("it is one launch", {"launched": "ema_kernel"}),
            properties.opcheck(),
        ),
    ),
)
