"""Mistakes in a forward of attention."""

from mutants import Mutant

_INSIDE = "it stays inside its arrays"
_ENDS = "it runs to its end"
_COMPILES = "it compiles for a GPU"
_DEVICE = "its tensors are on the device of its arguments"
_GIVEN = "its inputs do not change"
_WRITTEN = "every element of y and lse is written"
_RIGHT = "y is the mean of the values, weighted by the softmax of the scores"
_LSE = "lse is the logarithm of the sum of exponentials"
_ANY_LENGTH = "also for lengths that are not multiples of a block"
_AGAIN = "also for other values in the same shape"
_STRIDES = "also where rows and heads lie elsewhere in memory"
_LARGE = "stable where scores are near 10,000 or -10,000"
_DEEP = "stable however far below 0 all scores lie"
_CAUSAL = "causal: a query sees no key after its own"
_OFFSET = "causal: the last query stands at the last key"
_HALF = "also in float16 and bfloat16"
_TF32 = "products of float32 are not rounded, on a GPU either"
_FAR = "also where a head begins beyond 2³¹ elements"
_Y_FAR = "also where a head of y begins beyond 2³¹ elements"
_RACE = "no program depends on another"
_ONE = "it is one launch"
_Q = "q is read once"
_ONCE = "a block of queries loads each key and value once"
_SKIPPED = "causal: blocks of keys that no query sees are not loaded"
_BOUNDED = "a block of scores does not grow with the number of keys"
_STORED = "y and lse are written once, and no scores"
_SHARED = "the programs share the queries"
_IN_MEMORY = "nothing passes through memory of its own"

_LOAD_Q = "q = tl.load(q_tile, rows < M, 0.0)"
_LOAD_K = "k = tl.load(k_tile + at * k_row, at + keys[:, None] < N, 0.0)"
_LOAD_V = "v = tl.load(v_tile + at * v_row, at + keys[:, None] < N, 0.0)"
_SCORES = 's = tl.dot(q, tl.trans(k), input_precision="ieee") * scale'
_MASKED = 's = tl.where(at + keys < seen, s, float("-inf"))'
_LARGER = "larger = tl.maximum(largest, tl.max(s, 1, keep_dims=True))"
_P = "p = tl.exp(s - larger)"
_FADE = "fade = tl.exp(largest - larger)"
_TOTAL = "total = total * fade + tl.sum(p, 1, keep_dims=True)"
_Y = 'y = tl.dot(p.to(v.dtype), v, y * fade, input_precision="ieee")'
_START = "largest = tl.full((BLOCK_M, 1), -1e38, tl.float32)"
_SEEN = "seen = tl.minimum(rows + 1 + N - M, N) if CAUSAL else N"
_END = "end = tl.minimum(first + BLOCK_M + N - M, N) if CAUSAL else N"
_FOR = "for at in tl.range(0, end, BLOCK_N):"
_DIVIDED = "y /= tl.where(total > 0, total, 1.0)"
_STORE_Y = "tl.store(y_ptr + places * D + d, y, rows < M)"
_STORE_LSE = "tl.store(lse_ptr + places, largest + tl.log(total), rows < M)"
_ALLOCATED = "y, lse = q.new_empty(H, M, D), q.new_empty(H, M, dtype=torch.float32)"
_LAUNCH = """attention_kernel[triton.cdiv(M, 32), H](
        q, k, v, y, lse, *strides, M, N, D**-0.5, causal, D, 32, 32)"""
_RETURN = "    return y, lse"


