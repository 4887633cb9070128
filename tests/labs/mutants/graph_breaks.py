"""Texts that torch.compile cannot take whole, or compiles again and again, and other ways to write them."""

from mutants import Mutant

_ENDS = "it runs to its end"
_CLIPPED = "the rows are clipped"
_ZEROS = "the gradient of a row of zeros is not NaN"
_MEANS = "y holds the means, times the factor of the step"
_GRADIENT = "the gradient is right"
_BREAK = "one graph, with no break"
_ALL = "everything is in the graph"
_ASKS = "the graph asks for no value"
_ONCE = "compiled once for all calls"

_DEVICE = "its tensors are on the device of its arguments"

_CLIP = "return x * (limit / norms.clamp(min=limit))"
_FACTOR = "factor = min((step + 1) / 8, 1.0)"
_MEAN = "means = x.unflatten(0, (-1, 4)).mean(1)"

MUTANTS = [
    Mutant("clip_rows", mistake, search, replace, broken)
    for mistake, search, replace, broken in (
        ("columns in place of rows", "x.norm(dim=1, k", "x.norm(dim=0, k", _CLIPPED),
        ("absolute values summed", "x.norm(dim=1, k", "x.norm(p=1, dim=1, k", _CLIPPED),
        ("every row made as long as the limit", "norms.clamp(min=limit)", "norms", _CLIPPED),
        ("a product that overflows", _CLIP, "return x * limit / norms.clamp(min=limit)", _CLIPPED),
        ("nothing returned", "return x", "x", _ENDS),
        (
            "ones on the CPU",
            _CLIP,
            "return x * torch.minimum(torch.ones(x.shape[0], 1), limit / norms)",
            _DEVICE,
        ),
        (
            "results kept by shape",
            _CLIP,
            "return KEPT.setdefault(x.shape, x * (limit / norms.clamp(min=limit)))\n\n\nKEPT = {}",
            _CLIPPED,
        ),
        ("half precision", "x.norm(dim=1, k", "x.bfloat16().norm(dim=1, k", _CLIPPED),
        ("a norm without its gradient", "norms.clamp", "norms.detach().clamp", _GRADIENT),
        (
            "a divisor a little larger than the norm, as in PyTorch's clip_grad_norm_",
            _CLIP,
            "return x * (limit / (norms + 1e-6)).clamp(max=1)",
            _GRADIENT,
        ),
        (
            "a divisor larger than the norm by 1e-8",
            _CLIP,
            "return x * (limit / (norms + 1e-8).clamp(min=limit))",
            _GRADIENT,
        ),
        ("PyTorch's own divisor, larger by 1e-7", _CLIP, "return torch.renorm(x, 2, 0, limit)", _GRADIENT),
        ("a factor clamped afterwards", _CLIP, "return x * (limit / norms).clamp(max=1)", _ZEROS),
        ("a factor chosen afterwards", _CLIP, "return torch.where(norms > limit, x * (limit / norms), x)", _ZEROS),
        ("a root of a sum of squares", "x.norm(dim=1, keepdim=True)", "x.square().sum(1, keepdim=True).sqrt()", _ZEROS),
        ("a question", "return x", "if norms.max() <= limit:\n        return x.clone()\n    return x", _BREAK),
        ("a value", "norms.clamp", "norms.clamp(max=norms.max().item()).clamp", _ASKS),
        ("a message", "return x", 'print("clipping")\n    return x', _BREAK),
        (
            "rows picked by a condition",
            _CLIP,
            "y, long = x.clone(), norms[:, 0] > limit\n    y[long.nonzero()[:, 0]] *= limit / norms[long]\n    return y",
            _ASKS,
        ),
        (
            "the compiler kept out",
            _CLIP,
            "return _scaled(x, norms, limit)\n\n\n@torch.compiler.disable\ndef _scaled(x, norms, limit):\n"
            "    return x * (limit / norms.clamp(min=limit))",
            _BREAK,
        ),
        (
            "a call that the compiler does not look into",
            _CLIP,
            "return _scaled(x, norms, limit)\n\n\n@torch.compiler.allow_in_graph\ndef _scaled(x, norms, limit):\n"
            "    return x * (limit / norms.clamp(min=limit))",
            _ALL,
        ),
        ("norms on the CPU", "keepdim=True)", 'keepdim=True).to("cpu")', _DEVICE),
        (
            "row by row, without a question",
            _CLIP,
            "return torch.stack([row * (limit / row.norm().clamp(min=limit)) for row in x])",
            _ONCE,
        ),
        (
            "a dimension lost with a single row",
            "x.norm(dim=1, keepdim=True)",
            "x.norm(dim=1).squeeze()[:, None]",
            _ENDS,
        ),
        (
            "another result where nothing compiles",
            "return x",
            "if not torch.compiler.is_compiling():\n        return 2 * x\n    return x",
            _CLIPPED,
        ),
        ("an if on many rows", "return x", "if x.shape[0] > 64:\n        x = x + 0.0\n    return x", _ONCE),
        ("an if on wide rows", "return x", "if x.shape[1] > 1024:\n        x = x + 0.0\n    return x", _ONCE),
        ("an if on a large limit", "return x", "if limit > 10:\n        x = x + 0.0\n    return x", _ONCE),
        ("an if on the limit", "return x", "if limit > 2:\n        norms = norms + 0.0\n    return x", _ONCE),
        (
            "a condition in brackets",
            "return x",
            "x = x.index_put((norms[:, 0] > 1e9,), x[norms[:, 0] > 1e9])\n    return x",
            _ASKS,
        ),
        (
            "eager, by the compiler's stance",
            _CLIP,
            _CLIP + '\n\n\ntorch.compiler.set_stance("force_eager")',
            _ALL,
        ),
    )
] + [
    Mutant("pooled", mistake, search, replace, broken)
    for mistake, search, replace, broken in (
        ("one step late", "min((step + 1)", "min(step", _MEANS),
        (
            "a result that begins on the CPU",
            "return factor * means",
            "return factor * (torch.zeros(means.shape) + means)",
            _DEVICE,
        ),
        ("a factor without end", _FACTOR, "factor = (step + 1) / 8", _MEANS),
        ("a quotient without its fraction", "min((step + 1) / 8", "min((step + 1) // 8", _MEANS),
        (
            "a product with zeros",
            _MEAN,
            "rows = torch.arange(x.shape[0], device=x.device) // 4\n"
            "    means = (rows == torch.arange(x.shape[0] // 4, device=x.device)[:, None]).to(x.dtype) / 4 @ x",
            _MEANS,
        ),
        ("groups of every fourth row", "x.unflatten(0, (-1, 4)).mean(1)", "x.unflatten(0, (4, -1)).mean(0)", _MEANS),
        ("a mean without its gradient", "return factor * means", "return factor * means.detach()", _GRADIENT),
        (
            "strides of a contiguous x",
            _MEAN,
            "M, N = x.shape\n    means = x.as_strided((M // 4, 4, N), (4 * N, N, 1)).mean(1)",
            _MEANS,
        ),
        ("an if on the step", _FACTOR, "factor = (step + 1) / 8 if step < 8 else 1.0", _ONCE),
        ("an index into a list", _FACTOR, "factor = [(n + 1) / 8 for n in range(8)][min(step, 7)]", _ONCE),
        (
            "a loop over the rows",
            _MEAN,
            "means = torch.stack([x[n : n + 4].mean(0) for n in range(0, x.shape[0], 4)])",
            _ONCE,
        ),
        ("an if on the shape", _MEAN, _MEAN + "\n    if x.shape[0] > 10:\n        means = means + 0.0", _ONCE),
        ("an if on many rows", _MEAN, _MEAN + "\n    if x.shape[0] > 512:\n        means = means + 0.0", _ONCE),
        ("an if on a late step", _MEAN, _MEAN + "\n    if step > 1000:\n        means = means + 0.0", _ONCE),
        ("six columns", _MEAN, "means = x.view(-1, 4, 6).mean(1)", _ENDS),
        ("the first two steps forgotten", "min((step + 1)", "min((max(step, 2) + 1)", _MEANS),
        (
            "a step 7 that is not the last",
            "min((step + 1) / 8, 1.0)",
            "min(min(step + 1, 7) / 8 + step // 8, 1.0)",
            _MEANS,
        ),
        ("a loop over the steps", "min((step + 1) / 8, 1.0)", "min(sum(1 / 8 for _ in range(step + 1)), 1.0)", _ONCE),
        (
            "a message with the step",
            "return factor * means",
            'print("step", step)\n    return factor * means',
            _BREAK,
        ),
        (
            "the compiler does not look into it",
            "return factor * means",
            "return _scaled(factor, means)\n\n\n@torch.compiler.allow_in_graph\ndef _scaled(factor, means):\n"
            "    return factor * means",
            _ALL,
        ),
        (
            "nothing for the later steps",
            "return factor * means",
            "return factor * means[: 10 - min(step, 10)]",
            _ENDS,
        ),
        (
            "eager wherever it would compile again",
            _FACTOR,
            'factor = (step + 1) / 8 if step < 8 else 1.0\n    torch.compiler.set_stance("eager_on_recompile")',
            _ALL,
        ),
        ("a value", "return factor * means", "return factor * means + 0 * means.isnan().sum().item()", _ASKS),
    )
]

