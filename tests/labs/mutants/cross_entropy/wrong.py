"""Mistakes in a cross-entropy with its gradient in one kernel."""

from mutants import Mutant

_INSIDE = "it stays inside its arrays"
_ENDS = "it runs to its end"
_COMPILES = "it compiles for a GPU"
_DEVICE = "its tensors are on the device of its arguments"
_GIVEN = "its inputs do not change"
_LOSS = "loss is the log-sum-exp less the logit at the target"
_LOSS_SIZES = "loss: for any number of classes"
_LOSS_IGNORED = "loss: 0 where the target is -100"
_LOSS_CLASS = "loss: NaN where the target is no class"
_LOSS_FAR = "loss: where all logits are far from 0"
_LOSS_INFINITE = "loss: where some logits are −∞"
_LOSS_HALF = "loss: float32, also of float16 and bfloat16"
_WRITTEN = "every element of dx is written"
_DX = "dx is the gradient of the mean loss"
_DX_SIZES = "dx: for any number of classes"
_DX_IGNORED = "dx: ignored rows do not count, and get zeros"
_DX_COUNT = "dx: the count holds for any number of rows"
_DX_CLASS = "dx: NaN where the target is no class"
_DX_FAR = "dx: where all logits are far from 0"
_DX_INFINITE = "dx: where some logits are −∞"
_DX_HALF = "dx: in the dtype of x"
_DX_ONCE = "dx: rounded once"
_AGAIN = "also for other values in the same shape"
_RACE = "no program depends on another"
_ONE = "it is one kernel"
_COUNTS = "PyTorch only counts targets"
_WAITS = "the host never waits for the GPU"
_READ = "x is read at most twice, in the fewest sectors"
_SKIPPED = "an ignored row is not read"
_STORED = "dx is written once"
_WIDEST = "a block has at most 32,768 logits"
_SHARED = "the programs share the rows"
_COPIES = "no copies of x"
_LAUNCHED = "many rows are launched, too"

_TARGET = "target = tl.load(target_ptr + row)"
_IS_CLASS = "is_class = (target >= 0) & (target < N)"
_START = "largest, total = -3.402823466e38, 0.0"
_THERE = "there = (start + lanes < N) & counts"
_X = 'x = tl.load(x_ptr + start + lanes, there, float("-inf"))'
_LARGEST = "largest = tl.maximum(before, tl.max(x))"
_SCALED = "total = total * tl.exp(before - largest)"
_SUM = "total += tl.sum(tl.exp(x - largest))"
_WANTED = 'wanted = tl.load(x_ptr + target, is_class, float("nan")).to(tl.float32)'
_OF_ROW = "loss = tl.log(total) - (wanted - largest)"
_STORE_LOSS = "tl.store(loss_ptr + row, tl.where(counts, loss, 0.0))"
_AGAIN_X = 'x = tl.load(x_ptr + columns, inside & counts, float("-inf"))'
_P = "p = tl.exp(x.to(tl.float32) - largest) / total"
_GRADIENT = "dx = (p - tl.where(columns == target, 1.0, 0.0)) / count"
_NAN = 'dx = tl.where(is_class, dx, float("nan"))'
_STORE = "tl.store(dx_ptr + columns, tl.where(counts, dx, 0.0), inside)"
_ROWS = "x_ptr, dx_ptr = x_ptr + row * N, dx_ptr + row * N"
_COUNT = "count = (target != -100).sum()"
_LAUNCH = "cross_entropy_kernel[(M,)](x, target, count, loss, dx, N, BLOCK=1024)"
_EMPTY = "loss, dx = torch.empty(M, device=x.device), torch.empty_like(x)"
_RETURN = "    return loss, dx"
_LOOP = f"""for start in range(0, N, BLOCK):
        {_THERE}
        {_X}
        x = x.to(tl.float32)
        before = largest
        {_LARGEST}
        {_SCALED}
        {_SUM}"""
_PASSES = f"""for start in range(0, N, BLOCK):
        {_THERE}
        {_X}
        largest = tl.maximum(largest, tl.max(x.to(tl.float32)))
    for start in range(0, N, BLOCK):
        {_THERE}
        {_X}
        {_SUM.replace("x -", "x.to(tl.float32) -")}"""


def _inward(lines: str) -> str:
    return lines.replace("\n", "\n    ")


_HEAD = f"""def cross_entropy(x, target):
    M, N = x.shape
    {_EMPTY}
    # BEGIN SOLUTION
    {_COUNT}"""