def _other(parameters: str, outer: str, weights: str, launch: str) -> str:
    """In place of the last line: that line, and another kernel and function of the same name, in their place.

    outer: the loop around the walk. weights: what is done with them.
    """
    return f"""{_RETURN}


@triton.jit
def other_kernel(
    q_ptr, k_ptr, v_ptr, y_ptr, lse_ptr, q_head, q_row, k_head, k_row, v_head, v_row, M, N, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr, {parameters},
):
    keys, d = tl.arange(0, BLOCK), tl.arange(0, D)
    {outer}
        first = block * BLOCK
        rows = first + tl.arange(0, BLOCK)[:, None]
        q = tl.load(q_ptr + head * q_head + rows * q_row + d, rows < M, 0.0)
        largest = tl.full((BLOCK, 1), -1e38, tl.float32)
        total, y = tl.zeros((BLOCK, 1), tl.float32), tl.zeros((BLOCK, D), tl.float32)
        {_SEEN}
        end = tl.minimum(first + BLOCK + N - M, N) if CAUSAL else N
        for at in range(0, end, BLOCK):
            there = at + keys[:, None] < N
            k = tl.load(k_ptr + head * k_head + (at + keys[:, None]) * k_row + d, there, 0.0)
            v = tl.load(v_ptr + head * v_head + (at + keys[:, None]) * v_row + d, there, 0.0)
            {_SCORES}
            {_MASKED}
            {_LARGER}
            {_P}
            {weights}
            {_FADE}
            {_TOTAL}
            {_Y}
            largest = larger
        {_DIVIDED}
        places = head * M + rows
        {_STORE_Y}
        {_STORE_LSE}


def flash_attention(q, k, v, causal):
    (H, M, D), N = q.shape, k.shape[1]
    {_ALLOCATED}
    strides = *q.stride()[:2], *k.stride()[:2], *v.stride()[:2]
    {launch}
{_RETURN}"""


_GIVEN_TO_ALL = "q, k, v, y, lse, *strides, M, N, D**-0.5, causal, D, 32"
_ALL_BLOCKS = _other(
    "H",
    "head = tl.program_id(0).to(tl.int64)\n    for block in range(tl.cdiv(M, BLOCK)):",
    "",
    f"other_kernel[(H,)]({_GIVEN_TO_ALL}, H)",
)
_ALL_HEADS = _other(
    "H",
    "block = tl.program_id(0)\n    for number in range(H):\n        head = tl.cast(number, tl.int64)",
    "",
    f"other_kernel[(triton.cdiv(M, 32),)]({_GIVEN_TO_ALL}, H)",
)
_KEPT = _other(
    "p_ptr",
    "block, head = tl.program_id(0), tl.program_id(1).to(tl.int64)\n    if True:",
    "p_tile = p_ptr + (head * M + rows) * N + at + keys\n"
    "            tl.store(p_tile, p, (rows < M) & (at + keys < N))\n"
    "            p = tl.load(p_tile, (rows < M) & (at + keys < N), 0.0)",
    f"p = torch.empty(H, M, N, device=q.device)\n    other_kernel[triton.cdiv(M, 32), H]({_GIVEN_TO_ALL}, p)",
)