ACCEPTED = {
    "clip_rows": {
        "a factor that is at most 1": """def clip_rows(x, limit):
    norms = torch.linalg.vector_norm(x, dim=-1)
    factor = torch.where(norms > limit, limit / norms.clamp(min=limit), 1.0)
    return factor[:, None] * x
""",
        "directions": """def clip_rows(x, limit):
    norms = x.norm(dim=1, keepdim=True)
    direction = torch.nn.functional.normalize(x, dim=1)
    return torch.where(norms > limit, direction * limit, x)
""",
        "conditions that hold for every call": """def clip_rows(x, limit):
    torch._check(limit > 0)
    assert x.ndim == 2
    norms = x.norm(dim=1, keepdim=True)
    torch._assert_async((norms >= 0).all())
    return x * (limit / norms.clamp(min=limit))
""",
        "for one row, mapped": """def clip_rows(x, limit):
    def one(row):
        return row * (limit / torch.linalg.vector_norm(row).clamp(min=limit))

    return torch.vmap(one)(x)
""",
    },
    "pooled": {
        "pooling, and a table as a tensor": """def pooled(x, step):
    table = torch.linspace(0.125, 1, 8)
    means = torch.nn.functional.avg_pool1d(x.T[None], 4)[0].T
    return table[min(step, 7)] * means
""",
        "a tensor from the step": """def pooled(x, step):
    factor = torch.clamp((torch.tensor(step) + 1) / 8, max=1)
    return factor * x.view(x.shape[0] // 4, 4, -1).mean(dim=1)
""",
        "a table outside": """TABLE = torch.arange(1, 9) / 8


def pooled(x, step):
    return TABLE[min(step, 7)] * x.unflatten(0, (-1, 4)).mean(1)
""",
        "an assertion of what is promised": """def pooled(x, step):
    assert x.shape[0] % 4 == 0
    M, N = x.shape
    return min(step + 1, 8) / 8 * x.reshape(M // 4, 4, N).mean(1)
""",
        "strided views": """def pooled(x, step):
    total = x[0::4] + x[1::4] + x[2::4] + x[3::4]
    return total / 4 * min(step + 1, 8) / 8
""",
    },
}