def _other(parameters: str, body: str, launch: str) -> str:
    """In place of the last line: that line, and another kernel and function of the same name, in their place."""
    return f"""{_RETURN}


@triton.jit
def other_kernel({parameters}):
{body}

def cross_entropy(x, target):
    M, N = x.shape
    {_EMPTY}
    {_COUNT}
    {launch}
{_RETURN}"""


_ALL_ROWS = _other(
    "x_ptr, target_ptr, count_ptr, loss_ptr, dx_ptr, M, N, BLOCK: tl.constexpr",
    """    for row in range(M):
        cross_entropy_row(row, x_ptr + row * N, target_ptr, count_ptr, loss_ptr, dx_ptr + row * N, N, BLOCK)


@triton.jit
def cross_entropy_row(row, x_ptr, target_ptr, count_ptr, loss_ptr, dx_ptr, N, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    target = tl.load(target_ptr + row)
    counts = target != -100
    known = (target >= 0) & (target < N)
    largest, total = -3.402823466e38, 0.0
    for start in range(0, N, BLOCK):
        x = tl.load(x_ptr + start + lanes, (start + lanes < N) & counts, float("-inf")).to(tl.float32)
        before = largest
        largest = tl.maximum(before, tl.max(x))
        total = total * tl.exp(before - largest) + tl.sum(tl.exp(x - largest))
    at = tl.load(x_ptr + target, known, float("nan")).to(tl.float32)
    tl.store(loss_ptr + row, tl.where(counts, tl.log(total) - (at - largest), 0.0))
    count = tl.load(count_ptr)
    for start in range(0, N, BLOCK):
        columns = start + lanes
        x = tl.load(x_ptr + columns, (columns < N) & counts, float("-inf")).to(tl.float32)
        dx = tl.where(known, (tl.exp(x - largest) / total - tl.where(columns == target, 1.0, 0.0)) / count, float("nan"))
        tl.store(dx_ptr + columns, tl.where(counts, dx, 0.0), columns < N)
""",
    "other_kernel[(1,)](x, target, count, loss, dx, M, N, BLOCK=1024)",
)
_KEPT = _other(
    "x_ptr, target_ptr, count_ptr, loss_ptr, dx_ptr, copy_ptr, N, BLOCK: tl.constexpr",
    """    row, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    x_ptr, dx_ptr, copy_ptr = x_ptr + row * N, dx_ptr + row * N, copy_ptr + row * N
    target = tl.load(target_ptr + row)
    counts = target != -100
    known = (target >= 0) & (target < N)
    largest, total = -3.402823466e38, 0.0
    for start in range(0, N, BLOCK):
        there = (start + lanes < N) & counts
        x = tl.load(x_ptr + start + lanes, there, float("-inf")).to(tl.float32)
        tl.store(copy_ptr + start + lanes, x, there)
        before = largest
        largest = tl.maximum(before, tl.max(x))
        total = total * tl.exp(before - largest) + tl.sum(tl.exp(x - largest))
    at = tl.load(x_ptr + target, known, float("nan")).to(tl.float32)
    tl.store(loss_ptr + row, tl.where(counts, tl.log(total) - (at - largest), 0.0))
    count = tl.load(count_ptr)
    for start in range(0, N, BLOCK):
        columns = start + lanes
        x = tl.load(copy_ptr + columns, (columns < N) & counts, float("-inf"))
        dx = tl.where(known, (tl.exp(x - largest) / total - tl.where(columns == target, 1.0, 0.0)) / count, float("nan"))
        tl.store(dx_ptr + columns, tl.where(counts, dx, 0.0), columns < N)
""",
    "copy = torch.empty(M, N, device=x.device)\n"
    "    other_kernel[(M,)](x, target, count, loss, dx, copy, N, BLOCK=1024)",
)

