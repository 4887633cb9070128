"""Rates and times that are not the least or the most, values read one by one, and other ways to write the same."""

from mutants import Mutant

_ENDS = "it runs to its end"
_DEVICE = "its tensors are on the device of its arguments"
_INPUTS = "its inputs do not change"

_RATE = "rate is the lower of the two ceilings"
_NAN = "no rate is NaN"
_IDLE = "the peak where nothing is moved, 0 where nothing is computed"
_KERNELS = "all kernels at once"

_SEPARATE = "separate: each kernel takes as long as its longest part"
_FUSED = "fused: one launch, all operations, and nothing in between"
_CHAINS = "all chains and kernels at once"

_ENOUGH = "M rows are enough, and one less is not"
_INFINITE = "infinity where no number of rows suffices"
_EXACT = "exact where arithmetic takes as long as memory"
_ABOVE = "a row more where the quotient is hardly above a whole number"
_PRODUCTS = "all products at once"

_SLOPE = "torch.clamp(flops / moved * bandwidth, max=peak)"
_CHOSEN = "return torch.where(flops > 0, rate, 0.0)"

MUTANTS = (
    [
        Mutant("attainable", mistake, search, replace, broken)
        for mistake, search, replace, broken in (
            ("the higher ceiling", "max=peak", "min=peak", _RATE),
            ("the slope alone", _SLOPE, "flops / moved * bandwidth", _RATE),
            ("the peak alone", _SLOPE, "torch.full_like(flops, peak)", _RATE),
            ("the ceilings exchanged", _SLOPE, "torch.clamp(flops / moved * peak, max=bandwidth)", _RATE),
            ("bytes an operation", "flops / moved", "moved / flops", _RATE),
            ("over the bandwidth", "moved * bandwidth", "moved / bandwidth", _RATE),
            ("a part of the peak", _SLOPE, "torch.clamp(flops / moved * bandwidth / peak, max=1)", _RATE),
            ("a time", _SLOPE, "torch.maximum(flops / peak, moved / bandwidth)", _RATE),
            ("two times added up", _SLOPE, "flops / (flops / peak + moved / bandwidth)", _RATE),
            ("an intensity of whole numbers", "flops / moved", "flops // moved", _RATE),
            ("float32 on the way", "flops / moved", "(flops.float() / moved.float()).double()", _RATE),
            ("a float32 result", _CHOSEN, "return torch.where(flops > 0, rate, 0.0).float()", _RATE),
            (
                "a single kernel loses its dimension",
                _CHOSEN,
                "return torch.where(flops > 0, rate, 0.0).squeeze()",
                _RATE,
            ),
            (
                "results kept by shape",
                _CHOSEN,
                "return KEPT.setdefault(flops.shape, torch.where(flops > 0, rate, 0.0))\n\n\nKEPT = {}",
                _RATE,
            ),
            ("0 / 0", _CHOSEN, "return rate", _NAN),
            ("0 times infinity", _CHOSEN, "return rate * (flops > 0)", _NAN),
            ("nothing chosen for no operations", "flops > 0, rate, 0.0", "moved > 0, rate, flops / moved", _NAN),
            ("0 for what moves nothing", "flops > 0, rate", "moved > 0, rate", _IDLE),
            ("the peak for what computes nothing", "rate, 0.0", "rate, peak", _IDLE),
            ("the peak for what does neither", _CHOSEN, "return torch.where(moved > 0, rate, peak)", _IDLE),
            ("every NaN the peak", _CHOSEN, "return rate.nan_to_num(peak)", _IDLE),
            ("a byte that is always moved", "flops / moved", "flops / moved.clamp(min=1)", _IDLE),
            ("zeros on the CPU", "flops > 0, rate, 0.0", "flops > 0, rate, torch.zeros(flops.shape).double()", _DEVICE),
            ("in place", _SLOPE, "flops.div_(moved).mul_(bandwidth).clamp(max=peak)", _INPUTS),
            (
                "zeros filled in the input",
                _SLOPE,
                "torch.clamp(flops / moved.clamp_(min=1e-9) * bandwidth, max=peak)",
                _INPUTS,
            ),
            ("numbers returned", _CHOSEN, "return torch.where(flops > 0, rate, 0.0).tolist()", _ENDS),
            (
                "a list of numbers",
                _SLOPE,
                "torch.tensor(\n        [min(peak, f / m * bandwidth) if m else peak "
                "for f, m in zip(flops.tolist(), moved.tolist())],\n"
                "        dtype=flops.dtype,\n        device=flops.device,\n    )",
                _DEVICE,
            ),
            (
                "a loop over kernels",
                _SLOPE,
                "torch.stack([(f / m * bandwidth).clamp(max=peak) for f, m in zip(flops, moved)])",
                _KERNELS,
            ),
            (
                "a loop over places",
                _CHOSEN,
                "for i in range(len(rate)):\n        rate[i] = torch.where(flops[i] > 0, rate[i], 0.0)\n    return rate",
                _KERNELS,
            ),
            (
                "an if on values",
                _CHOSEN,
                "if flops.min() > 0:\n        return rate\n    return torch.where(flops > 0, rate, 0.0)",
                _KERNELS,
            ),
        )
    ]
    + [
        Mutant("fewest_milliseconds", mistake, search, replace, broken)
        for mistake, search, replace, broken in (
            ("arithmetic and memory added up", "torch.maximum(arithmetic, memory)", "(arithmetic + memory)", _SEPARATE),
            ("the shorter of the two", "torch.maximum", "torch.minimum", _SEPARATE),
            ("the longest kernel", "reads.T + 1).sum(0)", "reads.T + 1).amax(0)", _SEPARATE),
            (
                "the longest of three sums",
                "times(operations.T, reads.T + 1).sum(0)",
                "1e3 * torch.maximum(\n"
                "        operations.sum(1) * elements / peak,\n"
                "        (reads + 1).sum(1) * elements * itemsize / bandwidth,\n"
                "    ).clamp(min=launch * reads.shape[1])",
                _SEPARATE,
            ),
            ("no launch", ".clamp(min=launch)", "", _SEPARATE),
            (
                "shapes told apart by whether they fit",
                "times(operations.T, reads.T + 1)",
                "times(*(of if of.shape[-1] == len(elements) else of.T for of in (operations, reads + 1)))",
                _SEPARATE,
            ),
            ("a launch added to each", "memory).clamp(min=launch)", "memory) + 1e3 * launch", _SEPARATE),
            (
                "a launch of as many milliseconds",
                "memory).clamp(min=launch)",
                "memory).clamp(min=launch / 1e3)",
                _SEPARATE,
            ),
            ("at most a launch", "clamp(min=launch)", "clamp(max=launch)", _SEPARATE),
            (
                "one launch for a chain",
                "memory).clamp(min=launch)\n\n    separate = times(operations.T, reads.T + 1).sum(0)",
                "memory)\n\n    separate = times(operations.T, reads.T + 1).sum(0).clamp(min=1e3 * launch)",
                _SEPARATE,
            ),
            ("nothing written", "reads.T + 1)", "reads.T)", _SEPARATE),
            ("nothing read", "times(operations.T, reads.T + 1)", "times(operations.T, 1 + 0 * reads.T)", _SEPARATE),
            ("every matrix read and written", "reads.T + 1)", "2 * reads.T)", _SEPARATE),
            ("the itemsize forgotten", "elements * itemsize /", "elements /", _SEPARATE),
            ("bits", "elements * itemsize /", "elements * itemsize * 8 /", _SEPARATE),
            ("operations of a matrix", "operations * elements", "operations", _SEPARATE),
            ("matrices of one element", "matrices * elements", "matrices", _SEPARATE),
            ("operations for each byte", "operations * elements", "operations * elements * itemsize", _SEPARATE),
            ("the ceilings exchanged", "elements / peak", "elements / bandwidth", _SEPARATE),
            (
                "the ceilings exchanged throughout",
                "    def times",
                "    peak, bandwidth = bandwidth, peak\n    def times",
                _SEPARATE,
            ),
            (
                "the three added up",
                "torch.maximum(arithmetic, memory).clamp(min=launch)",
                "(arithmetic + memory + launch)",
                _SEPARATE,
            ),
            ("seconds", "1e3 *", "1.0 *", _SEPARATE),
            ("microseconds", "1e3 *", "1e6 *", _SEPARATE),
            ("float32 on the way", "operations * elements", "operations.float() * elements.float()", _SEPARATE),
            ("summed over the chains", "reads.T + 1).sum(0)", "reads.T + 1).sum(1)", _SEPARATE),
            (
                "results kept by shape",
                "return separate, fused",
                "return KEPT.setdefault(reads.shape, (separate, fused))\n\n\nKEPT = {}",
                _SEPARATE,
            ),
            ("the two exchanged", "return separate, fused", "return fused, separate", _SEPARATE),
            ("what lies between is written", "- between + 1", "- between + reads.shape[1]", _FUSED),
            ("what lies between is read", "- between + 1", "+ 1", _FUSED),
            ("what lies between is read and written", "- between + 1", "+ reads.shape[1]", _FUSED),
            ("taken away twice", "- between + 1", "- 2 * between + 1", _FUSED),
            ("as many as there are kernels", "reads.shape[1] - 1", "reads.shape[1]", _FUSED),
            ("the result is not written", "- between + 1", "- between", _FUSED),
            ("the reads of the first kernel", "reads.sum(1) - between", "reads[:, 0]", _FUSED),
            ("one read, one written", "reads.sum(1) - between + 1", "0 * elements + 2", _FUSED),
            ("operations of the last kernel", "operations.sum(1)", "operations[:, -1]", _FUSED),
            ("operations of the longest kernel", "operations.sum(1)", "operations.amax(1)", _FUSED),
            ("operations on average", "operations.sum(1)", "operations.mean(1)", _FUSED),
            ("the sum of separate times", "fused = times(", "fused = separate + 0 * times(", _FUSED),
            (
                "a launch for each part",
                "- between + 1)\n",
                "- between + 1)\n    fused = fused.clamp(min=1e3 * launch * reads.shape[1])\n",
                _FUSED,
            ),
            ("one result", "return separate, fused", "return separate", _ENDS),
            ("stacked", "return separate, fused", "return torch.stack((separate, fused))", _ENDS),
            ("shapes that do not fit", "operations.T, reads.T", "operations, reads", _ENDS),
            (
                "ones on the CPU",
                "reads.T + 1)",
                "reads.T + torch.ones(reads.T.shape).double())",
                _DEVICE,
            ),
            ("in place", "reads.T + 1)", "reads.T.add_(1))", _INPUTS),
            (
                "a loop over the kernels",
                "times(operations.T, reads.T + 1).sum(0)",
                "sum(times(o, r + 1) for o, r in zip(operations.T, reads.T))",
                _CHAINS,
            ),
            (
                "a loop over the chains",
                "return separate, fused",
                "return torch.stack([1.0 * one for one in separate]), fused",
                _CHAINS,
            ),
            (
                "an if on values",
                "return separate, fused",
                "if (fused > separate).any():\n        fused = separate\n    return separate, fused",
                _CHAINS,
            ),
            ("a value of reads", "- between + 1", "- float(between * (reads[0, 0] > 0)) + 1", _CHAINS),
        )
    ]
    + [
        Mutant("least_batch", mistake, search, replace, broken)
        for mistake, search, replace, broken in (
            ("a row too few", "torch.ceil", "torch.floor", _ENOUGH),
            ("the nearest number", "torch.ceil", "torch.round", _ENOUGH),
            ("not rounded", "torch.ceil(needed / spare)", "needed / spare", _ENOUGH),
            ("a little less, rounded up", "torch.ceil(needed / spare)", "torch.ceil(needed / spare - 1e-12)", _ABOVE),
            (
                "a share less, rounded up",
                "torch.ceil(needed / spare)",
                "torch.ceil(needed / spare * (1 - 1e-12))",
                _ABOVE,
            ),
            (
                "nine decimals, rounded up",
                "torch.ceil(needed / spare)",
                "torch.ceil((needed / spare).round(decimals=9))",
                _ABOVE,
            ),
            ("a row too many", "torch.ceil(needed / spare)", "torch.ceil(needed / spare) + 1", _ENOUGH),
            ("a million rows at most", "spare > 0", "needed < 1e6 * spare", _ENOUGH),
            ("one operation a pair", "2 * K", "K", _ENOUGH),
            ("the result not written", "(K + N)", "K", _ENOUGH),
            ("the rows not read", "(K + N)", "N", _ENOUGH),
            ("weights alone", " - peak * itemsize * (K + N)", "", _ENOUGH),
            ("the result read, too", "(K + N)", "(K + 2 * N)", _ENOUGH),
            ("every row twice", "(K + N)", "2 * (K + N)", _ENOUGH),
            ("a square of weights", "(K + N)", "(K * N)", _ENOUGH),
            ("elements of one byte in the weights", "needed = peak * itemsize", "needed = peak", _ENOUGH),
            ("elements of one byte in the rows", "- peak * itemsize *", "- peak *", _ENOUGH),
            ("always two bytes", "needed =", "itemsize = 2\n    needed =", _ENOUGH),
            ("the ceilings exchanged", "needed =", "peak, bandwidth = bandwidth, peak\n    needed =", _ENOUGH),
            (
                "the ridge point alone",
                "torch.ceil(needed / spare)",
                "torch.ceil(peak * itemsize / bandwidth / 2)",
                _ENOUGH,
            ),
            ("a multiple of 8", "torch.ceil(needed / spare)", "8 * torch.ceil(needed / spare / 8)", _ENOUGH),
            ("whole numbers of int64", "torch.inf)", "torch.inf).long()", _ENOUGH),
            (
                "results kept by shape",
                "return torch.where(spare > 0, torch.ceil(needed / spare), torch.inf)",
                "return KEPT.setdefault(K.shape, torch.where(spare > 0, torch.ceil(needed / spare), torch.inf))\n\n\nKEPT = {}",
                _ENOUGH,
            ),
            (
                "a number that is negative",
                "torch.where(spare > 0, torch.ceil(needed / spare), torch.inf)",
                "torch.ceil(needed / spare)",
                _INFINITE,
            ),
            ("0 where none suffices", "torch.inf", "0.0", _INFINITE),
            ("NaN where none suffices", "torch.inf", "torch.nan", _INFINITE),
            ("a large number where none suffices", "torch.inf", "2.0**53", _INFINITE),
            (
                "a bracket that is at least 1",
                "torch.where(spare > 0, torch.ceil(needed / spare), torch.inf)",
                "torch.ceil(needed / spare.clamp(min=1))",
                _INFINITE,
            ),
            (
                "the bracket's absolute value",
                "torch.where(spare > 0, torch.ceil(needed / spare), torch.inf)",
                "torch.ceil(needed / spare.abs())",
                _INFINITE,
            ),
            ("infinity wherever K is less than N", "spare > 0", "(spare > 0) & (K >= N)", _ENOUGH),
            (
                "infinity for less than a ridge point of columns",
                "spare > 0",
                "torch.minimum(K, N) * bandwidth > peak * itemsize",
                _INFINITE,
            ),
            ("past the boundary", "torch.ceil(needed / spare)", "torch.floor(needed / spare) + 1", _EXACT),
            (
                "a fraction that was rounded before",
                "needed = peak * itemsize * K * N\n    spare = 2 * K * N * bandwidth - peak * itemsize * (K + N)",
                "ridge = peak * itemsize / bandwidth\n    needed = ridge * K * N\n    spare = 2 * K * N - ridge * (K + N)",
                _EXACT,
            ),
            (
                "three fractions",
                "needed = peak * itemsize * K * N\n    spare = 2 * K * N * bandwidth - peak * itemsize * (K + N)",
                "needed = 1.0\n    spare = 2 * bandwidth / (peak * itemsize) - 1 / K - 1 / N",
                _EXACT,
            ),
            (
                "a little less, to be safe",
                "torch.ceil(needed / spare)",
                "torch.ceil(needed / spare * 1.000000001)",
                _EXACT,
            ),
            (
                "float32",
                "needed = peak",
                "K, N, itemsize = K.float(), N.float(), itemsize.float()\n    needed = peak",
                _ENOUGH,
            ),
            ("a quotient in float32", "needed / spare", "(needed.float() / spare.float()).double()", _EXACT),
            ("on the CPU", "torch.inf)", "torch.full(K.shape, torch.inf).double())", _DEVICE),
            ("in place", "needed = peak * itemsize * K * N", "needed = K.mul_(N) * peak * itemsize", _INPUTS),
            ("a number in place of a tensor", "torch.inf)", "torch.inf).sum().item()", _ENDS),
            (
                "one more row until it is enough",
                "needed =",
                "M = torch.ones_like(K)\n"
                "    while (short := 2 * M * K * N * bandwidth < peak * itemsize * (M * (K + N) + K * N)).any()"
                " and M.max() < 5000:\n"
                "        M = M + short\n"
                "    needed =",
                _PRODUCTS,
            ),
            (
                "a loop over products",
                "torch.ceil(needed / spare)",
                "torch.stack([torch.ceil(a / b) for a, b in zip(needed, spare)])",
                _PRODUCTS,
            ),
            (
                "an if on values",
                "return torch",
                "if spare.min() > 0:\n        return torch.ceil(needed / spare)\n    return torch",
                _PRODUCTS,
            ),
        )
    ]
)

