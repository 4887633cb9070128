"""Layer norm's CUDA kernels: rules of launches, rows beyond the rules, the order of sums, and the machine code."""

import re

import pytest
import torch

from kernels import lens, machine
from kernels.cuda import order, queue
from kernels.cuda.kernel import watched
from kernels.cuda.rows import VALUES
from kernels.hardware import REFERENCE, TARGETS
from kernels.ops import add_rms_norm, rms_norm
from kernels.ops.layer_norm import cuda, cuda_backward, cuda_split, native

DTYPES = {torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}


@pytest.mark.parametrize("N", [1, 8, 33, 768, 1000, 1024, 5120, 8192, 32_768])
@pytest.mark.parametrize("itemsize", [2, 4])
def test_a_row_fits_its_threads(N, itemsize):
    vectors, threads, rows, full = cuda.vector_parameters(N, itemsize)
    held = vectors * threads * 16 // itemsize
    assert held >= N and threads <= 1024 and (rows == 1 or threads <= 32) and threads * rows % 32 == 0
    assert vectors * 16 // itemsize <= VALUES
    assert full == (held == N)
    if N <= queue.WIDEST_OF_CLUSTER:
        shared_by = queue.blocks_of_row(N) if N > queue.WIDEST_OF_BLOCK else 1
        vectors, threads, rows, stages, blocks, full = queue.queue_parameters(-(-N // shared_by), itemsize, REFERENCE)
        assert shared_by * vectors * threads * 16 // itemsize >= N
        assert shared_by <= 8 and shared_by * threads <= 1024  # a lane for each warp that has part of a row
        assert (
            2 * stages * vectors * threads * rows * 16 * blocks
            <= REFERENCE.shared_bytes_per_block - queue.STATIC_SHARED_BYTES
        )
        registers = REFERENCE.registers_per_multiprocessor // (threads * rows * blocks)  # of a thread
        assert registers >= (80 if vectors == 1 else 168)


@pytest.mark.parametrize("N", [4, 8, 40, 64, 96, 100, 128, 256, 264])
@pytest.mark.parametrize("itemsize", [2, 4])
def test_narrow_rows_share_warps(N, itemsize):
    vectors, threads, rows, stages, blocks, full = queue.queue_parameters(N, itemsize, REFERENCE)
    lanes_too_many = 2 * threads * 16 >= 4 * N * itemsize and threads > 1
    assert vectors * threads * 16 >= N * itemsize and not (vectors == 1 and lanes_too_many)
    assert threads * rows == 256 and 32 % threads == 0
    assert full == (vectors * threads * 16 == N * itemsize)
    assert blocks == (3 if vectors == 1 else 1) and stages == 2


@pytest.mark.parametrize(("N", "fits"), [(8_185, True), (8_191, True), (8_193, False)])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_widest_peeled_rows_fit_a_block(N, fits, dtype):
    assert queue.fits_block(torch.empty(2, N, dtype=dtype), peeled=True) == fits


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
@pytest.mark.parametrize("N", [65, 1_001, 3_001, 5_000, 8_189, 8_191, 9_001, 32_761])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_queue_has_room_for_a_row(target, dtype, N):
    """Of shared memory, whatever the GPU, and however many registers and values a thread has."""
    x, weight, launches = torch.empty(2_200, N, dtype=dtype), torch.empty(N, dtype=dtype), []
    with machine.planning(target), watched(lambda kernel, *_: launches.append(kernel.name)):
        cuda_backward.cluster(x, x, weight, weight, 1e-5)
        rms_norm.cuda.cluster(x, x, weight, 1e-5)
        add_rms_norm.cuda.cluster(x, x, x, weight, 1e-5)
    queues = [name[name.index("<") :].split(",") for name in launches if "_queue<" in name or "_vector<" in name]
    assert all(int(parameters[4]) > 0 for parameters in queues)  # STAGES
    assert len(queues) == 3 or target is not TARGETS["sm_90"]


def unaligned(shape, dtype, device):
    """A matrix that starts one element after a multiple of 16 bytes."""
    values = torch.randn(torch.Size(shape).numel() + 1, device=device).to(dtype)
    return values[1:].view(shape)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("which", ["x", "weight", "dy", "width", "stride"])
def test_rows_that_are_no_vectors_are_read_value_by_value(device, dtype, which):
    M, N = 3, 63 if which == "width" else 64
    x, dy, weight, bias = (torch.randn(*shape, device=device).to(dtype) for shape in ((M, N), (M, N), (N,), (N,)))
    if which == "x":
        x = unaligned((M, N), dtype, device)
    if which == "dy":
        dy = unaligned((M, N), dtype, device)
    if which == "weight":
        weight = unaligned((N,), dtype, device)
    if which == "stride":
        x = torch.randn(M, N + 1, device=device).to(dtype)[:, :N]
    y = native.layer_norm(x, weight, bias)
    gradients = native.layer_norm_backward(dy, x, weight, bias, 1e-5)
    for rung in cuda.FORWARD[2:]:
        torch.testing.assert_close(rung.fn(x, weight, bias, 1e-5), y, rtol=0, atol=DTYPES[dtype])
    for rung in cuda_backward.BACKWARD[2:]:
        for got, expected in zip(rung.fn(dy, x, weight, bias, 1e-5), gradients, strict=True):
            torch.testing.assert_close(got, expected, rtol=DTYPES[dtype], atol=DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("M", "N"), [(50, 129), (20, 1101), (115, 64), (70, 96), (300, 16), (67, 100), (5, 8187), (5, 8191)]
)
def test_a_block_walks_over_rows(device, monkeypatch, dtype, M, N):
    """Those of odd width start alike within vectors; narrow ones share warps, of which the last has fewer."""
    monkeypatch.setattr(queue, "multiprocessors", lambda device: 1)  # so that a block has several rows
    x, dy, weight, bias = (torch.randn(*shape, device=device).to(dtype) for shape in ((M, N), (M, N), (N,), (N,)))
    x += 3  # else the counts of columns that its means are made of would hardly matter
    gradients = native.layer_norm_backward(dy, x, weight, bias, 1e-5)
    for got, expected in zip(cuda_backward.queued(dy, x, weight, bias, 1e-5), gradients, strict=True):
        torch.testing.assert_close(got, expected, rtol=DTYPES[dtype], atol=DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("N", "kernel"), [(12_288, "few"), (12_287, "few"), (12_289, "split"), (12_296, "reread"), (32_776, "split")]
)
def test_few_wide_rows_are_kept_or_divided(device, dtype, N, kernel):
    x, weight, bias = (torch.randn(*shape, device=device).to(dtype) for shape in ((2, N), (N,), (N,)))
    x += 20
    expected = native.layer_norm(*(one.double() for one in (x, weight, bias)))
    got = cuda.reread(x, weight, bias, 1e-5)
    torch.testing.assert_close(got.double(), expected, rtol=DTYPES[dtype], atol=DTYPES[dtype])
    launches = []
    with watched(lambda *launch: launches.append(launch[0].name)):
        cuda.reread(x, weight, bias, 1e-5)
    assert launches[-1].startswith(f"layer_norm_{kernel}<")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("M", "N"), [(300, 49), (2311, 1), (333, 63)])
def test_narrow_rows_are_copied_as_vectors(device, monkeypatch, dtype, M, N):
    monkeypatch.setattr(cuda_backward, "multiprocessors", lambda device: 1)  # so that a block has several chunks
    x, dy, weight, bias = (torch.randn(*shape, device=device).to(dtype) for shape in ((M, N), (M, N), (N,), (N,)))
    x += 30
    precise = [one.double() for one in (dy, x, weight, bias)]
    for given in (weight, None):
        gradients = native.layer_norm_backward(*precise[:2], None if given is None else precise[2], precise[3], 1e-5)
        for got, expected in zip(cuda_backward.narrow(dy, x, given, bias, 1e-5), gradients, strict=True):
            if expected is not None:
                torch.testing.assert_close(got.double(), expected, rtol=DTYPES[dtype], atol=3 * DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("M", "N"), [(300, 49), (2311, 1), (93, 72), (37, 1373)])
def test_narrow_rows_of_the_forward_are_copied_as_vectors(device, dtype, M, N):
    x, weight, bias = (torch.randn(*shape, device=device).to(dtype) for shape in ((M, N), (N,), (N,)))
    x += 30
    x[5, -1] = torch.inf  # nothing of it comes into the row behind
    for given in ((weight, bias), (weight, None), (None, bias), (None, None)):
        expected = native.layer_norm(x.double(), *(None if of is None else of.double() for of in given))
        got = cuda.narrow(x, *given, 1e-5).double()
        torch.testing.assert_close(got, expected, rtol=DTYPES[dtype], atol=3 * DTYPES[dtype], equal_nan=True)


@pytest.mark.parametrize(
    ("dtype", "N", "kernel"),
    [
        (torch.float16, 37, "narrow"),
        (torch.float16, 2047, "narrow"),
        (torch.float16, 2049, "shared"),
        (torch.float16, 24, "vector"),
        (torch.float16, 264, "vector"),
        (torch.float32, 742, "narrow"),
        (torch.float32, 1001, "few"),
        (torch.float32, 1801, "few"),
        (torch.float32, 68, "vector"),  # of fewer than 64 rows a multiprocessor
    ],
)
def test_many_rows_choose_a_kernel_by_their_width(device, dtype, N, kernel):
    x = torch.empty(5000, N, dtype=dtype, device=device)
    launches = []
    with watched(lambda *launch: launches.append(launch[0].name)):
        cuda.reread(x, x[0].clone(), None, 1e-5)
    assert launches[-1].startswith(f"layer_norm_{kernel}<")


@pytest.mark.parametrize(
    ("dtype", "N", "kernel"),
    [
        (torch.float16, 72, "narrow"),  # 9 vectors, for which there would be 16 lanes
        (torch.float32, 68, "narrow"),
        (torch.float32, 100, "vector"),
        (torch.float16, 40, "vector"),
    ],
)
def test_very_many_rows_of_vectors_leave_no_lanes_idle(device, dtype, N, kernel):
    x = torch.empty(64 * machine.multiprocessors(torch.device(device)) + 1, N, dtype=dtype, device=device)
    launches = []
    with watched(lambda *launch: launches.append(launch[0].name)):
        cuda.reread(x, None, None, 1e-5)
    assert launches[-1].startswith(f"layer_norm_{kernel}<")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_warp_without_columns_adds_nothing(device, monkeypatch, dtype):
    """As those of a cluster's last block, where the others have all columns. A mean that is large shows it."""
    monkeypatch.setattr(queue, "queue_parameters", lambda *_: (1, 256, 1, 2, 1, False))
    x, dy, weight, bias = (
        torch.randn(*shape, device=device).to(dtype) for shape in ((3, 520), (3, 520), (520,), (520,))
    )
    x += 30
    gradients = native.layer_norm_backward(dy, x, weight, bias, 1e-5)
    for got, expected in zip(cuda_backward.queued(dy, x, weight, bias, 1e-5), gradients, strict=True):
        torch.testing.assert_close(got, expected, rtol=DTYPES[dtype], atol=DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("N", [64, 65])
def test_nothing_is_read_beyond_the_last_row(dtype, N):
    x, dy = (torch.randn(5, N).to(dtype) for _ in range(2))
    traces = []
    with watched(lambda *launch: traces.append(lens.trace(*launch))):
        assert cuda_backward.queued(dy, x, None, x[0], 1e-5)
        assert cuda_backward.narrow(dy, x, x[0], x[0], 1e-5)
    assert [str(finding) for trace in traces for finding in trace.findings] == []


@pytest.mark.parametrize(("N", "full"), [(20_480, "1"), (20_476, "0")])
def test_a_cluster_is_full_if_its_last_block_is(N, full):
    """Of 20,476 columns seven blocks have 2,560 each, and the last one four fewer."""
    with machine.planning(TARGETS["sm_90"]):
        launched, *_ = queue.queue_launch(cuda_backward.VECTOR_SOURCE, "layer_norm_backward_vector", torch.empty(2, N))
    assert launched.name.endswith(f", {full}>")


@pytest.mark.parametrize(("M", "groups"), [(6, 6), (20, 8)])
def test_each_cluster_has_a_row(monkeypatch, M, groups):
    """Of 16 multiprocessors. Eight peeled rows of 16,383 columns are whole vectors: clusters with several are so far apart."""
    monkeypatch.setattr(queue, "multiprocessors", lambda device: 16)
    x = torch.empty(M, 16_383, dtype=torch.float16)
    with machine.planning(TARGETS["sm_90"]):
        _, G, _ = queue.queue_launch(cuda_backward.VECTOR_SOURCE, "layer_norm_backward_vector", x, peeled=True)
    assert groups == G


@pytest.mark.parametrize(
    ("strides", "start", "peeled"),
    [
        ((65, 1), 0, True),
        ((73, 1), 0, True),  # 8 more: vectors
        ((66, 1), 0, False),
        ((57, 1), 0, False),  # rows overlap, so that the vector at the end of the last but one is beyond the last
        ((65, 1), 1, False),
    ],
)
def test_rows_are_peeled_that_start_as_those_of_a_contiguous_matrix(strides, start, peeled):
    matrix = torch.zeros(400, dtype=torch.bfloat16).as_strided((4, 65), strides, start)
    assert queue.can_be_peeled(torch.zeros(4, 65, dtype=torch.bfloat16), matrix) == peeled


@pytest.mark.parametrize("rung", cuda_backward.BACKWARD[1:], ids=lambda rung: rung.name)
@pytest.mark.parametrize("N", [40, 1000, pytest.param(2048, marks=pytest.mark.slow)])
def test_sums_come_in_the_same_order_whatever_the_order_of_threads(rung, N):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, dy = (torch.randn(600, N, device=device) for _ in range(2))
    weight, bias = torch.randn(2, N, device=device)
    first = rung.fn(dy, x, weight, bias, 1e-5)
    for seed in (1, 2):
        with order(seed):
            again = rung.fn(dy, x, weight, bias, 1e-5)
        assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("N", [1024, 8192])
def test_vectors_are_loads_of_16_bytes_in_the_machine_code(machine_code, dtype, N):
    parameters = vectors, *_ = cuda.vector_parameters(N, dtype.itemsize)
    code = machine_code(cuda.VECTOR_SOURCE, "layer_norm_vector", dtype, parameters)
    loads, stores = (re.findall(rf"\b{name}\.E\S*", code) for name in ("LDG", "STG"))
    assert len(loads) >= 3 * vectors and all(".128" in load for load in loads)  # x, weight, bias
    assert len(stores) >= vectors and all(".128" in store for store in stores)
    assert not re.search(r"\b(LDL|STL)\b", code)  # nothing spills


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_widest_row_stays_in_registers(machine_code, dtype):
    N = 32_768 if dtype.itemsize == 2 else 16_384
    code = machine_code(cuda.VECTOR_SOURCE, "layer_norm_reread", dtype, cuda.reread_parameters(N, dtype.itemsize))
    assert not re.search(r"\b(LDL|STL)\b", code)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("N", [*(pytest.param(N, marks=pytest.mark.slow) for N in (1024, 4096)), 8192, 32_768])
def test_the_sums_of_the_backward_stay_in_registers(machine_code, dtype, N):
    shared_by = queue.blocks_of_row(N) if N > queue.WIDEST_OF_BLOCK else 1
    parameters = queue.queue_parameters(N // shared_by, dtype.itemsize, REFERENCE)
    code = machine_code(
        cuda_backward.VECTOR_SOURCE, "layer_norm_backward_vector", dtype, parameters, f"-DCLUSTER={shared_by}"
    )
    assert not re.search(r"\b(?:LDL|STL)\b", code)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_vectors_of_a_peeled_row_are_stored_by_64_bits_at_least(machine_code, dtype):
    """Of a vector as four words NVRTC made four stores, each with 4 bytes in every 16."""
    parameters = vectors, *_ = queue.queue_parameters(1_305, dtype.itemsize, REFERENCE)
    source, name = cuda_backward.VECTOR_SOURCE, "layer_norm_backward_vector"
    code = machine_code(source, name, dtype, (*parameters, True), "-DCLUSTER=1")
    stores = re.findall(r"\bSTG\.E\S*", code)
    assert stores.count("STG.E.64") + 2 * stores.count("STG.E.128") == 2 * vectors


def loads_behind_a_wait(code: str) -> int:
    """How many loads, up to the first barrier, come behind an instruction that waits for another load.

    Of an instruction's second word bits 46 to 48 name the scoreboard that is set until its result is there, and bits 52 to 57
    those that it waits for. Loads of constants, and of special registers, use them, too."""
    pending, waited, behind = set(), False, 0
    for text, word in re.findall(
        r"/\*[0-9a-f]{4,}\*/\s+(.*?);\s+/\* 0x[0-9a-f]{16} \*/\s+/\* 0x([0-9a-f]{16}) \*/", code
    ):
        control = int(word, 16)
        waits = {board for board in pending if control >> 52 + board & 1}
        waited, pending = waited or bool(waits), pending - waits
        if re.search(r"\bBAR\b", text):
            break
        if re.search(r"\bLDG\b", text):
            behind += waited
            pending.add(control >> 46 & 7)
    return behind


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "parameters", [(1, 1, 1, 32), (1, 2, 8, 32), (1, 16, 1, 32), (2, 2, 4, 32), (4, 1, 4, 16)], ids=str
)
def test_of_few_rows_no_load_waits_for_another(machine_code, dtype, parameters):
    code = machine_code(cuda_backward.FEW_SOURCE, "layer_norm_backward_few", dtype, parameters)
    assert loads_behind_a_wait(code) == 0
    assert not re.search(r"\b(?:LDL|STL)\b", code)  # rows are counted through in registers


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("kernel", ["layer_norm_parts", "layer_norm_split"])
def test_of_parts_of_rows_no_load_waits_for_another(machine_code, dtype, size, kernel):
    assert loads_behind_a_wait(machine_code(cuda_split.SPLIT, kernel, dtype, (size,))) == 0
