"""Backwards of norms over few rows: by one block where it has room for all, and otherwise by one for each row or several; of
layer norm some by blocks that have rows and blocks that have columns."""

import pytest
import torch

from kernels import lens
from kernels.check import Truth
from kernels.cuda.kernel import watched
from kernels.operation import Case, operation
from kernels.ops import add_rms_norm, layer_norm, rms_norm
from kernels.ops.layer_norm import cuda_stripes

EPS = 1e-5
DTYPES = {torch.float32: 3e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}
NORMS = {
    "layer_norm": (layer_norm.cuda_backward.cluster, layer_norm.native.layer_norm_backward),
    "rms_norm": (rms_norm.cuda.cluster, rms_norm.native.rms_norm_backward),
    "add_rms_norm": (add_rms_norm.cuda.cluster, add_rms_norm.native.add_rms_norm_backward),
}
ONE_BLOCK = [(1, 1), (1, 298), (3, 607), (100, 17), (900, 3), (5, 768), (2, 4096)]
STRIPES = [(18, 619), (153, 26), (41, 211), (200, 17), (8, 500), (60, 60), (250, 64), (16, 1024), (100, 39)]
BLOCKS = [(16, 3119), (2, 8191), (7, 768), (300, 520), (1000, 40), (140, 8192)]


def made(norm, M, N, dtype, device):
    """Gradients, rows of which the first value is an outlier, with a mean if the norm subtracts it, weight and perhaps bias."""
    random = torch.Generator().manual_seed(M + N)
    matrices = torch.randn(3 if norm == "add_rms_norm" else 2, M, N, generator=random).to(device)
    matrices[-1] += 20 if norm == "layer_norm" else 0
    matrices[-1, :, 0] *= 3
    vectors = (torch.randn(2 if norm == "layer_norm" else 1, N, generator=random) + 1).to(device)
    return [one.to(dtype) for one in (*matrices, *vectors)]


def assert_right(norm, tensors):
    backward, native = NORMS[norm]
    precise = [None if one is None else one.double() for one in tensors]
    for one, expected in zip(backward(*tensors, EPS), native(*precise, EPS), strict=True):
        if expected is None:
            assert one is None
        else:
            bound = DTYPES[tensors[0].dtype]
            torch.testing.assert_close(one.double(), expected, rtol=bound, atol=bound)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("M", "N"), ONE_BLOCK + STRIPES + BLOCKS)
def test_few_rows_are_right(device, norm, dtype, M, N):
    tensors, launches = made(norm, M, N, dtype, device), []
    assert_right(norm, tensors)
    with watched(lambda *launch: launches.append(launch)):
        NORMS[norm][0](*tensors, EPS)
    if (M, N) not in STRIPES:
        assert len(launches) == (1 if (M, N) in ONE_BLOCK else 2)
    elif norm == "layer_norm":
        assert len(launches) == 1
        assert launches[0][0].name.count(",") == 6  # the kernel's parameters, with STRIPE_PACKS


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_block_of_columns_has_room_for_all_rows(size):
    striped = 0
    for M in range(1, 300):
        for N in range(size, 1_500, size):
            if found := cuda_stripes.stripe_parameters(M, N, size):
                striped += 1
                packs, lanes = found
                assert M * lanes <= 1_024 and (packs - 1) * lanes * size < N <= packs * lanes * size <= 32 * lanes
                assert lanes in (4, 8, 16, 32)
    assert striped > 1_000


@pytest.mark.parametrize(
    ("norm", "missing"), [("layer_norm", [2]), ("layer_norm", [3]), ("layer_norm", [2, 3]), ("rms_norm", [2])]
)
@pytest.mark.parametrize(("M", "N"), [(5, 100), (6, 8191)])
def test_without_weight_or_bias(device, norm, missing, M, N):
    tensors = made(norm, M, N, torch.float32, device)
    assert_right(norm, [None if number in missing else one for number, one in enumerate(tensors)])


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("M", "N"), [(3, 29), (70, 17), (3, 451), (2, 3119)])
def test_nothing_is_found_in_it(norm, M, N):
    traces = []
    with watched(lambda *launch: traces.append(lens.trace(*launch))):
        NORMS[norm][0](*made(norm, M, N, torch.bfloat16, "cpu"), EPS)
    assert traces and [str(finding) for trace in traces for finding in trace.findings] == []


@pytest.mark.parametrize("level", [4, 5])
@pytest.mark.parametrize("name", ["layer_norm", "layer_norm_gelu"])
def test_a_first_value_far_from_the_others_costs_no_bits(device, name, level):
    op, case = operation(name), Case((6, 1001), "float32")
    inputs = op.inputs(case, device)
    inputs["x"][:, 0] = 60
    failure = Truth(op, case, inputs).judge(op.default(level)).failure
    assert failure is None, failure


@pytest.mark.parametrize(("M", "N"), [(9, 500), (33, 130), (8, 1100), (5, 768), (2, 4096)])
def test_a_mean_far_from_0_costs_no_bits(device, M, N):
    """In one float it would be off by up to 5e-4, and with it what the parts of a row add up."""
    dy, x, weight, bias = made("layer_norm", M, N, torch.float32, device)
    x += 10_000
    expected = layer_norm.native.layer_norm_backward(*(one.double() for one in (dy, x, weight, bias)), EPS)
    for one, right in zip(layer_norm.cuda_backward.cluster(dy, x, weight, bias, EPS), expected, strict=True):
        torch.testing.assert_close(one.double(), right, rtol=5e-6, atol=5e-6)


@pytest.mark.parametrize("M", [12, 90])
def test_blocks_of_columns_have_the_whole_mean(device, M):
    """1 / N is rounded, which a mean far from 0 makes large."""
    dy, x, weight, bias = made("layer_norm", M, 122, torch.float32, device)
    half = (torch.randn(M, 61, generator=torch.Generator().manual_seed(M)) * 4).round().to(device) / 4  # sums are exact
    x = torch.cat([6_007 + half, 6_007 - half], 1)
    _, expected, _ = layer_norm.native.layer_norm_backward(*(one.double() for one in (dy, x, weight, bias)), EPS)
    _, dweight, _ = layer_norm.cuda_backward.cluster(dy, x, weight, bias, EPS)
    torch.testing.assert_close(dweight.double(), expected, rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("name", [*NORMS, "layer_norm_gelu"])
def test_long_sums_of_columns_are_not_one_chain(device, name):
    """Of 1,024 rows a block has all: one after the other, each addition would be rounded."""
    op = operation(name)
    for seed in range(8):
        case = Case((1_024, 4), seed=seed)
        failure = Truth(op, case, op.inputs(case, device)).judge(op["cuda"]).failure
        assert failure is None, failure
