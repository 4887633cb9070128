"""Other ways to register."""

ACCEPTED = {
    "rms_norm": {
        "functions in place of decorators, and a schema": """def forward(x, eps):
    return launch_forward(x.contiguous(), eps)


def shape(x, eps):
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def gradient(dy: torch.Tensor, x: torch.Tensor, eps: float) -> torch.Tensor:
    return launch_backward(dy.contiguous(), x.contiguous(), eps)


rms_norm = torch.library.custom_op(
    "course::rms_norm", forward, mutates_args=(), schema="(Tensor x, float eps) -> Tensor"
)
rms_norm.register_fake(shape)
rms_norm_backward = torch.library.custom_op("course::rms_norm_backward", gradient, mutates_args=())
rms_norm_backward.register_fake(lambda dy, x, eps: shape(x, eps))


def save(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.eps = inputs[1]


rms_norm.register_autograd(lambda ctx, dy: (rms_norm_backward(dy, *ctx.saved_tensors, ctx.eps), None), setup_context=save)
""",
        "copies outside of the operators": """from torch import Tensor


@torch.library.custom_op("course::rows_normed", mutates_args=(), device_types=("cpu", "cuda"))
def rows_normed(x: Tensor, eps: float) -> Tensor:
    return launch_forward(x, eps)


@torch.library.custom_op("course::rows_normed_backward", mutates_args=(), device_types=("cpu", "cuda"))
def rows_normed_backward(dy: Tensor, x: Tensor, eps: float) -> Tensor:
    return launch_backward(dy, x, eps)


@torch.library.register_fake("course::rows_normed")
def _(x, eps):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@torch.library.register_fake("course::rows_normed_backward")
def _(dy, x, eps):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def save(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.eps = inputs[1]


def backward(ctx, dy):
    return torch.ops.course.rows_normed_backward(dy.contiguous(), *ctx.saved_tensors, ctx.eps), None


torch.library.register_autograd("course::rows_normed", backward, setup_context=save)


def rms_norm(x, eps):
    return torch.ops.course.rows_normed(x.contiguous(), eps)
""",
        "only where a gradient is wanted": """@torch.library.custom_op("course::rms_norm", mutates_args=())
def rms_norm(x: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    if not x.is_contiguous():
        x = x.clone(memory_format=torch.contiguous_format)
    return launch_forward(x, eps)


@rms_norm.register_fake
def _(x, eps=1e-6):
    M, N = x.shape
    return x.new_empty((M, N))


@torch.library.custom_op("course::rms_norm_gradient", mutates_args=())
def gradient(x: torch.Tensor, dy: torch.Tensor, eps: float) -> torch.Tensor:
    return launch_backward(dy.contiguous(), x.contiguous(), eps)


@gradient.register_fake
def _(x, dy, eps):
    return x.new_empty_strided(x.shape, (x.shape[1], 1))


def save(ctx, inputs, output):
    ctx.eps = inputs[1]
    if ctx.needs_input_grad[0]:
        ctx.save_for_backward(inputs[0])


def backward(ctx, dy):
    if not ctx.needs_input_grad[0]:
        return None, None
    return gradient(ctx.saved_tensors[0], dy, ctx.eps), None


rms_norm.register_autograd(backward, setup_context=save)
""",
        "a new tensor where there is nothing to do": """@torch.library.custom_op("course::rms_norm", mutates_args=())
def rms_norm(x: torch.Tensor, eps: float) -> torch.Tensor:
    if x.numel() == 0:
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
    return launch_forward(x.contiguous(), eps)


@torch.library.custom_op("course::rms_norm_backward", mutates_args=())
def rms_norm_backward(dy: torch.Tensor, x: torch.Tensor, eps: float) -> torch.Tensor:
    if dy.numel() == 0:
        return torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    return launch_backward(dy.contiguous(), x.contiguous(), eps)


@rms_norm.register_fake
def _(x, eps):
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


@rms_norm_backward.register_fake
def _(dy, x, eps):
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def save(ctx, inputs, output):
    x, ctx.eps = inputs
    ctx.save_for_backward(x)


def backward(ctx, dy):
    (x,) = ctx.saved_tensors
    return rms_norm_backward(dy, x, ctx.eps), None


rms_norm.register_autograd(backward, setup_context=save)
""",
        "a backward that writes to what it is given": """@torch.library.custom_op("course::rms_norm", mutates_args=())
def rms_norm(x: torch.Tensor, eps: float) -> torch.Tensor:
    return launch_forward(x.contiguous(), eps)


@rms_norm.register_fake
def _(x, eps):
    return x.new_empty(x.shape)


@torch.library.custom_op("course::rms_norm_gradient", mutates_args={"dx"})
def write_gradient(dx: torch.Tensor, dy: torch.Tensor, x: torch.Tensor, eps: float) -> None:
    dx.copy_(launch_backward(dy.contiguous(), x.contiguous(), eps))


def save(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.eps = inputs[1]


def backward(ctx, dy):
    (x,) = ctx.saved_tensors
    dx = torch.empty_like(x)
    write_gradient(dx, dy, x, ctx.eps)
    return dx, None


rms_norm.register_autograd(backward, setup_context=save)
""",
        "copies in the backward": """@torch.library.custom_op("course::rms_norm", mutates_args=())
def rms_norm(x: torch.Tensor, eps: float) -> torch.Tensor:
    return launch_forward(x.contiguous(), eps)


@torch.library.custom_op("course::rms_norm_backward", mutates_args=())
def rms_norm_backward(dy: torch.Tensor, x: torch.Tensor, eps: float) -> torch.Tensor:
    return launch_backward(dy, x, eps)


@rms_norm.register_fake
def _(x, eps):
    return x.new_empty(x.shape)


@rms_norm_backward.register_fake
def _(dy, x, eps):
    return torch.empty_like(dy)


def save(ctx, inputs, output):
    x, ctx.eps = inputs
    ctx.save_for_backward(x)


def backward(ctx, dy):
    (x,) = ctx.saved_tensors
    return rms_norm_backward(dy.contiguous(), x.contiguous(), ctx.eps), None


rms_norm.register_autograd(backward, setup_context=save)
""",
    },
    "ema_": {
        "a copy back only where there was one": """def update(average: torch.Tensor, value: torch.Tensor, decay: float) -> None:
    if average.is_contiguous():
        launch_ema(average, value.contiguous(), decay)
    else:
        copy = average.contiguous()
        launch_ema(copy, value.contiguous(), decay)
        average[:] = copy


ema_ = torch.library.custom_op("course::ema_", update, mutates_args=["average"])
""",
        "copies outside of the operator": """@torch.library.custom_op("course::ema", mutates_args=("whole",))
def ema(whole: torch.Tensor, value: torch.Tensor, decay: float) -> None:
    launch_ema(whole, value, decay)


def ema_(average, value, decay):
    whole = average.contiguous()
    ema(whole, value.contiguous(), decay)
    average.copy_(whole)
""",
        "with a fake implementation that says nothing": """@torch.library.custom_op("course::ema_", mutates_args={"average"})
def ema_(average: torch.Tensor, value: torch.Tensor, decay: float) -> None:
    whole = average.contiguous()
    launch_ema(whole, value.contiguous(), decay)
    if not average.is_contiguous():
        average.copy_(whole)


@ema_.register_fake
def _(average, value, decay):
    pass
""",
    },
}