MUTANTS = [
    Mutant("flash_attention", mistake, search, replace, broken)
    for mistake, search, replace, broken in (
        ("q loaded without a mask", _LOAD_Q, "q = tl.load(q_tile)", _INSIDE),
        ("keys loaded without a mask", _LOAD_K, "k = tl.load(k_tile + at * k_row)", _INSIDE),
        ("values loaded without a mask", _LOAD_V, "v = tl.load(v_tile + at * v_row)", _INSIDE),
        ("y stored beyond M", _STORE_Y, _STORE_Y.replace(", rows < M", ""), _INSIDE),
        ("lse stored beyond M", _STORE_LSE, _STORE_LSE.replace(", rows < M", ""), _INSIDE),
        ("a mask off by one", _LOAD_K, _LOAD_K.replace("< N", "<= N"), _INSIDE),
        ("weights in another type than values", _Y, _Y.replace("p.to(v.dtype)", "p"), _ENDS),
        ("keys not transposed", _SCORES, _SCORES.replace("tl.trans(k)", "k"), _ENDS),
        ("blocks of 8 queries", _LAUNCH, _LAUNCH.replace("(M, 32)", "(M, 8)").replace("32, 32)", "8, 32)"), _ONCE),
        ("blocks that are kept in a list", _START, f"{_START}\n    blocks = []\n    blocks.append(first)", _COMPILES),
        ("an output on the CPU", _ALLOCATED, "y, lse = q.new_empty(H, M, D), torch.empty(H, M)", _DEVICE),
        ("y in q", _ALLOCATED, _ALLOCATED.replace("q.new_empty(H, M, D)", "q"), _GIVEN),
        ("whole blocks of queries only", "triton.cdiv(M, 32), H", "max(M // 64, 1), H", _WRITTEN),
        ("one head", "triton.cdiv(M, 32), H", "triton.cdiv(M, 32), 1", _WRITTEN),
        ("the sum does not fade", _TOTAL, _TOTAL.replace(" * fade", ""), _RIGHT),
        ("the output does not fade", _Y, _Y.replace("y * fade", "y"), _RIGHT),
        ("what comes fades, and not what was", _FADE, "fade = tl.exp(larger - largest)", _RIGHT),
        ("the largest score is not kept", "largest = larger", "largest = largest", _RIGHT),
        ("the block's largest score, not the largest so far", _LARGER, "larger = tl.max(s, 1, keep_dims=True)", _LARGE),
        ("no scale", _SCORES, _SCORES.replace(" * scale", ""), _RIGHT),
        ("the scale twice", _SCORES, f"{_SCORES} * scale", _RIGHT),
        ("no division", _DIVIDED, "y /= 1.0", _RIGHT),
        ("divided in each block", _Y, f"{_Y} / total", _RIGHT),
        ("exponents of 2, with the scale of e", _P, "p = tl.exp2(s - larger)", _RIGHT),
        (
            "lse in units of log 2",
            _STORE_LSE,
            _STORE_LSE.replace("largest + tl.log(total)", "largest * 1.4426950408889634 + tl.log2(total)"),
            _LSE,
        ),
        ("lse without the largest score", _STORE_LSE, _STORE_LSE.replace("largest + ", ""), _LSE),
        ("the sum in lse, not its logarithm", _STORE_LSE, _STORE_LSE.replace("tl.log(total)", "total"), _LSE),
        (
            "keys beyond the end count with a score of 0",
            _SEEN,
            _SEEN.replace("else N", "else N + BLOCK_N"),
            _ANY_LENGTH,
        ),
        ("2,048 keys at most", _END, _END.replace("else N", "else tl.minimum(N, 2048)"), _ANY_LENGTH),
        (
            "whole blocks of keys only, and one at least",
            _END,
            _END.replace("else N", "else tl.maximum(N // 32 * 32, 1)"),
            _ANY_LENGTH,
        ),
        (
            "results kept by shape",
            "    return y, lse",
            "    return KEPT.setdefault((q.shape, q.dtype, causal), (y, lse))\n\n\nKEPT = {}",
            _AGAIN,
        ),
        ("rows of q by their width", "rows * q_row + d", "rows * D + d", _STRIDES),
        ("the strides of k for v", "*k.stride()[:2], *v.stride()[:2]", "*k.stride()[:2], *k.stride()[:2]", _STRIDES),
        ("no largest score is taken away", _LARGER, "larger = largest * 0", _LARGE),
        ("a largest score of 0 before the first key", _START, _START.replace("-1e38", "0.0"), _LARGE),
        ("a largest score of -10,000 before the first key", _START, _START.replace("-1e38", "-1e4"), _LARGE),
        ("a largest score of -1,000 before the first key", _START, _START.replace("-1e38", "-1000.0"), _LARGE),
        ("a largest score that begins as the lowest float16", _START, _START.replace("-1e38", "-65504.0"), _DEEP),
        ("a largest score of -1e6 before the first key", _START, _START.replace("-1e38", "-1e6"), _DEEP),
        ("a largest score of -1e9 before the first key", _START, _START.replace("-1e38", "-1e9"), _DEEP),
        ("no causal mask", _SEEN, "seen = N", _CAUSAL),
        ("a query does not see its own key", _SEEN, _SEEN.replace("rows + 1", "rows"), _CAUSAL),
        ("the key after its own, too", _SEEN, _SEEN.replace("rows + 1", "rows + 2"), _CAUSAL),
        ("a walk to the place of the block's first query", _END, _END.replace("first + BLOCK_M", "first + 1"), _OFFSET),
        ("places from the first key", f"{_SEEN}\n    {_END}", f"{_SEEN}\n    {_END}".replace("+ N - M", ""), _OFFSET),
        (
            "places the other way round",
            f"{_SEEN}\n    {_END}",
            f"{_SEEN}\n    {_END}".replace("+ N - M", "+ M - N"),
            _OFFSET,
        ),
        ("-∞ less -∞", _START, _START.replace("-1e38", 'float("-inf")'), _OFFSET),
        ("0 / 0", _DIVIDED, "y /= total", _OFFSET),
        ("hidden scores that are a large negative number", _MASKED, _MASKED.replace('float("-inf")', "-1e38"), _OFFSET),
        ("an output in half precision", _Y, f"{_Y}.to(v.dtype).to(tl.float32)", _HALF),
        ("a sum in half precision", _TOTAL, f"{_TOTAL}.to(q.dtype).to(tl.float32)", _HALF),
        (
            "scores in half precision",
            _SCORES,
            _SCORES.replace(" * scale", ".to(q.dtype).to(tl.float32) * scale"),
            _HALF,
        ),
        (
            "q scaled, and rounded again",
            _LOAD_Q,
            f"{_LOAD_Q}\n    q, scale = (q * scale).to(v_ptr.dtype.element_ty), 1.0",
            _HALF,
        ),
        ("y in float32", _ALLOCATED, _ALLOCATED.replace("(H, M, D)", "(H, M, D, dtype=torch.float32)"), _HALF),
        ("lse in the tensors' type", _ALLOCATED, _ALLOCATED.replace(", dtype=torch.float32", ""), _HALF),
        ("products in TF32", _SCORES, _SCORES.replace(', input_precision="ieee"', ""), _TF32),
        ("32 bits for the place of a head", "tl.program_id(1).to(tl.int64)", "tl.program_id(1)", _Y_FAR),
        ("32 bits for the place of a head of k", "head * k_head", "tl.program_id(1) * k_head", _FAR),
        ("32 bits for the place of a head of y", "head * M + rows", "tl.program_id(1) * M + rows", _Y_FAR),
        ("32 bits for a place in y", _STORE_Y, _STORE_Y.replace("places", "tl.cast(places, tl.int32)"), _Y_FAR),
        (
            "all programs leave a sum where the last one leaves its lse",
            _STORE_LSE,
            f"tl.store(lse_ptr + tl.num_programs(1) * M - 1 + 0 * rows, total, rows < M)\n    {_STORE_LSE}",
            _RACE,
        ),
        ("copies of q", "    strides =", "    q = q.clone()\n    strides =", _ONE),
        ("q loaded in each block", _SCORES, f"{_LOAD_Q}\n        {_SCORES}", _Q),
        ("keys loaded twice", _P, f"{_LOAD_K}\n        {_P}", _ONCE),
        (
            "two passes, the largest score first",
            _FOR,
            f"""for at in tl.range(0, end, BLOCK_N):
        {_LOAD_K}
        {_SCORES}
        {_MASKED}
        largest = tl.maximum(largest, tl.max(s, 1, keep_dims=True))
    {_FOR}""",
            _ONCE,
        ),
        ("blocks beyond the diagonal", _END, "end = N", _SKIPPED),
        ("one block too many", _END, _END.replace("first + BLOCK_M", "first + BLOCK_M + BLOCK_N"), _SKIPPED),
        (
            "blocks beyond the diagonal, loaded by masks that hide them",
            f"{_END}\n    {_FOR}\n        {_LOAD_K}\n        {_LOAD_V}",
            f"{_END}\n    for at in tl.range(0, N, BLOCK_N):\n        {_LOAD_K}\n        {_LOAD_V}".replace(
                "< N, 0.0", "< end, 0.0"
            ),
            _SKIPPED,
        ),
        (
            "all keys in one block",
            _LAUNCH,
            _LAUNCH.replace("32, 32)", "32, max(triton.next_power_of_2(N), 16))"),
            _BOUNDED,
        ),
        (
            "y stored in each block",
            _Y,
            f"{_Y}\n        tl.store(y_ptr + (head * M + rows) * D + d, y, rows < M)",
            _STORED,
        ),
        ("one program for all blocks of a head", _RETURN, _ALL_BLOCKS, _SHARED),
        ("one program for a block of all heads", _RETURN, _ALL_HEADS, _SHARED),
        ("weights in memory", _RETURN, _KEPT, _IN_MEMORY),
    )
]
