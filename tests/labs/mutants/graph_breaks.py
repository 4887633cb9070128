"""Texts that torch.compile cannot take whole, or compiles again and again, and other ways to write them."""

from mutants import Mutant

_ENDS = "it runs to its end"
_CLIPPED = "the rows are clipped"
_ZEROS = "the gradient is right, of a row of zeros, too"
_MEANS = "y holds the means, times the factor of the step"
_GRADIENT = "the gradient is right"
_BREAK = "one graph, with no break"
_ALL = "all of it is in the graph"
_ASKS = "the graph asks for no value"
_ONCE = "compiled once for all calls"

_CLIP = "return x * (limit / norms.clamp(min=limit))"
_FACTOR = "factor = min((step + 1) / 8, 1.0)"
_MEAN = "means = x.unflatten(0, (-1, 4)).mean(1)"

MUTANTS = [
    Mutant("clip_rows", mistake, search, replace, broken)
    for mistake, search, replace, broken in (
        ("columns in place of rows", "x.norm(dim=1, k", "x.norm(dim=0, k", _CLIPPED),
        ("absolute values summed", "x.norm(dim=1, k", "x.norm(p=1, dim=1, k", _CLIPPED),
        ("every row made as long as the limit", "norms.clamp(min=limit)", "norms", _CLIPPED),
        ("nothing returned", "return x", "x", _ENDS),
        ("half precision", "x.norm(dim=1, k", "x.bfloat16().norm(dim=1, k", _CLIPPED),
        ("a norm without its gradient", "norms.clamp", "norms.detach().clamp", _ZEROS),
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
        ("norms on the CPU", "keepdim=True)", 'keepdim=True).to("cpu")', _ASKS),
        (
            "row by row, without a question",
            _CLIP,
            "return torch.stack([row * (limit / row.norm().clamp(min=limit)) for row in x])",
            _ONCE,
        ),
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
        ("a factor without end", _FACTOR, "factor = (step + 1) / 8", _MEANS),
        ("a quotient without its fraction", "min((step + 1) / 8", "min((step + 1) // 8", _MEANS),
        ("groups of every fourth row", "x.unflatten(0, (-1, 4)).mean(1)", "x.unflatten(0, (4, -1)).mean(0)", _MEANS),
        ("a mean without its gradient", "return factor * means", "return factor * means.detach()", _GRADIENT),
        ("an if on the step", _FACTOR, "factor = (step + 1) / 8 if step < 8 else 1.0", _ONCE),
        ("an index into a list", _FACTOR, "factor = [(n + 1) / 8 for n in range(8)][min(step, 7)]", _ONCE),
        (
            "a loop over the rows",
            _MEAN,
            "means = torch.stack([x[n : n + 4].mean(0) for n in range(0, x.shape[0], 4)])",
            _ONCE,
        ),
        ("an if on the shape", _MEAN, _MEAN + "\n    if x.shape[0] > 10:\n        means = means + 0.0", _ONCE),
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
        ("a value", "return factor * means", "return factor * means + 0 * means.sum().item()", _ASKS),
    )
]

ACCEPTED = {
    "clip_rows": {
        "a factor that is at most 1": """def clip_rows(x, limit):
    norms = torch.linalg.vector_norm(x, dim=-1)
    factor = torch.where(norms > limit, limit / norms.clamp(min=limit), 1.0)
    return factor[:, None] * x
""",
        "PyTorch's own": """def clip_rows(x, limit):
    return torch.renorm(x, 2, 0, limit)
""",
        "a divisor a little larger than the norm, as in PyTorch's clip_grad_norm_": """def clip_rows(x, limit):
    norms = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return x * torch.clamp(limit / (norms + 1e-6), max=1.0).to(x.device)
""",
        "directions": """def clip_rows(x, limit):
    norms = x.norm(dim=1, keepdim=True)
    direction = torch.nn.functional.normalize(x, dim=1)
    return torch.where(norms > limit, direction * limit, x)
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
        "strided views": """def pooled(x, step):
    total = x[0::4] + x[1::4] + x[2::4] + x[3::4]
    return total / 4 * min(step + 1, 8) / 8
""",
    },
}
