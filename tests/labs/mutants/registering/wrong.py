"""Registrations with one mistake each."""

from mutants import Mutant

_ENDS = "it runs to its end"
_SEEN = "PyTorch sees an operator"
_Y = "y is what the kernel computes"
_Y_STRIDES = "also where x is not contiguous"
_CONTIGUOUS = "y is contiguous"
_FAKE = "the fake implementation describes the result"
_GRADIENT = "autograd has a gradient"
_TOO = "the backward is an operator, too"
_DX = "dx is what the backward kernel computes"
_DX_STRIDES = "also where dy or x is not contiguous"
_NOTICED = "a change of x before the backward is noticed"
_KEPT = "nothing but x is kept"
_DEVICE = "its tensors are on the device of its arguments"
_OWN = "a backward has the x of its own forward"
_SCHEMAS = "the schemas declare what is changed"
_LAUNCH = "forward and backward are one launch each"
_FAKE_BACKWARD = "the backward's fake implementation describes the result, too"
_ON_GPU = "it is there on a GPU, too"
_OPCHECK = "opcheck finds nothing"
_BREAK = "one graph, with no break"
_ONCE = "compiled once for all sizes"
_AVERAGE = "average is what the kernel makes of it"
_AVERAGE_STRIDES = "also where it is not contiguous"
_AROUND = "what lies around average does not change"
_SCHEMA = "the schema declares what is changed"
_ONE_LAUNCH = "it is one launch"

_BACKWARD_OP = '@torch.library.custom_op("course::rms_norm_backward", mutates_args=())'
_FORWARD = "return launch_forward(x.contiguous(), eps)"
_BACKWARD = "return launch_backward(dy.contiguous(), x.contiguous(), eps)"
_UPDATED = "    launch_ema(new, value.contiguous(), decay)\n    average.copy_(new)"
_COLUMNS = "dy.contiguous()", "dy if dy.stride(1) == 1 else dy.contiguous()"
_FURTHER = "dy.contiguous()", "dy if dy.stride(0) == dy.shape[1] else dy.contiguous()"
_SHAPE = "@rms_norm.register_fake\ndef _(x, eps):\n    return x.new_empty(x.shape)"
_BACKWARD_SHAPE = "@rms_norm_backward.register_fake\ndef _(dy, x, eps):\n    return x.new_empty(x.shape)"
_REGISTERED = "rms_norm.register_autograd(backward, setup_context=save)"
_SAVED = "ctx.save_for_backward(x)"
_LOADED = "(x,) = ctx.saved_tensors"
_CALL = "return rms_norm_backward(dy, x, ctx.eps), None"


def _fake(line: str) -> str:
    return f"@rms_norm.register_fake\ndef _(x, eps):\n    {line}"


def _wrapped(before: str) -> str:
    """The operator in a function of its name that does more."""
    return f"{_REGISTERED}\noperator = rms_norm\n\n\ndef rms_norm(x, eps):\n    {before}\n    return operator(x, eps)"


def _fake_backward(line: str) -> str:
    return f"@rms_norm_backward.register_fake\ndef _(dy, x, eps):\n    {line}"


# From the forward to its fake implementation.
_BETWEEN = (
    f"\n\n\n{_BACKWARD_OP}\ndef rms_norm_backward(\n    dy: torch.Tensor, x: torch.Tensor, eps: float\n"
    f") -> torch.Tensor:\n    {_BACKWARD}\n\n\n"
)