MUTANTS = [
    Mutant("cross_entropy", mistake, search, replace, broken)
    for mistake, search, replace, broken in (
        ("no mask in the first loop", _THERE, "there = (lanes < BLOCK) & counts", _INSIDE),
        ("a mask off by one", _THERE, _THERE.replace("< N", "<= N"), _INSIDE),
        ("a store without its mask", _STORE, _STORE.replace(", inside)", ")"), _INSIDE),
        ("the logit of any target is read", _WANTED, "wanted = tl.load(x_ptr + target).to(tl.float32)", _INSIDE),
        ("a target below 0 is taken", _IS_CLASS, "is_class = counts & (target < N)", _INSIDE),
        ("the largest value of Python", _LARGEST, "largest = max(before, max(x))", _ENDS),
        (
            "a loop that keeps what it saw in a list",
            _START,
            f"{_START}\n    seen = []\n    seen.append(target)",
            _COMPILES,
        ),
        ("targets counted on the CPU", _COUNT, "count = (target.cpu() != -100).sum().to(x.device)", _DEVICE),
        ("a loss on the CPU", _EMPTY, "loss, dx = torch.empty(M), torch.empty_like(x)", _DEVICE),
        ("the gradient overwrites x", _EMPTY, "loss, dx = torch.empty(M, device=x.device), x", _GIVEN),
        ("max not rescaled", _SCALED, "", _LOSS),
        ("the sum scaled the wrong way", _SCALED, _SCALED.replace("before - largest", "largest - before"), _LOSS),
        ("a larger value begins the sum anew", _SCALED, "total = tl.where(largest > before, 0.0, total)", _LOSS),
        (
            "the first block's largest value is kept",
            _LARGEST,
            "largest = tl.where(start == 0, tl.max(x), before)",
            _LOSS_INFINITE,
        ),
        ("scaled after the new ones are added", f"{_SCALED}\n        {_SUM}", f"{_SUM}\n        {_SCALED}", _LOSS),
        ("the log of a probability, without its minus", _OF_ROW, "loss = wanted - largest - tl.log(total)", _LOSS),
        ("the log-sum-exp alone", _OF_ROW, "loss = tl.log(total) + largest", _LOSS),
        ("a logarithm of base 2", _OF_ROW, _OF_ROW.replace("tl.log(", "tl.log2("), _LOSS),
        (
            "the target is the first row's",
            _TARGET,
            "target = tl.load(target_ptr)",
            _LOSS,
        ),
        ("the logit of the first row", _WANTED, _WANTED.replace("x_ptr + target", "x_ptr - row * N + target"), _LOSS),
        ("the loss divided by the count", _STORE_LOSS, f"loss /= tl.load(count_ptr)\n    {_STORE_LOSS}", _LOSS),
        ("zeros beyond the row", _X, _X.replace('float("-inf")', "0.0"), _LOSS_SIZES),
        ("nothing said of lanes beyond the row", _X, _X.replace(', float("-inf")', ""), _LOSS_SIZES),
        (
            "no end of the row that is no whole block",
            _LOOP,
            _LOOP.replace("range(0, N,", "range(0, N - 7,"),
            _LOSS_SIZES,
        ),
        ("32,768 columns at most", _LOOP, _LOOP.replace("range(0, N,", "range(0, min(N, 32768),"), _LOSS_SIZES),
        ("ignored rows have a loss", _STORE_LOSS, "tl.store(loss_ptr + row, loss)", _LOSS_IGNORED),
        (
            "ignored rows get NaN, too",
            _STORE_LOSS,
            'tl.store(loss_ptr + row, tl.where(is_class, loss, float("nan")))',
            _LOSS_IGNORED,
        ),
        (
            "every target that is no class is ignored",
            "counts = target != -100",
            "counts = (target >= 0) & (target < N)",
            _LOSS_CLASS,
        ),
        ("all targets below 0 are ignored", "counts = target != -100", "counts = target >= 0", _LOSS_CLASS),
        ("16 bits tell a class", "columns == target", "columns.to(tl.int16) == target.to(tl.int16)", _DX_SIZES),
        ("a target of 32 bits", _TARGET, f"{_TARGET}.to(tl.int32)", _LOSS_CLASS),
        (
            "32 bits tell what is ignored",
            "counts = target != -100",
            "counts = target.to(tl.int32) != -100",
            _LOSS_CLASS,
        ),
        (
            "a target that is clamped",
            _TARGET,
            f"{_TARGET}\n    target = tl.where(target == -100, -100, tl.minimum(tl.maximum(target, 0), N - 1))",
            _LOSS_CLASS,
        ),
        (
            "the largest logit for a target that is no class",
            _WANTED,
            _WANTED.replace('float("nan")', "largest"),
            _LOSS_CLASS,
        ),
        ("N is a class", _IS_CLASS, _IS_CLASS.replace("< N", "<= N"), _LOSS_CLASS),
        ("nothing is taken away", _LARGEST, "largest = tl.maximum(0.0, 0.0 * before)", _LOSS_FAR),
        ("the log-sum-exp first", _OF_ROW, "loss = (largest + tl.log(total)) - wanted", _LOSS_FAR),
        ("a largest value of 0 to begin with", _START, "largest, total = 0.0, 0.0", _LOSS_FAR),
        ("a largest value of -1,000 to begin with", _START, "largest, total = -1000.0, 0.0", _LOSS_FAR),
        ("-1e30 to begin with", _START, "largest, total = -1e30, 0.0", _LOSS_FAR),
        ("the lowest float in too few digits", _START, _START.replace("2823466e38", "2e38"), _LOSS_FAR),
        ("−∞ to begin with", _START, 'largest, total = float("-inf"), 0.0', _LOSS_INFINITE),
        (
            "−∞ is taken for a lowest number",
            "x = x.to(tl.float32)",
            "x = tl.maximum(x.to(tl.float32), -60.0)",
            _LOSS_FAR,
        ),
        (
            "no infinite loss",
            _OF_ROW,
            f'{_OF_ROW}\n    loss = tl.where(loss == float("inf"), 0.0, loss)',
            _LOSS_INFINITE,
        ),
        ("a loss in the dtype of x", _EMPTY, "loss, dx = x.new_empty(M), torch.empty_like(x)", _LOSS_HALF),
        (
            "the last block's lanes only where a block is full",
            _STORE,
            _STORE.replace("inside)", "inside & (start + BLOCK <= N))"),
            _WRITTEN,
        ),
        (
            "ignored rows and others have no gradient",
            _STORE,
            _STORE.replace("inside)", "inside & (columns != target))"),
            _WRITTEN,
        ),
        ("nothing is taken away at the target", _GRADIENT, "dx = p / count", _DX),
        ("one taken away in every column", _GRADIENT, "dx = (p - 1.0) / count", _DX),
        ("the gradient of the sum", _GRADIENT, _GRADIENT.replace(" / count", ""), _DX),
        ("the sign turned", _GRADIENT, "dx = (tl.where(columns == target, 1.0, 0.0) - p) / count", _DX),
        (
            "the softmax divided, and not the one",
            _GRADIENT,
            "dx = p / count - tl.where(columns == target, 1.0, 0.0)",
            _DX,
        ),
        ("no division by the sum", _P, _P.replace(" / total", ""), _DX),
        ("the target's column of each block", _GRADIENT, _GRADIENT.replace("columns ==", "lanes =="), _DX),
        ("one column too far", _GRADIENT, _GRADIENT.replace("columns ==", "columns + 1 =="), _DX),
        (
            "the target's column in the first row",
            _GRADIENT,
            _GRADIENT.replace("columns ==", "columns + row * N =="),
            _DX,
        ),
        ("divided by the classes", _GRADIENT, _GRADIENT.replace("/ count", "/ N"), _DX),
        (
            "the target's column in the first block alone",
            _GRADIENT,
            _GRADIENT.replace("columns == target", "(columns == target) & (columns < 9216)"),
            _DX_SIZES,
        ),
        ("the mean over all rows", _COUNT, "count = torch.full_like(target[:1], M)", _DX_IGNORED),
        ("rows with a class counted in each, by -1", _COUNT, "count = (target != -1).sum()", _DX_IGNORED),
        (
            "ignored rows by a product with 0",
            _STORE,
            _STORE.replace("tl.where(counts, dx, 0.0)", "dx * counts"),
            _DX_IGNORED,
        ),
        (
            "ignored rows keep their softmax",
            _STORE,
            _STORE.replace("tl.where(counts, dx, 0.0)", "tl.where(counts, dx, 1.0 / N)"),
            _DX_IGNORED,
        ),
        ("a count of 16 bits", _COUNT, _COUNT.replace("sum()", "sum(dtype=torch.int16)"), _DX_COUNT),
        ("a count of 8 bits", _COUNT, _COUNT.replace("sum()", "sum(dtype=torch.uint8)"), _DX_COUNT),
        ("a count in the dtype of x", _COUNT, _COUNT.replace("sum()", "sum(dtype=x.dtype)"), _DX_COUNT),
        ("a count in float16", _COUNT, f"{_COUNT}.half()", _DX_COUNT),
        ("a softmax for no class", _NAN, "", _DX_CLASS),
        ("zeros for no class", _NAN, "dx = tl.where(is_class, dx, 0.0)", _DX_CLASS),
        (
            "NaN in the target's lane alone",
            _NAN,
            'dx = tl.where(is_class | (columns > 0), dx, float("nan"))',
            _DX_CLASS,
        ),
        ("only classes counted", _COUNT, "count = ((target >= 0) & (target < N)).sum()", _DX_CLASS),
        ("lse in the exponent", _P, "p = tl.exp(x.to(tl.float32) - (largest + tl.log(total)))", _DX_FAR),
        ("nothing taken away in the gradient", _P, "p = tl.exp(x.to(tl.float32)) / (total * tl.exp(largest))", _DX_FAR),
        (
            "no gradient where the loss is infinite",
            _NAN,
            f'{_NAN}\n        dx = tl.where(loss == float("inf"), 0.0, dx)',
            _DX_INFINITE,
        ),
        (
            "a gradient in float32",
            _EMPTY,
            "loss, dx = torch.empty(M, device=x.device), torch.empty(M, N, device=x.device)",
            _DX_HALF,
        ),
        (
            "a softmax in the dtype of dx",
            _P,
            f"{_P}\n        p = p.to(dx_ptr.dtype.element_ty).to(tl.float32)",
            _DX_ONCE,
        ),
        (
            "an exponential of 8 bits",
            _P,
            "p = tl.exp(x.to(tl.float32) - largest).to(tl.bfloat16).to(tl.float32) / total",
            _DX,
        ),
        (
            "results kept by shape",
            _RETURN,
            "    return KEPT.setdefault((x.shape, x.dtype, target.data_ptr()), (loss, dx))\n\n\nKEPT = {}",
            _AGAIN,
        ),
        (
            "a count kept by shape",
            _HEAD,
            _HEAD.replace("(x, target)", "(x, target, kept={})").replace(
                "(target != -100).sum()", "kept.setdefault(x.shape, (target != -100).sum())"
            ),
            _AGAIN,
        ),
        (
            "each program stores the count",
            _ROWS,
            f"tl.store(count_ptr, tl.load(count_ptr))\n    {_ROWS}",
            _RACE,
        ),
        ("two launches", _LAUNCH, f"{_LAUNCH}\n    {_LAUNCH}", _ONE),
        ("zeros where empty would do", _EMPTY, _EMPTY.replace("empty_like", "zeros_like"), _COUNTS),
        (
            "PyTorch says which targets are no class",
            _COUNT,
            f"target = torch.where((target < 0) & (target != -100) | (target >= N), N, target)\n    {_COUNT}",
            _COUNTS,
        ),
        ("x converted by PyTorch", _LAUNCH, _LAUNCH.replace("(x,", "(x.double().float().to(x.dtype),"), _COUNTS),
        (
            "the count as a number of the host's",
            _COUNT,
            "count = torch.full_like(target[:1], int((target != -100).sum()))",
            _WAITS,
        ),
        ("rows in bins", _COUNT, "count = torch.bincount((target != -100).int(), minlength=2)[1:]", _WAITS),
        (
            "only rows that count are chosen",
            _COUNT,
            "count = torch.full_like(target[:1], len(target[target != -100]))",
            _WAITS,
        ),
        ("three passes", _LOOP, _PASSES, _READ),
        (
            "three passes for long rows",
            _LOOP,
            f"if N > 32768:\n        {_inward(_PASSES)}\n    else:\n        {_inward(_LOOP)}",
            _READ,
        ),
        (
            "x read again for the target's column",
            _GRADIENT,
            f"x = tl.load(x_ptr + columns, inside & counts, 0.0)\n        {_GRADIENT}",
            _READ,
        ),
        (
            "lanes eight elements apart",
            "columns = start + lanes",
            "columns = start // BLOCK + lanes * tl.cdiv(N, BLOCK)",
            _READ,
        ),
        ("ignored rows are read, too", _THERE, "there = start + lanes < N", _SKIPPED),
        ("ignored rows are read for the gradient", _AGAIN_X, _AGAIN_X.replace(" & counts", ""), _SKIPPED),
        (
            "the first logit is read where the target is no class",
            _WANTED,
            "wanted = tl.load(x_ptr + tl.where(is_class, target, 0)).to(tl.float32)\n"
            '    wanted = tl.where(is_class, wanted, float("nan"))',
            _SKIPPED,
        ),
        ("dx is scaled in a second store", _STORE, f"{_STORE.replace('dx, 0.0', 'p, 0.0')}\n        {_STORE}", _STORED),
        ("a block as long as the row", _LAUNCH, _LAUNCH.replace("1024", "triton.next_power_of_2(N)"), _WIDEST),
        ("65,535 programs at most", _LAUNCH, _LAUNCH.replace("(M,)", "(min(M, 65535),)"), _LAUNCHED),
        ("one program does all rows", _RETURN, _ALL_ROWS, _SHARED),
        ("the logits kept in float32", _RETURN, _KEPT, _COPIES),
    )
]