ACCEPTED = {
    "attainable": {
        "the operations over the longer time": """def attainable(flops, moved, peak, bandwidth):
    seconds = torch.maximum(flops / peak, moved / bandwidth)
    return torch.where(seconds > 0, flops / seconds, 0.0)
""",
        "NaN made 0": """def attainable(flops, moved, peak, bandwidth):
    return (flops / moved * bandwidth).clamp(max=peak).nan_to_num(nan=0.0)
""",
        "a divisor that is never 0": """def attainable(flops, moved, peak, bandwidth):
    slope = bandwidth * flops / torch.where(moved == 0, 1.0, moved)
    rate = torch.where(moved == 0, peak, torch.minimum(slope, slope.new_tensor(peak)))
    return rate * (flops != 0)
""",
        "by the ridge point": """def attainable(flops, moved, peak, bandwidth):
    memory_bound = flops * bandwidth < moved * peak
    rate = torch.full_like(flops, peak)
    rate[memory_bound] = (flops / moved * bandwidth)[memory_bound]
    rate.masked_fill_(flops == 0, 0)
    return rate
""",
        "for one kernel, mapped": """def attainable(flops, moved, peak, bandwidth):
    def one(flops, moved):
        rate = torch.clamp(flops / moved * bandwidth, max=peak)
        return torch.where(flops == 0, torch.zeros_like(rate), rate)

    return torch.vmap(one)(flops, moved)
""",
    },
    "fewest_milliseconds": {
        "three times stacked": """def fewest_milliseconds(operations, reads, elements, itemsize, peak, bandwidth, launch):
    def longest(operations, matrices):
        arithmetic = operations * elements[:, None] / peak
        memory = matrices * elements[:, None] * itemsize[:, None] / bandwidth
        return torch.stack([arithmetic, memory, torch.full_like(memory, launch)]).amax(0).sum(1) * 1000

    matrices = reads + 1
    length = reads.size(1)
    fused = matrices.sum(1, keepdim=True) - 2 * (length - 1)
    return longest(operations, matrices), longest(operations.sum(1, keepdim=True), fused)
""",
        "by conditions": """def fewest_milliseconds(operations, reads, elements, itemsize, peak, bandwidth, launch):
    elements, itemsize = elements.unsqueeze(1), itemsize.unsqueeze(1)
    a, m = operations * elements / peak, (reads + 1) * elements * itemsize / bandwidth
    each = torch.where(a > m, a, m)
    each = torch.where(each > launch, each, launch)
    outside = reads[:, :1] + (reads[:, 1:] - 1).sum(1, keepdim=True)
    a, m = a.sum(1, keepdim=True), (outside + 1) * elements * itemsize / bandwidth
    fused = torch.maximum(torch.maximum(a, m), torch.tensor(launch))
    return each.sum(1) * 1e3, fused[:, 0] * 1e3
""",
        "a list of two": """def fewest_milliseconds(operations, reads, elements, itemsize, peak, bandwidth, launch):
    matrix = elements * itemsize * 1e3 / bandwidth
    work = torch.einsum("cl,c->cl", operations, elements) / (peak / 1e3)
    moved = torch.einsum("cl,c->cl", reads + 1, matrix)
    separate = torch.maximum(work, moved).clamp_min(launch * 1e3).sum(-1)
    moved_once = moved.sum(-1) - 2 * (reads.shape[-1] - 1) * matrix
    return [separate, torch.maximum(work.sum(-1), moved_once).clamp_min(launch * 1e3)]
""",
        "for one chain, mapped": """def fewest_milliseconds(operations, reads, elements, itemsize, peak, bandwidth, launch):
    def one(operations, reads, elements, itemsize):
        def times(operations, matrices):
            memory = matrices * (elements * itemsize / bandwidth)
            return torch.maximum(operations * (elements / peak), memory).clamp(min=launch) * 1e3

        fused = times(operations.sum(), (reads - 1).sum() + 2)
        return times(operations, reads + 1).sum(), fused

    return torch.vmap(one)(operations, reads, elements, itemsize)
""",
    },
    "least_batch": {
        "whole numbers of int64": """def least_batch(K, N, itemsize, peak, bandwidth):
    K, N, itemsize = K.long(), N.long(), itemsize.long()
    needed = peak * itemsize * K * N
    spare = 2 * K * N * bandwidth - peak * itemsize * (K + N)
    rows = (needed + spare - 1) // torch.where(spare > 0, spare, 1)
    return torch.where(spare > 0, rows.double(), torch.inf)
""",
        "the floor of the negative": """def least_batch(K, N, itemsize, peak, bandwidth):
    pairs, bytes_ = K * N, itemsize * peak
    spare = (2 * bandwidth * pairs - bytes_ * (K + N)).clamp(min=0)
    return -torch.floor(-(bytes_ * pairs) / spare)
""",
        "an estimate, and the two rows beside it": """def least_batch(K, N, itemsize, peak, bandwidth):
    def enough(M):
        return 2 * M * K * N * bandwidth >= peak * itemsize * (M * (K + N) + K * N)

    spare = 2 * bandwidth / (peak * itemsize) - 1 / K - 1 / N
    M = torch.round(1 / spare)
    M = torch.where(enough(M - 1), M - 1, torch.where(enough(M), M, M + 1))
    return torch.where((spare > 1e-12) & enough(M), M, torch.inf)
""",
        "a remainder": """def least_batch(K, N, itemsize, peak, bandwidth):
    needed, spare = itemsize * K * N * peak, 2 * K * N * bandwidth - (K + N) * itemsize * peak
    suffices = spare > 0
    spare = spare.masked_fill(~suffices, 1)
    whole = torch.div(needed, spare, rounding_mode="floor")
    return (whole + (torch.remainder(needed, spare) > 0)).masked_fill(~suffices, torch.inf)
""",
        "in order of the formula": """import math


def least_batch(K, N, itemsize, peak, bandwidth):
    columns = 2 * bandwidth * K * N
    columns = columns - peak * itemsize * K - peak * itemsize * N
    M = (K * N * itemsize * peak / columns).ceil()
    M[columns <= 0] = math.inf
    return M
""",
    },
}