MUTANTS = [
    Mutant("rms_norm", mistake, search, replace, broken)
    for mistake, search, replace, broken in (
        ("nothing returned", _FORWARD, "launch_forward(x.contiguous(), eps)", _ENDS),
        ("x where there is nothing to do", _FORWARD, f"if x.numel() == 0:\n        return x\n    {_FORWARD}", _ENDS),
        ("x overwritten", _FORWARD, "return x.copy_(launch_forward(x.contiguous(), eps))", _ENDS),
        (
            "the kernel called beside the operator",
            _REGISTERED,
            f"{_REGISTERED}\n\n\ndef rms_norm(x, eps):\n    {_FORWARD}",
            _SEEN,
        ),
        (
            "a copy on the CPU",
            _FORWARD,
            "return launch_forward(torch.empty(x.shape, dtype=x.dtype).copy_(x), eps)",
            _DEVICE,
        ),
        ("a fixed eps", _FORWARD, "return launch_forward(x.contiguous(), 1e-5)", _Y),
        ("x centred in place", _FORWARD, "x -= x.mean()\n    " + _FORWARD, _Y),
        ("always float32", _FORWARD, "return launch_forward(x.contiguous().float(), eps)", _Y),
        ("strides overlooked", _FORWARD, "return launch_forward(x, eps)", _Y_STRIDES),
        ("copied with its strides", _FORWARD, "return launch_forward(x.clone(), eps)", _Y_STRIDES),
        (
            "the strides of x, as the fake implementation says",
            f"{_FORWARD}{_BETWEEN}{_SHAPE}",
            f"return torch.empty_like(x).copy_(launch_forward(x.contiguous(), eps)){_BETWEEN}"
            + _fake("return torch.empty_like(x)"),
            _CONTIGUOUS,
        ),
        ("no fake implementation", _SHAPE, "", _FAKE),
        ("a fake implementation that launches", _SHAPE, _fake("return launch_forward(x.contiguous(), eps)"), _FAKE),
        ("a fake result that is x", _SHAPE, _fake("return x.contiguous()"), _FAKE),
        ("a fake result of float32", _SHAPE, _fake("return torch.empty(x.shape, device=x.device)"), _FAKE),
        ("a fake result on the CPU", _SHAPE, _fake("return torch.empty(x.shape, dtype=x.dtype)"), _FAKE),
        ("a fake result for each row", _SHAPE, _fake("return x.new_empty(x.shape[:1])"), _FAKE),
        ("a fake result that asks for values", _SHAPE, _fake("return x.new_empty(int(x.max()), 1)"), _FAKE),
        ("a fake result with the strides of x", _SHAPE, _fake("return torch.empty_like(x)"), _FAKE),
        ("no gradient", _REGISTERED, "", _GRADIENT),
        ("one gradient for two arguments", _CALL, "return rms_norm_backward(dy, x, ctx.eps)", _GRADIENT),
        ("nothing kept", _SAVED, "pass", _GRADIENT),
        ("eps kept among the tensors", _SAVED, "ctx.save_for_backward(*inputs)", _GRADIENT),
        (
            "parameters of other names",
            "def save(ctx, inputs, output):\n    x, ctx.eps = inputs",
            "def save(ctx, args, out):\n    x, ctx.eps = args",
            _GRADIENT,
        ),
        ("no gradient of x", _CALL, "return None, None", _GRADIENT),
        ("the backward's kernel launched directly", _CALL, _CALL.replace("rms_norm_b", "launch_b"), _TOO),
        (
            "the backward's kernel launched directly, on contiguous tensors",
            _CALL,
            "return launch_backward(dy.contiguous(), x.contiguous(), ctx.eps), None",
            _TOO,
        ),
        (
            "the backward by PyTorch's operators",
            _CALL,
            "rms = (x.square().mean(-1, keepdim=True) + ctx.eps).sqrt()\n    n = x / rms\n"
            "    return (dy - n * (dy * n).mean(-1, keepdim=True)) / rms, None",
            _TOO,
        ),
        (
            "dy and x exchanged",
            "rms_norm_backward(dy, x, ctx.eps), None",
            "rms_norm_backward(x, dy, ctx.eps), None",
            _DX,
        ),
        ("dy overlooked", "rms_norm_backward(dy, x", "rms_norm_backward(torch.ones_like(dy), x", _DX),
        ("strides of dy overlooked", _BACKWARD, _BACKWARD.replace("dy.contiguous()", "dy"), _DX_STRIDES),
        ("copied where columns are apart", _BACKWARD, _BACKWARD.replace(*_COLUMNS), _DX_STRIDES),
        ("copied where rows are further apart", _BACKWARD, _BACKWARD.replace(*_FURTHER), _DX_STRIDES),
        ("strides of x overlooked", _BACKWARD, _BACKWARD.replace("x.contiguous()", "x"), _DX_STRIDES),
        (
            "x as an attribute",
            f"{_SAVED}\n\n\ndef backward(ctx, dy):\n    {_LOADED}",
            "ctx.x = x\n\n\ndef backward(ctx, dy):\n    x = ctx.x",
            _NOTICED,
        ),
        (
            "y kept, too",
            f"{_SAVED}\n\n\ndef backward(ctx, dy):\n    {_LOADED}",
            "ctx.save_for_backward(x, output)\n\n\ndef backward(ctx, dy):\n    x, y = ctx.saved_tensors",
            _KEPT,
        ),
        ("y kept as an attribute", _SAVED, f"{_SAVED}\n    ctx.y = output", _KEPT),
        ("y kept in a tuple", _SAVED, f"{_SAVED}\n    ctx.more = (output,)", _KEPT),
        (
            "the last x, outside of ctx",
            f"{_SAVED}\n\n\ndef backward(ctx, dy):\n    {_LOADED}",
            "LAST[0] = x\n\n\nLAST = [None]\n\n\ndef backward(ctx, dy):\n    x = LAST[0]",
            _OWN,
        ),
        (
            "a copy of the last x, outside of ctx",
            f"{_SAVED}\n\n\ndef backward(ctx, dy):\n    {_LOADED}",
            "LAST[0] = x.clone()\n\n\nLAST = [None]\n\n\ndef backward(ctx, dy):\n    x = LAST[0]",
            _OWN,
        ),
        (
            "the last eps, outside of ctx",
            f"x, ctx.eps = inputs\n    {_SAVED}\n\n\ndef backward(ctx, dy):\n    {_LOADED}\n    {_CALL}",
            f"x, LAST[0] = inputs\n    {_SAVED}\n\n\nLAST = [0.0]\n\n\ndef backward(ctx, dy):\n    {_LOADED}\n"
            f"    {_CALL.replace('ctx.eps', 'LAST[0]')}",
            _OWN,
        ),
        ("a backward for CPUs", _BACKWARD_OP, _BACKWARD_OP.replace("()", '(), device_types="cpu"'), _ON_GPU),
        (
            "a forward for CPUs",
            '("course::rms_norm", mutates_args=())',
            '("course::rms_norm", mutates_args=(), device_types="cpu")',
            _ON_GPU,
        ),
        (
            "a backward that says it changes dy",
            _BACKWARD_OP,
            _BACKWARD_OP.replace("()", '{"dy"}'),
            _SCHEMAS,
        ),
        (
            "results kept by shape",
            _FORWARD,
            "if (x.shape, x.dtype) not in KEPT:\n        KEPT[x.shape, x.dtype] = launch_forward(x.contiguous(), eps)\n"
            "    return KEPT[x.shape, x.dtype].clone()\n\n\nKEPT = {}",
            _Y,
        ),
        ("a copy of x kept", _SAVED, "ctx.save_for_backward(x.clone())", _KEPT),
        ("a copy of x kept where that has other strides", _SAVED, "ctx.save_for_backward(x.contiguous())", _KEPT),
        (
            "the forward twice",
            _FORWARD,
            "launch_forward(x.contiguous(), eps)\n    " + _FORWARD,
            _LAUNCH,
        ),
        (
            "the forward computed by PyTorch's operators",
            _FORWARD,
            "return (x / (x.square().mean(-1, keepdim=True) + eps).sqrt()).contiguous()",
            _LAUNCH,
        ),
        ("the forward again in the backward", _CALL, "rms_norm(x, ctx.eps)\n    " + _CALL, _LAUNCH),
        ("no fake implementation of the backward", _BACKWARD_SHAPE, "", _FAKE_BACKWARD),
        (
            "a fake backward of float32",
            _BACKWARD_SHAPE,
            _fake_backward("return torch.empty(x.shape, device=x.device)"),
            _FAKE_BACKWARD,
        ),
        (
            "a fake backward with the strides of x",
            _BACKWARD_SHAPE,
            _fake_backward("return torch.empty_like(x)"),
            _FAKE_BACKWARD,
        ),
        (
            "a fake backward with the strides of dy",
            _BACKWARD_SHAPE,
            _fake_backward("return torch.empty_like(dy)"),
            _FAKE_BACKWARD,
        ),
        (
            "a backward that asks for values",
            _CALL,
            f'if dy.isnan().any():\n        raise ValueError("NaN")\n    {_CALL}',
            _OPCHECK,
        ),
        ("a message", _REGISTERED, _wrapped('print("rms_norm")'), _BREAK),
        ("a question", _REGISTERED, _wrapped('if x.isnan().any():\n        raise ValueError("NaN")'), _BREAK),
        (
            "a fake result whose sizes are numbers",
            _SHAPE,
            _fake("return x.new_empty([int(size) for size in x.shape])"),
            _ONCE,
        ),
        (
            "a fake backward whose sizes are numbers",
            _BACKWARD_SHAPE,
            _fake_backward("return x.new_empty(int(x.shape[0]), int(x.shape[1]))"),
            _ONCE,
        ),
        (
            "a fake implementation that asks how many rows there are",
            _SHAPE,
            _fake("return x.new_empty(x.shape) if x.shape[0] == 3 else x.new_empty(x.shape)"),
            _ONCE,
        ),
        (
            "a fake implementation that asks whether there are many columns",
            _SHAPE,
            _fake("return x.new_empty(x.shape) if x.shape[1] > 4096 else x.new_empty(x.shape)"),
            _ONCE,
        ),
        (
            "one column is always 1",
            _FORWARD,
            f"if x.shape[1] == 1:\n        return torch.ones_like(x)\n    {_FORWARD}",
            _Y_STRIDES,
        ),
    )
] + [
    Mutant("ema_", mistake, search, replace, broken)
    for mistake, search, replace, broken in (
        ("average returned", "average.copy_(new)", "return average.copy_(new)", _ENDS),
        ("a result promised", ") -> None:", ") -> torch.Tensor:", _SCHEMA),
        ("the kernel alone", '@torch.library.custom_op("course::ema_", mutates_args={"average"})\n', "", _SEEN),
        (
            "a copy on the CPU",
            "new = average.contiguous()",
            "new = torch.empty(average.shape, dtype=average.dtype).copy_(average)",
            _DEVICE,
        ),
        (
            "no copies of what lies alike",
            "new = average.contiguous()",
            "if average.stride() == value.stride():\n        return launch_ema(average, value, decay)\n"
            "    new = average.contiguous()",
            _AVERAGE_STRIDES,
        ),
        ("value and average exchanged", "launch_ema(new, value.contiguous()", "launch_ema(value, new", _AVERAGE),
        ("decay from the other end", "value.contiguous(), decay)", "value.contiguous(), 1 - decay)", _AVERAGE),
        (
            "strides overlooked",
            "launch_ema(new, value.contiguous(), decay)",
            "launch_ema(average, value, decay)",
            _AVERAGE_STRIDES,
        ),
        ("strides of value overlooked", "value.contiguous()", "value", _AVERAGE_STRIDES),
        ("average made to be the copy", "average.copy_(new)", "average.data = new", _AVERAGE_STRIDES),
        (
            "a copy kept by shape",
            f"new = average.contiguous()\n{_UPDATED}",
            f"new = KEPT.setdefault(average.shape, average.contiguous())\n{_UPDATED}\n\n\nKEPT = {{}}",
            _AVERAGE_STRIDES,
        ),
        ("what the copy became is lost", "average.copy_(new)", "pass", _AVERAGE_STRIDES),
        (
            "rows of the wider matrix",
            "average.copy_(new)",
            "average.copy_(new)\n    if average.stride(0) > average.shape[1]:\n"
            "        average.as_strided((1,), (1,), 0).fill_(0)",
            _AROUND,
        ),
        (
            "an update for CPUs",
            'mutates_args={"average"}',
            'mutates_args={"average"}, device_types="cpu"',
            _ON_GPU,
        ),
        ("nothing marked as changed", 'mutates_args={"average"}', "mutates_args=()", _SCHEMA),
        ("everything marked as changed", 'mutates_args={"average"}', 'mutates_args={"average", "value"}', _SCHEMA),
        ("nothing known of what is changed", 'mutates_args={"average"}', 'mutates_args="unknown"', _SCHEMA),
        ("two launches", "average.copy_(new)", "average.copy_(new)\n    launch_ema(new, new, decay)", _ONE_LAUNCH),
        (
            "by PyTorch's operators",
            "launch_ema(new, value.contiguous(), decay)",
            "new = decay * average + (1 - decay) * value",
            _ONE_LAUNCH,
        ),
        (
            "a fake implementation that launches",
            "average.copy_(new)\n",
            "average.copy_(new)\n\n\n@ema_.register_fake\ndef _(average, value, decay):\n"
            "    launch_ema(average, value, decay)\n",
            _OPCHECK,
        ),
    )
]
